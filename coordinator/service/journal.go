package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/service/internal/background"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// snapshotLook is between two looks whether a snapshot is due.
const snapshotLook = time.Second

// newLedger returns the session's hand on the journal.
func (r *session) newLedger() *journaling.Ledger {
	s, o := r.s, &r.s.options
	options := journaling.Options{
		Bus: r.bus, Now: s.now, Log: s.log, Tickets: r.tickets, Fault: r.fault, Faulted: r.faulted, Workers: &r.workers,
		Self: journal.Epoch{Instance: o.Instance, Address: o.Address, Version: o.Version},
		Loss: &s.loss, Past: journaling.Past{
			Marks: s.profile() != bus.ProfileClassic, History: o.History,
			Quotas: func() *coordinator.Quotas { return s.config.Load().Policy().Quotas },
		}, Before: s.history.Before,
		Confirmed: func() {
			s.loop.within(r.number, func(now time.Time) {
				if s.loop.commits != nil {
					s.loop.commits.Confirmed(now)
				}
			})
		},
		Metrics: journaling.Metrics{
			Bytes: s.metrics.JournalBytes, Records: s.metrics.JournalRecords, Confirm: s.metrics.JournalConfirm,
		},
	}
	if o.SkipCorrupt {
		options.Skipped = s.observe.JournalSkipped
	}
	agents, quotas := s.config.Load().FileVersions()
	return journaling.New(options, agents, quotas)
}

// onJournal takes what a message of the journal brings.
func (r *session) onJournal(m *journaling.Message) {
	lp := r.s.loop
	switch {
	case m.SnapshotRead:
		r.nameSnapshot()
		return
	case m.Ended:
		lp.within(r.number, func(time.Time) { lp.engine.Succeed(m.TermEnded, m.TermLasted) })
	}
	if m.NeedsFolding() {
		lp.enqueue(envelope{call: func(time.Time) {
			defer m.Folded()
			if lp.session != r.number {
				return
			}
			for _, rec := range m.Records {
				r.s.foldRecord(m.At, rec)
			}
			r.s.history.Follow(m.At, m.Records)
			if m.UpToDate() {
				r.s.foldControls()
			}
		}})
	}
	switch {
	case m.NewLeader:
		r.s.ledBy(m.Leader, m.Since)
	case m.NewFiles:
		r.s.filesOf(m.Leader)
	}
}

// imageOf copies the engine's state, with everything that has gathered written before.
func (l *loop) imageOf(now time.Time) *engine.Image {
	l.commits.Rest(now)
	return l.engine.Image(now)
}

// takeSnapshots writes one whenever it is time, and down how far results have been dealt with, if nothing else does,
// and what was recorded since the last time.
func (r *session) takeSnapshots() {
	lp := r.s.loop
	background.Every(r.bus.Done(), snapshotLook, func() bool {
		lp.within(r.number, func(now time.Time) {
			r.journalled(now)
			if lp.recording != nil {
				lp.recording.Flush()
			}
		})
		r.nameSnapshot()
		if name := journaling.RandomID(); !r.draining.Load() && r.ledger.Snapshots.Due(r.s.now(), name) {
			lp.within(r.number, func(now time.Time) { r.ledger.Snapshot(lp.imageOf(now), name) })
		}
		return true
	})
}

// nameSnapshot has the journal say that a snapshot is complete, unless what is written anyway does.
func (r *session) nameSnapshot() {
	if !r.ledger.Snapshots.Unnamed() {
		return
	}
	r.s.loop.within(r.number, func(now time.Time) {
		if c := r.s.loop.commits; c != nil && r.ledger.Snapshots.Unnamed() {
			c.Mark(now)
		}
	})
}

// quotasChanged journals the books as they are when the files change quotas. A starting coordinator reads
// the files as they are then: without a snapshot of this moment it would charge by them what was used
// before they were so. (Controls need none: the journal has them in their place among what was used.) It
// runs on the loop's goroutine, in the turn in which the quotas have changed.
func (s *Service) quotasChanged(now time.Time) {
	r := s.current.Load()
	if r == nil || r.number != s.loop.session || s.loop.commits == nil || r.draining.Load() {
		return // it does not lead, or keeps no journal
	}
	if rec := s.loop.recording; rec != nil { // its beginning must be in the journal before another snapshot is
		rec.Flush()
		r.ledger.Snapshots.Later()
		return
	}
	if name := journaling.RandomID(); r.ledger.Snapshots.Want(now, name) {
		r.ledger.Snapshot(s.loop.imageOf(now), name)
	}
}

// journalled reports whether everything that is to last is in the journal, with how far
// results have been dealt with; if not, it sees to it. It runs on the loop's goroutine.
func (r *session) journalled(now time.Time) bool { return r.commits == nil || r.commits.Settle(now) }

// records reports whether inputs are to be recorded.
func (r *session) records() bool { return r.ledger != nil && r.s.options.Config.RecordInputs }

// beginRecording puts a new engine in the place of the one that has followed, filled
// from a snapshot that is written to the journal, and records what it receives.
func (r *session) beginRecording(now time.Time) {
	lp := r.s.loop
	image, heard := lp.engine.Image(now), lp.heard
	lp.recording = r.ledger.NewRecording(r.s.options.Config.RecordInputsBytes)
	lp.engine = engine.New()
	lp.engine.Follow()
	tell := func(ev coordinator.Event) { // the world has heard what follows
		lp.recording.Add(now, ev)
		lp.engine.Apply(now, ev, nil)
		lp.commits.Take(lp.engine, nil)
	}
	tell(coordinator.PolicyChanged{Policy: r.s.config.Load().Policy()})
	image.Records(func(rec coordinator.Record) bool {
		if m, ok := rec.(*coordinator.Remembered); ok { // the image uses it again
			one := *m
			rec = &one
		}
		lp.engine.Fold(now, rec)
		return true
	})
	lp.recording.Begin(now, image)
	lp.engine.Lead(now)
	lp.engine.Record(true)
	heard.Each(func(r coordinator.AgentReport) { tell(coordinator.AgentReported{Report: r}) })
}

// journalStatus says which coordinator leads and how far the journal is.
func (s *Service) journalStatus(st *view.Status) {
	r := s.current.Load()
	if r == nil || r.ledger == nil {
		return
	}
	p := r.ledger.Written()
	st.Journal = &view.Journal{
		Records: p.Next - 1, SnapshotOffset: p.Snapshot, ResultOffset: p.ResultOffset, LastRecord: p.LastAt,
	}
	st.Journal.Lost = s.lostJournal()
	if p.Leader.Instance != "" {
		st.Leader = &view.Leader{
			Instance: p.Leader.Instance, Address: p.Leader.Address, Version: p.Leader.Version, Epoch: p.Epoch, Since: p.Since,
		}
	}
}

// lostJournal returns what is reported of the loss of the journal; nil: there is none.
func (s *Service) lostJournal() *view.JournalLost {
	return views.JournalLost(s.loss.Load(), s.config.Load().Policy().Quotas != nil)
}

// AcknowledgeLoss ends that the loss of the journal is reported (see httpapi.Source). It returns when the journal
// says so.
func (s *Service) AcknowledgeLoss(ctx context.Context) error {
	if s.loss.Load() == nil {
		return httpapi.ErrNothingLost
	}
	r, err := s.leading()
	if err != nil {
		return fmt.Errorf("acknowledge the loss of the journal: %w", err)
	}
	switch said, err := r.ledger.Acknowledge(ctx); {
	case errors.Is(err, journaling.ErrEnded):
		return fmt.Errorf("acknowledge the loss of the journal: %w; try again", errSessionEnded)
	case err != nil && said:
		return fmt.Errorf("acknowledge the loss of the journal: the broker has not confirmed it yet: %w", err)
	case err != nil:
		return fmt.Errorf("acknowledge the loss of the journal: %w", err)
	}
	s.log.Info().Msg("the loss of the journal is acknowledged")
	return nil
}

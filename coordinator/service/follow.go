package service

import (
	"context"
	"fmt"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/taking"
)

// Prefetches of what is not read by a window: of task.assign.high; of task.request, which leaves bids, of which
// thousands come at once and none is held, room beside the cancels that are; of streams.
const (
	prefetchHigh    = 128
	prefetchRequest = 1000
	prefetchStatus  = 1000
	prefetchResult  = 2000
	prefetchReports = 1000 // of progress
)

// follow fills a new engine from the journal and from what agents report, and goes on doing so until this
// session has the lock: a standby stays warm and answers questions.
func (r *session) follow(ctx context.Context, c *config.Config) error {
	var heard *journaling.Reports
	if r.records() {
		heard = journaling.NewReports()
	}
	r.s.loop.follow(r.number, r.s.forgetControls, heard)
	r.lasting("publishes", r.publishAll)
	r.lasting("feels the pulse of publishing", r.feelPulse)
	r.lasting("looks at depths", r.watchDepths)
	if r.ledger != nil {
		if err := r.ledger.Begin(ctx, r.onJournal); err != nil {
			return err
		}
	}
	// What one reader takes out of a queue no other gets: only a stream is read by standbys.
	shared := r.s.profile() != bus.ProfileClassic && r.bus.Matches(bus.StreamStatus)
	if shared {
		if err := r.readStatuses(ctx, c); err != nil {
			return err
		}
	}
	if err := r.takeLock(ctx); err != nil || shared {
		return err
	}
	return r.readStatuses(ctx, c)
}

// readStatuses reads what agents have reported lately, and goes on.
func (r *session) readStatuses(ctx context.Context, c *config.Config) error {
	return r.readPast(ctx, r.statuses, prefetchStatus, bus.Ago(c.Policy().Settings.StaleAfter), r.onStatus)
}

// takeLock waits until no other coordinator leads.
func (r *session) takeLock(ctx context.Context) error {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	locked := make(chan error, 1)
	go func() { locked <- r.bus.TakeLock(waiting, bus.QueueLeader, r.standBy) }()
	select {
	case err := <-locked:
		if err != nil {
			return fmt.Errorf("become the leader: %w", err)
		}
		return nil
	case err := <-r.faulted:
		stop(err)
		<-locked
		return err
	}
}

// standBy notes that another coordinator leads.
func (r *session) standBy() {
	detail := "another coordinator leads; waiting for its lock " + bus.QueueLeader
	r.s.state.set(stateStandby, detail)
	if r.ledger != nil {
		if p := r.ledger.Position(); p.Leader.Instance != "" {
			r.s.ledBy(p.Leader, p.Since)
			return
		}
	}
	r.s.log.Info().Msg("standby: another coordinator leads")
}

// ledBy notes the leader, as the journal says.
func (s *Service) ledBy(leader journal.Epoch, since time.Time) {
	if s.state.read().state != stateStandby {
		return
	}
	s.state.set(stateStandby, fmt.Sprintf("%s leads since %s", leader.Instance, since.Format(time.RFC3339)))
	s.log.Info().Str("leader", leader.Instance).Time("since", since).Msg("standby: another coordinator leads")
	s.compareFiles(leader)
}

// lead takes over: it claims the next epoch in the journal, reads what agents have reported
// since, and begins to take tasks.
func (r *session) lead(ctx context.Context) error {
	if r.s.state.read().state == stateStandby {
		r.s.state.set(stateConnecting, "taking over")
	}
	from, behind := r.s.resultsNext, false
	if l := r.ledger; l != nil {
		if err := r.checkClock(ctx); err != nil {
			return err
		}
		p, lacks, err := l.Lead(ctx)
		if err != nil {
			return err
		}
		from, behind = p.ResultOffset, lacks
		r.s.filesChanged() // since the claim was made, perhaps
		if lost := r.s.lostJournal(); lost != nil {
			r.s.observe.JournalLost(lost)
		}
	}
	if _, err := r.awaitFence(ctx, r.statuses); err != nil {
		return err
	}
	r.cursor = journaling.NewCursor(from)
	if r.ledger != nil {
		r.commits = journaling.NewCommits(r.ledger, r.perform, r.cursor, r.outbox)
		r.lasting("writes the journal", r.ledger.Write)
		r.lasting("takes snapshots", r.takeSnapshots)
	}
	r.s.loop.lead(r.number, r, r.commits, r.cursor, r.outputs, r.begin)
	if behind { // before anything is given out
		r.ledger.Restore(ctx, journaling.Books{Nodes: r.s.reading.Budgets,
			Correct: func(set []coordinator.QuotaControl) error {
				_, err := controlling{r}.Change(set, nil, nil)
				return err
			}})
	}
	r.lasting("watches progress", r.watchProgress)
	if r.ledger != nil {
		r.lasting("compares clocks", r.watchClock)
	}
	r.lasting("sees to queues", r.queues.Work)
	r.lasting("audits the books", r.auditBooks)
	for _, work := range r.takeBacks.Workers() {
		r.lasting("takes back", work)
	}
	r.lasting("sees to lanes", r.lanes.Work)
	r.lasting("watches lanes", r.lanes.Watch)
	r.lasting("forecasts quotas", r.watchOverruns)
	r.lasting("renews quotas", func() { r.controls.Each(r.bus.Done(), r.renewQuotas) })
	if err := r.readResults(ctx, from); err != nil {
		return err
	}
	return r.take(ctx)
}

// resultsPosition returns where reading task.result goes on. Without a known position what came lately is read:
// rather an end twice than never.
func resultsPosition(from int64) bus.Position {
	if from < 0 {
		return bus.Ago(resultsPast)
	}
	return bus.At(from)
}

// begin makes the engine that followed lead. It runs on the loop's goroutine.
func (r *session) begin(now time.Time) {
	r.s.foldControls()
	r.s.observe.Begin(now, r.s.history)
	if r.s.loop.engine.Quotas(now).Missing() {
		r.s.observe.QuotasMissing()
	}
	if r.records() {
		r.beginRecording(now)
		return
	}
	r.s.loop.engine.Lead(now)
}

// readResults reads agents' results, from that offset on. A stream that has been deleted and declared anew
// does not reach so far (and does not report it): then it is read as if no position were known.
func (r *session) readResults(ctx context.Context, from int64) error {
	if err := r.readPast(ctx, r.results, prefetchResult, resultsPosition(from), r.onResult); err != nil {
		return err
	}
	read, err := r.awaitFence(ctx, r.results)
	if err != nil || read || from < 0 || r.pastRead.Load() > 0 {
		return err
	}
	r.s.log.Error().Int64("offset", from).Str("stream", bus.StreamResult).
		Msg(
			"nothing is read from where the journal says that results go on: has the stream been declared anew? Reading " +
				"what it has of the last minutes")
	if _, err := r.bus.Unsubscribe(ctx, bus.StreamResult); err != nil {
		return fmt.Errorf("read %s anew: %w", bus.StreamResult, err)
	}
	r.cursor.Forget()
	r.results = intake.NewFence(bus.StreamResult, journaling.RandomID())
	if err := r.readPast(ctx, r.results, prefetchResult, resultsPosition(-1), r.onResult); err != nil {
		return err
	}
	_, err = r.awaitFence(ctx, r.results)
	return err
}

// take begins to take tasks.
func (r *session) take(ctx context.Context) error {
	if r.s.state.read().blocked { // a recording begins without what came before it
		r.post(coordinator.PublishingHeld{Held: true})
	}
	// from here on leases run out: the results before have been read
	r.post(coordinator.SessionOpened{Lost: r.lost, Connected: r.connected})
	r.lasting("passes progress on", func() { r.latest.Each(r.bus.Done(), r.passOn) })
	if err := r.consumers.Take(ctx, bus.QueueProgress, prefetchReports, r.onProgress); err != nil {
		return err
	}
	r.lasting("watches queues", r.queues.Watch)
	r.queues.AwaitLooks(ctx)
	if err := r.openWindow(ctx, taking.Queue{Name: bus.QueueReassign, Window: r.returns, Handle: r.onReturned,
		Held: r.held.ReturnedBytes}); err != nil {
		return err
	}
	if err := r.consumers.Take(ctx, bus.QueueRequest, r.window.First(prefetchRequest), r.onRequest); err != nil {
		return err
	}
	if err := r.consumers.Take(ctx, bus.QueueAssignHigh, r.window.First(prefetchHigh), r.onTask); err != nil {
		return err
	}
	close(r.begun)
	return r.openWindow(ctx, taking.Queue{Name: bus.QueueAssign, Window: r.window, Handle: r.onTask,
		Held: r.held.TotalBytes,
		Told: func(n int) { r.post(coordinator.IntakeChanged{Window: n}) }})
}

// openWindow begins to take tasks and keeps the window fit until the session ends.
func (r *session) openWindow(ctx context.Context, in taking.Queue) error {
	if err := r.consumers.Open(ctx, in); err != nil {
		return err
	}
	r.lasting("adapts the window of "+in.Name, func() { r.consumers.Adapt(in) })
	return nil
}

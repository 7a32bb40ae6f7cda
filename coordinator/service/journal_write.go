package service

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/journal"
)

// When a snapshot is written: so that a start has not more than that to fold beside
// it, and that retention, which takes away the oldest segments only, never reaches the
// newest complete one.
const (
	snapshotRecords = 200_000
	// controlRecords is as how many records a change of quotas counts: to fold it is to build their
	// trees anew, which takes milliseconds where there are a thousand groups.
	controlRecords = 500
	snapshotBytes  = 64 << 20
	snapshotEvery  = 10 * time.Minute // if anything was written since
	// snapshotAnyway is when one is written although nothing was: the segment with the
	// newest must not be the oldest when retention looks at them.
	snapshotAnyway = 24 * time.Hour
	snapshotLook   = time.Second
	// firstSnapshot is when a new leader writes one, if there was anything to fold.
	firstSnapshot = 10 * time.Second
	// roomInQueue is for commits, what is written out of turn, and a snapshot.
	roomInQueue = maxCommits + 4
)

// The types of the journal's messages, for people who look at its queue.
const (
	typeJournal    = "coordinator.journal"
	contentJournal = "application/octet-stream"
)

// written is one thing for the goroutine that writes: a commit, or a snapshot that
// begins here.
type written struct {
	commit *commit
	image  *engine.Image
	name   string
	owed   bool // a recording is nothing without it
}

// ledgerWriter is the writing side; it belongs to the goroutine writeJournal, but for
// queue, into which only the loop's goroutine puts anything.
type ledgerWriter struct {
	queue  chan written
	inputs chan []byte
	// news, of capacity 1: the files, or what is known of a loss of the journal, may be others than the journal
	// says. acknowledged: that loss is; what it is given is closed when the journal says so.
	news         chan struct{}
	acknowledged chan chan<- struct{}
	*journal.Writer
}

// write implements commitWriter. The queue has room for all commits that may be open.
func (l *ledger) write(c *commit) {
	l.writer.queue <- written{commit: c}
}

// writeJournal is the goroutine that encodes commits and publishes them in order.
func (l *ledger) writeJournal() {
	for {
		select {
		case <-l.r.bus.Done():
			return
		case body := <-l.writer.inputs:
			for piece := range journal.Pieces(body) {
				if l.publish(piece, l.r.tickets.issue(claim{})) != nil {
					return
				}
			}
			l.owed.Add(-1)
			l.r.s.metrics.journalBytes.Add(float64(len(body)))
		case <-l.writer.news:
			if l.writeNews(nil) != nil {
				return
			}
		case confirmed := <-l.writer.acknowledged:
			l.r.s.loss.Store(nil)
			if l.writeNews(confirmed) != nil {
				return
			}
		case w := <-l.writer.queue:
			if w.image != nil {
				l.writer.SnapshotAt(l.snapshot.complete.Load())
				first, rest := l.writer.Snapshot(w.image.At(), w.name, l.snapshotOf(w.image))
				if p, err := l.publishPart(first); err == nil { // before any batch that follows
					l.r.workers.Go(func() {
						if l.writeSnapshot(p, rest) && w.owed {
							l.owed.Add(-1)
						}
					})
				}
				continue
			}
			l.writeCommit(w.commit)
		}
	}
}

// hasNews has the journal say what has changed of the files or a loss, unless it says it already.
func (l *ledger) hasNews() {
	select {
	case l.writer.news <- struct{}{}:
	default: // it is about to be said
	}
}

// writeNews records for those that stand by which files are in force here, and which loss of the journal is reported.
// confirmed, if given, is closed when the journal says it.
func (l *ledger) writeNews(confirmed chan<- struct{}) error {
	agents, quotas := l.r.s.config.Load().FileVersions()
	body := l.writer.News(l.r.s.now(), agents, quotas, l.r.s.loss.Load())
	if body == nil {
		if confirmed != nil {
			close(confirmed)
		}
		return nil
	}
	return l.publish(body, l.r.tickets.issue(claim{confirmed}))
}

// toFold returns how much there is to fold, in records of the usual sort.
func toFold(list []coordinator.Record) int {
	n := len(list)
	for _, r := range list {
		if c, is := r.(*coordinator.QuotaControlled); is && len(c.Set)+len(c.Removed) > 0 {
			n += controlRecords - 1
		}
	}
	return n
}

func (l *ledger) writeCommit(one *commit) {
	l.writer.Results(one.resultOffset)
	newest := l.snapshot.complete.Load()
	l.writer.SnapshotAt(newest)
	records := toFold(one.records)
	bodies := l.writer.Batch(one.at, one.records)
	l.written.Store(l.writer.Next())
	l.offset.Store(one.resultOffset)
	bytes, begun := 0, l.r.s.now()
	for i, body := range bodies { // once the last is published the commit may be in use elsewhere
		c := &committed{ledger: l, last: i == len(bodies)-1, begun: begun}
		token := l.r.tickets.issue(c)
		if l.publish(body, token) != nil { // the session ends
			l.r.tickets.redeem(token)
			return
		}
		bytes += len(body)
	}
	l.snapshot.wrote(records, bytes)
	l.snapshot.names(newest)
	l.r.s.metrics.journalBytes.Add(float64(bytes))
	l.r.s.metrics.journalRecords.Add(float64(records))
	failpoint.Hit(failpoint.AfterJournalPublish)
}

// committed is one message of a commit that the broker has not answered yet.
type committed struct {
	ledger *ledger
	last   bool
	begun  time.Time
}

// settled carries out the effects of the commit. Without its records nothing may
// follow: what the broker refuses is the end of the session.
func (c *committed) settled(r *session, outcome bus.Outcome) {
	switch {
	case outcome == bus.Unknown, c.ledger.broken.Load(): // the session ends
	case outcome != bus.Confirmed:
		c.ledger.broken.Store(true) // nothing of what follows it counts either
		r.fault(errNotJournalled(outcome))
	case c.last:
		failpoint.Hit(failpoint.AfterJournalConfirm)
		r.s.metrics.journalConfirm.Observe(r.s.now().Sub(c.begun).Seconds())
		r.s.loop.within(r.number, func(now time.Time) {
			if r.s.loop.commits != nil {
				r.s.loop.commits.confirmed(now)
			}
		})
	}
}

func errNotJournalled(outcome bus.Outcome) error {
	return fmt.Errorf(
		"the broker does not take what must be in %s before anything is done (%s): see that the stream exists and may be written, and has room", bus.StreamJournal, outcome)
}

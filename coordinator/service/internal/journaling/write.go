package journaling

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/journal"
)

// roomInQueue is for commits, what is written out of turn, and a snapshot.
const roomInQueue = maxCommits + 4

// The AMQP properties of the journal's messages, by which its queue is understood in the management UI.
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

// writing is the writing side of a ledger; it belongs to the goroutine Write, but for what is said of others.
type writing struct {
	queue  chan written // only the loop's goroutine puts anything into it
	inputs chan []byte
	// news, of capacity 1: the files, or what is known of a loss of the journal, may be others than the journal
	// says. acknowledged: that loss is; what it is given is closed when the journal says so.
	news         chan struct{}
	acknowledged chan chan<- struct{}
	out          *journal.Writer

	epoch uint64 // of ours, once it is claimed
	// written is the number of the record that comes next, offset how far results had
	// been dealt with, as of the latest commit; 0: this session does not lead.
	written atomic.Uint64
	offset  atomic.Int64
	// owed is how much of a recording is still to be written and not with the transport yet: messages of
	// inputs, and the snapshot that it begins with.
	owed atomic.Int64
	// broken: the broker has refused a message, and nothing that follows counts.
	broken atomic.Bool
}

func (w *writing) init() {
	w.queue, w.inputs = make(chan written, roomInQueue), make(chan []byte, inputsAhead)
	w.news, w.acknowledged = make(chan struct{}, 1), make(chan chan<- struct{})
}

// write implements commitWriter. The queue has room for all commits that may be open.
func (l *Ledger) write(c *commit) {
	l.queue <- written{commit: c}
}

// Write encodes commits and publishes them in order, until the session ends.
func (l *Ledger) Write() {
	for {
		select {
		case <-l.Bus.Done():
			return
		case body := <-l.inputs:
			for piece := range journal.Pieces(body) {
				if l.publish(piece, l.Tickets.Issue(l.taken(nil))) != nil {
					return
				}
			}
			l.owed.Add(-1)
			l.Metrics.Bytes.Add(float64(len(body)))
		case <-l.news:
			if l.writeNews(nil) != nil {
				return
			}
		case confirmed := <-l.acknowledged:
			l.Loss.Store(nil)
			if l.writeNews(confirmed) != nil {
				return
			}
		case w := <-l.queue:
			if w.image != nil {
				l.beginSnapshot(w)
				continue
			}
			l.writeCommit(w.commit)
		}
	}
}

// Files says which versions of agents.yaml and quotas.yaml are in force here. A leader's journal says so, too.
func (l *Ledger) Files(agents, quotas string) {
	l.mu.Lock()
	l.agents, l.quotas = agents, quotas
	l.mu.Unlock()
	if l.leading.Load() {
		l.newsChanged()
	}
}

// newsChanged has the journal say what is known of its loss and of the files, unless it says it already.
func (l *Ledger) newsChanged() {
	select {
	case l.news <- struct{}{}:
	default: // it is about to be said
	}
}

// Acknowledge ends that the loss of the journal is reported. It returns when the journal says so; ErrEnded when the
// session has ended before, an error of ctx when that has: said, if the broker may have it all the same.
func (l *Ledger) Acknowledge(ctx context.Context) (said bool, err error) {
	confirmed := make(chan struct{})
	select {
	case l.acknowledged <- confirmed:
	case <-l.Bus.Done():
		return false, ErrEnded
	case <-ctx.Done():
		return false, ctx.Err()
	}
	select {
	case <-confirmed:
		return true, nil
	case <-l.Bus.Done():
		return true, ErrEnded
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// ErrEnded: the session ended before the journal had what it was to have.
var ErrEnded = errors.New("the broker session ended before it was journalled")

// writeNews records for those that stand by which files are in force here, and which loss of the journal is reported.
// confirmed, if given, is closed when the journal says it.
func (l *Ledger) writeNews(confirmed chan<- struct{}) error {
	l.mu.Lock()
	agents, quotas := l.agents, l.quotas
	l.mu.Unlock()
	body := l.out.News(l.Now(), agents, quotas, l.Loss.Load())
	if body == nil {
		if confirmed != nil {
			close(confirmed)
		}
		return nil
	}
	return l.publish(body, l.Tickets.Issue(l.taken(confirmed)))
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

func (l *Ledger) writeCommit(one *commit) {
	l.out.Results(one.resultOffset)
	newest := l.Snapshots.complete.Load()
	l.out.SnapshotAt(newest)
	records := toFold(one.records)
	bodies := l.out.Batch(one.at, one.records)
	l.written.Store(l.out.Next())
	l.offset.Store(one.resultOffset)
	bytes, begun := 0, l.Now()
	for i, body := range bodies { // once the last is published the commit may be in use elsewhere
		token := l.Tickets.Issue(l.committed(i == len(bodies)-1, begun))
		if l.publish(body, token) != nil { // the session ends
			l.Tickets.Redeem(token)
			return
		}
		bytes += len(body)
	}
	l.Snapshots.wrote(records, bytes)
	l.Snapshots.names(newest)
	l.Metrics.Bytes.Add(float64(bytes))
	l.Metrics.Records.Add(float64(records))
	failpoint.Hit(failpoint.AfterJournalPublish)
}

// committed hears the broker's answer to one message of a commit. Without its records nothing may
// follow: what the broker refuses is the end of the session.
func (l *Ledger) committed(last bool, begun time.Time) func(bus.Outcome) {
	return func(outcome bus.Outcome) {
		switch {
		case outcome == bus.Unknown, l.broken.Load(): // the session ends
		case outcome != bus.Confirmed:
			l.broken.Store(true) // nothing of what follows it counts either
			l.Fault(errNotTaken(outcome))
		case last:
			failpoint.Hit(failpoint.AfterJournalConfirm)
			l.Metrics.Confirm.Observe(l.Now().Sub(begun).Seconds())
			l.Confirmed()
		}
	}
}

// publish sends one message to the journal. A failure is the end of the session, if that has not ended
// already: a session that writes cannot go on without it.
func (l *Ledger) publish(body []byte, token uint64) error {
	err := l.Bus.Publish(bus.Publication{
		Token: token, Key: bus.StreamJournal, Apart: true,
		Properties: bus.Properties{ContentType: contentJournal, Type: typeJournal, AppID: "taskbus", Timestamp: l.Now()},
		Body:       body,
	})
	if err != nil {
		err = fmt.Errorf("write to the journal: %w", err)
		if !errors.Is(err, bus.ErrClosed) {
			l.Fault(err)
		}
		return err
	}
	return nil
}

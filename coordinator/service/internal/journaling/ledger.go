package journaling

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/journal"
)

// claimTimeout is for the claim to be read back once everything before it has been,
// and as long again while there is something to read.
const claimTimeout = 10 * time.Second

// Options are what a ledger is given.
type Options struct {
	Bus bus.Session
	Now func() time.Time
	// Self is this coordinator: Instance, Address and Version.
	Self journal.Epoch
	// Skipped hears of what is damaged in the journal, which is passed over then; nil: it is the end of the process.
	Skipped func(offset int64, err error)
	Tickets Tickets
	// Fault ends the session, Faulted says that it is to end.
	Fault   func(error)
	Faulted <-chan error
	Workers *sync.WaitGroup // gets the goroutines that write snapshots
	// Loss is the loss of a journal that is reported and not acknowledged; nil in it: none. It outlives the session.
	Loss *atomic.Pointer[journal.Loss]
	// Past is where else it is known that there has been a journal.
	Past Past
	// Before is what a snapshot begins with: what readers see of recent tasks.
	Before iter.Seq[*coordinator.TaskBefore]
	// Confirmed hears that the broker has a commit, in the order of the commits, and must not block.
	Confirmed func()
	Metrics   Metrics
	Log       zerolog.Logger
}

// Tickets issue tokens of publications with an awaited confirm (see outbox.Tickets).
type Tickets interface {
	Issue(settled func(bus.Outcome)) uint64
	Redeem(token uint64) func(bus.Outcome)
}

// Metrics count what is written.
type Metrics struct {
	Bytes, Records prometheus.Counter
	Confirm        prometheus.Observer
}

// Ledger is a session's hand on the journal: it reads what others write and, once the
// session leads, writes.
type Ledger struct {
	Options
	reading
	writing

	// Snapshots says when one is due, and where the newest complete one begins.
	Snapshots Snapshots

	mu             sync.Mutex // held for what follows, and for reading.reader
	agents, quotas string     // versions of agents.yaml and quotas.yaml that are in force here
}

// New returns a ledger that neither reads nor writes yet. agents and quotas are the versions of the files in force.
func New(o Options, agents, quotas string) *Ledger {
	l := &Ledger{Options: o, agents: agents, quotas: quotas}
	l.reading.init()
	l.writing.init()
	if o.Skipped != nil {
		l.reader.SkipCorrupt(o.Skipped)
	}
	return l
}

// Unusable is a journal that cannot be used as it is, which no other try would change.
type Unusable struct{ error }

func (u *Unusable) Unwrap() error { return u.error }

// fatal marks what will not pass by itself: it ends the process instead of the session.
func (l *Ledger) fatal(err error) error {
	var other *journal.VersionError
	var damaged *journal.CorruptError
	var gap *journal.GapError
	if errors.As(err, &other) || errors.As(err, &damaged) && l.Skipped == nil || errors.As(err, &gap) {
		return &Unusable{err}
	}
	return err
}

// Position is how far the journal has been read or, by the leader, written.
type Position struct {
	Epoch, Next            uint64 // Next is the number of the record that comes next
	Leader                 journal.Epoch
	Since, LastAt          time.Time
	ResultOffset, Snapshot int64
}

// Position returns how far the journal has been read, and which coordinator leads.
func (l *Ledger) Position() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := Position{
		Epoch: l.reader.Epoch(), Next: l.reader.Next(), LastAt: l.reader.LastAt(),
		ResultOffset: l.reader.ResultOffset(), Snapshot: l.reader.SnapshotOffset(),
	}
	p.Leader, p.Since = l.reader.Leader()
	return p
}

// Written is Position for a session that may lead: what it has written counts, and of that the time is not known.
func (l *Ledger) Written() Position {
	p := l.Position()
	if next := l.written.Load(); next > 0 {
		p.Next, p.Snapshot = next, l.Snapshots.complete.Load()
		p.ResultOffset, p.LastAt = l.offset.Load(), time.Time{}
	}
	return p
}

// Lead claims the next epoch, waits until everything that was written before has been read, and gets ready to write.
// behind: it lacks what the history of usage knows (see Restore).
func (l *Ledger) Lead(ctx context.Context) (p Position, behind bool, err error) {
	lost, behind := l.judge(ctx)
	failpoint.Hit(failpoint.DuringTakeover)
	l.mu.Lock()
	l.lost = lost
	err = l.reader.Check() // a claim would begin anew, with a part of the state
	l.mu.Unlock()
	if err != nil {
		return p, false, l.fatal(fmt.Errorf("read the journal: %w", err))
	}
	if err := l.claim(); err != nil {
		return p, false, err
	}
	if err := l.await(ctx, l.claimed, "the claim of leadership was not read back"); err != nil {
		return p, false, err
	}
	p = l.Position()
	if l.out, err = journal.NewWriter(l.reader); err != nil {
		return p, false, l.fatal(err)
	}
	l.epoch = p.Epoch
	l.written.Store(l.out.Next())
	l.offset.Store(p.ResultOffset)
	l.Snapshots.begin(l.Now(), l.reader.SnapshotOffset(), p.Next > 1)
	l.Loss.Store(p.Leader.Lost)
	return p, behind, nil
}

// claim publishes the claim of the next epoch. One that is made before the journal has
// been read to its end may be void; it is made again then.
func (l *Ledger) claim() error {
	l.mu.Lock()
	e := l.Self
	e.Nonce, e.Agents, e.Quotas, e.Lost = l.nonce, l.agents, l.quotas, l.lost
	body := journal.Claim(l.reader, l.Now(), e)
	l.sent = body
	l.mu.Unlock()
	return l.publish(body, l.Tickets.Issue(l.taken(nil)))
}

// taken hears that the broker has taken a message without a commit. confirmed, if given, is closed then.
func (l *Ledger) taken(confirmed chan<- struct{}) func(bus.Outcome) {
	return func(outcome bus.Outcome) {
		switch {
		case outcome == bus.Confirmed && confirmed != nil:
			close(confirmed)
		case outcome != bus.Confirmed && outcome != bus.Unknown:
			l.Fault(errNotTaken(outcome))
		}
	}
}

func errNotTaken(outcome bus.Outcome) error {
	return fmt.Errorf(
		"the broker does not take what must be in %s before anything is done (%s): see that the stream exists and may be "+
			"written, and has room", bus.StreamJournal, outcome)
}

// await waits for something that reading the journal brings, as long as there is
// something to read, and claims anew when a claim was void.
func (l *Ledger) await(ctx context.Context, what <-chan struct{}, otherwise string) error {
	seen := uint64(0)
	timeout := time.NewTimer(claimTimeout)
	defer timeout.Stop()
	for {
		select {
		case <-what:
			return nil
		case <-l.void:
			if err := l.claim(); err != nil {
				return err
			}
		case <-timeout.C:
			l.mu.Lock()
			read := l.read
			l.mu.Unlock()
			if read == seen {
				return fmt.Errorf("%s within %s", otherwise, claimTimeout)
			}
			seen = read
			timeout.Reset(claimTimeout)
		case <-l.Bus.Done():
			return errors.Join(errors.New("the session ended while the journal was read"), l.Bus.Err())
		case err := <-l.Faulted:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// RandomID is 32 random hexadecimal digits: a name that no other thing has.
func RandomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/journal"
)

// How a coordinator begins to lead: its claim in the journal.

// lead claims the next epoch and waits until everything that was written before has
// been folded.
func (l *ledger) lead(ctx context.Context) error {
	failpoint.Hit(failpoint.DuringTakeover)
	l.mu.Lock()
	err := l.reader.Check() // a claim would begin anew, with a part of the state
	l.mu.Unlock()
	if err != nil {
		return l.fatal(fmt.Errorf("read the journal: %w", err))
	}
	if err := l.claim(); err != nil {
		return err
	}
	return l.await(ctx, l.claimed, "the claim of leadership was not read back")
}

// claim publishes the claim of the next epoch. One that is made before the journal has
// been read to its end may be void; it is made again then.
func (l *ledger) claim() error {
	o := &l.r.s.options
	agents, quotas := l.r.s.config.Load().FileVersions()
	l.mu.Lock()
	body := journal.Claim(l.reader, l.r.s.now(), journal.Epoch{
		Nonce: l.nonce, Instance: o.Instance, Address: o.Address, Version: o.Version, Agents: agents, Quotas: quotas,
		Lost: l.lost,
	})
	l.sent = body
	l.mu.Unlock()
	return l.publish(body, l.r.tickets.issue(claim{}))
}

// claim is that of the next epoch, which counts when it is read back.
type claim struct {
	confirmed chan<- struct{} // closed when it is; nil: it need not be known
}

func (c claim) settled(r *session, outcome bus.Outcome) {
	switch {
	case outcome == bus.Confirmed && c.confirmed != nil:
		close(c.confirmed)
	case outcome != bus.Confirmed && outcome != bus.Unknown:
		r.fault(errNotJournalled(outcome))
	}
}

// await waits for something that reading the journal brings, as long as there is
// something to read, and claims anew when a claim was void.
func (l *ledger) await(ctx context.Context, what <-chan struct{}, otherwise string) error {
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
			taken := l.taken
			l.mu.Unlock()
			if taken == seen {
				return fmt.Errorf("%s within %s", otherwise, claimTimeout)
			}
			seen = taken
			timeout.Reset(claimTimeout)
		case <-l.r.bus.Done():
			return errors.Join(errors.New("the session ended while the journal was read"), l.r.bus.Err())
		case err := <-l.r.faulted:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// publish sends one message to the journal. A failure is the end of the session, if that has not ended
// already: a session that writes cannot go on without it.
func (l *ledger) publish(body []byte, token uint64) error {
	err := l.r.bus.Publish(bus.Publication{
		Token: token, Key: bus.StreamJournal, Apart: true,
		Properties: bus.Properties{ContentType: contentJournal, Type: typeJournal, AppID: appID, Timestamp: l.r.s.now()},
		Body:       body,
	})
	if err != nil {
		err = fmt.Errorf("write to the journal: %w", err)
		if !errors.Is(err, bus.ErrClosed) {
			l.r.fault(err)
		}
		return err
	}
	return nil
}

// position is how far the journal has been folded or, by the leader, written.
type position struct {
	epoch, next            uint64
	leader                 journal.Epoch
	since, lastAt          time.Time
	resultOffset, snapshot int64
}

func (l *ledger) position() position {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := position{
		epoch: l.reader.Epoch(), next: l.reader.Next(), lastAt: l.reader.LastAt(),
		resultOffset: l.reader.ResultOffset(), snapshot: l.reader.SnapshotOffset(),
	}
	p.leader, p.since = l.reader.Leader()
	return p
}

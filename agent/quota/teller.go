package quota

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tellers tell at one time.
	tellers = 4
	// maxDebts bounds the sorts of calls whose debts are kept.
	maxDebts = 1024
	// tellPause bounds the pauses between what cannot be told now.
	tellPause = 5 * time.Second
)

// notice is something to be told.
type notice struct {
	op    string
	body  []byte
	least []byte    // what to tell if that is not believed; nil: nothing
	until time.Time // it makes no sense after that
	quiet bool      // it does no harm if it is not received
	// granter has granted it without a leader, and gets it; nil: any coordinator does.
	granter *granter
}

// teller tells the coordinators in the background what was used.
type teller struct {
	asker *asker
	o     *Options
	newID func() string

	queue  chan notice
	apart  chan struct{} // one for each unconfirmed notice that is being told apart, at most Queue
	owes   chan struct{} // capacity 1: there are debts
	ctx    context.Context
	stop   context.CancelFunc
	done   sync.WaitGroup
	lost   atomic.Uint64
	logged atomic.Int64 // when a loss was logged last, Unix seconds
	untold atomic.Int64

	mu     sync.Mutex // closed and what is sent to queue; debts
	closed bool
	debts  map[sort]*Usage
}

func newTeller(a *asker, o *Options, newID func() string) *teller {
	t := &teller{asker: a, o: o, newID: newID, queue: make(chan notice, o.Queue), apart: make(chan struct{}, o.Queue),
		owes: make(chan struct{}, 1), debts: make(map[sort]*Usage)}
	t.ctx, t.stop = context.WithCancel(context.Background())
	for range tellers {
		t.done.Go(func() {
			for n := range t.queue {
				if n.granter != nil {
					t.deliverApart(n)
				} else {
					t.deliver(t.ctx, n)
				}
			}
		})
	}
	t.done.Go(t.payDebts)
	return t
}

// settle and release report how a reservation has ended; by has granted it without a leader.
func (t *teller) settle(id string, by *granter, used *Usage, heard *Response) {
	t.tell(id, used, heard, notice{op: opSettle, granter: by, until: time.Now().Add(t.o.SettleFor)})
}

func (t *teller) release(id string, by *granter, heard *Response) {
	t.tell(id, nil, heard, notice{op: opRelease, granter: by, until: time.Now().Add(t.o.SettleFor)})
}

// disown gives back what will not be used, if it stands; after ttl it does not.
func (t *teller) disown(id string, ttl time.Duration) {
	t.tell(id, nil, nil, notice{op: opRelease, until: time.Now().Add(ttl), quiet: true})
}

func (t *teller) tell(id string, used *Usage, heard *Response, n notice) {
	var err error
	if n.body, err = t.asker.tellingOf(n.op, id, used, heard); err != nil {
		t.lose(n, err)
		return
	}
	if used != nil { // as much as was reserved
		if n.least, err = t.asker.tellingOf(n.op, id, nil, heard); err != nil {
			t.lose(n, err)
			return
		}
	}
	t.untold.Add(1)
	t.mu.Lock()
	if !t.closed {
		select {
		case t.queue <- n:
			t.mu.Unlock()
			return
		default:
		}
	}
	t.mu.Unlock()
	if n.quiet {
		t.untold.Add(-1)
		return
	}
	// The queue is full, or not read any more: the goroutine that ends the call sends it.
	n.until = time.Now().Add(max(t.o.Patience, t.o.Timeout))
	t.deliver(context.Background(), n)
}

// deliver sends one report until it was received, ctx ends, or it makes no sense any more.
func (t *teller) deliver(ctx context.Context, n notice) {
	defer t.untold.Add(-1)
	insist := t.insist
	if n.granter != nil {
		insist = t.insistAt
	}
	err := insist(ctx, n)
	if n.least != nil && errors.Is(err, ErrNotBelieved) {
		reserved := n
		reserved.body = n.least
		if again := insist(ctx, reserved); again != nil {
			err = again
		}
	}
	if err != nil && !n.quiet {
		t.lose(n, err)
	}
}

// insist sends one report to any coordinator that answers. Of what is unconfirmed the leader would know
// that it has ended, if any coordinator had received it.
func (t *teller) insist(ctx context.Context, n notice) error {
	doubt := false
	for pause := firstPause; ; pause = min(2*pause, tellPause) {
		_, err := t.asker.ask(ctx, n.op, n.body, 0)
		var none *Unavailable
		switch {
		case err == nil || errors.Is(err, ErrEnded):
			return nil
		case errors.Is(err, ErrUnknown) && n.granter == nil && (doubt || n.op == opRelease):
			return nil // it was heard, or there is nothing to give back
		case !errors.As(err, &none) || ctx.Err() != nil || time.Now().Add(pause).After(n.until):
			return err
		}
		doubt = true
		if err := sleep(ctx, jitter(pause)); err != nil {
			return err
		}
	}
}

// lose notes what could not be told, with a line in the log every ten seconds at most.
func (t *teller) lose(n notice, err error) {
	lost := t.lost.Add(1)
	now := time.Now().Unix()
	if last := t.logged.Load(); t.o.Logger == nil || now-last < 10 || !t.logged.CompareAndSwap(last, now) {
		return
	}
	text, more := "the end of a call could not be told; its quota is back when its reservation expires",
		[]any{"operation", n.op, "error", err.Error(), "lost", lost}
	switch {
	case errors.Is(err, ErrNotBelieved) && n.least != nil:
		text = "what a call has used is not believed of the agent's own word; as much as was reserved is charged"
	case n.granter != nil:
		text =
			"the end of a call could not be told that a coordinator has admitted without a leader; that one charges what " +
				"was asked for, or nothing if it was restarted before"
		more = append(more, "coordinator", n.granter.url)
	case n.op == opCharge:
		text = "what calls without a reservation have used could not be reported; it is not charged"
	}
	t.o.Logger.Warn(text, more...)
}

func (t *teller) stats() (lost uint64, untold int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost.Load(), int(t.untold.Load()) + len(t.debts)
}

// owe keeps what a call without a reservation has used, until it can be charged.
func (t *teller) owe(s sort, used Usage) {
	t.mu.Lock()
	sum := t.debts[s]
	switch {
	case t.closed:
		t.mu.Unlock()
		t.charge(context.Background(), s, &used, max(t.o.Patience, t.o.Timeout))
		return
	case sum == nil && len(t.debts) >= maxDebts:
		t.mu.Unlock()
		t.lose(notice{op: opCharge}, errors.New("too many sorts of calls wait to be charged"))
		return
	case sum == nil:
		sum = &Usage{}
		t.debts[s] = sum
	}
	sum.add(used)
	select {
	case t.owes <- struct{}{}:
	default: // it has been said
	}
	t.mu.Unlock()
}

// charge tells of a debt.
func (t *teller) charge(ctx context.Context, s sort, sum *Usage, patience time.Duration) {
	body, err := t.asker.askingOf(opCharge, s.charge(t.newID(), sum))
	if err != nil {
		t.lose(notice{op: opCharge}, err)
		return
	}
	t.untold.Add(1)
	t.deliver(ctx, notice{op: opCharge, body: body, until: time.Now().Add(patience)})
}

// payDebts charges what is owed, one sort of call after the other.
func (t *teller) payDebts() {
	for range t.owes {
		for {
			s, sum, ok := t.nextDebt()
			if !ok {
				break
			}
			t.charge(t.ctx, s, sum, t.o.SettleFor)
		}
	}
}

func (t *teller) nextDebt() (sort, *Usage, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s, sum := range t.debts {
		delete(t.debts, s)
		return s, sum, true
	}
	return sort{}, nil, false
}

// close tells what waits until ctx ends, and gives how much was lost meanwhile.
func (t *teller) close(ctx context.Context) uint64 {
	before := t.lost.Load()
	t.mu.Lock()
	t.closed = true
	close(t.queue)
	close(t.owes)
	t.mu.Unlock()
	defer context.AfterFunc(ctx, t.stop)()
	t.done.Wait()
	t.stop()
	return t.lost.Load() - before
}

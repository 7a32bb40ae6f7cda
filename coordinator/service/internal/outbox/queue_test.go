package outbox

import (
	"testing"

	"taskbus/coordinator/bus"
)

// TestAwaitRoom: the reader of results waits while too much is to be published, and no longer than the
// session.
func TestAwaitRoom(t *testing.T) {
	o, done, through := NewQueue[int](), make(chan struct{}), make(chan struct{})
	for range Most + 1 {
		o.Add(0)
	}
	go func() { o.AwaitRoom(done); through <- struct{}{} }()
	o.Published()
	select {
	case <-through:
		t.Fatalf("it goes on although %d items wait", o.Waiting())
	default:
	}
	o.Published() // 9,999 of 10,000
	<-through
	o.Add(0)
	go func() { o.AwaitRoom(done); through <- struct{}{} }()
	close(done)
	<-through
}

// What the journal holds back counts as waiting, and not as what the transport is behind with.
func TestWhatIsHeldBackWaits(t *testing.T) {
	o := NewQueue[string]()
	o.Hold(2)
	o.Add("first")
	if waiting, sent := o.Progress(); o.Waiting() != 3 || waiting != 1 || sent != 0 {
		t.Errorf("%d wait, %d of them for the transport, which has %d; want 3, 1, 0", o.Waiting(), waiting, sent)
	}
	o.Unhold(2)
	o.Add("second")
	if got := o.Swap(nil); len(got) != 2 || got[0] != "first" || got[1] != "second" {
		t.Errorf("%v, want them in their order", got)
	}
	o.Published()
	o.Published()
	if waiting, sent := o.Progress(); o.Waiting() != 0 || waiting != 0 || sent != 2 {
		t.Errorf("%d wait, %d of them for the transport, which has %d; want 0, 0, 2", o.Waiting(), waiting, sent)
	}
}

// A ticket is redeemed once, with the answer to its own publication.
func TestTickets(t *testing.T) {
	tickets := NewTickets()
	var heard []string
	hears := func(name string) func(bus.Outcome) {
		return func(o bus.Outcome) { heard = append(heard, name+" "+o.String()) }
	}
	a, b := tickets.Issue(hears("a")), tickets.Issue(hears("b"))
	if a == b || a < FirstTicket || tickets.Count() != 2 {
		t.Errorf("tokens %d and %d, %d open", a, b, tickets.Count())
	}
	tickets.Redeem(b)(bus.Confirmed)
	tickets.Redeem(a)(bus.Rejected)
	if tickets.Redeem(a) != nil || tickets.Count() != 0 {
		t.Error("a ticket is redeemed twice")
	}
	if len(heard) != 2 || heard[0] != "b confirmed" || heard[1] != "a rejected" {
		t.Errorf("%q", heard)
	}
}

package outbox

import (
	"sync"

	"taskbus/coordinator/bus"
)

// Tokens identify publications when they are settled: a dispatch has its
// handle, everything else a number from FirstTicket on.
const (
	FirstTicket uint64 = 1 << 62
	Ignored     uint64 = 1<<63 - 1 // announcements: their confirms are not awaited
	Pulse       uint64 = 1<<63 - 2
)

// Tickets are the publications with an awaited confirm, by token. They are safe for concurrent use.
type Tickets struct {
	mu   sync.Mutex
	next uint64
	open map[uint64]func(bus.Outcome)
}

// NewTickets returns none.
func NewTickets() *Tickets {
	return &Tickets{next: FirstTicket, open: make(map[uint64]func(bus.Outcome))}
}

// Issue notes a publication as open, and returns its token. settled is called once, with the broker's answer.
func (t *Tickets) Issue(settled func(bus.Outcome)) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	t.open[t.next] = settled
	return t.next
}

// Redeem takes a token out; nil when it is not there (any more).
func (t *Tickets) Redeem(token uint64) (settled func(bus.Outcome)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	settled = t.open[token]
	delete(t.open, token)
	return settled
}

// Count returns how many publications are unsettled.
func (t *Tickets) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// Publisher is what publishes (see bus.Session).
type Publisher interface {
	Publish(p bus.Publication) error
}

// Publish publishes what the broker's answer is awaited for: settled is called with it, once. After an error it is not.
func (t *Tickets) Publish(b Publisher, p bus.Publication, settled func(bus.Outcome)) error {
	p.Token = t.Issue(settled)
	err := b.Publish(p)
	if err != nil {
		t.Redeem(p.Token)
	}
	return err
}

package service

import (
	"fmt"
	"sync"

	"taskbus/coordinator"
)

// books account for every delivery that the process takes, over all its sessions (S14
// in docs/ARCHITECTURE.md). At every moment, not only at rest,
//
//	received + returned = dispatched + failed + parked + dropped + abandoned + moved + held
//
// where held are the deliveries that have no outcome yet. One lock guards the counts and
// the deliveries (see held), and each step that moves one side of the equation moves the other. So under
// that lock the equation is exact, at any time.
//
// That it holds says something all the same, because an outcome and the end of a
// delivery are two events of different origin: the broker's confirm counts a dispatch,
// the engine's Ack ends its delivery. A delivery that ends without an outcome, or gets a
// second one, makes the two sides differ for ever.
type books struct {
	mu sync.Mutex
	tally
	wrong []coordinator.Violation // not looked at yet, at most maxWrong
}

// tally is the counts of the books.
type tally struct {
	// received are deliveries of task.assign(.high) and of lanes, and unreadable ones of
	// task.request; returned those of task.reassign and out of agents' queues.
	received, returned uint64
	outcomes           [numOutcomes]uint64
	held               int // taken, and without an outcome yet
}

// outcome is what became of a delivery.
type outcome uint8

// The outcomes; a delivery begins with none.
const (
	outcomeNone       outcome = iota
	outcomeDispatched         // the broker has confirmed its dispatch
	outcomeFailed             // it has confirmed its assignment.failed
	outcomeParked             // it is in task.dead, and no producer can be informed
	outcomeDropped            // acknowledged without a dispatch: nothing is left to be done for it
	outcomeAbandoned          // held when its session ended: the broker has it again
	outcomeMoved              // the broker has it in its lane, out of which it is received again
	numOutcomes       = iota
)

func (o outcome) String() string {
	return [numOutcomes]string{"none", "dispatched", "failed", "parked", "dropped", "abandoned", "moved"}[o]
}

// read returns a consistent copy of the counts.
func (b *books) read() tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tally
}

// of returns how many deliveries had this outcome.
func (b *books) of(o outcome) float64 { t := b.read(); return float64(t.outcomes[o]) }

// arrived takes a delivery in. b.mu is held, as for what follows.
func (b *books) arrived(d *heldDelivery) {
	if d.returned {
		b.returned++
	} else {
		b.received++
	}
	b.held++
}

// concluded notes the outcome of a delivery.
func (b *books) concluded(d *heldDelivery, o outcome) {
	if d.outcome != outcomeNone {
		b.note(d, fmt.Sprintf("delivery %d had the outcome %s and gets %s", d.handle, d.outcome, o))
	}
	if d.outcome == outcomeNone {
		b.held--
	}
	d.outcome = o
	b.outcomes[o]++
}

// ended notes that a delivery is settled at the broker.
func (b *books) ended(d *heldDelivery) {
	if d.outcome == outcomeNone {
		b.held--
		b.note(d, fmt.Sprintf("delivery %d was settled without an outcome", d.handle))
	}
}

// maxWrong bounds what the auditor has not looked at yet.
const maxWrong = 64

func (b *books) note(d *heldDelivery, text string) {
	if len(b.wrong) >= maxWrong {
		return
	}
	v := coordinator.Violation{Invariant: coordinator.InvariantOneOutcome, Text: text, Count: 1}
	if d.task != nil {
		v.IDs = []string{string(d.task.ID)}
	}
	b.wrong = append(b.wrong, v)
}

// audit takes what was noted, and looks whether the two sides are equal.
func (b *books) audit() []coordinator.Violation {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.wrong
	b.wrong = nil
	in, out := b.received+b.returned, uint64(b.held)
	for _, n := range b.outcomes {
		out += n
	}
	if in != out || b.held < 0 {
		found = append(found, coordinator.Violation{Invariant: coordinator.InvariantConservation, Count: 1,
			Text: b.tally.String()})
	}
	return found
}

func (t tally) String() string {
	s := fmt.Sprintf("%d received + %d returned, and %d held", t.received, t.returned, t.held)
	for o, n := range t.outcomes {
		if n > 0 {
			s += fmt.Sprintf(" + %d %s", n, outcome(o))
		}
	}
	return s
}

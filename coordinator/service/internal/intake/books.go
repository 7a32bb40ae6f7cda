package intake

import (
	"fmt"
	"sync"

	"taskbus/coordinator/invariant"
)

// Books account for every delivery that the process takes, over all its sessions (S14
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
type Books struct {
	mu sync.Mutex
	Tally
	wrong []invariant.Violation // not looked at yet, at most maxWrong
}

// Tally is the counts of the books.
type Tally struct {
	// Received are deliveries of task.assign(.high) and of lanes, and unreadable ones of
	// task.request; Returned those of task.reassign and out of agents' queues.
	Received, Returned uint64
	Outcomes           [NumOutcomes]uint64
	Held               int // taken, and without an outcome yet
}

// Outcome is what became of a delivery.
type Outcome uint8

// The outcomes; a delivery begins with none.
const (
	None        Outcome = iota
	Dispatched          // the broker has confirmed its dispatch
	Failed              // it has confirmed its assignment.failed
	Parked              // it is in task.dead, and no producer can be informed
	Dropped             // acknowledged without a dispatch: nothing is left to be done for it
	Abandoned           // held when its session ended: the broker has it again
	Moved               // the broker has it in its lane, out of which it is received again
	NumOutcomes = iota
)

func (o Outcome) String() string {
	return [NumOutcomes]string{"none", "dispatched", "failed", "parked", "dropped", "abandoned", "moved"}[o]
}

// Read returns a consistent copy of the counts.
func (b *Books) Read() Tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Tally
}

// arrived takes a delivery in. b.mu is held, as for what follows.
func (b *Books) arrived(d *Delivery) {
	if d.Returned {
		b.Returned++
	} else {
		b.Received++
	}
	b.Held++
}

// concluded notes the outcome of a delivery.
func (b *Books) concluded(d *Delivery, o Outcome) {
	if d.outcome != None {
		b.note(d, fmt.Sprintf("delivery %d had the outcome %s and gets %s", d.Handle, d.outcome, o))
	}
	if d.outcome == None {
		b.Held--
	}
	d.outcome = o
	b.Outcomes[o]++
}

// ended notes that a delivery is settled at the broker.
func (b *Books) ended(d *Delivery) {
	if d.outcome == None {
		b.Held--
		b.note(d, fmt.Sprintf("delivery %d was settled without an outcome", d.Handle))
	}
}

// maxWrong bounds what the auditor has not looked at yet.
const maxWrong = 64

func (b *Books) note(d *Delivery, text string) {
	if len(b.wrong) >= maxWrong {
		return
	}
	v := invariant.Violation{Invariant: invariant.OneOutcome, Text: text, Count: 1}
	if d.Task != nil {
		v.IDs = []string{string(d.Task.ID)}
	}
	b.wrong = append(b.wrong, v)
}

// Audit takes what was noted, and looks whether the two sides are equal.
func (b *Books) Audit() []invariant.Violation {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.wrong
	b.wrong = nil
	in, out := b.Received+b.Returned, uint64(b.Held)
	for _, n := range b.Outcomes {
		out += n
	}
	if in != out || b.Held < 0 {
		found = append(found, invariant.Violation{Invariant: invariant.Conservation, Count: 1,
			Text: b.Tally.String()})
	}
	return found
}

func (t Tally) String() string {
	s := fmt.Sprintf("%d received + %d returned, and %d held", t.Received, t.Returned, t.Held)
	for o, n := range t.Outcomes {
		if n > 0 {
			s += fmt.Sprintf(" + %d %s", n, Outcome(o))
		}
	}
	return s
}

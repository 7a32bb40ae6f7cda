package claims

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/pull"
)

// Line is the claims that wait for work, and the plans by which claims are granted. The zero value is
// empty.
type Line[A any, C comparable] struct {
	places  []Place[A, C] // in the order in which the claims came, with those that were removed lately
	waiting int           // how many of them were not
	last    uint64        // the ticket of the latest
	changed bool
	round   uint64 // how often the line was served
	plans   map[string]*Plan[C]
}

// Place is a claim that waits. It holds what a pass over all of them reads: with 10,000 that are passed over for
// each task, a look at the agent of each would be most of the cost.
type Place[A any, C comparable] struct {
	Agent  A
	Number int32 // of the agent in its fleet; the kernel's
	gone   bool
	// Tried is the moment at which the agent was last tried for tasks that only it may have quota for; the kernel's.
	Tried uint64

	enough *Plan[C] // by which the claim was granted nothing; nil: by none
	ticket uint64   // ascends along the line; never 0
}

// Gone reports whether the claim does not wait any more.
func (p *Place[A, C]) Gone() bool { return p.gone }

// Seat is what is known of an agent that claims. The zero value is that of one that has never claimed.
type Seat[C comparable] struct {
	// Claim is the latest.
	Claim coordinator.ClaimReceived

	ticket  uint64    // of its place, while its claim waits; 0: none waits
	tried   uint64    // Place.Tried of its latest claim that does not wait any more
	claimed time.Time // when the latest came; zero: never
	// others is how many items it said that it has, beyond those that are known to be with it.
	others int
}

// Waits reports whether a claim of the agent has not been answered.
func (s *Seat[C]) Waits() bool { return s.ticket != 0 }

// Claimed reports whether the agent has ever claimed.
func (s *Seat[C]) Claimed() bool { return !s.claimed.IsZero() }

// Member returns the agent, which has claimed, as plans see it, with what it has in hand and may have beside
// that. Capacity is 0 if the agent did not state one.
func (s *Seat[C]) Member(now time.Time, inHand, free int) pull.Agent {
	m := pull.Agent{ID: s.Claim.Agent, Capacity: s.Claim.Capacity, Pending: inHand + s.others, Free: free, Seen: s.claimed}
	if s.Waits() {
		m.Seen = now
	}
	return m
}

// Add has a claim wait, of an agent that has so many tasks in hand. None of it may wait already. The places may
// move.
func (l *Line[A, C]) Add(now time.Time, a A, number int, s *Seat[C], claim coordinator.ClaimReceived, inHand int) {
	l.tidy()
	l.last++
	l.places = append(l.places, Place[A, C]{Agent: a, Number: int32(number), Tried: s.tried, ticket: l.last})
	l.waiting++
	l.changed = true
	s.Claim, s.claimed, s.ticket = claim, now, l.last
	s.others = max(0, claim.Pending-inHand)
}

// tidy drops the places of claims that were removed, once they are a sixteenth of all: a removal costs 16 copies,
// and a pass reads no more than that in vain.
func (l *Line[A, C]) tidy() {
	if gone := len(l.places) - l.waiting; gone*16 > len(l.places) {
		l.places = slices.DeleteFunc(l.places, func(p Place[A, C]) bool { return p.gone })
	}
}

// Remove ends the wait of an agent's claim, if one waits. No place moves.
func (l *Line[A, C]) Remove(s *Seat[C]) {
	if s.ticket == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(l.places, s.ticket, func(p Place[A, C], ticket uint64) int {
		return cmp.Compare(p.ticket, ticket)
	})
	p := &l.places[i]
	s.ticket, s.tried = 0, p.Tried
	*p = Place[A, C]{ticket: p.ticket, gone: true}
	l.waiting--
}

// Len returns how many claims wait.
func (l *Line[A, C]) Len() int { return l.waiting }

// Places returns the places of the claims that wait, in order, with some that are gone. They are good until the next
// Add. It is All for a pass over 10,000.
func (l *Line[A, C]) Places() []Place[A, C] { return l.places }

// All yields the agents whose claims wait, in order. Claims may be removed meanwhile.
func (l *Line[A, C]) All() iter.Seq[A] {
	return func(yield func(A) bool) {
		for i := range l.places {
			if p := &l.places[i]; !p.gone && !yield(p.Agent) {
				return
			}
		}
	}
}

// Changed notes that a claim may be granted something by now: a task waits that its agent could have, a
// slot has become free, or the part of an agent has lapsed.
func (l *Line[A, C]) Changed() { l.changed = true }

// Due reports whether the line is to be served: claims wait, and something has changed since it last was.
func (l *Line[A, C]) Due() bool { return l.changed && l.waiting > 0 }

// Begin starts another round of serving the line.
func (l *Line[A, C]) Begin() {
	l.changed = false
	l.round++
}

// Reset forgets all plans: the fleet is another. The numbers of the agents may be, too.
func (l *Line[A, C]) Reset() { l.plans, l.changed = nil, true }

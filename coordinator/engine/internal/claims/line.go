package claims

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/pull"
)

// Line is the claims that wait for work, and the plans by which claims are granted. The zero value is
// empty.
type Line[A, C comparable] struct {
	agents  []A           // of the fleet, by their numbers
	pullers agentset.Set  // those that claim at all
	places  []Place[A, C] // in the order in which the claims came, with those that were removed lately
	waiting int           // how many of them were not
	last    uint64        // the ticket of the latest
	changed bool
	Plans   map[string]*Plan[C] // that may be used again
	key     []byte              // room for that of one

	// Of the round in which the line is served, see Begin.
	round   uint64 // how many there were
	next    int    // place
	formers bool   // plans of earlier rounds serve, too
	former  bool   // one of them has said that a claim has enough
	left    bool   // a claim waits on that could have some of what is left
}

// Place is a claim that waits. It holds what a pass over all of them reads: with 10,000 that are passed over for
// each task, a look at the agent of each would be most of the cost.
type Place[A, C comparable] struct {
	Agent  A
	Number int32 // of the agent in its fleet; the kernel's
	gone   bool

	tried  uint64   // see Try
	enough *Plan[C] // by which the claim was granted nothing; nil: by none
	ticket uint64   // ascends along the line; never 0
}

// Try reports whether the agent is to be tried at that moment for tasks that only it may have quota for: once as
// long as nothing is given out. If the claim gets nothing, these tasks wait again as they did, and would be looked
// at for it for ever. Moments never fall.
func (p *Place[A, C]) Try(moment uint64) bool {
	if p.tried == moment {
		return false
	}
	p.tried = moment
	return true
}

// Seat is what is known of an agent that claims. The zero value is that of one that has never claimed.
type Seat[C comparable] struct {
	// Claim is the latest.
	Claim coordinator.ClaimReceived

	ticket  uint64    // of its place, while its claim waits; 0: none waits
	tried   uint64    // Place.Try of its latest claim that does not wait any more
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

// Add puts in line a claim of an agent that has so many tasks in hand. None of it may wait already. The places may
// move.
func (l *Line[A, C]) Add(now time.Time, a A, number int, s *Seat[C], claim coordinator.ClaimReceived, inHand int) {
	l.tidy()
	l.last++
	l.places = append(l.places, Place[A, C]{Agent: a, Number: int32(number), tried: s.tried, ticket: l.last})
	l.waiting++
	l.changed = true
	s.Claim, s.claimed, s.ticket = claim, now, l.last
	s.others = max(0, claim.Pending-inHand)
}

// tidy drops the places of claims that were removed, once they are a sixteenth of all: a removal costs 16 copies,
// and a pass reads no more than that without use.
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
	s.ticket, s.tried = 0, p.tried
	*p = Place[A, C]{ticket: p.ticket, gone: true}
	l.waiting--
}

// Len returns how many claims wait.
func (l *Line[A, C]) Len() int { return l.waiting }

// All yields the agents that have a waiting claim, in order. Claims may be removed meanwhile.
func (l *Line[A, C]) All() iter.Seq[A] {
	return func(yield func(A) bool) {
		for i := range l.places {
			if p := &l.places[i]; !p.gone && !yield(p.Agent) {
				return
			}
		}
	}
}

// Reaches reports whether a claim may be of one of these agents.
func (l *Line[A, C]) Reaches(usable agentset.Set) bool {
	return l.waiting > 0 && usable.First(l.pullers) >= 0
}

// Wanted notes that a task waits that these agents may have.
func (l *Line[A, C]) Wanted(usable agentset.Set) {
	if !l.changed && l.Reaches(usable) {
		l.Changed()
	}
}

// Changed notes that a claim may be granted something by now: a task waits that its agent could have, a
// slot has become free, or the part of an agent has lapsed.
func (l *Line[A, C]) Changed() { l.changed = true }

// Due reports whether the line is to be served: claims wait, and something has changed since it last was.
func (l *Line[A, C]) Due() bool { return l.changed && l.waiting > 0 }

// Begin starts another round of serving the line, and returns the first place; nil: no claim waits. In a round
// each claim is asked for by plans of earlier rounds, too, and if one of these said that a claim has enough, all
// that wait are by new ones alone: there may be more for them by now.
func (l *Line[A, C]) Begin() *Place[A, C] {
	l.changed, l.formers, l.former, l.left, l.next = false, true, false, false, 0
	l.round++
	return l.Next()
}

// Next returns the next place of the round; nil: it is over.
func (l *Line[A, C]) Next() *Place[A, C] {
	for {
		for l.next < len(l.places) {
			p := &l.places[l.next]
			if l.next++; !p.gone {
				return p
			}
		}
		if !l.formers || !l.former {
			return nil
		}
		l.formers, l.left, l.next = false, false, 0
	}
}

// Left reports whether a claim that was asked for in the round could have some of what is left.
func (l *Line[A, C]) Left() bool { return l.left }

// Reset forgets all plans, and takes over the agents of another fleet, in the order of their numbers.
func (l *Line[A, C]) Reset(agents []A, v View[A, C]) {
	l.Plans, l.changed, l.agents, l.pullers = nil, true, agents, agentset.New(len(agents))
	for i, a := range agents {
		l.pullers.Put(i, v.Agent(a).Mode != coordinator.PullOff)
	}
	for i := range l.places {
		if p := &l.places[i]; !p.gone {
			p.Number = int32(v.Agent(p.Agent).Number)
		}
	}
}

// Check returns what does not balance between the line and the seats of the agents; nil: all is well.
func (l *Line[A, C]) Check(seat func(A) *Seat[C]) error {
	waiting, last := 0, uint64(0)
	for i := range l.places {
		p := &l.places[i]
		if p.ticket <= last || p.ticket > l.last {
			return fmt.Errorf("the claim at %d has ticket %d, behind %d of %d", i, p.ticket, last, l.last)
		}
		if last = p.ticket; p.gone {
			continue
		}
		if waiting++; seat(p.Agent).ticket != last {
			return fmt.Errorf("the claim at %d has ticket %d, and its agent %d", i, last, seat(p.Agent).ticket)
		}
	}
	if waiting != l.waiting {
		return fmt.Errorf("%d claims wait, counted are %d", waiting, l.waiting)
	}
	return nil
}

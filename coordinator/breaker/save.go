package breaker

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
)

// PairState is all that is remembered of one agent and capability. The zero value
// says that there is nothing to remember.
type PairState struct {
	State State
	// Cause is what opened it last.
	Cause Cause
	// Faults are the tasks that failed in a row, the oldest first.
	Faults []coordinator.TaskID
	// Opened is how often it has opened of late, when it was closed last at ClosedAt.
	Opened   int
	ClosedAt time.Time
	// Until is its deadline; zero: it has none. An open one becomes half-open then, a
	// closed one forgets that it ever was open.
	Until time.Time
	// Since is the generation that began with its state, Before the one that the
	// closed state before began with.
	Since, Before uint64
	// Probe is the task that is being tried, while Probing.
	Probe   coordinator.TaskID
	Probing bool
}

// Equal reports whether the two say the same.
func (s PairState) Equal(o PairState) bool {
	return s.State == o.State && s.Cause == o.Cause && slices.Equal(s.Faults, o.Faults) &&
		s.Opened == o.Opened && s.ClosedAt.Equal(o.ClosedAt) && s.Until.Equal(o.Until) &&
		s.Since == o.Since && s.Before == o.Before && s.Probe == o.Probe && s.Probing == o.Probing
}

// Export gives what is remembered of a pair, for keeping: it shares nothing with the
// Set. The bool is false when nothing is. Whether the agent is there, which Away and
// Supply have set, is no part of it.
func (s *Set) Export(p Pair) (PairState, bool) {
	b := s.find(p)
	if b == nil {
		return PairState{}, false
	}
	state := PairState{
		State: b.state, Cause: b.cause, Faults: slices.Clone(b.faults), Opened: b.opened, ClosedAt: b.closedAt,
		Since: b.since, Before: b.before, Probe: b.probe, Probing: b.probing,
	}
	if b.place >= 0 {
		state.Until = b.until
	}
	return state, true
}

// Import replaces what is remembered of a pair by what Export gave, of this Set or
// of another; a state with nothing to remember removes it. It does not look whether there
// is room. What was due between then and now happens with the next Advance, so that
// several may be imported in any order. Whether the agent is there stays as it was
// set; of a pair that was not known before it is to be set anew.
//
// What no Set can have come to is made sane, and always so that it ends: see sane.
func (s *Set) Import(now time.Time, p Pair, state PairState) []Pair {
	s.changed = s.changed[:0]
	state = s.sane(now, state)
	b := s.ensure(p)
	was, ignored := s.allowed(b), b.group.ignored(&s.settings)
	b.group.count(b, b.state, -1)
	b.group.count(b, state.State, +1)
	b.state, b.cause, b.faults = state.State, state.Cause, state.Faults
	b.opened, b.closedAt = state.Opened, state.ClosedAt
	b.since, b.before = state.Since, state.Before
	b.probe, b.probing = state.Probe, state.Probing
	if state.Until.IsZero() {
		s.unschedule(b)
	} else {
		s.schedule(b, state.Until)
	}
	s.SetGeneration(max(b.since, b.before))
	s.note(b, was, ignored)
	s.drop(b)
	return s.changed
}

// sane makes a state one that the rules allow, under the settings at hand, which may be
// others than those it comes from:
//
//   - a state that there is not is nothing to remember, a cause that there is not is
//     the posterior test, which is not taken back;
//   - no task counts twice, and the latest of them stay when there are too many;
//   - it has opened no more often than is counted, and once at least if it is open;
//   - an open one has a deadline, within the longest time from now; one that was open
//     and is closed forgets it, within a day; one that is half-open has none;
//   - a probe has a name, and is one of a half-open breaker;
//   - it was not closed later than now, and its generations are of the past.
func (s *Set) sane(now time.Time, state PairState) PairState {
	if state.State > HalfOpen {
		return PairState{}
	}
	if state.Cause > ByProbe {
		state.Cause = ByPosterior
	}
	state.Faults = s.saneFaults(state.Faults)
	state.Opened = min(max(0, state.Opened), s.settings.maxOpened())
	if state.ClosedAt.After(now) {
		state.ClosedAt = now
	}
	if state.State != HalfOpen || state.Probe == "" || !state.Probing {
		state.Probe, state.Probing = "", false
	}
	switch state.State {
	case Open:
		state.Opened = max(1, state.Opened)
		state.Until = within(state.Until, now.Add(s.settings.openFor(state.Opened)), now.Add(s.settings.Max))
	case HalfOpen:
		state.Until = time.Time{}
	case Closed:
		if forgets := now.Add(generationMemory); state.Opened > 0 || state.Since > 0 || !state.Until.IsZero() {
			state.Until = within(state.Until, forgets, forgets)
		}
	}
	return state
}

// within is the deadline, or the usual one when there is none, and the latest at most.
func within(until, usual, latest time.Time) time.Time {
	switch {
	case until.IsZero():
		return usual
	case until.After(latest):
		return latest
	}
	return until
}

// saneFaults copies a list of faults without those that are in it twice, and as many
// of the latest as are ever kept.
func (s *Set) saneFaults(faults []coordinator.TaskID) []coordinator.TaskID {
	var kept []coordinator.TaskID
	for i := len(faults) - 1; i >= 0 && len(kept) < 2*s.settings.Faults; i-- {
		if !slices.Contains(kept, faults[i]) {
			kept = append(kept, faults[i])
		}
	}
	slices.Reverse(kept)
	return kept
}

// Pairs lists all pairs of which something is remembered, by capability and agent.
func (s *Set) Pairs() []Pair {
	list := make([]Pair, 0, s.known)
	for _, g := range s.groups {
		for agent := range g.breakers {
			list = append(list, Pair{agent, g.capability})
		}
	}
	sortPairs(list)
	return list
}

// sortPairs sorts by capability and agent.
func sortPairs(list []Pair) {
	slices.SortFunc(list, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Capability, b.Capability), cmp.Compare(a.Agent, b.Agent))
	})
}

// Clear forgets all breakers, and begins with generation 0 again. It returns what Import does, for all of them.
func (s *Set) Clear(now time.Time) (changed []Pair) {
	for _, p := range s.Pairs() {
		changed = append(changed, s.Import(now, p, PairState{})...)
	}
	s.generation = 0
	return changed
}

// SetGeneration goes on from a generation that another Set had come to, if it is ahead
// of that of this one: it never goes back.
func (s *Set) SetGeneration(g uint64) { s.generation = max(s.generation, g) }

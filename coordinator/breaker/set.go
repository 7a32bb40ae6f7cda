package breaker

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/heap"
)

// Pair is an agent, by its number, and a capability: what a breaker is for.
type Pair struct {
	Agent      int
	Capability string
}

// Set holds the breakers of a fleet. Its methods return the pairs for which the
// answer of Allowed may have changed, in a list that is the Set's own: it is valid
// until the next call, and may name a pair twice. A Set is not safe for concurrent use. Make one with [New].
type Set struct {
	settings   Settings
	generation uint64
	groups     map[string]*group
	known      int // breakers
	deadlines  heap.Heap[*breaker]
	changed    []Pair
}

// New makes a Set without any history and any supply: no agent is ejected.
func New(s Settings) *Set {
	return &Set{settings: s.withDefaults(), groups: map[string]*group{}, deadlines: newDeadlines()}
}

// Quiet reports whether nothing is known against any agent: Probe and Success would change
// nothing.
func (s *Set) Quiet() bool { return s.known == 0 }

// Generation is what a dispatch that is made now is to be stamped with. One stamp
// serves all capabilities that its task requires.
func (s *Set) Generation() uint64 { return s.generation }

// Allowed reports whether the agent may get a task that requires the capability: it
// is closed, or half-open with no probe under way, or ejection is ignored.
func (s *Set) Allowed(p Pair) bool {
	b := s.find(p)
	return b == nil || s.allowed(b)
}

func (s *Set) allowed(b *breaker) bool {
	switch {
	case b.state == Closed, b.group.ignored(&s.settings):
		return true
	case b.state == HalfOpen:
		return !b.probing
	}
	return false
}

// Supply sets how many agents offer the capability and are there. To be called
// whenever that changes; until then it is 0, and no agent is ejected.
func (s *Set) Supply(capability string, n int) []Pair {
	s.changed = s.changed[:0]
	g := s.group(capability)
	was := g.ignored(&s.settings)
	g.supply = max(0, n)
	s.noteGroup(g, was)
	s.tidy(g)
	return s.changed
}

// Away sets whether the agent is not there (any more). Its breaker goes on as before,
// but takes no place among those that may be ejected, and does not count among the agents
// of which one must be left.
func (s *Set) Away(p Pair, away bool) []Pair {
	s.changed = s.changed[:0]
	b := s.find(p)
	if b == nil || b.away == away {
		return s.changed
	}
	g := b.group
	was := g.ignored(&s.settings)
	g.count(b, b.state, -1)
	b.away = away
	g.count(b, b.state, +1)
	s.noteGroup(g, was)
	return s.changed
}

// Fault takes in that a task failed by the agent's fault, which a timeout is, too.
// generation is the stamp of its dispatch.
func (s *Set) Fault(now time.Time, p Pair, generation uint64, task coordinator.TaskID) []Pair {
	s.begin(now)
	b := s.ensure(p)
	switch {
	case b.state == Open:
		b.addFault(task, 2*s.settings.Faults)
		if again := now.Add(s.settings.Base); again.After(b.until) {
			b.until = again
			s.deadlines.Fix(b.place)
		}
	case b.outdated(generation, task):
	case b.state == Closed:
		b.addFault(task, 2*s.settings.Faults)
		if len(b.faults) >= s.settings.Faults {
			s.open(now, b, ByFaults)
		}
	case b.state == HalfOpen:
		if s.open(now, b, ByProbe) {
			b.faults = append(b.faults[:0], task)
		} else { // no room: it goes on one at a time
			s.endProbe(b)
		}
	}
	s.drop(b)
	return s.changed
}

// Success takes in that a task succeeded. generation is the stamp of its dispatch.
func (s *Set) Success(now time.Time, p Pair, generation uint64, task coordinator.TaskID) []Pair {
	s.begin(now)
	b := s.find(p)
	if b == nil || b.outdated(generation, task) {
		return s.changed
	}
	switch b.state {
	case Closed:
		b.faults = b.faults[:0]
		s.drop(b)
	case HalfOpen:
		s.close(now, b)
	}
	return s.changed
}

// Trip takes in that the agent fails too often, if not in a row: the posterior
// test. It opens a closed breaker if there is room.
func (s *Set) Trip(now time.Time, p Pair) []Pair {
	s.begin(now)
	b := s.ensure(p)
	if b.state == Closed {
		s.open(now, b, ByPosterior)
	}
	s.drop(b)
	return s.changed
}

// Probe takes the one place of a half-open breaker for a task that is being
// dispatched; the bool reports whether the task is a probe. Every probe ends in
// exactly one of Fault, Success and Release.
func (s *Set) Probe(p Pair, task coordinator.TaskID) (taken bool, changed []Pair) {
	s.changed = s.changed[:0]
	b := s.find(p)
	if b == nil || b.state != HalfOpen || b.probing {
		return false, s.changed
	}
	was := s.allowed(b)
	b.probe, b.probing = task, true
	s.note(b, was, b.group.ignored(&s.settings))
	return true, s.changed
}

// Release says that the task has ended at the agent without an outcome that
// counts (withdrawn, lost, refused, its own fault). If it was the probe, the next
// may be made.
func (s *Set) Release(p Pair, task coordinator.TaskID) []Pair {
	s.changed = s.changed[:0]
	if b := s.find(p); b != nil && b.probing && b.probe == task {
		s.endProbe(b)
	}
	return s.changed
}

// Forgive takes back the fault that was the task's own. A breaker that would not
// have opened without it closes as if it never had; one that it reopened as a
// probe is half-open again. What Trip has opened ends by itself.
func (s *Set) Forgive(now time.Time, p Pair, task coordinator.TaskID) []Pair {
	s.begin(now)
	b := s.find(p)
	if b == nil {
		return s.changed
	}
	i := slices.Index(b.faults, task)
	if i < 0 {
		return s.changed
	}
	b.faults = slices.Delete(b.faults, i, i+1)
	switch {
	case b.state == Closed:
		s.drop(b)
	case b.cause == ByFaults && len(b.faults) < s.settings.Faults:
		s.enter(b, Closed)
		b.opened--
		b.closedAt, b.since = now, b.before
		s.schedule(b, now.Add(generationMemory))
	case b.cause == ByProbe && len(b.faults) == 0:
		b.opened--
		if b.state == Open {
			s.unschedule(b)
			s.enter(b, HalfOpen)
		}
	}
	return s.changed
}

// Advance makes those half-open that have been open for their time. Fault, Success, Trip and Forgive
// do so by themselves.
func (s *Set) Advance(now time.Time) []Pair {
	s.begin(now)
	return s.changed
}

// Due lists the pairs that Advance will change, by capability and agent.
func (s *Set) Due(now time.Time) (list []Pair) {
	if at, any := s.NextDeadline(); !any || at.After(now) {
		return nil
	}
	for _, b := range s.deadlines.Items {
		if !b.until.After(now) {
			list = append(list, Pair{b.agent, b.group.capability})
		}
	}
	sortPairs(list)
	return list
}

// NextDeadline is when Advance wants to be called if nothing else happens before.
func (s *Set) NextDeadline() (time.Time, bool) {
	if s.deadlines.Len() == 0 {
		return time.Time{}, false
	}
	return s.deadlines.Items[0].until, true
}

// Refused lists all pairs that are not Allowed, by capability and agent.
func (s *Set) Refused() []Pair {
	var list []Pair
	for _, g := range s.groups {
		for agent, b := range g.breakers {
			if !s.allowed(b) {
				list = append(list, Pair{agent, g.capability})
			}
		}
	}
	sortPairs(list)
	return list
}

// Status is one breaker as people see it.
type Status struct {
	State State
	// Until is when an open breaker becomes half-open; zero for another.
	Until time.Time
	// Opened is how often it has opened of late.
	Opened int
	// Faults is how many tasks have failed in a row.
	Faults int
	// Probing: a probe is under way.
	Probing bool
	// Ignored: ejection from this capability is without effect.
	Ignored bool
}

// Look describes the breaker of a pair.
func (s *Set) Look(now time.Time, p Pair) Status {
	var st Status
	if g := s.groups[p.Capability]; g != nil {
		st.Ignored = g.ignored(&s.settings)
	}
	b := s.find(p)
	if b == nil {
		return st
	}
	st.State, st.Faults, st.Probing = b.state, len(b.faults), b.probing
	st.Opened = b.multiplier(now, s.settings.Base)
	if b.state == Open {
		st.Until = b.until
	}
	return st
}

// Renumber says that the fleet has changed: the agent numbered i was was[i]
// before, or is new (-1). Agents that are no longer named are forgotten, and so is the
// supply, which Supply has to set anew. Any answer may have changed; Refused
// lists them.
func (s *Set) Renumber(was []int) {
	number := make(map[int]int, len(was))
	for i, old := range was {
		if old >= 0 {
			number[old] = i
		}
	}
	for _, g := range s.groups {
		old := g.breakers
		g.breakers = make(map[int]*breaker, len(old))
		for _, b := range old {
			i, stays := number[b.agent]
			if !stays {
				s.known--
				g.count(b, b.state, -1)
				s.unschedule(b)
				continue
			}
			b.agent = i
			g.breakers[i] = b
		}
		g.supply = 0
		s.tidy(g)
	}
	due := s.deadlines.Items
	s.deadlines.Items = nil
	for _, b := range due { // the order among equals has changed
		s.deadlines.Push(b)
	}
}

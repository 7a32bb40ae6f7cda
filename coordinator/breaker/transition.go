package breaker

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// begin forgets the last list of changes and lets those half-open that are due.
func (s *Set) begin(now time.Time) {
	s.changed = s.changed[:0]
	for s.deadlines.Len() > 0 && !s.deadlines.Items[0].until.After(now) {
		b := s.deadlines.Items[0]
		s.unschedule(b)
		if b.state == Open {
			s.enter(b, HalfOpen)
			continue
		}
		b.opened, b.since = 0, 0
		s.drop(b)
	}
}

// open ejects the agent if there is room, for longer each time.
func (s *Set) open(now time.Time, b *breaker, why Cause) bool {
	if !b.group.room(&s.settings, b) {
		return false
	}
	b.opened = min(b.multiplier(now, s.settings.Base)+1, s.settings.maxOpened())
	if b.state == Closed {
		b.before = b.since
	}
	b.cause = why
	s.enter(b, Open)
	s.schedule(b, now.Add(s.settings.openFor(b.opened)))
	return true
}

// close trusts the agent again.
func (s *Set) close(now time.Time, b *breaker) {
	s.enter(b, Closed)
	b.closedAt = now
	b.faults = b.faults[:0]
	s.schedule(b, now.Add(generationMemory))
}

// enter moves the breaker to a state, in a generation of its own.
func (s *Set) enter(b *breaker, state State) {
	was, ignored := s.allowed(b), b.group.ignored(&s.settings)
	b.group.count(b, b.state, -1)
	b.group.count(b, state, +1)
	b.state = state
	b.probe, b.probing = "", false
	s.generation++
	b.since = s.generation
	s.note(b, was, ignored)
}

// endProbe makes room for the next probe.
func (s *Set) endProbe(b *breaker) {
	was := s.allowed(b)
	b.probe, b.probing = "", false
	s.note(b, was, b.group.ignored(&s.settings))
}

// Probed lists the capabilities for which the task is the agent's probe, sorted.
func (s *Set) Probed(agent int, task coordinator.TaskID) (capabilities []string) {
	for c, g := range s.groups { // order does not matter: they are sorted
		if b := g.breakers[agent]; b != nil && b.probing && b.probe == task {
			capabilities = append(capabilities, c)
		}
	}
	slices.Sort(capabilities)
	return capabilities
}

// note lists what has changed: the one breaker, or all of its capability when
// ejection is ignored from now on, or no longer.
func (s *Set) note(b *breaker, was, ignored bool) {
	if s.allowed(b) != was {
		s.changed = append(s.changed, Pair{b.agent, b.group.capability})
	}
	s.noteGroup(b.group, ignored)
}

func (s *Set) noteGroup(g *group, ignored bool) {
	if g.ignored(&s.settings) == ignored {
		return
	}
	for _, agent := range g.agents() {
		s.changed = append(s.changed, Pair{agent, g.capability})
	}
}

func (s *Set) schedule(b *breaker, until time.Time) {
	b.until = until
	if b.place >= 0 {
		s.deadlines.Fix(b.place)
		return
	}
	s.deadlines.Push(b)
}

func (s *Set) unschedule(b *breaker) {
	if b.place >= 0 {
		s.deadlines.Remove(b.place)
	}
}

func (s *Set) find(p Pair) *breaker {
	g := s.groups[p.Capability]
	if g == nil {
		return nil
	}
	return g.breakers[p.Agent]
}

// ensure finds the breaker, or makes one; drop follows.
func (s *Set) ensure(p Pair) *breaker {
	g := s.group(p.Capability)
	b := g.breakers[p.Agent]
	if b == nil {
		b = &breaker{group: g, agent: p.Agent, place: -1}
		g.breakers[p.Agent] = b
		s.known++
	}
	return b
}

func (s *Set) group(capability string) *group {
	g := s.groups[capability]
	if g == nil {
		g = &group{capability: capability, breakers: map[int]*breaker{}}
		s.groups[capability] = g
	}
	return g
}

// drop forgets a breaker that has nothing to remember.
func (s *Set) drop(b *breaker) {
	if b.idle() {
		delete(b.group.breakers, b.agent)
		s.known--
		s.tidy(b.group)
	}
}

// tidy forgets a capability that no agent offers and none has failed at.
func (s *Set) tidy(g *group) {
	if g.supply == 0 && len(g.breakers) == 0 {
		delete(s.groups, g.capability)
	}
}

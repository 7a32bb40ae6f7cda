package learning

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
)

// State is everything that a Learner has learnt, as of a time, in plain numbers.
// Equal Learners give equal States.
type State struct {
	AsOf time.Time
	// Fleet is the tally over all agents and types.
	Fleet Tally
	// Agents, sorted by ID; those of which nothing is known are left out.
	Agents []AgentState
	// Types, sorted by name; the one that is shared has the empty name.
	Types []TypeState
}

// AgentState is what is known of one agent over all types.
type AgentState struct {
	Agent coordinator.AgentID
	// Successes, and how many the fleet would have Expected with the same tasks.
	Successes, Expected float64
	// Paces is the sum of Paced durations as multiples of the type's mean.
	Paces, Paced float64
	// Dollars that Costed tasks have cost.
	Dollars, Costed float64
}

// TypeState is what is known of one task type.
type TypeState struct {
	Type  string
	Fleet Tally
	// Agents, sorted by ID; those without an outcome are left out.
	Agents []PairState
}

// PairState is what is known of one agent with one type.
type PairState struct {
	Agent coordinator.AgentID
	Tally
}

// Export copies what has been learnt. id names the agents; it must give each
// number its own.
func (l *Learner) Export(id func(i int) coordinator.AgentID) State {
	f := l.factor
	s := State{AsOf: l.asOf, Fleet: l.fleet.times(f)}
	for i := range l.agents {
		a := l.agents[i]
		a.scale(f)
		if a.expected > 0 || a.costed > 0 {
			s.Agents = append(s.Agents, AgentState{
				Agent: id(i), Successes: a.successes, Expected: a.expected,
				Paces: a.paces, Paced: a.paced, Dollars: a.dollars, Costed: a.costed,
			})
		}
	}
	slices.SortFunc(s.Agents, func(a, b AgentState) int { return cmp.Compare(a.Agent, b.Agent) })
	export := func(t *Type) {
		if t.fleet.Outcomes*f <= 0 {
			return
		}
		x := TypeState{Type: t.name, Fleet: t.fleet.times(f)}
		for i := range t.agents {
			if own := t.agents[i].times(f); own.Outcomes > 0 {
				x.Agents = append(x.Agents, PairState{Agent: id(i), Tally: own})
			}
		}
		slices.SortFunc(x.Agents, func(a, b PairState) int { return cmp.Compare(a.Agent, b.Agent) })
		s.Types = append(s.Types, x)
	}
	export(&l.shared)
	for _, t := range l.types {
		export(t)
	}
	slices.SortFunc(s.Types, func(a, b TypeState) int { return cmp.Compare(a.Type, b.Type) })
	return s
}

// Import puts a State in the place of everything learnt so far. number finds the
// agents in this fleet; those it does not find are left out, and types beyond
// Settings.MaxTypes are added to the shared one. Handles stay valid. A State with
// an impossible number is refused as a whole, naming the place.
func (l *Learner) Import(s State, number func(coordinator.AgentID) (i int, known bool)) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("import what was learnt: %w; leave this state out, it is learnt anew", err)
	}
	place := func(id coordinator.AgentID) (int, bool) {
		i, known := number(id)
		return i, known && i >= 0 && i < len(l.agents)
	}
	l.started, l.landmark, l.asOf = !s.AsOf.IsZero(), s.AsOf, s.AsOf
	l.setFactor(1)
	l.fleet = s.Fleet
	clear(l.agents)
	for _, a := range s.Agents {
		if i, known := place(a.Agent); known {
			l.agents[i] = agent{
				successes: a.Successes, expected: a.Expected, paces: a.Paces, paced: a.Paced,
				dollars: a.Dollars, costed: a.Costed,
			}
		}
	}
	l.shared.clear()
	for _, t := range l.types {
		t.clear()
	}
	for _, x := range s.Types {
		t := l.Type(x.Type)
		t.fleet.add(x.Fleet)
		for _, pair := range x.Agents {
			if i, known := place(pair.Agent); known {
				t.of(i, len(l.agents)).add(pair.Tally)
			}
		}
	}
	return nil
}

func (s *State) check() error {
	if err := s.Fleet.check(); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	for _, a := range s.Agents {
		if !sound(a.Successes, a.Expected, a.Paces, a.Paced, a.Dollars, a.Costed) {
			return fmt.Errorf("agent %q: a sum is negative or not a number", a.Agent)
		}
	}
	for _, t := range s.Types {
		if err := t.Fleet.check(); err != nil {
			return fmt.Errorf("task type %q: %w", t.Type, err)
		}
		for _, pair := range t.Agents {
			if err := pair.check(); err != nil {
				return fmt.Errorf("task type %q, agent %q: %w", t.Type, pair.Agent, err)
			}
		}
	}
	return nil
}

func (t *Tally) check() error {
	switch {
	case !sound(t.Successes, t.Outcomes, t.Seconds, t.Timed):
		return fmt.Errorf("a sum is negative or not a number")
	case t.Successes > t.Outcomes*(1+1e-9):
		return fmt.Errorf("%g successes in %g outcomes", t.Successes, t.Outcomes)
	}
	return nil
}

// sound reports whether all are sums that outcomes can add up to.
func sound(sums ...float64) bool {
	return !slices.ContainsFunc(sums, func(x float64) bool { return !(x >= 0 && x <= math.MaxFloat32) })
}

func (t Tally) times(f float64) Tally {
	t.scale(f)
	return t
}

func (t *Tally) add(o Tally) {
	t.Successes += o.Successes
	t.Outcomes += o.Outcomes
	t.Seconds += o.Seconds
	t.Timed += o.Timed
}

func (t *Type) clear() {
	t.fleet, t.agents = Tally{}, nil
}

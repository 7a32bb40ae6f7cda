package learning

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
)

// Export returns what has been learnt, as the rows of which it consists: the time, all agents and types, each agent
// over all types, each type with its agents; sorted, and without those of which nothing is known. Equal Learners give
// equal rows. id names the agents; it must give each number its own.
func (l *Learner) Export(id func(i int) coordinator.AgentID) (rows []*coordinator.LearntBefore) {
	if l.asOf.IsZero() {
		return nil
	}
	f, ids := l.factor, make([]coordinator.AgentID, len(l.agents))
	byID := make([]int, len(l.agents))
	for i := range ids {
		ids[i], byID[i] = id(i), i
	}
	slices.SortFunc(byID, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	rows = append(rows, &coordinator.LearntBefore{First: true, AsOf: l.asOf},
		&coordinator.LearntBefore{Sums: l.fleet.times(f).sums()})
	for _, i := range byID {
		a := l.agents[i]
		if a.scale(f); a.expected > 0 || a.costed > 0 {
			rows = append(rows, &coordinator.LearntBefore{Agent: ids[i],
				Sums: [6]float64{a.successes, a.expected, a.paces, a.paced, a.dollars, a.costed}})
		}
	}
	types := []*Type{&l.shared}
	for _, name := range slices.Sorted(maps.Keys(l.types)) {
		types = append(types, l.types[name])
	}
	for _, t := range types {
		if t.fleet.Outcomes*f <= 0 {
			continue
		}
		rows = append(rows, &coordinator.LearntBefore{Typed: true, Type: t.name, Sums: t.fleet.times(f).sums()})
		for _, i := range byID {
			if i >= len(t.agents) {
				continue
			}
			if own := t.agents[i].times(f); own.Outcomes > 0 {
				rows = append(rows, &coordinator.LearntBefore{Typed: true, Type: t.name, Agent: ids[i], Sums: own.sums()})
			}
		}
	}
	return rows
}

// Import puts rows that Export gave in the place of everything learnt so far. number finds the
// agents in this fleet; those it does not find are left out, and types beyond
// Settings.MaxTypes are added to the shared one. Handles stay valid. Rows with
// an impossible number are refused as a whole, naming the place.
func (l *Learner) Import(rows []*coordinator.LearntBefore, number func(coordinator.AgentID) (i int, known bool)) error {
	var asOf time.Time
	for _, r := range rows {
		if err := check(r); err != nil {
			return fmt.Errorf("import what was learnt: %w; leave this state out, it is learnt anew", err)
		}
		if r.First {
			asOf = r.AsOf
		}
	}
	l.started, l.landmark, l.asOf = !asOf.IsZero(), asOf, asOf
	l.setFactor(1)
	l.fleet = Tally{}
	clear(l.agents)
	l.shared.clear()
	for _, t := range l.types {
		t.clear()
	}
	for _, r := range rows {
		i, known := number(r.Agent)
		known = known && r.Agent != "" && i >= 0 && i < len(l.agents)
		switch s := &r.Sums; {
		case r.First:
		case r.Typed && r.Agent == "":
			l.Type(r.Type).fleet.add(tallyOf(s))
		case r.Typed && known:
			l.Type(r.Type).of(i, len(l.agents)).add(tallyOf(s))
		case r.Agent == "":
			l.fleet = tallyOf(s)
		case known && !r.Typed:
			l.agents[i] = agent{successes: s[0], expected: s[1], paces: s[2], paced: s[3], dollars: s[4], costed: s[5]}
		}
	}
	return nil
}

// check refuses a row of sums that outcomes cannot add up to.
func check(r *coordinator.LearntBefore) error {
	of := "fleet"
	switch {
	case r.Typed && r.Agent != "":
		of = fmt.Sprintf("task type %q, agent %q", r.Type, r.Agent)
	case r.Typed:
		of = fmt.Sprintf("task type %q", r.Type)
	case r.Agent != "":
		of = fmt.Sprintf("agent %q", r.Agent)
	}
	switch t := tallyOf(&r.Sums); {
	case slices.ContainsFunc(r.Sums[:], func(x float64) bool { return !(x >= 0 && x <= math.MaxFloat32) }):
		return fmt.Errorf("%s: a sum is negative or not a number", of)
	case (r.Typed || r.Agent == "") && t.Successes > t.Outcomes*(1+1e-9):
		return fmt.Errorf("%s: %g successes in %g outcomes", of, t.Successes, t.Outcomes)
	}
	return nil
}

func tallyOf(s *[6]float64) Tally {
	return Tally{Successes: s[0], Outcomes: s[1], Seconds: s[2], Timed: s[3]}
}

func (t Tally) sums() [6]float64 { return [6]float64{t.Successes, t.Outcomes, t.Seconds, t.Timed} }

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

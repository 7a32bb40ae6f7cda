package criteria

import (
	"cmp"
	"math/bits"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// Fleet is the agents as criteria ask for them: by number, their place in the order of ids.
type Fleet struct {
	Specs []coordinator.AgentSpec
	// Offering holds, for each capability, the agents that have it.
	Offering map[string]agentset.Set
	before   agentset.Set // used again by each Meet
}

// NewFleet numbers the agents, which are sorted by id. It keeps the list.
func NewFleet(specs []coordinator.AgentSpec) *Fleet {
	f := &Fleet{Specs: specs, Offering: make(map[string]agentset.Set)}
	for i := range specs {
		for _, c := range specs[i].Capabilities {
			if f.Offering[c] == nil {
				f.Offering[c] = f.None()
			}
			f.Offering[c].Add(i)
		}
	}
	return f
}

// None is an empty set of its agents.
func (f *Fleet) None() agentset.Set { return agentset.New(len(f.Specs)) }

// Number is the agent's place in the fleet.
func (f *Fleet) Number(id coordinator.AgentID) (int, bool) {
	return slices.BinarySearchFunc(f.Specs, id, func(a coordinator.AgentSpec, id coordinator.AgentID) int {
		return cmp.Compare(a.ID, id)
	})
}

// Feasible is which agents of a fleet meet all criteria for the tasks of one class, and why the others do not.
type Feasible struct {
	Set  agentset.Set
	Able int // how many are in Set
	// needs of the class, without a task.
	needs Needs
	out   [len(All)]int // agents that meet the criteria before one, and not that one
	// unclear are those of out whose criterion has several causes: which it is may differ from task to task. nil: none.
	unclear agentset.Set
	// why is the cause of all that are out; Eligible: there are several, or it is unclear.
	why coordinator.Ineligibility
}

// cause is the only cause of each criterion; Eligible: it has several.
var cause = func() (only [len(All)]coordinator.Ineligibility) {
	for i, c := range All {
		if causes := c.Causes(); len(causes) == 1 {
			only[i] = causes[0]
		}
	}
	return only
}()

// Meet finds the agents that meet all criteria.
func (f *Fleet) Meet(n Needs) Feasible {
	m := Feasible{Set: f.None(), Able: len(f.Specs), needs: n}
	m.needs.Task = nil
	for i := range f.Specs {
		m.Set.Add(i)
	}
	first := true
	for i, c := range All {
		several := cause[i] == coordinator.Eligible
		if several {
			f.before = append(f.before[:0], m.Set...)
		}
		c.Filter(f, n, m.Set)
		left := m.Set.Len()
		if m.out[i] = m.Able - left; m.out[i] == 0 {
			continue
		}
		m.Able = left
		if m.why = cause[i]; !first {
			m.why = coordinator.Eligible
		}
		first = false
		if several {
			m.addUnclear(f.before)
		}
	}
	return m
}

func (m *Feasible) addUnclear(before agentset.Set) {
	if m.unclear == nil {
		m.unclear = make(agentset.Set, len(before))
	}
	for i := range before {
		m.unclear[i] |= before[i] &^ m.Set[i]
	}
}

// Count adds, by cause, the agents that do not meet the criteria for a task of the class.
func (m *Feasible) Count(f *Fleet, task *coordinator.Task, refused *[coordinator.NumIneligibilities]int) {
	for i, n := range m.out {
		if cause[i] != coordinator.Eligible {
			refused[cause[i]] += n
		}
	}
	for w, word := range m.unclear {
		for ; word != 0; word &= word - 1 {
			refused[m.Why(f, task, w<<6+bits.TrailingZeros64(word))]++
		}
	}
}

// Why is the first reason for which an agent that is not feasible may not have a task of the class.
func (m *Feasible) Why(f *Fleet, task *coordinator.Task, agent int) coordinator.Ineligibility {
	if m.why != coordinator.Eligible {
		return m.why
	}
	n := m.needs
	n.Task = task
	return Check(n, &f.Specs[agent])
}

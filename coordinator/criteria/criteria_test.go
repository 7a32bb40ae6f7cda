package criteria

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// drawn is a random fleet and what two tasks ask of it: every criterion that is registered has drawn its part.
type drawn struct {
	fleet *Fleet
	tasks [2]Needs
}

func draw(t *rapid.T) (d drawn) {
	n := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "one of") }
	var specs []coordinator.AgentSpec
	var ids []coordinator.AgentID
	for i := range rapid.IntRange(0, 70).Draw(t, "agents") { // more than a word of a set
		a := coordinator.AgentSpec{ID: coordinator.AgentID(fmt.Sprintf("a%02d", i))}
		if i < 4 {
			DrawAgent(n, &a)
		}
		specs, ids = append(specs, a), append(ids, a.ID)
	}
	ids = append(ids[:min(4, len(ids))], "unlisted")
	d.fleet = NewFleet(specs)
	for i := range d.tasks {
		d.tasks[i].Task = &coordinator.Task{}
		DrawTask(n, &d.tasks[i], ids)
		if tried := n(2 * len(ids)); tried < len(ids) {
			d.tasks[i].Barred = coordinator.MergeSorted(d.tasks[i].Barred, ids[tried:tried+1])
		}
	}
	return d
}

func keyOf(n Needs) string {
	var k Key
	k.Begin(n)
	return string(k.Bytes())
}

func name(c Criterion) string { return reflect.TypeOf(c).Name() }

// TestCriteria: each criterion that is registered takes out of a set the agents of which it says why, one of its own
// causes, and no other; and of tasks to which it gives the same key it says the same.
func TestCriteria(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for _, c := range All {
			var left [2]agentset.Set
			for i, n := range d.tasks {
				left[i] = d.fleet.None()
				for a := range d.fleet.Specs {
					left[i].Add(a)
				}
				c.Filter(d.fleet, n, left[i])
				for a := range d.fleet.Specs {
					why := c.Check(n, &d.fleet.Specs[a])
					if left[i].Has(a) != (why == coordinator.Eligible) {
						t.Fatalf("%s: Filter leaves agent %d in: %v, Check says %s", name(c), a, left[i].Has(a), why)
					}
					if why != coordinator.Eligible && !slices.Contains(c.Causes(), why) {
						t.Fatalf("%s: Check says %s, which is not among Causes", name(c), why)
					}
				}
			}
			var keys [2]Key
			for i, n := range d.tasks {
				c.Key(&keys[i], n)
			}
			if string(keys[0].Bytes()) == string(keys[1].Bytes()) && !slices.Equal(left[0], left[1]) {
				t.Fatalf("%s: Key is %q of tasks for which Filter leaves others in", name(c), keys[0].Bytes())
			}
		}
	})
}

// TestFeasible: the agents that meet all criteria, and the counts of the others, are those of a pass over the fleet.
// Tasks of one key have the same agents, whichever of them is asked for first.
func TestFeasible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		met := d.fleet.Meet(d.tasks[0])
		for i, n := range d.tasks {
			if i > 0 && keyOf(n) != keyOf(d.tasks[0]) {
				continue
			}
			var want, got [coordinator.NumIneligibilities]int
			for a := range d.fleet.Specs {
				why := Check(n, &d.fleet.Specs[a])
				if want[why]++; met.Set.Has(a) != (why == coordinator.Eligible) {
					t.Fatalf("agent %d is feasible %v, and %s", a, met.Set.Has(a), why)
				}
				if why != coordinator.Eligible && met.Why(d.fleet, n.Task, a) != why {
					t.Fatalf("agent %d is %s, and %s", a, met.Why(d.fleet, n.Task, a), why)
				}
			}
			got[coordinator.Eligible] = met.Able
			if met.Count(d.fleet, n.Task, &got); got != want {
				t.Fatalf("counted %v, want %v", got, want)
			}
		}
	})
}

// TestRegistered: of every criterion that is registered the draws of its own file meet and miss it, make the task ask
// something of its own, and give keys that tell tasks apart; each of its causes comes up, and is the criterion's alone.
func TestRegistered(t *testing.T) {
	type seen struct {
		met, own bool
		keys     map[string]bool
		causes   map[coordinator.Ineligibility]bool
	}
	all := make([]seen, len(All))
	for i := range all {
		all[i].keys, all[i].causes = make(map[string]bool), make(map[coordinator.Ineligibility]bool)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for i, c := range All {
			for _, n := range d.tasks {
				var k Key
				c.Key(&k, n)
				all[i].keys[string(k.Bytes())] = true
				all[i].own = all[i].own || c.Own(n)
				for a := range d.fleet.Specs {
					if why := c.Check(n, &d.fleet.Specs[a]); why != coordinator.Eligible {
						all[i].causes[why] = true
					} else {
						all[i].met = true
					}
				}
			}
		}
	})
	of, last := make(map[coordinator.Ineligibility]string), coordinator.Eligible
	for i, c := range All {
		s := &all[i]
		if !s.met || !s.own || len(s.keys) < 2 {
			t.Errorf("%s: DrawAgent and DrawTask give agents that meet it: %v, tasks of which Own is true: %v, and %d keys",
				name(c), s.met, s.own, len(s.keys))
		}
		if len(c.Causes()) == 0 {
			t.Errorf("%s: Causes is empty", name(c))
		}
		for _, why := range c.Causes() {
			switch {
			case !s.causes[why]:
				t.Errorf("%s: no draw gives %s: see DrawAgent, DrawTask, Check", name(c), why)
			case !why.Lasting():
				t.Errorf("%s: %s is not lasting (coordinator/ineligibility.go)", name(c), why)
			case of[why] != "":
				t.Errorf("%s: %s is a cause of %s", name(c), why, of[why])
			case why <= last:
				t.Errorf("%s: %s comes before %s among the causes, and after it in All", name(c), why, last)
			}
			of[why], last = name(c), why
		}
	}
	for why := coordinator.Eligible + 1; why < coordinator.NumIneligibilities; why++ {
		if why.Lasting() && of[why] == "" {
			t.Errorf("%s is lasting, and a cause of no criterion in All", why)
		}
	}
}

// TestMayJoin: an agent that meets the criteria as it is announced, under rules that admit it, could join.
func TestMayJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for i := range d.fleet.Specs {
			a := &d.fleet.Specs[i]
			rules := &coordinator.Discovery{Agents: []string{"*"}, Capabilities: a.Capabilities, MaxAgents: 1, MaxConcurrent: 1}
			_, admitted := rules.Admit(&coordinator.AgentReport{Agent: a.ID, Capabilities: a.Capabilities, Labels: a.Labels})
			if n := d.tasks[0]; admitted && Check(n, a) == coordinator.Eligible && !MayJoin(n, rules) {
				t.Fatalf("%s could have it and may join, MayJoin says no", a.ID)
			}
		}
	})
}

// TestKeys: equal keys are of equal lists, whatever the values hold. (Lists of the caller are marked like these.)
func TestKeys(t *testing.T) {
	value := rapid.SampledFrom([]string{"a", "b", "ab", "a\x00", "\x00a", "a\x01b", "\x10", "P", "\x10P", "é"})
	rapid.Check(t, func(t *rapid.T) {
		one := func(label string) (n Needs) {
			n.Task = &coordinator.Task{}
			n.Required = rapid.SliceOfN(value, 0, 2).Draw(t, label)
			for _, id := range rapid.SliceOfN(value, 0, 2).Draw(t, label) {
				n.Barred = append(n.Barred, coordinator.AgentID(id))
			}
			for _, id := range rapid.SliceOfN(value, 0, 2).Draw(t, label) {
				n.Only = append(n.Only, coordinator.AgentID(id))
			}
			return n
		}
		x, y := one("x"), one("y")
		same := slices.Equal(x.Required, y.Required) && slices.Equal(x.Barred, y.Barred) && slices.Equal(x.Only, y.Only)
		if (keyOf(x) == keyOf(y)) != same {
			t.Fatalf("%q and %q: the lists are equal %v", keyOf(x), keyOf(y), same)
		}
	})
}

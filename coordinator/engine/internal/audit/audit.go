package audit

import (
	"iter"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/invariant"
)

// What one Audit looks at, at most. The tasks held, which the window bounds, are seen
// in each; of what may be many more it takes up where the one before ended.
const (
	maxTasks   = 1024 // open tasks
	maxRecords = 1024 // ids seen
	maxAgents  = 2048 // agents, each as agentWeight, and the dispatches on their accounts
	maxClasses = 64   // classes, as far as each concerns the whole fleet

	agentWeight = 8

	// WholeEvery is how many audits come to one that looks at what is only seen as a whole, such as all that is set
	// aside of quotas: with 10,000 dispatches open that takes a few milliseconds.
	WholeEvery = 8
)

// Auditor audits a state. It remembers where the next audit goes on.
type Auditor struct {
	s  *state.State
	at places
}

// Of makes one for a state, which must live as long.
func Of(s *state.State) Auditor { return Auditor{s: s} }

// Run checks that the books balance and gives what does not, at most one Violation for each invariant (see
// engine.Audit).
func (a *Auditor) Run(now time.Time) []invariant.Violation {
	return (&inspection{State: a.s, places: &a.at}).run(now)
}

// places is where the next audit goes on.
type places struct {
	task, agent, class int
	record             uint64
	runs               uint64 // audits so far
}

func (x *inspection) run(now time.Time) []invariant.Violation {
	if now.Before(x.Now) {
		x.Note(invariant.Clock, "", "the time is %v, %v before the latest event", now, x.Now.Sub(now))
	}
	before := x.Violations
	if x.checkDeliveries(maps.Keys(x.Held)); len(x.Violations) > len(before) { // not in the order of a map
		x.Violations = before
		x.checkDeliveries(slices.Values(slices.Sorted(maps.Keys(x.Held))))
	}
	x.checkClasses()
	x.checkBatches()
	x.checkRecords()
	x.checkAgents()
	x.Add(x.Timers.Check(x.Now))
	if x.places.runs++; x.places.runs%WholeEvery == 1 {
		x.checkWhole()
	}
	for i := range x.Violations {
		slices.Sort(x.Violations[i].IDs)
	}
	return x.Violations
}

// inspection is one Audit.
type inspection struct {
	*state.State
	places *places
	invariant.Violations
	// gathering tasks are held so many.
	gathering int
}

// checkDeliveries checks every task with a delivery that is not settled, and whether the counts of them are right.
func (x *inspection) checkDeliveries(handles iter.Seq[coordinator.Handle]) {
	affordable := make(map[*state.Task]bool)
	for _, t := range x.Retries.All() {
		affordable[t] = true
	}
	var waiting [4]int
	var states [state.Leased + 1]int
	inLine := 0
	for h := range handles {
		t := x.Held[h]
		x.Add(x.checkHeld(h, t, affordable[t]))
		if states[t.Stage]++; t.Stage >= state.Waiting && t.Stage < state.Moving {
			waiting[t.Task.Priority]++
		}
		if t.Lane.InLine() {
			inLine++
		}
	}
	x.gathering = states[state.Gathering]
	if waiting != x.Pending.Count {
		x.Note(invariant.PendingCount, "", "by priority %v tasks wait, counted are %v", waiting, x.Pending.Count)
	}
	for _, f := range x.Lanes.Check(states[state.Moving], inLine) {
		id := ""
		if t := x.Held[f.Task]; t != nil {
			id = string(t.Task.ID)
		}
		x.Note(f.Invariant, id, "%s", f.Text)
	}
}

// checkClasses checks the classes in which tasks wait, and in turn whether the tasks of one should wait.
func (x *inspection) checkClasses() {
	active := x.Pending.Active()
	for _, w := range active {
		x.Add(x.checkClass(w.Of))
	}
	state.InTurn(&x.places.class, len(active), maxClasses, func(i int) int {
		x.Add(x.checkUsable(active[i].Of))
		return 1
	})
}

// checkBatches looks at the tasks that wait for others of their kind.
func (x *inspection) checkBatches() {
	wrong, n := x.Batches.Check(func(key state.BatchKey, t *state.Task) bool {
		return t.Stage == state.Gathering && x.Held[t.Handle] == t && state.BatchKeyOf(t) == key
	})
	for _, t := range wrong {
		x.Note(invariant.TaskState, string(t.Task.ID), "it is among those that gather, in state %d", t.Stage)
	}
	if n != x.gathering || x.Batches.Sharing() {
		x.Note(invariant.TaskState, "", "%d tasks gather, %d are in batches; some dispatches are not sealed: %v",
			x.gathering, n, x.Batches.Sharing())
	}
}

// checkRecords looks at what is remembered of task ids, and at open tasks, most of them with agents.
func (x *inspection) checkRecords() {
	w := &x.Dedupe
	next := int(max(x.places.record, w.First()) - w.First())
	state.InTurn(&next, w.Size(), maxRecords, func(i int) int {
		x.Add(x.checkRecord(w.First() + uint64(i)))
		return 1
	})
	x.places.record = w.First() + uint64(next)
	state.InTurn(&x.places.task, len(x.Tasks.All), maxTasks, func(n int) int {
		if t := x.Tasks.All[n]; t != nil {
			x.Add(x.checkOpen(n, t))
		}
		return 1
	})
}

// checkAgents checks agents and the dispatches on their accounts. The agents that have left are checked in each Audit.
func (x *inspection) checkAgents() {
	state.InTurn(&x.places.agent, len(x.Fleet.Agents), maxAgents, func(n int) int {
		a := x.Fleet.Agents[n]
		x.Add(x.Fleet.Check(n))
		x.Add(x.checkAccount(a))
		online := a.State == coordinator.AgentOnline
		if watched := x.Timers.Has(&a.Timers[fleet.Silence]); watched != online {
			x.Note(invariant.Timers, string(a.Spec.ID), "it is %s, its silence is watched: %v", a.State, watched)
		}
		if fault := x.Ejections.Check(n, online); fault != "" {
			x.Note(invariant.AgentReady, string(a.Spec.ID), "%s", fault)
		}
		return agentWeight + len(a.Open)
	})
	x.Add(x.Fleet.CheckLeft())
	for _, a := range x.Fleet.Left { // order does not matter: as a rule nothing is found
		x.Add(x.checkAccount(a))
	}
}

// checkWhole checks what is only seen as a whole.
func (x *inspection) checkWhole() {
	for _, c := range [...]struct {
		which invariant.Name
		fault error
	}{
		{invariant.TaskRecord, x.Ends.Check()},
		{invariant.TaskRecord, x.Messages.Check()},
		{invariant.PendingOrder, x.Claims.Check(func(a *state.Agent) *state.Seat { return &a.Seat })},
		{invariant.PendingOrder, x.Isolated.Check(func(t *state.Task) (*state.Class, bool) {
			return t.Needs.Class, t.Alone && x.Held[t.Handle] == t
		})},
	} {
		if c.fault != nil {
			x.Note(c.which, "", "%v", c.fault)
		}
	}
	x.Add(x.Tasks.Check())
	x.Add(x.Fleet.CheckTakeBacks())
	x.Add(x.checkQuotas())
}

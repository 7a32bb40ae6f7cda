package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/invariant"
)

// Books are those of an engine, to be broken in one place by what is named in Spoils and QuotaSpoils.
type Books struct{ *Engine }

// open finds an open task.
func (r Books) open(id coordinator.TaskID) *state.Task {
	if o := r.taskOf(coordinator.KeyOf(id)); o != nil {
		return o
	}
	panic(string(id) + " is not open")
}

// NeverExpires has a task that waits wait for ever.
func (r Books) NeverExpires(id coordinator.TaskID) { r.k.Timers.Cancel(&r.open(id).Expire) }

// PassOver has the first timer of those among which the task's is be due since then, and not be done.
func (r Books) PassOver(id coordinator.TaskID, at time.Time) {
	r.k.Timers.Heaps[r.open(id).Expire.Duty.Turn()].Items[0].At = at
}

// At has the latest event be of that time.
func (r Books) At(now time.Time) { r.k.Now = now }

// Spoils break the books of tasks, agents and timers, and say what the auditor then finds.
var Spoils = []struct {
	Name  string
	Spoil func(r Books)
	Want  invariant.Name
	IDs   string // that it names, all of them; "*": whichever
}{
	{"a waiting task has left its class",
		func(r Books) { o := r.open("early"); o.Needs.Class.Waiting.Remove(o.Leaf, o.Level, o.Index) },
		invariant.TaskState, "early"},
	{"a held task is forgotten", func(r Books) { o := r.open("early"); delete(r.k.Held, o.Handle) },
		invariant.TaskState, "early"},
	{"a handle is another's", func(r Books) { r.open("early").Handle++ }, invariant.TaskState, "*"},
	{"a task is held twice", func(r Books) { r.k.Held[99] = r.open("early") }, invariant.TaskState, "early"},
	{"a leased task is held", func(r Books) { o := r.open("has"); o.Handle = 99; r.k.Held[99] = o },
		invariant.TaskState, "has"},
	{"a task gathers nowhere", func(r Books) { r.k.Batches.Clear() }, invariant.TaskState, ""},
	{"a task gathers twice", func(r Books) {
		o := r.open("together")
		r.k.Batches.Gather(r.k.Now, state.BatchKeyOf(o), o, coordinator.Batch{MaxSize: 9}, r.k.Now.Add(time.Hour),
			time.Time{})
	}, invariant.TaskState, "together"},
	{"a task that has ended is held still", func(r Books) { r.open("early").Over = true }, invariant.TaskState,
		"early"},
	{"one too many is counted as waiting", func(r Books) { r.k.Pending.Count[coordinator.PriorityHigh]++ },
		invariant.PendingCount, ""},
	{"one too few", func(r Books) { r.k.Pending.Count[coordinator.PriorityNormal]-- }, invariant.PendingCount,
		""},
	{"when it is due changed in place", func(r Books) { o := r.open("early"); o.Due += int64(time.Hour) },
		invariant.PendingOrder, "late"},
	{"a class is not found by its key", func(r Books) { r.open("early").Needs.Class.Key += "?" },
		invariant.PendingOrder, ""},
	{"nobody was woken when a slot became free", func(r Books) {
		b := r.k.Fleet.ByID["b"]
		b.Report.Available, b.Spec.MaxConcurrent = 100, 2
		r.k.Fleet.Refresh(b)
	}, invariant.WorkConserved, "early"},
	{"a record refers to another task", func(r Books) { o := r.open("has"); r.k.RecordOf(o).Ref++ },
		invariant.TaskRecord, "has"},
	{"a record says that its task has ended",
		func(r Books) { o := r.open("has"); r.k.RecordOf(o).Fate = coordinator.FateSucceeded }, invariant.TaskRecord,
		"has"},
	{"a record says that the broker has not answered",
		func(r Books) { o := r.open("has"); r.k.RecordOf(o).Fate = coordinator.FateUnsettled }, invariant.TaskRecord,
		"has"},
	{"an id is not found", func(r Books) { r.k.RecordOf(r.open("has")).Key[1]++ }, invariant.TaskRecord, "*"},
	{"an open task is lost", func(r Books) { r.k.Tasks.All[r.open("has").Number] = nil }, invariant.AgentAccount,
		"has"},
	{"a lease without a timer", func(r Books) { r.k.Timers.Cancel(&r.open("has").Expire) },
		invariant.LeaseDeadline, "has"},
	{"a lease without a deadline", func(r Books) { r.open("has").Deadline = time.Time{} },
		invariant.LeaseDeadline, "has"},
	{"a dispatch has left the account",
		func(r Books) { r.open("has").Agent.Give(r.open("has")); r.k.Fleet.Refresh(r.k.Fleet.ByID["a"]) },
		invariant.AgentAccount, "has"},
	{"a dispatch is on another's account", func(r Books) { r.open("has").Agent = r.k.Fleet.ByID["b"] },
		invariant.AgentAccount, "has"},
	{"a slot leaks", func(r Books) { r.k.Fleet.ByID["b"].Uncovered++; r.k.Fleet.Refresh(r.k.Fleet.ByID["b"]) },
		invariant.AgentAccount, "b"},
	{"a dispatch is covered and counts", func(r Books) { r.open("on-way").Covered = true },
		invariant.AgentAccount, "b"},
	{"credit for what never was", func(r Books) { r.k.Fleet.ByID["a"].Credit = 1 }, invariant.AgentAccount, "a"},
	{"strategies see what was", func(r Books) { r.k.Fleet.Views[0].InFlight-- }, invariant.AgentSlots, "a"},
	{"a full agent is marked as ready", func(r Books) { r.k.Fleet.Ready.Add(1) }, invariant.AgentReady, "b"},
	{"an idle one is not", func(r Books) { r.k.Fleet.Ready.Remove(2) }, invariant.AgentReady, "c"},
	{"breakers take an agent for gone", func(r Books) { r.k.Ejections.SetOnline(r.k.Now, 0, false) },
		invariant.AgentReady, "a"},
	{"an agent is not found by its queue", func(r Books) { delete(r.k.Fleet.ByQueue, "agent.c") },
		invariant.FleetIndex, "c"},
	{"an agent's silence is not watched", func(r Books) { r.k.Timers.Cancel(&r.k.Fleet.ByID["c"].Timers[fleet.Silence]) },
		invariant.Timers, "c"},
	{"a waiting task never expires", func(r Books) { r.k.Timers.Cancel(&r.open("early").Expire) },
		invariant.Timers, "early"},
	{"a returned task is never tried again", func(r Books) { r.k.Timers.Cancel(&r.open("back").Retry) },
		invariant.Timers, "back"},
	{"a timer was moved in place", func(r Books) { r.open("late").Expire.At = r.k.Now.Add(-time.Hour) },
		invariant.Timers, ""},
	{"the time goes back", func(r Books) { r.k.Now = r.k.Now.Add(time.Second) }, invariant.Clock, ""},
}

// WholeSpoils break what is only seen as a whole, in an engine in which the task early waits.
var WholeSpoils = map[string]func(r Books){
	"a message may come again 0 times":          func(r Books) { r.k.Messages.SetExpected(coordinator.TaskKey{1}, 0) },
	"a queue is taken back that nothing counts": func(r Books) { r.k.Fleet.ByID["c"].TakenQueue = "agent.c" },
	"the number of a task is given out again": func(r Books) {
		r.k.Tasks.Free = append(r.k.Tasks.Free, r.open("has").Number)
	},
	"a claim waits that is not its agent's": func(r Books) {
		r.k.Claims.Add(r.k.Now, r.k.Fleet.ByID["a"], 0, &state.Seat{}, coordinator.ClaimReceived{Agent: "a"}, 0)
	},
	"a task is among those that must be alone": func(r Books) {
		o := r.open("early")
		r.k.Isolated.Add(o, o.Needs.Class, o.Leaf, o.Level)
	},
}

// QuotaSpoils break the books of quotas.
var QuotaSpoils = map[string]func(r Books){
	"a reservation is left behind": func(r Books) { r.open("has").Quota = nil },
	"what is set aside is for nobody's dispatch": func(r Books) {
		c := r.open("has").Quota.Charge
		c.Amounts[coordinator.DimTotalTokens] = 1
		r.k.Quotas.Ledger.Reserve(r.k.Now, coordinator.KeyOf("nobody's"), &c, time.Time{})
	},
	"it is under another key": func(r Books) { r.open("has").Quota.Key[0]++ },
	"it has ended, and is held": func(r Books) {
		r.k.Quotas.Ledger.Release(r.k.Now, r.open("has").Quota.Key, false)
		r.open("has").Over = true
	},
	"who waits has left":                func(r Books) { r.open("waits").Leaf++ },
	"the class does not know who waits": func(r Books) { o := r.open("waits"); o.Needs.Class.Waiting.Unpark(o.Leaf) },
}

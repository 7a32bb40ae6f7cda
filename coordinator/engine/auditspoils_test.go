package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Books are those of an engine, to be broken in one place by what is named in Spoils and QuotaSpoils.
type Books struct{ *Engine }

// open finds an open task.
func (r Books) open(id coordinator.TaskID) *openTask {
	if o := r.taskOf(coordinator.KeyOf(id)); o != nil {
		return o
	}
	panic(string(id) + " is not open")
}

// NeverExpires has a task that waits wait for ever.
func (r Books) NeverExpires(id coordinator.TaskID) { r.timers.cancel(&r.open(id).expire) }

// PassOver has the first timer of those among which the task's is be due since then, and not be done.
func (r Books) PassOver(id coordinator.TaskID, at time.Time) {
	r.timers.heaps[r.open(id).expire.duty.turn()].Items[0].at = at
}

// At has the latest event be of that time.
func (r Books) At(now time.Time) { r.now = now }

// Spoils break the books of tasks, agents and timers, and say what the auditor then finds.
var Spoils = []struct {
	Name  string
	Spoil func(r Books)
	Want  coordinator.Invariant
	IDs   string // that it names, all of them; "*": whichever
}{
	{"a waiting task has left its class",
		func(r Books) { o := r.open("early"); o.needs.class.Waiting.Remove(o.leaf, o.level, o.index) },
		coordinator.InvariantTaskState, "early"},
	{"a held task is forgotten", func(r Books) { o := r.open("early"); delete(r.held, o.handle) },
		coordinator.InvariantTaskState, "early"},
	{"a handle is another's", func(r Books) { r.open("early").handle++ }, coordinator.InvariantTaskState, "*"},
	{"a task is held twice", func(r Books) { r.held[99] = r.open("early") }, coordinator.InvariantTaskState, "early"},
	{"a leased task is held", func(r Books) { o := r.open("has"); o.handle = 99; r.held[99] = o },
		coordinator.InvariantTaskState, "has"},
	{"a task gathers nowhere", func(r Books) { r.batches.Clear() }, coordinator.InvariantTaskState, ""},
	{"a task gathers twice", func(r Books) {
		o := r.open("together")
		r.batches.Gather(r.now, batchKeyOf(o), o, coordinator.Batch{MaxSize: 9}, r.now.Add(time.Hour), time.Time{})
	}, coordinator.InvariantTaskState, "together"},
	{"a task that has ended is held still", func(r Books) { r.open("early").Over = true }, coordinator.InvariantTaskState,
		"early"},
	{"one too many is counted as waiting", func(r Books) { r.pending.count[coordinator.PriorityHigh]++ },
		coordinator.InvariantPendingCount, ""},
	{"one too few", func(r Books) { r.pending.count[coordinator.PriorityNormal]-- }, coordinator.InvariantPendingCount,
		""},
	{"when it is due changed in place", func(r Books) { o := r.open("early"); o.due += int64(time.Hour) },
		coordinator.InvariantPendingOrder, "late"},
	{"a class is not found by its key", func(r Books) { r.open("early").needs.class.Key += "?" },
		coordinator.InvariantPendingOrder, ""},
	{"nobody was woken when a slot became free", func(r Books) {
		b := r.fleet.ByID["b"]
		b.Report.Available, b.Spec.MaxConcurrent = 100, 2
		r.fleet.Refresh(b)
	}, coordinator.InvariantWorkConserved, "early"},
	{"a record refers to another task", func(r Books) { o := r.open("has"); r.recordOf(o).Ref++ },
		coordinator.InvariantTaskRecord, "has"},
	{"a record says that its task has ended",
		func(r Books) { o := r.open("has"); r.recordOf(o).Fate = coordinator.FateSucceeded }, coordinator.InvariantTaskRecord,
		"has"},
	{"a record says that the broker has not answered",
		func(r Books) { o := r.open("has"); r.recordOf(o).Fate = coordinator.FateUnsettled }, coordinator.InvariantTaskRecord,
		"has"},
	{"an id is not found", func(r Books) { r.recordOf(r.open("has")).Key[1]++ }, coordinator.InvariantTaskRecord, "*"},
	{"the number of a task is given out again",
		func(r Books) { r.tasks.free = append(r.tasks.free, r.open("has").number) }, coordinator.InvariantTaskRecord, ""},
	{"an open task is lost", func(r Books) { r.tasks.all[r.open("has").number] = nil }, coordinator.InvariantAgentAccount,
		"has"},
	{"a lease without a timer", func(r Books) { r.timers.cancel(&r.open("has").expire) },
		coordinator.InvariantLeaseDeadline, "has"},
	{"a lease without a deadline", func(r Books) { r.open("has").deadline = time.Time{} },
		coordinator.InvariantLeaseDeadline, "has"},
	{"a dispatch has left the account",
		func(r Books) { r.open("has").agent.Give(r.open("has")); r.fleet.Refresh(r.fleet.ByID["a"]) },
		coordinator.InvariantAgentAccount, "has"},
	{"a dispatch is on another's account", func(r Books) { r.open("has").agent = r.fleet.ByID["b"] },
		coordinator.InvariantAgentAccount, "has"},
	{"a slot leaks", func(r Books) { r.fleet.ByID["b"].Uncovered++; r.fleet.Refresh(r.fleet.ByID["b"]) },
		coordinator.InvariantAgentAccount, "b"},
	{"a dispatch is covered and counts", func(r Books) { r.open("on-way").Covered = true },
		coordinator.InvariantAgentAccount, "b"},
	{"credit for what never was", func(r Books) { r.fleet.ByID["a"].Credit = 1 }, coordinator.InvariantAgentAccount, "a"},
	{"strategies see what was", func(r Books) { r.fleet.Views[0].InFlight-- }, coordinator.InvariantAgentSlots, "a"},
	{"a full agent is marked as ready", func(r Books) { r.fleet.Ready.Add(1) }, coordinator.InvariantAgentReady, "b"},
	{"an idle one is not", func(r Books) { r.fleet.Ready.Remove(2) }, coordinator.InvariantAgentReady, "c"},
	{"breakers take an agent for gone", func(r Books) { r.ejections.SetOnline(r.now, 0, false) },
		coordinator.InvariantAgentReady, "a"},
	{"an agent is not found by its queue", func(r Books) { delete(r.fleet.ByQueue, "agent.c") },
		coordinator.InvariantFleetIndex, "c"},
	{"an agent's silence is not watched", func(r Books) { r.timers.cancel(&r.fleet.ByID["c"].stale) },
		coordinator.InvariantTimers, "c"},
	{"a waiting task never expires", func(r Books) { r.timers.cancel(&r.open("early").expire) },
		coordinator.InvariantTimers, "early"},
	{"a returned task is never tried again", func(r Books) { r.timers.cancel(&r.open("back").retry) },
		coordinator.InvariantTimers, "back"},
	{"a timer was moved in place", func(r Books) { r.open("late").expire.at = r.now.Add(-time.Hour) },
		coordinator.InvariantTimers, ""},
	{"a queue is taken back that nobody counts", func(r Books) { r.fleet.ByID["c"].TakenQueue = "agent.c" },
		coordinator.InvariantTakeBacks, ""},
	{"the time goes back", func(r Books) { r.now = r.now.Add(time.Second) }, coordinator.InvariantClock, ""},
}

// QuotaSpoils break the books of quotas.
var QuotaSpoils = map[string]func(r Books){
	"a reservation is left behind": func(r Books) { r.open("has").quota = nil },
	"what is set aside is for nobody's dispatch": func(r Books) {
		c := r.open("has").quota.Charge
		c.Amounts[coordinator.DimTotalTokens] = 1
		r.quotas.Ledger.Reserve(r.now, fairshare.KeyOf("nobody's"), &c, time.Time{})
	},
	"it is under another key": func(r Books) { r.open("has").quota.Key[0]++ },
	"it has ended, and is held": func(r Books) {
		r.quotas.Ledger.Release(r.now, r.open("has").quota.Key, false)
		r.open("has").Over = true
	},
	"who waits has left":                func(r Books) { r.open("waits").leaf++ },
	"the class does not know who waits": func(r Books) { o := r.open("waits"); o.needs.class.Waiting.Unpark(o.leaf) },
}

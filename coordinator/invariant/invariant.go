package invariant

import (
	"fmt"
	"slices"
)

// Name is of a rule that the books of a coordinator obey at every moment. The
// set is closed: the codes are labels of a metric, and the comments below are the
// table of docs/reference/metrics.md.
type Name uint8

// The invariants. The first belong to the engine, the last three to the shell.
const (
	// TaskState: a task that has not ended is in exactly one state, and in the
	// structure of that state: held by its handle, waiting in its class, gathering in its
	// batch, delayed until its timer or the retry budget.
	TaskState Name = iota
	// PendingCount: the counts by priority are those of the tasks that wait.
	PendingCount
	// PendingOrder: waiting tasks are in order of when they are due, in classes
	// that know their place.
	PendingOrder
	// WorkConserved: while a task waits, no agent is ready that could have it.
	WorkConserved
	// TaskRecord: records of task ids and tasks that have not ended refer to each
	// other.
	TaskRecord
	// LeaseDeadline: a dispatch whose end will be reported has a deadline, and a timer for it.
	LeaseDeadline
	// AgentAccount: a dispatch is on the account of its agent and of no other, and
	// those that no report covers are as many as are counted.
	AgentAccount
	// AgentSlots: free slots are what reports and dispatches leave, never less than
	// none.
	AgentSlots
	// AgentReady: what counts as ready is eligible, and the other way round; what
	// counts as ejected has a breaker that says so.
	AgentReady
	// FleetIndex: every agent is found by its id, number and queue.
	FleetIndex
	// Timers: timers are in order, and none that was due is passed over.
	Timers
	// TakeBacks: as many queues are taken back as are counted.
	TakeBacks
	// Clock: time does not go back.
	Clock
	// QuotaBooks: what is set aside of every quota is the sum of what is set aside
	// for its open dispatches, and every task that waits for quota is known to wait for it.
	QuotaBooks

	// Conservation: received + returned = dispatched + failed + parked + dropped +
	// abandoned + moved + held.
	Conservation
	// OneOutcome: a delivery gets an outcome before it is settled, and only one.
	OneOutcome
	// Held: what the engine holds is held by the shell; what is held
	// unacknowledged is known to the engine, or its outcome is on its way.
	Held

	Count = iota
)

var names = [Count]string{
	"task_state", "pending_count", "pending_order", "work_conserved", "task_record",
	"lease_deadline", "agent_account", "agent_slots", "agent_ready", "fleet_index",
	"timers", "take_backs", "clock", "quota_books", "conservation", "one_outcome", "held",
}

// String is the code.
func (i Name) String() string { return names[i] }

// MaxIDs bounds the ids that a Violation names.
const MaxIDs = 8

// Violation is an invariant that does not hold: a fault of the program, never of its
// users.
type Violation struct {
	Invariant Name
	// Text says of the first case what should be and what is, for people.
	Text string
	// IDs of the tasks or agents concerned, the first MaxIDs; empty when it is
	// a matter of none.
	IDs []string
	// Count is how many cases there are.
	Count int
}

// Violations are what a check has found, one for each invariant at most.
type Violations []Violation

// Note adds a case of an invariant that does not hold. id is that of the task, agent or quota; empty: it is a matter
// of none.
func (s *Violations) Note(which Name, id, format string, args ...any) {
	v := Violation{Invariant: which, Text: fmt.Sprintf(format, args...), Count: 1}
	if id != "" {
		v.Text, v.IDs = id+": "+v.Text, []string{id}
	}
	s.Add(Violations{v})
}

// Add adds what another check has found.
func (s *Violations) Add(found Violations) {
	for _, f := range found {
		i := slices.IndexFunc(*s, func(v Violation) bool { return v.Invariant == f.Invariant })
		if i < 0 {
			*s = append(*s, f)
			continue
		}
		v := &(*s)[i]
		v.Count += f.Count
		for _, id := range f.IDs {
			if len(v.IDs) < MaxIDs && !slices.Contains(v.IDs, id) {
				v.IDs = append(v.IDs, id)
			}
		}
	}
}

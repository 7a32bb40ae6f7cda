package coordinator

// Invariant names a rule that the books of a coordinator obey at every moment. The
// set is closed: the codes are labels of a metric, and docs/operations.md has a line
// for each.
type Invariant uint8

// The invariants. The first belong to the engine, the last three to the shell.
const (
	// InvariantTaskState: an open task is in one state, and in the structure that
	// belongs to it: held by its handle, waiting in its class, gathering in its batch,
	// delayed in the queue for retries or until its timer.
	InvariantTaskState Invariant = iota
	// InvariantPendingCount: the counts by priority are those of the tasks that wait.
	InvariantPendingCount
	// InvariantPendingOrder: classes are in order of when tasks are due and know their place.
	InvariantPendingOrder
	// InvariantWorkConserved: while a task waits, nobody is ready who could have it.
	InvariantWorkConserved
	// InvariantTaskRecord: records of open task ids and open tasks refer to each other,
	// and every id is found where its record is.
	InvariantTaskRecord
	// InvariantLeaseDeadline: a dispatch whose end somebody will tell has a deadline,
	// and a timer for it.
	InvariantLeaseDeadline
	// InvariantAgentAccount: a dispatch is on the account of its agent and nowhere
	// else, and as many of them are uncovered as are counted.
	InvariantAgentAccount
	// InvariantAgentSlots: an agent's free slots are what its reports and its account
	// leave, never less than none, and what strategies see of it is so, too.
	InvariantAgentSlots
	// InvariantAgentReady: who is marked as ready is eligible, and the other way round;
	// likewise who is ejected.
	InvariantAgentReady
	// InvariantFleetIndex: every agent is found by its id, its number and its queue.
	InvariantFleetIndex
	// InvariantTimers: timers are in order, know their place, and none was passed over.
	InvariantTimers
	// InvariantTakeBacks: as many queues are taken back as are counted.
	InvariantTakeBacks
	// InvariantClock: time does not go back.
	InvariantClock
	// InvariantQuotaBooks: what is set aside of every quota is what is set aside for its
	// dispatches that are open, and every task that waits for quota is known to.
	InvariantQuotaBooks

	// InvariantConservation: every delivery that was taken is held or has one outcome.
	InvariantConservation
	// InvariantOneOutcome: a delivery gets an outcome before it is settled, and only one.
	InvariantOneOutcome
	// InvariantHeld: what the engine holds is held by the shell, and what the shell
	// holds has somebody who sees to it.
	InvariantHeld

	NumInvariants = iota
)

var invariants = [NumInvariants]string{
	"task_state", "pending_count", "pending_order", "work_conserved", "task_record",
	"lease_deadline", "agent_account", "agent_slots", "agent_ready", "fleet_index",
	"timers", "take_backs", "clock", "quota_books", "conservation", "one_outcome", "held",
}

// String is the code.
func (i Invariant) String() string { return invariants[i] }

// MaxViolationIDs bounds the ids that a Violation names.
const MaxViolationIDs = 8

// Violation is an invariant that does not hold: a fault of the program, never of its
// users.
type Violation struct {
	Invariant Invariant
	// Text says of the first case what should be and what is, for people.
	Text string
	// IDs of the tasks or agents concerned, the first MaxViolationIDs; empty when it is
	// a matter of none.
	IDs []string
	// Count is how many cases there are.
	Count int
}

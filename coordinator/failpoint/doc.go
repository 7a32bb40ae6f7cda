// Package failpoint answers "where can a coordinator be made to die, or a task to break it, on order?".
//
// The service calls [Hit] at the places that matter for what survives a crash,
// [Task] where it handles one task, and [Ahead] where it asks what time it is. In the
// program that people run they are empty functions, which the compiler removes. A program built with
//
//	go build -tags failpoint
//
// reads the environment variable TASKBUS_FAILPOINT once:
//
//	TASKBUS_FAILPOINT=after_deliver      SIGKILL to itself at the first hit
//	TASKBUS_FAILPOINT=before_publish:25  SIGKILL to itself at the 25th hit
//	TASKBUS_FAILPOINT=panic:task-7       a panic whenever task-7 is handled
//	TASKBUS_FAILPOINT=clock:2h           a clock that is two hours ahead
//
// and says on standard error that it fires before it does. A kill is the kernel's: no
// deferred call runs, nothing is flushed, as when the machine's memory runs out.
//
// # What it must never do
//
// It is never armed in a program built without the tag, whatever the environment says.
// It never decides anything: code must not ask it whether it is armed.
package failpoint

// Point is a place in the program, by the name that TASKBUS_FAILPOINT uses.
type Point string

// The points, in the order in which a task passes them; those of the process as a
// whole come last.
const (
	// AfterDeliver: a message has arrived, nothing has been done with it.
	AfterDeliver Point = "after_deliver"
	// AfterValidate: it is decoded and valid, and the engine has not seen it.
	AfterValidate Point = "after_validate"
	// AfterChoose: the engine has decided, nothing outside the process shows it.
	AfterChoose Point = "after_choose"
	// AfterJournalPublish: the decision is on its way to the journal.
	AfterJournalPublish Point = "after_journal_publish"
	// AfterJournalConfirm: the journal has the decision, its effects are still to come.
	AfterJournalConfirm Point = "after_journal_confirm"
	// BeforePublish: the dispatch or failure is about to be published.
	BeforePublish Point = "before_publish"
	// AfterPublishBeforeConfirm: it is on its way; the broker has not answered.
	AfterPublishBeforeConfirm Point = "after_publish_before_confirm"
	// AfterConfirmBeforeAck: the broker has it; its source is not acknowledged.
	AfterConfirmBeforeAck Point = "after_confirm_before_ack"
	// AfterAck: the source is acknowledged, as far as this process is concerned.
	AfterAck Point = "after_ack"
	// AfterLanePublish: a task is on its way into its lane; the broker has not answered.
	AfterLanePublish Point = "after_lane_publish"
	// AfterLaneConfirm: its lane has it, and the journal does not know.
	AfterLaneConfirm Point = "after_lane_confirm"
	// BeforeLaneAck: the journal knows, and its message of before is not acknowledged.
	BeforeLaneAck Point = "before_lane_ack"
	// AfterLaneDeliver: it has come out of its lane, nothing has been done with it.
	AfterLaneDeliver Point = "after_lane_deliver"
	// DuringSnapshot: a part of a snapshot is written, and more is to come.
	DuringSnapshot Point = "during_snapshot"
	// DuringTakeover: the lock is taken, the leader does not consume yet.
	DuringTakeover Point = "during_takeover"
	// DuringDrain: no more tasks are taken, those in flight are being settled.
	DuringDrain Point = "during_drain"
	// DuringReload: another configuration is valid and not yet in force.
	DuringReload Point = "during_reload"
)

// Points are all of them, in that order.
func Points() []Point {
	return []Point{
		AfterDeliver, AfterValidate, AfterChoose, AfterJournalPublish, AfterJournalConfirm,
		BeforePublish, AfterPublishBeforeConfirm, AfterConfirmBeforeAck, AfterAck,
		AfterLanePublish, AfterLaneConfirm, BeforeLaneAck, AfterLaneDeliver,
		DuringSnapshot, DuringTakeover, DuringDrain, DuringReload,
	}
}

// Environment is the variable that arms a program built with the tag.
const Environment = "TASKBUS_FAILPOINT"

// Package lanes answers "which task makes room, which lane does it go to, and which lane is read next?"
//
// A task that waits holds a place in the window of deliveries, and what stands behind it in task.assign is not
// seen. So tasks that crowd the window are moved to queues of their own, lanes, and taken back in turn; and one
// that is held for long goes to the lane of those that are held and comes back at once, as a new message.
//
//	waiting ──► moving ──► in a lane ──► waiting
//	   ▲           │ refused
//	   └───────────┘
//
// A queue hands out what is first in it. So that no task stands there behind others that are to go later, or
// never can, a lane has tasks of one kind: of a group and priority that the same agents could take. The first
// kind that a group's lane gets has it for itself until it is empty; others go to lanes beside it, that come and
// go.
//
//	planner.go  what the kernel and the planner exchange; sessions and policies
//	lane.go     the table of lanes, and which of them a kind goes to
//	lines.go    tasks that may be moved, and which of them makes room
//	move.go     moves: of a task too many, of one that is held for too long
//	read.go     which lanes are read
//	turns.go    which of them goes first when there are too many
//	look.go     what is known of the queues of lanes, and for how long
//	check.go    whether the counts balance
//
// # Its rules
//
// Moved is, while more than half of the window waits, the last task of the largest class of the group that has most
// waiting; at most 256 are on their way. What came back from an agent is not moved. A task of task.assign is held
// for 60 s, one out of a lane for 10 minutes; then it goes to task.lane.~held, which is read at once, so that it
// keeps its place and the broker can trim its log. Below eight tasks kinds share a lane. A lane that does not take
// a task rests for 5 s.
//
// A lane is read while less than half of the window came out of lanes and there is room, or nothing else of its
// kind waits here, or what would make room came later. Its window is 64 tasks. At most 64 lanes are read at once,
// by the turns of their groups; one that has waited for 10 s goes first.
//
// The journal names a lane before anything is moved there. A lane of a group that has left the configuration is read
// until it is empty, then deleted over the connection that holds the lock.
//
// # What it reads
//
// A task is a Ticket here, which its owner embeds in its own record of the task, and an Entry when it begins to
// wait: its kind, when it is due, the lane that it came out of. What changes by itself (the policy, how many
// tasks wait, the session) is read through View, at the time of each question, so that there is no copy of it to
// keep up to date. Shares decide which group has its turn, as for all tasks that wait.
//
// # What it must never do
//
// It answers with values: a Move, or Actions, which the kernel carries out in their order before it calls
// again. It publishes, acknowledges, records and schedules nothing, reads no clock, and calls nothing of the
// kernel but View. It knows no agents, and no ids or messages of tasks. It is for one goroutine.
package lanes

// Package admission answers "is there LLM quota for this task now, and which of those that wait for some may try next?"
//
// [Quotas] reserves what a task will take before it is dispatched, and settles, releases or expires that when its
// dispatch ends. Its ledger and turns are those of package fairshare.
//
//	quotas.go  the state; the quotas of another policy; when something is due
//	hold.go    what a task will take, where it goes with an agent, and the reservation of it
//	ends.go    how reservations end: a table by how the dispatch did
//	owners.go  agents with quota of their own: with which of them there is quota for a task
//	fold.go    what is taken over from records, and given to them
//	reader.go  what readers may ask; view.go: what they are answered
//
// Quota lacks to a tenant's tasks of a class together: when one is refused, its tenant queue (a leaf of
// fairqueue.Shares) is parked in the class, or the whole class where a pool has nothing left. Each of these is
// a [Wait]. Waits for the same thing are one queue, which opens when some of it may be back. [Waits] has all
// of them, and says in which order they try.
//
//	wait.go    what waits, and for what; parking
//	queue.go   waits for the same thing: the head, rounds, what stands ahead
//	order.go   which wait has its turn, among and within open queues
//	seats.go   seats that are kept for tenants below their share
//	agents.go  waits for which it differs which agent has the task
//	serve.go   the loop: what is woken, what tries next
//	check.go   whether reservations add up, and all this is filed where it is found
//
// # The loop
//
// The caller begins a round, and does what each [Step] says, until there is none:
//
//	// those of w.Begin(now) may be served by others, too
//	for s, ok := w.Next(view); ok; s, ok = w.Next(view) {
//		// unpark s.Unpark; serve the first task at s.Levels; park what is refused
//		w.Done(served, reserved)
//	}
//
// # Classes and tasks
//
// A class of tasks is the caller's: it implements [Class], embeds a [ClassState], and is read only. A task is
// an opaque handle. What else is read of the caller's state is a [View]. Interfaces, because a type parameter
// would stand in every signature, and numbers would need tables to get back to class and task.
//
// # What it must never do
//
// It reads no clock, and of its caller it calls what only reads, Class, View and Waiting, and what compares two tasks.
// It takes no decision about a task, and changes neither a class nor what waits in it. It records and emits nothing: it
// returns what is to be. [Waits] gives no quota out: it reads the ledger, and has it keep seats for waits.
package admission

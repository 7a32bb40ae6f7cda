// Package state answers "what is known, and how does it change?"
//
// A State holds what the engine's parts know: open tasks, agents, classes of waiting tasks, deadlines, quota. Its
// methods are
//
//   - questions that decisions need: what a task requires (Require), which agent is best (Choose), how long a task may
//     wait (Within), what a dispatch that comes back means (JudgeReturn);
//   - changes that are complete by themselves, each with its records (Commit) and effects (Emit): a lease begins
//     (BeginLease) or ends (Close, Retire), quota is reserved or given back (ReserveQuota, EndQuota), a task ends
//     (Fail), an agent's breaker counts an outcome (RecordFault);
//   - the same changes out of the records of another leader (fold.go), and all of the state as records (Image).
//
// When a change is made, and in which order, the kernel decides: no method gives a task to an agent, serves what waits
// or knows an event. Time is an argument or Now, which the kernel sets.
package state

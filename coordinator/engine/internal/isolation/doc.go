// Package isolation answers "which task that must have an agent to itself goes next?"
//
// A task that brings its agent down takes with it what the agent has in hand beside it. One that is suspected of
// that until one more failure would end it gets an agent to itself. Such tasks wait in Groups: those that the same
// agents could take and that wait for the same quota are one, so that each event costs by groups, however many
// tasks wait.
//
// The package says
//
//   - which of the tasks goes first that are first in a group of which the kernel says that it may be served (First);
//   - which groups have had their turn in the look at hand (Look, Tried), so that a look ends;
//   - whether a class has such tasks (Has), and whether none has (Empty).
//
// It knows no agents, no quota and no state of tasks, and dispatches nothing. T stands for the kernel's task, C for
// its class; both are handed back or compared. The kernel keeps a Ticket in its task.
package isolation

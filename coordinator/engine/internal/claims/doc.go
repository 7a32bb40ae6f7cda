// Package claims answers "which claims wait for work, and how much may each have?"
//
// A claim is the request for tasks of an agent to which nothing is pushed. One that finds nothing may wait in a
// Line. The package says
//
//   - which claims wait, in the order in which they came, whether a look at them may find something (Due), and
//     which is looked at next (Begin, Next);
//   - how much a claim is granted, by which plan, and that it has enough (Ask, Given): package pull divides the
//     work, and one plan costs a pass over all agents, so it serves more than one claim;
//   - what is answered (Given, AnswerOne), also to an agent that gets nothing (Refuse, Over).
//
// Claims are no records: what is granted are dispatches as any others, and an agent that hears nothing
// asks again.
//
// The package answers with values. It never dispatches, emits or schedules anything, changes nothing of the kernel,
// and knows no other part of it: neither quota nor auctions. What waits, and what an agent has in hand, are
// arguments, or read through a View; the kernel takes the tasks that are granted, in its order, and says what it
// has given.
//
// # Handles
//
// A stands for the kernel's agent and C for its class of waiting tasks. Both are handed back or compared, and
// never looked into. The kernel keeps a Seat in its agent: what plans need. What a pass over 10,000 claims reads
// is in the places of the Line, side by side: an agent is not read from memory when its claim is passed over.
package claims

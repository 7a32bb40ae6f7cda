// Package breaker answers one question: may this agent be trusted with this
// capability right now?
//
// For each pair of an agent and a capability there is a circuit breaker:
//
//	          five tasks in a row fail, or the posterior test does (Trip)
//	closed ────────────────────────────────────────────────────────────► open
//	   ▲                                                                 │  ▲
//	   │ success          after 30 s × times opened of late, at most 300 │  │ fault
//	   │                                                                 ▼  │
//	   └──────────────────────────────────────────────────────────── half-open
//	                                            one task at a time: the probe
//
// # Agents and tasks that fail
//
// A task counts once, however often it fails at the same agent: one agent that
// fails k tasks is the cause, k agents that fail one task are not. When a task
// turns out to be the cause, [Set.Forgive] takes its faults back.
//
// # What was dispatched before
//
// Every opening, probing and closing starts a new generation ([Set.Generation]). A
// dispatch is stamped with the one it was made in; its success, when an older
// one, says nothing about the agent as it is now, and its fault only that it is
// not over yet: an open breaker stays open for another 30 s.
//
// # Some agents remain
//
// At most 10 % of the agents that offer a capability are ejected from it, one at
// least, and always so that one remains whose breaker is closed: of one agent none,
// of 2 to 19 one, of 20 two. Should more than half be ejected all the same, because
// the fleet shrank or is configured so, all ejection from that capability is
// ignored (panic): work that may fail is better than none. So it is with the only
// agent that is left.
//
// # What outlives the process
//
// [Set.Export] gives what is remembered of a pair, and [Set.Import] puts it into another
// Set, in place of what was there: one that is filled with all [Set.Pairs] of another,
// and learns the same by Supply and Away, gives the same answers from then on. What
// time alone changes needs no call: every Set comes to it by itself.
//
// # What it must never do
//
// It assigns nothing and reads no clock: now is an argument, and time that is given
// must not run backwards. It never panics; an agent or capability of which it has
// no outcome is known is trusted.
package breaker

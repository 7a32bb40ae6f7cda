// Package ejection answers "which agents get no task that needs a capability, because they failed too often with it?"
//
// It applies package breaker, one breaker for each agent and capability, to a fleet in which agents come, go and are
// renumbered, and keeps the answers as sets of agents, in which a choice can use them. It says
//
//   - which agents of a set are not ejected (Usable), whether one is (Ejected), and from what, until when (List);
//   - which of the sets have changed, what is to be announced and what is to be recorded (Changes), after each call
//     that says how a dispatch began or ended, or that an agent came or went;
//   - which agents may have tasks again that wait (NextTrusted), and when to ask again (NextDeadline, Advance).
//
// Tasks that require nothing count as requiring the capability "". What is counted against an agent, and for which
// task, is the caller's decision.
//
// The package answers with values. It never dispatches, emits, records or schedules anything, reads no clock,
// and knows neither tasks nor classes nor another part of the engine. An ejection is announced once, whatever trials
// there are before its end, and its end once.
package ejection

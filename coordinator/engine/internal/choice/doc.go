// Package choice answers "which of the agents that may have the task is best?"
//
// A Question is a task for which an agent is sought: what the agents are asked, how they are compared, and which of
// them are in question, as sets. Its answer is the number of the agent and a decision that explains it: the best
// candidates, and the counts of the others by why they are out. It says
//
//   - which agent is best, preferred ones first (Choose), by the strategy's key, then the one assigned least
//     recently, then the smaller id; among many eligible agents by a sample (ExactLimit, SampleSize);
//   - how the strategy sees one agent (Key, Candidate, Why), and what it reads of the track records of agents, with
//     the draws of tasks that explore (TrackRecords);
//   - why the others are out (Refuse), counted from sets; or by a full pass over the fleet (Explain), with what is
//     missing most and which agent came nearest, and the reason for which a task fails then (Reason).
//
// Equal questions have equal answers: chance is a hash of the task.
//
// The package answers with values. It never dispatches anything, changes neither agents nor what is learnt
// of them, and knows no other part of the engine. The Fleet that it reads is kept up to date by the caller.
//
// An answer allocates nothing but the dispatch that is to carry it: the decision is written into that (Dispatch), and
// what is needed for longer than until the next answer is copied (Kept).
package choice

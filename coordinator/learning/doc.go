// Package learning answers: how well, and how fast, does an agent do tasks of a type?
//
// It learns from the outcomes of the agents' tasks.
//
// # Success
//
// What is known of an agent and a task type is a Beta posterior. Its own
// outcomes are weighed against a prior that is made of what is known above it, so
// that few outcomes say little and none says what the fleet says:
//
//	fleet          P = (m·Prior + S) / (m + N)             all agents, all types
//	type           p = (m·P + S) / (m + N)                 all agents, this type
//	agent          r = (m + S) / (m + E)                   this agent, all types
//	agent and type p̂ = (m·prior + S) / (m + N)             prior = clamp(p·r, 0.001, 0.999)
//
// S are the successes of that row, N its outcomes, m is [Settings].Weight. E is
// the number of successes that the fleet would have had with the agent's tasks:
// the sum of p, as it was before each of them. An agent that is given nothing but
// hard tasks is thereby compared with the others at hard tasks.
//
// # Duration
//
// The same with seconds, of successes only: an agent that fails at once is not
// fast. The fleet's mean of the type is the reference; an agent's pace is the mean
// of its durations as multiples of it; ŝ = (m·reference·pace + Σs) / (m + n).
//
// # Forgetting
//
// An outcome counts half after [Settings].HalfLife, and half again after
// [Settings].HalfLifeOutcomes later outcomes of its row; the two rows that the
// whole fleet shares count that many for each agent, or a busy fleet would know
// its own last second only. Decay by time costs nothing: every sum is kept as it
// would be at a landmark in the past (a new outcome adds 2^age of the landmark
// instead of all others losing by halves), and reading multiplies by one factor
// for all (forward decay: Cormode, Shkapenyuk, Srivastava, Xu, ICDE 2009).
//
// # What it must never do
//
// It decides nothing: it never refuses, ejects or ranks an agent. It reads no
// clock and rolls no dice; the chance in [Learner.Draw] is an argument. It never
// panics: agents that it does not know get the prior, and teach nothing.
package learning

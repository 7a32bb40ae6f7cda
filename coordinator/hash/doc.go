// Package hash answers: which chance repeats in a replay?
//
// What differs from agent to agent, or from task to task, is drawn from hashes of their names, and of the seed of
// agents.yaml. It must never ask for the time or for random numbers.
package hash

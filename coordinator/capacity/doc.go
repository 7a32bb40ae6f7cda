// Package capacity says how many items a second an agent can do.
//
// It goes by what the agent has done.
// The coordinator measures its agents by it, and an agent that pulls itself.
//
// It is pure: time comes from the caller. It never asks what a task is, and never
// judges an agent by its failures: that is package learning.
package capacity

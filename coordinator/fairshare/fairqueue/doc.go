// Package fairqueue answers: which waiting tenant goes first?
//
// Shares are the tenants' virtual times, by what their work has cost and their weights: hierarchical start-time fair
// queueing, and turns of the priorities. A Backlog holds what waits for the same agents in that order; all backlogs
// have the Shares in common. An idle tenant saves nothing up, one that is ahead stays ahead, both within caps.
//
// It must never ask what a limit allows, read a clock, use chance, or count in floating point; nothing depends on the
// order of a map.
package fairqueue

// Package pulling answers one question: what would this controller do to agents that
// pull their work?
//
// It has the agents' own controllers (agent/balance) claim from the leader's own plan
// (coordinator/pull) on a virtual clock. Every controller gets the same arrivals, and an
// agent's n-th item takes as long under each.
//
// # The world
//
// An agent works on one item at a time, for an exponential time; the others it holds
// wait. It claims first at a moment within one base interval that chance picks, and an
// answer takes no time. Its capacity is known, to it and to the leader. Items above its
// part that it has not begun go back, where its controller says so. A dead agent's items
// are with the leader at once, but the leader learns of the death by silence alone, so
// that for [pull.SilentAfter] no agent gets its part.
//
// # What is measured
//
//	items/s      finished from the warm-up to the end
//	backlog      items that wait or are worked on, over time; unclaimed: those with the leader
//	drain        how long what an agent holds will take it, over time; and right after its
//	             claims, where equal drain times are the same for all. Between claims what
//	             is held only shrinks
//	idle         share of the time in which an agent holds nothing
//
// Those of an agent count while it lives.
//
// # What it must never do
//
// Read a clock, roll dice or start a goroutine: the same scenario gives the same bytes.
// Nor re-implement a decision: how many items are asked for and granted, and when, is
// what agent/balance and coordinator/pull say.
//
// # Its parts
//
//	play.go    all loads, controllers and seeds of a scenario
//	world.go   the virtual clock: claims, work, arrivals, death
//	tally.go   what is counted in one run
//	report.go  results over several seeds; output.go: as table, CSV, JSON
package pulling

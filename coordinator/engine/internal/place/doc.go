// Package place answers "where does a waiting task stand, and how long may it still wait?"
//
//	place.go       the answer; what waits beside the task, counted; the place where only priorities take turns
//	bound.go       the place where groups take turns: what goes before it, and how long quota may keep it, at most
//	precedence.go  what is charged to quotas before it
//
// The caller counts into a [Line] what waits, and is given the [Place].
//
// # What it must never do
//
// It is for views: no decision depends on it. It reserves and charges nothing, and reads no clock. Of tasks it sees no
// more than tenant queues, levels and charges, and by what the one that is asked for is priced; of agents no more than
// how many slots they have and which of them have quota of their own.
package place

// Package pull is the leader's side of pulling. It answers one question: an agent
// asks for items; how many may it have now, and if fewer than it asked for, why?
//
// # The aim
//
// That all agents finish what they hold at the same time. With q items held by the
// fleet, U that none holds, and a capacity of C items a second:
//
//	T* = clamp((Σq + U) / C, poll interval + round trip, 30 s)   how long all should have work for
//	w  = apportion(Σq + U, c), at most q + free slots            what each should hold: its fair part
//	grant = clamp(⌈g·(w − q)⌉, 0, min(free slots, max_items, U)) what it lacks of that
//
// By Little's law an agent that asks every I seconds must hold c·I items to stay busy:
// the floor of T*. Beyond its ceiling BALANCING calls an agent BUSY. The ceiling does not
// bound the parts: slots are what an agent works on at once, and one item may take longer
// than 30 s; an agent that was given fewer for that would be measured to be slower still,
// and be given fewer again. What one has no slots for is divided among the others, and
// an agent that holds nothing is granted one item at least. The apportionment is by
// largest remainder, so that parts are whole and lose nothing: 49 items over
// capacities of 16, 8 and 4 are 28, 14 and 7, each 1.75 s of work.
//
// # The gain
//
// g is the part of the lack that one grant makes up. An error that is corrected by
// what it was d rounds ago, e(k+1) = e(k) − g·e(k−d), dies out for 0 < g <
// 2·sin(π/(2(2d+1))): below 2 with a fresh picture of the fleet, below 1 with one that
// is a round old. So g is 1 (the first grant is the right one) while the picture is no
// older than the interval, and 0.5 after that.
//
// # What it must never do
//
// It reads no clock, keeps nothing between two plans, and moves no task: the caller must
// still take the slots and dispatch. It never grants more than the free slots, literal
// or not, and never trusts what an agent says it should have.
package pull

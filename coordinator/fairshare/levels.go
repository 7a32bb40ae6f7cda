package fairshare

import (
	"math/bits"

	"taskbus/coordinator"
)

// Levels is how many priorities there are: 0 to Levels-1, the highest goes first. They are
// those of coordinator.Priority.
const Levels = int(coordinator.PriorityCritical) + 1

// MaxLowPercent bounds the share of low priorities: the highest is never passed over twice
// running.
const MaxLowPercent = 50

// maxOwed is the most that lower priorities can be owed, just short of a turn: what they
// could not use is not saved up for two running.
const maxOwed = 99

// levelTurns divides dispatches among priorities. Strict priority alone would starve
// the lower ones.
type levelTurns struct {
	low int64 // percent of dispatches that are theirs
	// owed to them, in hundredths of a dispatch, 0 to maxOwed.
	owed int64
	// passed counts for each how often it was passed over since it was last served.
	passed [Levels]int64
}

// Turn says which priority goes next, of those that wait: bit l of waiting stands for level
// l. It is the highest, but for one of every 100/lowPercent dispatches, which goes to a lower
// one: to the one that has been passed over most often since it was last served, of
// equal ones to the highest. Together the lower ones get ⌊n·lowPercent/100⌋ of any n
// dispatches while they wait, whichever priorities those are, and each has its part.
// -1: nothing waits.
func (s *Shares) Turn(waiting uint8) int {
	waiting &= 1<<Levels - 1
	top := bits.Len8(waiting) - 1
	if top < 0 || waiting == 1<<top || s.turns.owed+s.turns.low < 100 {
		return top
	}
	next := -1
	for l := top - 1; l >= 0; l-- {
		if waiting>>l&1 == 1 && (next < 0 || s.turns.passed[l] > s.turns.passed[next]) {
			next = l
		}
	}
	return next
}

// Served notes that the level was served of those that waited, itself included. Whoever
// could not be served at all, by an agent that can do nothing of what waits there, is not
// among them: it has not been passed over.
func (s *Shares) Served(level int, waiting uint8) {
	t := &s.turns
	waiting &= 1<<Levels - 1
	top := bits.Len8(waiting) - 1
	if t.passed[level] = 0; top < 0 || waiting == 1<<top {
		return
	}
	t.owed += t.low
	if level != top {
		t.owed -= 100
	}
	t.owed = min(max(t.owed, 0), maxOwed)
	for l := range top {
		if waiting>>l&1 == 1 && l != level {
			t.passed[l]++
		}
	}
}

// Every tells that of any so many dispatches running at least one is the level's, while
// these levels wait, itself included; or that there is no bound: nothing is owed to the
// lower ones.
//
// A lower one: what is owed comes to a turn within ⌈100/lowPercent⌉ dispatches, and each
// of the m lower ones has one of m turns running, since who had one has been passed over
// least. The highest: two turns of lower ones never follow each other, for what is owed
// after the first is at most 99 + 50 − 100 = 49, and 49 + 50 is no turn.
func (s *Shares) Every(level int, waiting uint8) (dispatches int64, bounded bool) {
	waiting &= 1<<Levels - 1
	top := bits.Len8(waiting) - 1
	switch low := s.turns.low; {
	case level == top && (waiting == 1<<top || low == 0):
		return 1, true
	case level == top:
		return 2, true
	case low == 0:
		return 0, false
	default:
		return int64(bits.OnesCount8(waiting)-1) * ((100 + low - 1) / low), true
	}
}

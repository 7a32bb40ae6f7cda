package auction

import (
	"slices"
	"time"
)

const (
	floorDefault   = 100 * time.Millisecond
	ceilingDefault = 500 * time.Millisecond
	// replyMost bounds what one reply can say.
	replyMost = time.Minute
	// repliesKept is the size of the history; repliesNeeded is when it begins to count:
	// of fewer than 20 replies the 95th percentile is simply the slowest.
	repliesKept   = 256
	repliesNeeded = 20
)

// Window learns from reply times how long an auction should take bids:
//
//	W = clamp(1.5 · p95, floor, ceiling)
//
// The p95 is exact, over a ring of the latest 256 replies: bounded, and what is old
// leaves it for certain. (The P² estimator needs five numbers instead, but it never
// forgets: a fleet that was slow once would be waited for ever after.) A copy is kept
// in order, so that reading costs nothing and a reply a move of at most 2 KB.
//
// It belongs to one goroutine.
type Window struct {
	floor, ceiling time.Duration
	ring, sorted   []time.Duration
	oldest         int
}

// NewWindow makes a window without history. Zero or negative bounds mean 100 and 500
// ms; a ceiling below the floor is raised to it.
func NewWindow(floor, ceiling time.Duration) *Window {
	if floor <= 0 {
		floor = floorDefault
	}
	if ceiling <= 0 {
		ceiling = ceilingDefault
	}
	return &Window{
		floor: floor, ceiling: max(floor, ceiling),
		ring:   make([]time.Duration, 0, repliesKept),
		sorted: make([]time.Duration, 0, repliesKept),
	}
}

// Observe enters how long an agent took from the announcement to its bid. Enter late
// bids too, and once the ceiling for an auction that was not answered: else a window
// that had become too short for the fleet would never hear so.
func (w *Window) Observe(reply time.Duration) {
	reply = max(0, min(reply, replyMost))
	if len(w.ring) < repliesKept {
		w.ring = append(w.ring, reply)
	} else {
		at, _ := slices.BinarySearch(w.sorted, w.ring[w.oldest])
		w.sorted = slices.Delete(w.sorted, at, at+1)
		w.ring[w.oldest] = reply
		w.oldest = (w.oldest + 1) % repliesKept
	}
	at, _ := slices.BinarySearch(w.sorted, reply)
	w.sorted = slices.Insert(w.sorted, at, reply)
}

// P95 is the reply time that 95 of 100 replies do not exceed (nearest rank), at most
// a minute; 0 while there are fewer than 20.
func (w *Window) P95() time.Duration {
	n := len(w.sorted)
	if n < repliesNeeded {
		return 0
	}
	return w.sorted[(95*n+99)/100-1]
}

// Length is how long the next auction should take bids. While too little is known it
// is the ceiling.
func (w *Window) Length() time.Duration {
	if len(w.sorted) < repliesNeeded {
		return w.ceiling
	}
	p := w.P95()
	return max(w.floor, min(w.ceiling, p+p/2))
}

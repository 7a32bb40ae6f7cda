package place

import (
	"math"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/fairqueue"
)

// Place is where a task stands that waits for an agent, or for quota.
type Place struct {
	// Quotas: there are quotas, and groups take turns.
	Quotas bool
	// Group and Priority are the task's.
	Group    string
	Priority coordinator.Priority
	// Ahead tasks go before it: of its group and priority, where there are quotas, else of
	// all that wait for the same agents, by the turns of priorities, if no more come. AtLeast: there
	// may be more.
	Ahead   int
	AtLeast bool
	// Lane in which it waits, which may hold this many tasks; Ahead counts at most then.
	// Empty: it is not in its lane, where InLane tasks wait that may have been accepted before
	// it.
	Lane   string
	InLane int
	// Waiting of its group and priority, where there are quotas, else of all that wait for the same
	// agents; Others of other groups at its priority, Higher at higher priorities, Lower at lower
	// ones.
	Waiting, Others, Higher, Lower int
	// Part, 0 to 1, of the dispatches is its priority's while these priorities wait.
	Part float64
	// Strict: what waits at a higher priority goes first.
	Strict bool
	// Starts is after how long it probably starts if no more tasks come: without quotas, and 0 where that is not
	// known: tasks go before it, or no slot's end is known, and nothing that waits for the same agents was
	// dispatched recently.
	Starts time.Duration

	// Lacks is the quota that it waits for, and LacksText the same for people; nil: for none.
	Lacks     *fairshare.Verdict
	LacksText string

	// What is dispatched before it, in units of cost (see billing.Weigh), while no quota keeps
	// it: at most; and, if every task costs what was thought, at most. Largest numbers stand for
	// all that is larger.
	Bound, Likely int64
	// QuotaDelay is for how long quota may delay it in addition, at most, if each task uses what was estimated, and
	// new tasks cost no more than the waiting ones. QuotaLikely is how long it takes if, in addition, no others use
	// quota while it waits for something else.
	QuotaDelay, QuotaLikely time.Duration
	// Rate is the cost that is dispatched in a second, of late; without quotas how many tasks that wait
	// for the same agents. 0: nothing was.
	Rate float64
	// Unbounded is the rule because of which it is not known when it starts; empty: Bound holds.
	Unbounded string
	// Dearest is what a task is taken to cost at most.
	Dearest int64
}

// MostAhead is how many tasks are counted that go before one.
const MostAhead = 10_000

// Line is what waits, as one task of it sees it.
type Line struct {
	// Lane in which the task waits; empty: it is not in its lane. InLane tasks wait there.
	Lane   string
	InLane int
	// Ahead tasks of its tenant queue and level go before it, of those that are not in the lane.
	Ahead int

	leaf, level int
	levels      [fairqueue.Levels]int // how many wait at each
	own         int                   // of its tenant queue and level
	millionths  int64                 // of a task are dispatched in a second, of those that wait for the same agents
	free        time.Duration         // after which the first slot of these agents is expected to be free; 0: not known
	takes       fairshare.Charge
	before      precedence
}

// Beside returns the line of a task of a tenant queue of fairqueue.Shares: nothing is counted yet. takes is what the
// task will probably take, where there are quotas.
func Beside(leaf, level int, takes fairshare.Charge) *Line {
	l := &Line{leaf: leaf, level: level, takes: takes}
	l.before.waits(&takes)
	l.before.largest(&takes)
	return l
}

// Count counts so many that wait in a tenant queue.
func (l *Line) Count(leaf, level, n int) {
	if l.levels[level] += n; level == l.level && leaf == l.leaf {
		l.own += n
	}
}

// Add counts a waiting task, and what it takes. earlier: it goes before the task of the line if both have the same
// turn. shared: it may be charged to the same group although it is of another tenant queue.
func (l *Line) Add(leaf, level int, takes *fairshare.Charge, earlier, shared bool) {
	l.Count(leaf, level, 1)
	l.before.waits(takes)
	own, turn := leaf == l.leaf, leaf == l.leaf && level == l.level
	switch {
	case turn && !earlier:
		return
	case turn:
		l.Ahead = min(l.Ahead+1, MostAhead)
	case !own && !shared:
		return
	}
	l.before.goes(takes, turn)
}

// besideInLane is how many others its lane holds; 0: it is not in its lane.
func (l *Line) besideInLane() int {
	if l.Lane == "" {
		return 0
	}
	return max(0, l.InLane-1)
}

// place is what is the same with and without quotas.
func (l *Line) place() Place {
	p := Place{Lane: l.Lane, InLane: l.InLane}
	for level, n := range l.levels {
		switch {
		case level > l.level:
			p.Higher += n
		case level < l.level:
			p.Lower += n
		}
	}
	return p
}

// competing returns the bits of the levels at which something waits.
func competing(waiting *[fairqueue.Levels]int) (levels uint8) {
	for level, n := range waiting {
		if n > 0 {
			levels |= 1 << level
		}
	}
	return levels
}

// Pace adds how many are dispatched in a second of some of the tasks that wait for the same agents. The order of these
// does not matter, for whole numbers are added.
func (l *Line) Pace(perSecond float64) { l.millionths += int64(math.Round(perSecond * 1e6)) }

// Frees notes after how long a slot of a full agent that may have the task is expected to be free; 0: it is not known.
func (l *Line) Frees(in time.Duration) {
	if in > 0 && (l.free == 0 || in < l.free) {
		l.free = in
	}
}

// ByPriority is the place where all tasks are of one group.
func (l *Line) ByPriority(shares *fairqueue.Shares) Place {
	p := l.place()
	first := l.levels
	first[l.level] = l.Ahead + l.besideInLane()
	p.Waiting = p.Higher + p.Lower + l.levels[l.level]
	p.Part = shares.Part(l.level, competing(&first))
	p.Ahead = shares.Preceding(l.level, first, MostAhead)
	p.AtLeast = p.Ahead == MostAhead
	p.Rate = float64(l.millionths) / 1e6
	p.Starts = starts(p.Ahead, p.Rate, l.free)
	return p
}

// starts is after how long a task starts: once the first slot is free that it may have, and what goes before
// it has gone at this rate. Where no slot's end is known it takes its own turn at that rate instead.
func starts(ahead int, rate float64, free time.Duration) time.Duration {
	turns := float64(ahead)
	if free == 0 {
		turns++
	}
	switch {
	case turns == 0:
		return free
	case rate <= 0:
		return 0
	}
	return free + time.Duration(turns/rate*float64(time.Second))
}

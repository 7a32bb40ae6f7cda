package simulator

import (
	"slices"

	"taskbus/coordinator"
)

// ending is how a task ended: by its agent's work, or by the coordinator, with a
// reason.
type ending int

const (
	endFailed    ending = -1 // by its agent's word
	endSucceeded ending = 0
	// Any other: the coordinator's reason.
)

// buckets is how finely the course over time is kept.
const buckets = 100

// numReasons is one more than the largest reason code.
var numReasons = int(slices.Max(coordinator.Reasons())) + 1

// tally counts what truly happens in one run.
type tally struct {
	from, to int64 // what is measured, nanoseconds

	// Of the whole run: every task that arrived is in one of the others, or open.
	arrivals, succeeded, failedByAgent int
	refused                            []int // by reason, given up by the coordinator

	// Of the tasks that arrived in what is measured.
	cohort, cohortSucceeded, cohortEnded int
	cohortFailed                         []int // by reason; ReasonNone: by the agent's word
	waits                                []float64

	finished int // by agents, in what is measured

	decisions, choices          int // choices: some agent had a free slot
	successRegret, rewardRegret float64
	regretCourse, rewardCourse  [buckets]float64

	freeGroups uint64 // groups of which an agent has a free slot
	freeAgents []int  // by group
	backlog    []int  // tasks that wait, by type
	violated   int64  // nanoseconds
}

func newTally(s *Scenario, k *kinds) tally {
	return tally{
		from: int64(s.WarmUp), to: int64(s.Duration),
		refused: make([]int, numReasons), cohortFailed: make([]int, numReasons),
		freeAgents: make([]int, len(s.Fleet)), backlog: make([]int, len(k.names)),
	}
}

// span is how much of a time lies in what is measured.
func (c *tally) span(from, to int64) int64 { return max(0, min(to, c.to)-max(from, c.from)) }

func (c *tally) measuring(at int64) bool { return at >= c.from && at < c.to }

// pass adds up what holds while the clock moves.
func (c *tally) pass(from, to int64, k *kinds) {
	measured := c.span(from, to)
	if measured == 0 || c.freeGroups == 0 {
		return
	}
	for kind, n := range c.backlog {
		if n > 0 && k.useful[kind]&c.freeGroups != 0 {
			c.violated += measured
			return
		}
	}
}

// waiting notes that a task of the type begins (+1) or ceases (−1) to wait.
func (c *tally) waiting(kind int32, change int) { c.backlog[kind] += change }

// freeSlot notes that an agent of the group has a free slot now, or none.
func (c *tally) freeSlot(group int32, free bool) {
	if free {
		c.freeAgents[group]++
		c.freeGroups |= 1 << group
		return
	}
	if c.freeAgents[group]--; c.freeAgents[group] == 0 {
		c.freeGroups &^= 1 << group
	}
}

// arrived notes a task that came.
func (c *tally) arrived(t *task) {
	c.arrivals++
	c.waiting(t.kind, +1)
	if c.measuring(t.arrived) {
		c.cohort++
	}
}

// started notes that work on a task begins for the first time.
func (c *tally) started(t *task) {
	if c.measuring(t.arrived) {
		c.waits = append(c.waits, float64(t.started-t.arrived)/1e9)
	}
}

// decided notes the choice of an agent for a task.
func (c *tally) decided(w *world, t *task, a *agent) {
	c.decisions++
	a.decisions++
	success, reward, ok := w.regret(t, a)
	if !ok {
		return
	}
	c.choices++
	c.successRegret += success
	c.rewardRegret += reward
	b := int((w.now - c.from) * buckets / (c.to - c.from))
	c.regretCourse[b] += success
	c.rewardCourse[b] += reward
}

// end notes how a task ended.
func (c *tally) end(now int64, t *task, how ending) {
	measured := c.measuring(t.arrived)
	if measured {
		c.cohortEnded++
	}
	switch how {
	case endSucceeded:
		c.succeeded++
		if measured {
			c.cohortSucceeded++
		}
	case endFailed:
		c.failedByAgent++
		if measured {
			c.cohortFailed[coordinator.ReasonNone]++
		}
	default:
		c.refused[how]++
		if measured {
			c.cohortFailed[how]++
		}
		return
	}
	if c.measuring(now) {
		c.finished++
	}
}

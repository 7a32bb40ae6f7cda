package simulator

import (
	"fmt"
	"math"
	"time"

	"taskbus/coordinator"
)

// Priorities is what a scenario of tasks of four priorities in an overload has in place of fleet,
// workloads and strategies: every order of service is played. Package priorities plays it.
type Priorities struct {
	// Slots is how many tasks are worked on at a time; Duration of one.
	Slots    int
	Duration Distribution
	// Load is the work that comes, as a part of what the slots can do; For how long it does. What waits
	// then is worked off.
	Load float64
	For  time.Duration
	// Mix is which part of the tasks each priority has, 1 together.
	Mix [coordinator.Priorities]float64
	// Order is how priorities take turns by weight.
	Order coordinator.PriorityOrder
	// Ageing is how much waiting outweighs one step of priority in the order by ageing.
	Ageing time.Duration
}

// PriorityTask is one task: when it comes, and how long it takes.
type PriorityTask struct {
	At, Takes time.Duration
	Priority  coordinator.Priority
}

// Draw makes the tasks, in the order in which they come: at random, independent of each other.
func (p *Priorities) Draw(seed uint64) []PriorityTask {
	rate := p.Load * float64(p.Slots) / p.Duration.Mean
	var tasks []PriorityTask
	at := int64(0)
	for i := uint64(0); ; i++ {
		u := func(what uint64) float64 { return Draw(seed, what, 0, i) }
		if at += nanoseconds(exponential(1/rate, u(drawArrival))); time.Duration(at) >= p.For {
			return tasks
		}
		t := PriorityTask{At: time.Duration(at), Takes: time.Duration(nanoseconds(p.Duration.Quantile(u(drawService)))),
			Priority: coordinator.PriorityCritical}
		for left, level := u(drawPriority), 0; level < len(p.Mix); level++ {
			if left -= p.Mix[level]; left < 0 {
				t.Priority = coordinator.Priority(level)
				break
			}
		}
		tasks = append(tasks, t)
	}
}

// excess says how far all runs are beyond the limit, and what would help; "" when they are not.
func (p *Priorities) excess(seeds int) string {
	const most = 20e6 // tasks in one run
	each := p.Load * float64(p.Slots) / p.Duration.Mean * p.For.Seconds()
	if all := 4 * each * float64(seeds); each > most || all > maxMoments || math.IsInf(each, 0) {
		return fmt.Sprintf(
			"%d seeds × %.3g tasks in each of four orders are more than %.3g in one run or %.3g in all; have fewer seeds, "+
				"slots or seconds", seeds, each, float64(most), float64(maxMoments))
	}
	return ""
}

package priorities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/simulator"
)

// order is how the task is found that goes next.
type order struct {
	name, label string
	// turns are the priorities'; nil: key alone decides, the smallest first.
	turns func(*simulator.Priorities) coordinator.PriorityOrder
	key   func(*simulator.Priorities, *simulator.PriorityTask) time.Duration
}

func arrival(_ *simulator.Priorities, t *simulator.PriorityTask) time.Duration { return t.At }

// orders are all, in the order of the output.
var orders = []order{
	{"weighted", "turns by weight (Taskbus)", func(p *simulator.Priorities) coordinator.PriorityOrder { return p.Order },
		arrival},
	{"strict", "strict", func(*simulator.Priorities) coordinator.PriorityOrder {
		return coordinator.PriorityOrder{Strict: true}
	}, arrival},
	{"ageing", "ageing", nil, func(p *simulator.Priorities, t *simulator.PriorityTask) time.Duration {
		return t.At - time.Duration(t.Priority)*p.Ageing
	}},
	{"fcfs", "first come, first served", nil, arrival},
}

// Play plays every order with all seeds of the scenario; progress, if not nil, hears after each run how much
// is done, from 0 to 1. It ends early with the context's error. Any other error means that the scenario
// cannot be played, and says why.
func Play(ctx context.Context, s *simulator.Scenario, progress func(float64)) (*Report, error) {
	if s.Priorities == nil {
		return nil, fmt.Errorf("scenario %s: it has no section priorities: package simulator plays it", s.Name)
	}
	if err := s.Affordable(); err != nil {
		return nil, err
	}
	played := make([][]outcome, len(orders)) // by order, then by seed
	for i, seed := range s.Seeds {
		tasks := s.Priorities.Draw(seed)
		for j := range orders {
			o, err := play(ctx, s.Priorities, &orders[j], tasks)
			if err != nil {
				return nil, err
			}
			played[j] = append(played[j], o)
			if progress != nil {
				progress(float64(i*len(orders)+j+1) / float64(len(s.Seeds)*len(orders)))
			}
		}
	}
	return newReport(s, played), nil
}

// outcome is what comes of the tasks of one seed, by priority.
type outcome struct {
	tasks    [coordinator.Priorities]int
	p50, p99 [coordinator.Priorities]float64 // waits in seconds
	share    [coordinator.Priorities]float64
}

// play the tasks to their end.
func play(
	ctx context.Context, p *simulator.Priorities, by *order, tasks []simulator.PriorityTask,
) (o outcome, err error) {
	// One queue for all where no turns are taken; running by when they end.
	var queues [coordinator.Priorities]simulator.Timeline[*simulator.PriorityTask]
	var running simulator.Timeline[struct{}]
	shares := fairqueue.NewShares()
	if by.turns != nil {
		shares.Order(by.turns(p))
	}
	var waits [coordinator.Priorities][]float64
	var begun [coordinator.Priorities]int
	start := func(now time.Duration) bool {
		var levels uint8
		for level := range queues {
			if queues[level].Len() > 0 {
				levels |= 1 << level
			}
		}
		level := shares.Turn(levels)
		if level < 0 {
			return false
		}
		shares.Served(level, levels)
		_, t := queues[level].Next()
		running.Add(int64(now+t.Takes), struct{}{})
		waits[t.Priority] = append(waits[t.Priority], (now - t.At).Seconds())
		if now < p.For {
			begun[t.Priority]++
		}
		return true
	}
	for next := 0; next < len(tasks) || running.Len() > 0; {
		if (next+running.Len())%4096 == 0 && ctx.Err() != nil {
			return o, ctx.Err()
		}
		var now time.Duration
		if running.Len() > 0 && (next == len(tasks) || running.First() <= int64(tasks[next].At)) {
			at, _ := running.Next()
			now = time.Duration(at)
		} else {
			t := &tasks[next]
			level := 0
			if now = t.At; by.turns != nil {
				level = int(t.Priority)
			}
			queues[level].Add(int64(by.key(p, t)), t)
			next++
		}
		for running.Len() < p.Slots && start(now) {
		}
	}
	all := 0
	for _, n := range begun {
		all += n
	}
	for level, w := range waits {
		slices.Sort(w)
		o.tasks[level], o.share[level] = len(w), float64(begun[level])/float64(max(1, all))
		if len(w) > 0 {
			o.p50[level], o.p99[level] = simulator.Quantile(w, 0.5), simulator.Quantile(w, 0.99)
		}
	}
	return o, nil
}

package service

import (
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
)

// How far back the results of agents are counted, and in which steps.
const (
	resultSlices = 10
	resultSlice  = time.Minute
)

// agentEnding is how a task ended, as agentResults counts it.
type agentEnding uint8

const (
	endedWell agentEnding = iota
	endedBadly
	endedOverdue
	numEndings = iota
)

// agentResults counts how the tasks of each agent ended in the last ten minutes, for people. What is older
// is forgotten, and with it agents of which nothing is left.
type agentResults struct {
	mu    sync.Mutex
	swept int64 // the slice in which idle agents were forgotten last
	of    map[coordinator.AgentID]*resultWindow
}

// resultWindow is one agent's.
type resultWindow struct {
	slices [resultSlices]struct {
		number int64
		counts [numEndings]int
	}
}

func (r *agentResults) add(now time.Time, agent coordinator.AgentID, how agentEnding) {
	number := now.UnixNano() / int64(resultSlice)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[coordinator.AgentID]*resultWindow)
	}
	if number >= r.swept+resultSlices {
		r.swept = number
		for id, w := range r.of {
			if w.sum(number).Ended() == 0 {
				delete(r.of, id)
			}
		}
	}
	w := r.of[agent]
	if w == nil {
		w = &resultWindow{}
		r.of[agent] = w
	}
	s := &w.slices[number%resultSlices]
	if s.number != number {
		s.number, s.counts = number, [numEndings]int{}
	}
	s.counts[how]++
}

// recent are the counts of an agent.
func (r *agentResults) recent(now time.Time, agent coordinator.AgentID) httpapi.AgentResults {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.of[agent]
	if w == nil {
		return httpapi.AgentResults{}
	}
	return w.sum(now.UnixNano() / int64(resultSlice))
}

func (w *resultWindow) sum(number int64) (sum httpapi.AgentResults) {
	for i := range w.slices {
		if s := &w.slices[i]; number-s.number < resultSlices {
			sum.Succeeded += s.counts[endedWell]
			sum.Failed += s.counts[endedBadly]
			sum.Overdue += s.counts[endedOverdue]
		}
	}
	return sum
}

package observer

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/recent"
	"taskbus/coordinator/view"
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

// begin counts, where nothing was counted here yet, how the tasks ended that are known from the journal.
func (r *agentResults) begin(now time.Time, h *recent.Tasks) {
	r.mu.Lock()
	counts := r.of != nil
	r.mu.Unlock()
	if counts {
		return
	}
	// of what is older the slices are others' now
	since := now.Truncate(resultSlice).Add(-(resultSlices - 1) * resultSlice)
	for _, t := range h.Recent(recent.Size, (*recent.Record).Ended) {
		at, how := t.CompletedAt, endedBadly
		switch {
		case t.State == recent.Succeeded:
			how = endedWell
		case t.Failure.Reason == coordinator.ReasonTaskTimeout:
			at, how = t.Failure.FailedAt, endedOverdue
		case t.State != recent.Failed || at.IsZero(): // at no agent
			continue
		}
		if !at.Before(since) && !at.After(now) {
			r.add(at, t.Agent, how)
		}
	}
}

// recent returns the counts of an agent.
func (r *agentResults) recent(now time.Time, agent coordinator.AgentID) view.AgentResults {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.of[agent]
	if w == nil {
		return view.AgentResults{}
	}
	return w.sum(now.UnixNano() / int64(resultSlice))
}

// failing names the agents that fail as much as they do, or more (see view.AgentResults.Failing), and how much of
// it: those that fail most first.
func (r *agentResults) failing(now time.Time) []string {
	type one struct {
		id  coordinator.AgentID
		bad int
		all int
	}
	var list []one
	r.mu.Lock()
	for id, w := range r.of {
		if sum := w.sum(now.UnixNano() / int64(resultSlice)); sum.Failing() {
			list = append(list, one{id, sum.Failed + sum.Overdue, sum.Ended()})
		}
	}
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b one) int { return cmp.Or(b.bad-a.bad, cmp.Compare(a.id, b.id)) })
	names := make([]string, len(list))
	for i, o := range list {
		names[i] = fmt.Sprintf("%s (%d of %d)", o.id, o.bad, o.all)
	}
	return names
}

func (w *resultWindow) sum(number int64) (sum view.AgentResults) {
	for i := range w.slices {
		if s := &w.slices[i]; number-s.number < resultSlices {
			sum.Succeeded += s.counts[endedWell]
			sum.Failed += s.counts[endedBadly]
			sum.Overdue += s.counts[endedOverdue]
		}
	}
	return sum
}

// Begin takes over, before this coordinator leads, what the recent tasks say of agents, unless it has seen that itself.
func (o *Observer) Begin(now time.Time, h *recent.Tasks) { o.count.ofAgents.begin(now, h) }

// AgentResults returns how the tasks of an agent ended in the last ten minutes.
func (o *Observer) AgentResults(agent coordinator.AgentID) view.AgentResults {
	return o.count.ofAgents.recent(o.now(), agent)
}

// Failing names the agents at which most of their tasks of the last ten minutes have failed, and how many.
func (o *Observer) Failing() []string { return o.count.ofAgents.failing(o.now()) }

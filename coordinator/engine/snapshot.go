package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/fairshare"
)

// maxExplained bounds the classes of waiting tasks that a snapshot, or one look of Waiters, explains: each
// costs a pass over the fleet, on the goroutine that decides.
const maxExplained = 32

// Snapshot copies what readers want to see. It changes nothing.
func (e *Engine) Snapshot(now time.Time) coordinator.Snapshot {
	s := coordinator.Snapshot{
		Agents:         make([]coordinator.AgentSnapshot, len(e.fleet.Agents)),
		Pending:        e.pending.count,
		PendingReasons: make(map[coordinator.Reason]int),
		Remembered:     e.dedupe.IDs(),
		InGrace:        now.Before(e.graceEnd),
	}
	for i, a := range e.fleet.Agents {
		s.Agents[i] = coordinator.AgentSnapshot{
			Spec: a.Spec, State: a.State, Status: a.Report.Status,
			Load: a.Load(), ReportedLoad: a.Report.Load,
			InFlight: a.InFlight(), Uncovered: a.Uncovered, Free: a.Free(),
			LastHeartbeat: a.Beat, Assigned: a.Assigned, Leased: a.Leased(), Strays: a.LongStrays(now),
			Eligibility: e.fleet.Eligibility(a),
			Cordoned:    a.Cordoned, Draining: a.Draining, Drained: a.Drained,
			Discovered: e.fleet.HasJoined(a.Spec.ID), Instances: a.Instances.Among(now, e.fleet.InstanceSilence(a)),
			Slots: a.Room(), Capacity: a.CapacitySnapshot(),
			Bidding: a.bidding.Snapshot(),
		}
		s.Agents[i].EjectedFrom, s.Agents[i].EjectedUntil = e.ejections.List(now, i)
		s.Agents[i].Success, s.Agents[i].Outcomes, s.Agents[i].Duration = e.trackRecord(a)
		s.Leased += s.Agents[i].Leased
	}
	paces, waits := e.pacesTogether(now), []waitOfClass(nil)
	for i, waiting := range e.pending.Active() {
		c := waiting.Of
		w := coordinator.WaitSnapshot{Required: c.required}
		w.Among, w.PerSecond = paces(c)
		if i < maxExplained {
			if first := c.First(); first != nil {
				w.Reason, w.Text = e.reasonOf(e.explain(now, first, false), first)
			}
		}
		c.Waiting.Visit(func(h fairshare.Head[*openTask], _ int, _ bool) {
			age := h.Item.task.Age(now)
			s.OldestPending = max(s.OldestPending, age)
			if e.waitAt(c, h.Leaf) != nil {
				s.PendingReasons[coordinator.ReasonQuotaExhausted]++
			} else {
				s.PendingReasons[w.Reason]++
				w.Tasks, w.Oldest = w.Tasks+1, max(w.Oldest, age)
			}
		})
		if w.Reason != coordinator.ReasonNone && w.Tasks > 0 {
			waits = append(waits, waitOfClass{w, c})
		}
	}
	slices.SortStableFunc(waits, func(a, b waitOfClass) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(b.Oldest, a.Oldest), slices.Compare(a.Required, b.Required))
	})
	for _, w := range waits[:min(len(waits), coordinator.MaxWaits)] {
		w.class.criteria.Set.Each(func(i int) { w.Able = append(w.Able, i) })
		s.Waits = append(s.Waits, w.WaitSnapshot)
	}
	for _, t := range e.held {
		switch t.state {
		case stateDelayed:
			s.Delayed++
		case stateUnscored:
			s.PendingReasons[coordinator.ReasonNoEligibleAgents]++
		case stateGathering:
			s.Gathering++
		case stateBidding:
			s.Bidding++
		case stateMoving:
			s.Moving++
		default:
			continue
		}
		s.OldestPending = max(s.OldestPending, t.task.Age(now))
	}
	s.Dispatching = e.Dispatching() - s.Moving
	s.Lanes = e.lanes.Snapshot()
	s.Claims = e.claims.Len()
	s.BidWindow = e.market.Length()
	return s
}

// waitOfClass is a kind of waiting tasks with its class.
type waitOfClass struct {
	coordinator.WaitSnapshot
	class *class
}

// maxPaces bounds the sets of agents that are distinguished where tasks wait for agents that they share.
const maxPaces = 64

// pacesTogether returns how many tasks wait, of a class and of the classes that compete with it for agents,
// directly or through others, and how many of these are dispatched in a second. Of classes that share agents one
// may go first for a while: the rate at which one alone is dispatched then says nothing about the time after that.
func (e *Engine) pacesTogether(now time.Time) func(*class) (tasks int, perSecond float64) {
	type together struct {
		agents    agentset.Set
		tasks     int
		perSecond float64
	}
	var all []*together
	for _, waiting := range e.pending.Active() {
		c := waiting.Of
		of := &together{agents: slices.Clone(c.criteria.Set), tasks: c.Waiting.Len(), perSecond: c.pace.Rate(now)}
		if len(all) == maxPaces {
			break // each of the others by itself
		}
		all = append(slices.DeleteFunc(all, func(o *together) bool {
			shared := o.agents.Common(of.agents) > 0
			if shared {
				of.agents.Unite(o.agents)
				of.tasks, of.perSecond = of.tasks+o.tasks, of.perSecond+o.perSecond
			}
			return shared
		}), of)
	}
	return func(c *class) (int, float64) {
		for _, o := range all {
			if o.agents.Common(c.criteria.Set) > 0 {
				return o.tasks, o.perSecond
			}
		}
		return c.Waiting.Len(), c.pace.Rate(now)
	}
}

// Waiters says why tasks wait, with one pass over the fleet for each kind of them: whoever asks of a
// thousand tasks must not keep the decisions waiting. It is good for one look.
type Waiters struct {
	e         *Engine
	now       time.Time
	known     map[*class]string
	explained int // passes over the fleet, at most maxExplained
}

// Waiters begins a look.
func (e *Engine) Waiters(now time.Time) *Waiters {
	return &Waiters{e: e, now: now, known: make(map[*class]string)}
}

// Why is what a refusal of the task for want of an agent would say now, or in which lane it waits; empty
// when it waits for something else or does not wait. ok is false when more kinds of tasks were asked about than one
// look may cost: the next look says it.
func (w *Waiters) Why(task *coordinator.Task) (text string, ok bool) {
	w.e.quotas.Ledger.Looking(true)
	defer w.e.quotas.Ledger.Looking(false)
	t, laned := w.e.waiter(task)
	switch {
	case t == nil:
		if t = w.e.openTask(task.ID); t == nil || t.state != stateUnscored {
			return "", true
		}
		return w.explain(t) // its strategy may look at what this task alone has
	case laned:
		lane, _ := w.e.lanes.LaneOf(w.e.laneKind(t))
		return "in lane " + lane, true
	}
	c := t.needs.class
	if text, ok = w.known[c]; !ok {
		if text, ok = w.explain(t); ok {
			w.known[c] = text
		}
	}
	return text, ok
}

// explain makes one of the passes that a look may cost; false: there were as many.
func (w *Waiters) explain(t *openTask) (string, bool) {
	if w.explained == maxExplained {
		return "", false
	}
	w.explained++
	_, text := w.e.reasonOf(w.e.explain(w.now, t, false), t)
	return text, true
}

// Delayed describes a task that came back and waits to be tried again: how it came back, and from when on an agent
// that has not had it may have it, and any; then it waits for the retry budget. ok is false when it does not.
func (e *Engine) Delayed(id coordinator.TaskID) (why string, other, same time.Time, ok bool) {
	t := e.openTask(id)
	if t == nil || t.state != stateDelayed {
		return "", other, same, false
	}
	return fmt.Sprintf("%s %s", t.last.agent, t.last.end.Phrase()), t.retry.at, later(t.mayAgain, t.firstAsked()), true
}

// Gathering describes a task that waits for others to share a batch with: how many they are, at most, and until
// when. ok is false when it does not.
func (e *Engine) Gathering(id coordinator.TaskID) (waiting, most int, closes time.Time, ok bool) {
	t := e.openTask(id)
	if t == nil || t.state != stateGathering {
		return 0, 0, time.Time{}, false
	}
	members, closes := e.batches.Gathering(batchKeyOf(t))
	limits, _ := e.batchLimits(t)
	return len(members), limits.MaxSize, closes, true
}

// Bidding describes a task that is being offered: to how many agents, how many bids count by now, and until when
// they are accepted. ok is false when it is not.
func (e *Engine) Bidding(id coordinator.TaskID) (asked int, bidders []coordinator.AgentID, closes time.Time, ok bool) {
	t := e.openTask(id)
	if t == nil || t.state != stateBidding {
		return 0, nil, time.Time{}, false
	}
	for _, r := range t.lot.Ranked() {
		bidders = append(bidders, r.Agent)
	}
	return len(t.lot.Asked()), bidders, t.lot.Closes(), true
}

// Explain says how the task would be decided at this moment, without deciding it: every agent that might have it,
// best first, and every one that might not, nearest first. For a task that could never be served the reason says
// so; for one that has to wait for quota the reason and Decision.Lacks do.
func (e *Engine) Explain(now time.Time, task *coordinator.Task) (*coordinator.Decision, coordinator.Reason, string) {
	e.quotas.Ledger.Looking(true)
	defer e.quotas.Ledger.Looking(false)
	t := &openTask{task: task, supposed: true, due: queue.Due(task), arrival: math.MaxUint64}
	open := e.openTask(task.ID)
	if open != nil {
		t.tried, t.tries, t.last, t.attempt = open.tried, open.tries, open.last, open.attempt
		t.again, t.vain, t.asked = open.again, open.vain, open.asked
	}
	if reason, text := e.resolve(t); reason != coordinator.ReasonNone {
		return &coordinator.Decision{Fleet: len(e.fleet.Agents)}, reason, text
	}
	if open != nil && open.state == stateDelayed {
		e.chooseAgain(t)
		e.resolve(t)
	}
	d := e.explain(now, t, true)
	a, choice := e.choose(t)
	if a != nil {
		d.Agent, d.Preferred, d.Explored = choice.Agent, choice.Preferred, choice.Explored
		if t.asks() {
			e.explainMarket(now, t, d)
		}
	}
	if a != nil || e.waitOf(open) != nil {
		reason, text := e.explainLack(now, t, open, a, d)
		if open == nil || open.quota == nil || !open.quota.Open { // else one has been chosen, and is charged
			e.explainModels(e.quotaTime(now), t, d)
		}
		return d, reason, text
	}
	reason, text := e.reasonOf(d, t)
	return d, reason, text
}

// Dispatching counts the tasks that are published, to an agent or a lane, and not yet
// settled.
func (e *Engine) Dispatching() int {
	n := 0
	for _, t := range e.held {
		if t.state == stateDispatching || t.state == stateMoving {
			n++
		}
	}
	return n
}

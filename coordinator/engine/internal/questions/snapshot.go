package questions

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/fairshare/fairqueue"
)

// MaxExplained bounds the classes of waiting tasks that a snapshot, or one look of Waiters, explains: each
// costs a pass over the fleet, on the goroutine that decides.
const MaxExplained = 32

// Questions are what users and the shell ask of a state. Nothing changes by them.
type Questions struct{ s *state.State }

// Of makes them for a state, which must live as long.
func Of(s *state.State) Questions { return Questions{s} }

// Snapshot copies what readers want to see. It changes nothing.
func (q Questions) Snapshot(now time.Time) coordinator.Snapshot {
	s := coordinator.Snapshot{
		Agents:         make([]coordinator.AgentSnapshot, len(q.s.Fleet.Agents)),
		Pending:        q.s.Pending.Count,
		PendingReasons: make(map[coordinator.Reason]int),
		Remembered:     q.s.Dedupe.IDs(),
		InGrace:        now.Before(q.s.Fleet.GraceEnd),
	}
	for i, a := range q.s.Fleet.Agents {
		s.Agents[i] = coordinator.AgentSnapshot{
			Spec: a.Spec, State: a.State, Status: a.Report.Status,
			Load: a.Load(), ReportedLoad: a.Report.Load,
			InFlight: a.InFlight(), Uncovered: a.Uncovered, Free: a.Free(),
			LastHeartbeat: a.Beat, Assigned: a.Assigned, Leased: a.Leased(), Strays: a.LongStrays(now),
			Eligibility: q.s.Fleet.Eligibility(a),
			Cordoned:    a.Cordoned, Draining: a.Draining, Drained: a.Drained,
			Discovered: q.s.Fleet.HasJoined(a.Spec.ID), Instances: a.Instances.Among(now, q.s.Fleet.InstanceSilence(a)),
			Slots: a.Room(), Capacity: a.CapacitySnapshot(),
			Bidding: a.Bidding.Snapshot(),
		}
		s.Agents[i].EjectedFrom, s.Agents[i].EjectedUntil = q.s.Ejections.List(now, i)
		s.Agents[i].Success, s.Agents[i].Outcomes, s.Agents[i].Duration = q.s.TrackRecord(a)
		s.Leased += s.Agents[i].Leased
	}
	paces, waits := q.pacesTogether(now), []waitOfClass(nil)
	for i, waiting := range q.s.Pending.Active() {
		c := waiting.Of
		w := coordinator.WaitSnapshot{Required: c.Required}
		w.Among, w.PerSecond = paces(c)
		if i < MaxExplained {
			if first := c.First(); first != nil {
				w.Reason, w.Text = q.s.ReasonOf(q.s.Explain(now, first, false), first)
			}
		}
		c.Waiting.Visit(func(h fairqueue.Head[*state.Task], _ int, _ bool) {
			age := h.Item.Task.Age(now)
			s.OldestPending = max(s.OldestPending, age)
			if q.s.WaitAt(c, h.Leaf) != nil {
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
		w.class.Criteria.Set.Each(func(i int) { w.Able = append(w.Able, i) })
		s.Waits = append(s.Waits, w.WaitSnapshot)
	}
	for _, t := range q.s.Held {
		switch t.Stage {
		case state.Delayed:
			s.Delayed++
		case state.Unscored:
			s.PendingReasons[coordinator.ReasonNoEligibleAgents]++
		case state.Gathering:
			s.Gathering++
		case state.Bidding:
			s.Bidding++
		case state.Moving:
			s.Moving++
		default:
			continue
		}
		s.OldestPending = max(s.OldestPending, t.Task.Age(now))
	}
	s.Dispatching = q.Dispatching() - s.Moving
	s.Lanes = q.s.Lanes.Snapshot()
	s.Claims = q.s.Claims.Len()
	s.BidWindow = q.s.Market.Length()
	return s
}

// waitOfClass is a kind of waiting tasks with its class.
type waitOfClass struct {
	coordinator.WaitSnapshot
	class *state.Class
}

// maxPaces bounds the sets of agents that are distinguished where tasks wait for agents that they share.
const maxPaces = 64

// pacesTogether returns how many tasks wait, of a class and of the classes that compete with it for agents,
// directly or through others, and how many of these are dispatched in a second. Of classes that share agents one
// may go first for a while: the rate at which one alone is dispatched then says nothing about the time after that.
func (q Questions) pacesTogether(now time.Time) func(*state.Class) (tasks int, perSecond float64) {
	type together struct {
		agents    agentset.Set
		tasks     int
		perSecond float64
	}
	var all []*together
	for _, waiting := range q.s.Pending.Active() {
		c := waiting.Of
		of := &together{agents: slices.Clone(c.Criteria.Set), tasks: c.Waiting.Len(), perSecond: c.Pace.Rate(now)}
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
	return func(c *state.Class) (int, float64) {
		for _, o := range all {
			if o.agents.Common(c.Criteria.Set) > 0 {
				return o.tasks, o.perSecond
			}
		}
		return c.Waiting.Len(), c.Pace.Rate(now)
	}
}

// Waiters says why tasks wait, with one pass over the fleet for each kind of them: a question for a
// thousand tasks must not keep the decisions waiting. It is good for one look.
type Waiters struct {
	q         Questions
	now       time.Time
	known     map[*state.Class]string
	Explained int // passes over the fleet, at most MaxExplained
}

// Waiters begins a look.
func (q Questions) Waiters(now time.Time) *Waiters {
	return &Waiters{q: q, now: now, known: make(map[*state.Class]string)}
}

// Why is what a refusal of the task for want of an agent would say now, or in which lane it waits; empty
// when it waits for something else or does not wait. ok is false when more kinds of tasks were asked about than one
// look may cost: the next look says it.
func (w *Waiters) Why(task *coordinator.Task) (text string, ok bool) {
	t, laned := w.q.waiter(task)
	switch {
	case t == nil:
		if t = w.q.s.FindTask(task.ID); t == nil || t.Stage != state.Unscored {
			return "", true
		}
		return w.explain(t) // its strategy may look at what this task alone has
	case laned:
		lane, _ := w.q.s.Lanes.LaneOf(w.q.s.LaneKind(t))
		return "in lane " + lane, true
	}
	c := t.Needs.Class
	if text, ok = w.known[c]; !ok {
		if text, ok = w.explain(t); ok {
			w.known[c] = text
		}
	}
	return text, ok
}

// explain makes one of the passes that a look may cost; false: there were as many.
func (w *Waiters) explain(t *state.Task) (string, bool) {
	if w.Explained == MaxExplained {
		return "", false
	}
	w.Explained++
	_, text := w.q.s.ReasonOf(w.q.s.Explain(w.now, t, false), t)
	return text, true
}

// Delayed describes a task that came back and waits to be tried again: how it came back, and from when on an agent
// that has not had it may have it, and any; then it waits for the retry budget. ok is false when it does not.
func (q Questions) Delayed(id coordinator.TaskID) (why string, other, same time.Time, ok bool) {
	t := q.s.FindTask(id)
	if t == nil || t.Stage != state.Delayed {
		return "", other, same, false
	}
	why = fmt.Sprintf("%s %s", t.Last.Agent, t.Last.End.Phrase())
	return why, t.Retry.At, coordinator.Later(t.MayAgain, t.Holdoffs.First()), true
}

// Gathering describes a task that waits for others to share a batch with: how many they are, at most, and until
// when. ok is false when it does not.
func (q Questions) Gathering(id coordinator.TaskID) (waiting, most int, closes time.Time, ok bool) {
	t := q.s.FindTask(id)
	if t == nil || t.Stage != state.Gathering {
		return 0, 0, time.Time{}, false
	}
	members, closes := q.s.Batches.Gathering(state.BatchKeyOf(t))
	limits, _ := q.s.BatchLimits(t)
	return len(members), limits.MaxSize, closes, true
}

// Bidding describes a task that is being offered: to how many agents, how many bids count by now, and until when
// they are accepted. ok is false when it is not.
func (q Questions) Bidding(
	id coordinator.TaskID,
) (asked int, bidders []coordinator.AgentID, closes time.Time, ok bool) {
	t := q.s.FindTask(id)
	if t == nil || t.Stage != state.Bidding {
		return 0, nil, time.Time{}, false
	}
	for _, r := range t.Lot.Ranked() {
		bidders = append(bidders, r.Agent)
	}
	return len(t.Lot.Asked()), bidders, t.Lot.Closes(), true
}

// Explain says how the task would be decided at this moment, without deciding it: every agent that might have it,
// best first, and every one that might not, nearest first. For a task that could never be served the reason says
// so; for one that has to wait for quota the reason and Decision.Lacks do.
func (q Questions) Explain(now time.Time, task *coordinator.Task) (*coordinator.Decision, coordinator.Reason, string) {
	open := q.s.FindTask(task.ID)
	t, reason, text := q.s.Suppose(task, open)
	if reason != coordinator.ReasonNone {
		return &coordinator.Decision{Fleet: len(q.s.Fleet.Agents)}, reason, text
	}
	if open != nil && open.Stage == state.Delayed {
		q.s.ChooseAgain(t)
		q.s.Require(t, false)
	}
	d := q.s.Explain(now, t, true)
	a, choice := q.s.Choose(t)
	if a != nil {
		d.Agent, d.Preferred, d.Explored = choice.Agent, choice.Preferred, choice.Explored
		if t.Asks() {
			q.explainMarket(now, t, d)
		}
	}
	if a != nil || q.s.WaitOf(open) != nil {
		reason, text := q.explainLack(now, t, open, a, d)
		if open == nil || open.Quota == nil || !open.Quota.Open { // else one has been chosen, and is charged
			q.explainModels(q.s.ReadingTime(now), t, d)
		}
		return d, reason, text
	}
	reason, text = q.s.ReasonOf(d, t)
	return d, reason, text
}

// Dispatching counts the tasks that are published, to an agent or a lane, and not yet
// settled.
func (q Questions) Dispatching() int {
	n := 0
	for _, t := range q.s.Held {
		if t.Stage == state.Dispatching || t.Stage == state.Moving {
			n++
		}
	}
	return n
}

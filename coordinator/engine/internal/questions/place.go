package questions

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/lanes"
	"taskbus/coordinator/engine/internal/place"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/fairshare"
)

// Place is where a task stands that waits for an agent, or for quota.
type Place = place.Place

// Place returns where a task stands; false when it does not wait in its class or lane. It takes O(classes + groups
// + 10,000), and with quotas O(tasks that wait · models + agents) besides.
func (q Questions) Place(now time.Time, task *coordinator.Task) (p Place, ok bool) {
	t, laned := q.waiter(task)
	if t == nil {
		return p, false
	}
	var models []coordinator.AgentID
	var takes fairshare.Charge
	quotas := q.s.Quotas.Installed()
	if quotas {
		models = q.oneOfEachModel()
		takes = q.s.Quotas.Dearest(t.Task, q.demandOf(t), models)
	}
	line := place.Beside(t.Leaf, t.Level, takes)
	if q.s.Policy.Lanes != nil {
		lane, n := q.s.Lanes.LaneOf(q.s.LaneKind(t))
		if line.InLane = n; laned {
			line.Lane = lane
		}
	}
	if quotas {
		p = q.placeByGroup(now, t, line, models)
	} else {
		p = q.placeByPriority(now, t, line)
	}
	p.Priority, p.Strict = task.Priority, q.s.Policy.Settings.Priorities.Strict
	return p, true
}

// placeByPriority looks at what waits for the same agents, here and in lanes.
func (q Questions) placeByPriority(now time.Time, t *state.Task, line *place.Line) Place {
	its := t.Needs.Class.Criteria.Set
	for _, c := range q.s.Pending.Active() {
		if c.Of.Criteria.Set.Common(its) == 0 {
			continue
		}
		c.Waiting.Leaves(func(leaf, level, n int, _ bool) { line.Count(leaf, level, n) })
		line.Ahead += c.Waiting.Preceding(t.Leaf, t.Level, t, place.MostAhead-line.Ahead)
	}
	for l := range q.s.Lanes.All() {
		c := q.s.Pending.Find([]byte(l.Kind.Class))
		if c != nil && l.Kind.Level != lanes.MixedLevel && c.Of.Criteria.Set.Common(its) > 0 {
			line.Count(t.Leaf, l.Kind.Level, l.Ready)
		}
	}
	for c := range q.s.Pending.All() { // the order does not matter
		if c.Criteria.Set.Common(its) > 0 {
			line.Pace(c.Pace.Rate(now))
		}
	}
	its.Each(func(i int) {
		if a := q.s.Fleet.Agents[i]; q.s.Fleet.Eligibility(a) == coordinator.Full {
			line.Frees(q.s.FreeIn(now, a))
		}
	})
	return line.ByPriority(q.s.Quotas.Shares)
}

// placeByGroup looks at all that waits, what it takes, and the agents online.
func (q Questions) placeByGroup(
	now time.Time, t *state.Task, line *place.Line, models []coordinator.AgentID,
) Place {
	quotas := &q.s.Quotas
	shared := quotas.AgentsDiffer(t.Task.Group) // tasks without a group may be charged to their agent's
	for _, c := range q.s.Pending.Active() {
		c.Waiting.Each(func(leaf, level int, x *state.Task) {
			takes := quotas.Dearest(x.Task, q.demandOf(x), models)
			line.Add(leaf, level, &takes, state.Before(x, t), shared && x.Task.Group == "")
		})
	}
	s := place.Supply{Ledger: quotas.Ledger, Shares: quotas.Shares, At: q.s.ReadingTime(now),
		Owners: quotas.Owners(q.demandOf(t).Group), Type: t.Task.Type, Estimate: t.Task.EstimatedUsage}
	s.Least, s.Most = quotas.Flow.Bounds() // of when something was dispatched last
	flow := quotas.Flow.At(now)
	s.Rate = flow.Rate(now)
	for i, a := range q.s.Fleet.Agents {
		if a.State != coordinator.AgentOnline {
			continue
		}
		if s.Slots += int64(a.Room()); t.Needs.Class.Usable.Has(i) && !a.Cordoned {
			s.Takers = append(s.Takers, a.Spec.ID)
		}
	}
	p := line.ByGroup(&s)
	if w := q.s.WaitAt(t.Needs.Class, t.Leaf); w != nil {
		p.Lacks, p.LacksText = &w.Lacks, w.Lacks.Describe()
	}
	return p
}

// oneOfEachModel returns an agent online for each model that the groups of those online call.
func (q Questions) oneOfEachModel() (agents []coordinator.AgentID) {
	var found []coordinator.Service
	for _, a := range q.s.Fleet.Agents {
		group, listed := q.s.Quotas.Ledger.GroupOfAgent(a.Spec.ID)
		if !listed || a.State != coordinator.AgentOnline {
			continue
		}
		if s := q.s.Quotas.Ledger.ServiceOf(group, nil); !slices.Contains(found, s) {
			found, agents = append(found, s), append(agents, a.Spec.ID)
		}
	}
	return agents
}

// waiter finds a task that waits here or in its lane; nil: it does not. Of one in a lane,
// which is not open, it makes what it would be if it had come just now.
func (q Questions) waiter(task *coordinator.Task) (t *state.Task, laned bool) {
	r := q.s.Dedupe.Peek(coordinator.KeyOf(task.ID))
	open := q.s.Tasks.Of(r)
	switch {
	case r == nil:
	case open == nil && r.Fate == coordinator.FateLaned, open != nil && open.Stage == state.Moving:
		t, reason, _ := q.s.Suppose(task, nil)
		if reason != coordinator.ReasonNone {
			return nil, false
		}
		t.Leaf, t.Level = q.s.LeafOf(t), state.LevelOf(t)
		return t, true
	case open != nil && open.Stage == state.Waiting:
		return open, false
	}
	return nil, false
}

// LacksQuota returns, as text for users, what quota a waiting task waits for; false: for none.
func (q Questions) LacksQuota(task *coordinator.Task) (string, bool) {
	t, _ := q.waiter(task)
	if w := q.s.WaitOf(t); w != nil {
		return w.Lacks.Describe(), true
	}
	return "", false
}

// demandOf is what a waiting task will probably take, where there are quotas. Unlike QuotaDemand it leaves the task as
// it is.
func (q Questions) demandOf(t *state.Task) fairshare.Charge {
	if t.Quota != nil {
		return t.Quota.Charge
	}
	c, _ := q.s.Quotas.Demand(t.Task, coordinator.Service{})
	return c
}

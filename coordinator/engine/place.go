package engine

import (
	"fmt"
	"math"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/lanes"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/fairshare"
)

// Place is where a task stands that waits for an agent, or for quota.
type Place struct {
	// Quotas: there are quotas, and groups take turns.
	Quotas bool
	// Group whose turn it waits for, and its priority.
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

	// What is dispatched before it, in units of cost (see fairshare.Weigh), while no quota keeps
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

// mostPreceding is how many tasks are counted that go before one.
const mostPreceding = 10_000

// Place returns where a task stands; false when it does not wait in its class or lane. It takes O(classes + groups
// + 10,000), and with quotas O(tasks that wait + agents) besides.
func (e *Engine) Place(now time.Time, task *coordinator.Task) (p Place, ok bool) {
	e.quotas.Ledger.Looking(true)
	defer e.quotas.Ledger.Looking(false)
	t, laned := e.waiter(task)
	if t == nil {
		return p, false
	}
	p = Place{Quotas: e.quotas.Installed(), Priority: task.Priority, Strict: e.policy.Settings.Priorities.Strict}
	key := ""
	if e.policy.Lanes != nil {
		key, p.InLane = e.lanes.LaneOf(e.laneKind(t))
	}
	if laned {
		p.Lane = key
	}
	if !p.Quotas {
		e.amongAll(now, t, &p)
		return p, true
	}
	p.Group = e.quotas.Shares.Name(t.leaf)
	levels := e.among(t, &p)
	p.counted()
	if w := e.waitAt(t.needs.class, t.leaf); w != nil {
		p.Lacks, p.LacksText = &w.Lacks, w.Lacks.Describe()
	}
	e.bound(now, t, levels, &p)
	return p, true
}

// amongAll is where the task stands where there are no groups that take turns.
func (e *Engine) amongAll(now time.Time, t *openTask, p *Place) {
	var waiting [fairshare.Levels]int // of each priority; of its own those before it
	its := t.needs.class.criteria.Set
	for _, c := range e.pending.Active() {
		if c.Of.criteria.Set.Common(its) == 0 {
			continue
		}
		c.Waiting.Leaves(func(_, level, n int, _ bool) {
			if p.Waiting += n; level != t.level {
				waiting[level] += n
			}
		})
		waiting[t.level] += c.Waiting.Preceding(t.leaf, t.level, t, mostPreceding)
	}
	for l := range e.lanes.All() {
		c := e.pending.Find([]byte(l.Kind.Class))
		if l.Ready == 0 || c == nil || l.Kind.Level == lanes.MixedLevel || c.Of.criteria.Set.Common(its) == 0 {
			continue
		}
		if p.Waiting += l.Ready; l.Kind.Level != t.level {
			waiting[l.Kind.Level] += l.Ready
		}
	}
	if p.Lane != "" {
		waiting[t.level] += max(0, p.InLane-1)
	}
	var levels uint8
	for level, n := range waiting {
		if n > 0 {
			levels |= 1 << level
		}
		switch {
		case level > t.level:
			p.Higher += n
		case level < t.level:
			p.Lower += n
		}
	}
	p.Part = e.quotas.Shares.Part(t.level, levels)
	p.Ahead = e.quotas.Shares.Preceding(t.level, waiting, mostPreceding)
	p.AtLeast = p.Ahead == mostPreceding
	const unit = 1e6
	millionths := int64(0)
	for c := range e.pending.All() { // the order does not matter to a sum of whole numbers
		if c.criteria.Set.Common(its) > 0 {
			millionths += int64(math.Round(c.pace.Rate(now) * unit))
		}
	}
	p.Rate = float64(millionths) / unit
	p.Starts = e.startsIn(now, its, p)
}

// startsIn is after how long the task starts: once the first slot is free that it may have, and what goes before
// it has gone at this rate. Where no slot's end is known it takes its own turn at that rate instead.
func (e *Engine) startsIn(now time.Time, its agentset.Set, p *Place) time.Duration {
	var free time.Duration
	its.Each(func(i int) {
		if a := e.fleet.Agents[i]; e.fleet.Eligibility(a) == coordinator.Full {
			if in := e.freeIn(now, a); in > 0 && (free == 0 || in < free) {
				free = in
			}
		}
	})
	turns := float64(p.Ahead)
	if free == 0 {
		turns++
	}
	switch {
	case turns == 0:
		return free
	case p.Rate <= 0:
		return 0
	}
	return free + time.Duration(turns/p.Rate*float64(time.Second))
}

// counted completes the count of what goes before it.
func (p *Place) counted() {
	if p.Lane != "" {
		p.Ahead, p.AtLeast = p.Waiting+max(0, p.InLane-1), false
		return
	}
	p.AtLeast = p.Ahead == mostPreceding
}

// waiter finds a task that waits here or in its lane; nil: it does not. Of one in a lane,
// which is not open, it makes what it would be if it had come just now.
func (e *Engine) waiter(task *coordinator.Task) (t *openTask, laned bool) {
	r := e.dedupe.Peek(coordinator.KeyOf(task.ID))
	open := e.tasks.of(r)
	switch {
	case r == nil:
	case open == nil && r.Fate == coordinator.FateLaned, open != nil && open.state == stateMoving:
		t = &openTask{task: task, supposed: true, due: queue.Due(task), arrival: math.MaxUint64}
		if reason, _ := e.resolve(t); reason != coordinator.ReasonNone {
			return nil, false
		}
		t.leaf, t.level = e.leafOf(t), levelOf(t)
		return t, true
	case open != nil && open.state == stateWaiting:
		return open, false
	}
	return nil, false
}

// among counts what else waits, and returns the levels at which something does, with a bit for each.
func (e *Engine) among(t *openTask, p *Place) (levels uint8) {
	for _, c := range e.pending.Active() {
		c.Waiting.Leaves(func(leaf, level, n int, _ bool) {
			levels |= 1 << level // also of tasks that wait for quota: they may have it sooner
			switch {
			case level > t.level:
				p.Higher += n
			case level < t.level:
				p.Lower += n
			case leaf == t.leaf:
				p.Waiting += n
			default:
				p.Others += n
			}
		})
		if p.Ahead < mostPreceding {
			p.Ahead += c.Waiting.Preceding(t.leaf, t.level, t, mostPreceding-p.Ahead)
		}
	}
	return levels | 1<<t.level
}

// bound computes what may be dispatched before the task. Every task is assumed to cost no more than the most
// expensive one among the recent and the waiting ones; and no more of them are open at a time than the agents online
// have slots. (Where as many calls of the most expensive cost more than the debt that a group may have, some debts
// are forgiven, and others may go before it for these, too.)
func (e *Engine) bound(now time.Time, t *openTask, levels uint8, p *Place) {
	q := &e.quotas
	its := e.chargedBefore(t, p.InLane)
	cost := max(e.demandOf(t).Expect, 1)
	least, most := q.Flow.Bounds()
	p.Dearest, p.Rate = max(most, its.Dearest), q.Flow.Rate(now)
	position := p.Ahead
	switch {
	case p.Lane != "":
	case p.AtLeast:
		position = p.Waiting + p.InLane
	default:
		position += p.InLane
	}
	slots, takers := e.slotsOnline(t)
	_, turns := q.Shares.Within(t.level, levels, 1)
	p.Part = q.Shares.Part(t.level, levels)
	service, weighed := q.Shares.Ahead(t.leaf, position, p.Dearest, p.Dearest, slots)
	likely, _ := q.Shares.Ahead(t.leaf, position, p.Dearest, p.Dearest, 0)
	switch {
	case !weighed:
		p.Unbounded = fmt.Sprintf(
			"group %s, or one that it is part of, has weight 0: it is served when no group beside it with weight waits", p.Group)
	case !turns:
		p.Unbounded =
			"priority_order is strict, and tasks of higher priority wait: these go first for as long as there are any"
	case takers == 0:
		p.Unbounded = "no agent that may have it is online and takes work"
	default:
		p.Bound = e.levelsToo(t.level, levels, service, min(least, cost), p.Dearest)
		p.Likely = e.levelsToo(t.level, levels, likely, min(least, cost), p.Dearest)
		e.byQuota(now, t, its, p)
	}
}

// levelsToo adds to the cost of a priority's dispatches what the other priorities that wait dispatch
// meanwhile, until the one that is waited for, at dearest each. One of its own costs least at least.
func (e *Engine) levelsToo(level int, levels uint8, service, least, dearest int64) int64 {
	dispatches := service/least + 2
	within, _ := e.quotas.Shares.Within(level, levels, dispatches)
	if within <= dispatches || service >= math.MaxInt64/2 {
		return service
	}
	all := float64(service) + float64(within-dispatches)*float64(dearest)
	if all >= math.MaxInt64/2 {
		return math.MaxInt64
	}
	return int64(math.Ceil(all))
}

// slotsOnline is how many slots the agents online have, and how many of these agents may
// have the task and take work.
func (e *Engine) slotsOnline(t *openTask) (slots int64, takers int) {
	for i, a := range e.fleet.Agents {
		if a.State != coordinator.AgentOnline {
			continue
		}
		slots += int64(a.Room())
		if e.takesWork(t, i) {
			takers++
		}
	}
	return slots, takers
}

// takesWork reports whether the agent of that number may have the task, is online and takes work.
func (e *Engine) takesWork(t *openTask, number int) bool {
	a := e.fleet.Agents[number]
	return t.needs.class.Usable.Has(number) && a.State == coordinator.AgentOnline && !a.Cordoned
}

// LacksQuota returns, as text for users, what quota a waiting task waits for; false: for none.
func (e *Engine) LacksQuota(task *coordinator.Task) (string, bool) {
	t, laned := e.waiter(task)
	if t == nil || laned {
		return "", false
	}
	w := e.waitAt(t.needs.class, t.leaf)
	if w == nil {
		return "", false
	}
	return w.Lacks.Describe(), true
}

// byQuota works out for how long quota may keep the task, beside the turns: all that goes before it
// must have its own first.
func (e *Engine) byQuota(now time.Time, t *openTask, its *admission.Precedence, p *Place) {
	charge, at := e.demandOf(t), e.quotaTime(now)
	var takers []coordinator.AgentID
	if e.quotas.AgentsDiffer(charge.Group) {
		for i, a := range e.fleet.Agents {
			if e.takesWork(t, i) {
				takers = append(takers, a.Spec.ID)
			}
		}
	}
	before := its.With(max(0, p.Likely-its.Cost))
	var short *fairshare.Shortage
	p.QuotaDelay, short = e.quotas.Delay(at, charge, &before, takers)
	if short != nil {
		p.Unbounded, p.Bound, p.Likely, p.QuotaDelay = admission.DescribeShortage(short), 0, 0, 0
		return
	}
	before.Kept = true
	p.QuotaLikely, _ = e.quotas.Delay(at, charge, &before, takers)
}

// demandOf is what a waiting task will probably take. Unlike quotaDemand it leaves the task as it is.
func (e *Engine) demandOf(t *openTask) fairshare.Charge {
	if t.quota != nil {
		return t.quota.Charge
	}
	c, _ := e.quotas.Demand(t.task, coordinator.Service{})
	return c
}

// chargedBefore adds up what its group's tasks ahead of it use: the tasks of its priority before it, all of other
// priorities, which go first or by the share of the low ones, and as many as its lane holds.
func (e *Engine) chargedBefore(t *openTask, inLane int) *admission.Precedence {
	its, agents := e.demandOf(t), e.quotas.AgentsDiffer(t.task.Group)
	b := admission.Precedes(&its)
	for _, c := range e.pending.Active() {
		c.Waiting.Each(func(leaf, level int, x *openTask) {
			charge := e.demandOf(x)
			b.Waits(&charge)
			switch {
			case leaf != t.leaf && (!agents || x.task.Group != ""): // else it may be charged to its agent's group
			case leaf == t.leaf && (x == t || level == t.level && !before(x, t)):
			default:
				b.Goes(&charge, leaf == t.leaf && level == t.level)
			}
		})
	}
	b.InLane(inLane)
	return b
}

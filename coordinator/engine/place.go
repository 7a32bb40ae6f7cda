package engine

import (
	"fmt"
	"math"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Place is where a task stands that waits for an agent, or for quota.
type Place struct {
	// Quotas: there are quotas, and groups take turns; else the rank alone decides.
	Quotas bool
	// Group whose turn it waits for, and its priority.
	Group    string
	Priority coordinator.Priority
	// Ahead tasks go before it: of its group and priority, where there are quotas, and of
	// all that the same agents could take else. AtLeast: there may be more.
	Ahead   int
	AtLeast bool
	// Lane in which it waits, which may hold this many tasks; Ahead counts at most then.
	// Empty: it is not in its lane, where InLane tasks wait that may have been accepted before
	// it.
	Lane   string
	InLane int
	// Waiting of its group and priority; Others of other groups at its priority, Higher at
	// higher priorities.
	Waiting, Others, Higher int
	// Overtaken: who was accepted more than this after it never goes before it. Of a
	// configuration without quotas.
	Overtaken time.Duration

	// Lacks is the quota that it waits for, and LacksText the same for people; nil: for none.
	Lacks     *fairshare.Verdict
	LacksText string

	// What is dispatched before it, in units of cost (see fairshare.Weigh), while no quota keeps
	// it: at most; and, if every task costs what was thought, at most. Largest numbers stand for
	// all that is larger.
	Bound, Likely int64
	// QuotaDelay is for how long quota may keep it besides, at most, if each takes what was
	// thought, and those who come take no more for their cost than those who wait. QuotaLikely
	// is how long it takes if others take nothing more than that while it waits for something
	// else, either.
	QuotaDelay, QuotaLikely time.Duration
	// Rate is the cost that is dispatched in a second, of late; 0: nothing was.
	Rate float64
	// Unbounded is the rule because of which nobody can tell when it starts; empty: Bound
	// holds.
	Unbounded string
	// Dearest is what a task is taken to cost at most; Every: of so many dispatches one is
	// of its priority, as long as the same priorities wait.
	Dearest, Every int64
}

// mostPreceding is how many tasks are counted that go before one.
const mostPreceding = 10_000

// Place tells where a task stands; false when it does not wait in its class or lane. It takes
// O(classes + groups), and with quotas O(tasks that wait + agents) besides.
func (e *Engine) Place(now time.Time, task *coordinator.Task) (p Place, ok bool) {
	e.quotas.ledger.Looking(true)
	defer e.quotas.ledger.Looking(false)
	t, laned := e.waiter(task)
	if t == nil {
		return p, false
	}
	p = Place{Quotas: e.quotas.ledger.Installed(), Priority: task.Priority}
	key := ""
	if e.policy.Lanes != nil {
		key = e.lanes.laneHas(e.kindOf(t))
	}
	if l := e.lanes.byKey[key]; l != nil {
		p.InLane = l.ready
	}
	if laned {
		p.Lane = key
	}
	if !p.Quotas {
		c := t.needs.class.waiting
		p.Ahead, p.Waiting = c.Preceding(t.leaf, t.level, t, mostPreceding), c.Len()
		p.Overtaken = time.Duration(coordinator.PriorityCritical-task.Priority) * e.policy.Settings.PriorityAgeing
		p.counted()
		return p, true
	}
	p.Group = e.quotas.shares.Name(t.leaf)
	levels := e.among(t, &p)
	p.counted()
	if w := e.quotas.waits.find(t.needs.class, t.leaf); w != nil {
		p.Lacks, p.LacksText = &w.lacks, describeLack(&w.lacks)
	}
	e.bound(now, t, levels, &p)
	return p, true
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
	number, known := e.memory.lookup(coordinator.KeyOf(task.ID))
	if !known {
		return nil, false
	}
	r := e.memory.at(number)
	open := e.tasks.of(r)
	switch {
	case open == nil && r.fate == coordinator.FateLaned, open != nil && open.state == stateMoving:
		t = &openTask{task: task, supposed: true, rank: rankOf(task, e.policy.Settings), arrival: math.MaxUint64}
		if reason, _ := e.resolve(t); reason != coordinator.ReasonNone {
			return nil, false
		}
		t.leaf, t.level = e.leafOf(t), e.levelOf(t)
		return t, true
	case open != nil && open.state == stateWaiting:
		return open, false
	}
	return nil, false
}

// among counts what else waits, and tells the levels at which something does, with a bit
// for each.
func (e *Engine) among(t *openTask, p *Place) (levels uint8) {
	for _, c := range e.pending.active {
		c.waiting.Leaves(func(leaf, level, n int, _ bool) {
			levels |= 1 << level // also of those who wait for quota: they may have it sooner
			switch {
			case level > t.level:
				p.Higher += n
			case level < t.level:
			case leaf == t.leaf:
				p.Waiting += n
			default:
				p.Others += n
			}
		})
		if p.Ahead < mostPreceding {
			p.Ahead += c.waiting.Preceding(t.leaf, t.level, t, mostPreceding-p.Ahead)
		}
	}
	return levels | 1<<t.level
}

// bound works out what may be dispatched before the task. Every task is taken to cost no
// more than the dearest of late, and of those who wait; and no more of them are open at a time
// than the agents online have slots. (Where as many calls of the dearest cost more than a
// group may owe, some debts are forgiven, and others may go before it for these, too.)
func (e *Engine) bound(now time.Time, t *openTask, levels uint8, p *Place) {
	q := &e.quotas
	its := e.chargedBefore(t, p.InLane)
	cost := max(e.demandOf(t).Expect, 1)
	least, most := q.flow.bounds()
	p.Dearest, p.Rate = max(most, its.dearest), q.flow.rate(now)
	position := p.Ahead
	switch {
	case p.Lane != "":
	case p.AtLeast:
		position = p.Waiting + p.InLane
	default:
		position += p.InLane
	}
	slots, capable := e.slotsOnline(t)
	every, turns := q.shares.Every(t.level, levels)
	service, weighed := q.shares.Ahead(t.leaf, position, p.Dearest, p.Dearest, slots)
	likely, _ := q.shares.Ahead(t.leaf, position, p.Dearest, p.Dearest, 0)
	p.Every = every
	switch {
	case !weighed:
		p.Unbounded = fmt.Sprintf("group %s, or one that it is part of, has weight 0: it is served when no group beside it with weight waits", p.Group)
	case !turns:
		p.Unbounded = "low_priority_percent is 0, and tasks of higher priority wait: these go first for as long as there are any"
	case capable == 0:
		p.Unbounded = "no agent that may have it is online and takes work"
	default:
		p.Bound = levelsToo(service, every, min(least, cost), p.Dearest)
		p.Likely = levelsToo(likely, every, min(least, cost), p.Dearest)
		e.byQuota(now, t, its, p)
	}
}

// levelsToo adds to the cost of one priority's dispatches what other priorities dispatch
// meanwhile: up to every-1 dispatches of dearest each for every one of them, and for the one
// that is waited for. One of them costs least at least.
func levelsToo(service, every, least, dearest int64) int64 {
	if every <= 1 || service >= math.MaxInt64/2 {
		return service
	}
	dispatches := float64(service/least + 2)
	all := float64(service) + dispatches*float64(every-1)*float64(dearest)
	if all >= math.MaxInt64/2 {
		return math.MaxInt64
	}
	return int64(math.Ceil(all))
}

// slotsOnline is how many slots the agents online have, and how many of these agents may
// have the task and take work.
func (e *Engine) slotsOnline(t *openTask) (slots int64, capable int) {
	for i, a := range e.fleet.agents {
		if a.state != coordinator.AgentOnline {
			continue
		}
		slots += int64(a.room())
		if e.takesWork(t, i) {
			capable++
		}
	}
	return slots, capable
}

// takesWork tells whether the agent of that number may have the task, is online and takes work.
func (e *Engine) takesWork(t *openTask, number int) bool {
	a := e.fleet.agents[number]
	return t.needs.class.usable.has(number) && a.state == coordinator.AgentOnline && !a.cordoned
}

// LacksQuota tells for people what quota a waiting task waits for; false: for none.
func (e *Engine) LacksQuota(task *coordinator.Task) (string, bool) {
	t, laned := e.waiter(task)
	if t == nil || laned {
		return "", false
	}
	w := e.quotas.waits.find(t.needs.class, t.leaf)
	if w == nil {
		return "", false
	}
	return describeLack(&w.lacks), true
}

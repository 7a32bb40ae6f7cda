package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/market"
	"taskbus/coordinator/fairshare"
)

// class is all waiting tasks that the same agents could take: the same required
// capabilities, the same barred agents, the same pool of LLM quota, offered before they are
// given or not. Whether anybody is ready is one question for the whole class, so waking costs
// by classes, not by tasks.
type class struct {
	key      string
	required []string
	only     []coordinator.AgentID // none: any agent may have its tasks
	// criteria say which agents may have its tasks, whatever these are doing, and why the others may not.
	criteria criteria.Feasible
	feasible agentset.Set // the agents that meet all criteria
	able     int          // how many are in feasible
	// usable are the feasible agents that are not ejected from a required capability; of these, those in fleet.ready may
	// be given a task now.
	usable  agentset.Set
	nobody  bool // feasible is empty: no agent of this fleet
	routed  bool // of a task type's route: kept for the policy's life
	waiting *fairshare.Backlog[*openTask]
	active  int                  // place in pending.active, -1 when nobody waits
	asked   int                  // tasks that came since demand was last handed over
	lots    market.Class         // the open auctions of its tasks
	served  time.Time            // when one of its tasks was dispatched
	pace    pace                 // how many are, of late
	moved   time.Time            // when something had moved for it when that was looked at last (see movedAt)
	lacks   admission.ClassState // the quota that its tasks wait for
}

// Serving, FirstLeaf, TakenBy and Admission are what admission reads of the class.
func (c *class) Serving() uint8 { return c.waiting.Serving() }

func (c *class) FirstLeaf(level int) (leaf int, ok bool) {
	h, ok := c.waiting.FirstAt(level)
	return h.Leaf, ok
}

func (c *class) TakenBy(agent int) bool { return c.usable.Has(agent) }

func (c *class) Admission() *admission.ClassState { return &c.lacks }

// first is the task that goes first in the class; nil when none waits, or all that do wait
// for quota.
func (c *class) first() *openTask {
	if c.lacks.Whole != nil {
		return nil
	}
	head, _ := c.waiting.First(0)
	return head.Item
}

// servable counts the tasks that wait for nothing but an agent.
func (c *class) servable() (n int) {
	switch {
	case c.lacks.Whole != nil:
		return 0
	case c.waiting.AnyParked():
		c.waiting.Leaves(func(_, _, waiting int, parked bool) {
			if !parked {
				n += waiting
			}
		})
		return n
	}
	return c.waiting.Len()
}

// holds tells whether the task is where it says that it is.
func (c *class) holds(t *openTask) bool {
	x, ok := c.waiting.At(t.leaf, t.level, t.index)
	return ok && x == t
}

// clear takes everything out, and gives it in the order in which it would have gone.
func (c *class) clear() []*openTask {
	all := make([]*openTask, 0, c.waiting.Len())
	for h := range c.waiting.All() {
		all = append(all, h.Item)
	}
	for _, t := range all {
		c.waiting.Remove(t.leaf, t.level, t.index)
	}
	c.active = -1
	return all
}

// pending is every task that waits for a slot, or for quota.
//
// Of those that an agent could have, the priority goes first whose turn it is by weight, then the
// group whose turn it is (both are fairshare.Shares; without quotas all tasks are one group's), then
// the task that is due first, then the one that arrived first. A task is due at its deadline, or
// an hour after it was accepted: so among those without a deadline the oldest goes first.
type pending struct {
	classes map[string]*class
	active  []*class // classes in which somebody waits
	count   [4]int   // waiting tasks by priority, delayed ones included
	shares  *fairshare.Shares
	spare   []*class // room for the classes of a line
	key     criteria.Key
	// inUse is how many classes in which no task waits were in use all the same when those that are not
	// were last forgotten.
	inUse int
}

// maxIdleClasses bounds the cached classes that are of no use now.
const maxIdleClasses = 1024

func newPending(s *fairshare.Shares) pending {
	return pending{classes: make(map[string]*class), shares: s}
}

func (p *pending) total() int { return p.count[0] + p.count[1] + p.count[2] + p.count[3] }

// class finds or makes the class of a set of requirements; keep says that a new one is
// remembered, because tasks may wait in it.
func (e *Engine) class(of kin, keep bool) *class {
	p, f := &e.pending, &e.fleet
	key := p.keyOf(of)
	if c := p.classes[string(key)]; c != nil {
		return c
	}
	if keep && len(p.classes) >= maxIdleClasses+len(p.active)+p.inUse {
		for k, c := range p.classes {
			if c.active < 0 && !c.routed && c.lots.Open() == 0 && !e.isolated.Has(c) {
				delete(p.classes, k)
			}
		}
		p.inUse = len(p.classes) - len(p.active)
	}
	c := &class{key: string(key), required: of.needs.Required, only: of.needs.Only, criteria: f.Index.Meet(of.needs),
		active: -1}
	c.feasible, c.able = c.criteria.Set, c.criteria.Able
	c.nobody = c.able == 0
	c.usable = e.ejections.Usable(c.feasible, c.required)
	c.waiting = fairshare.NewBacklog(p.shares, before, func(t *openTask, i int) { t.index = i })
	if keep {
		p.classes[c.key] = c
	}
	return c
}

// before tells which of two tasks of a group and priority goes first.
func before(a, b *openTask) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.arrival < b.arrival
}

// kin is what tasks of one class have in common.
type kin struct {
	needs criteria.Needs
	// pool of LLM quota that they are charged to; empty where it makes no difference.
	pool string
	// stays: they may not borrow quota, so that others of their group do not wait with them.
	stays bool
	// noTokens: they take no LLM tokens, so that they do not wait with others of their group that lack some.
	noTokens bool
	// asks: they are offered before they are given to anybody. They have classes of
	// their own, because one that is not to be offered yet must not keep others waiting.
	asks bool
}

// keyOf is what tasks of a class have in common as a key, valid until the next.
func (p *pending) keyOf(k kin) []byte {
	p.key.Begin(k.needs)
	flag := func(mark byte, is bool) {
		if p.key.Part(mark); is {
			p.key.Add("")
		}
	}
	flag(criteria.Mark2, k.asks)
	flag(criteria.Mark4, k.stays)
	flag(criteria.MarkLast, k.noTokens)
	if p.key.Part(criteria.Mark3); k.pool != "" {
		p.key.Add(k.pool)
	}
	return p.key.Bytes()
}

// push lets the task wait in its class.
func (p *pending) push(now time.Time, t *openTask) {
	c := t.needs.class
	c.waiting.Push(t.leaf, t.level, t)
	if c.active < 0 {
		c.pace = pace{flowSpan: flowSpan{now, now}} // what went out while none waited says nothing of how fast they go
		c.active = len(p.active)
		p.active = append(p.active, c)
	}
}

// take removes a waiting task from its class.
func (p *pending) take(t *openTask) {
	c := t.needs.class
	c.waiting.Remove(t.leaf, t.level, t.index)
	if c.waiting.Len() > 0 {
		return
	}
	last := p.active[len(p.active)-1]
	p.active[c.active] = last
	last.active = c.active
	p.active = p.active[:len(p.active)-1]
	c.active = -1
}

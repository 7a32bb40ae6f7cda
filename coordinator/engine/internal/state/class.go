package state

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/flow"
	"taskbus/coordinator/engine/internal/market"
	"taskbus/coordinator/engine/internal/queue"
)

// Class is all waiting tasks that the same agents could take: the same required
// capabilities, the same barred agents, the same pool of LLM quota, offered before they are
// given or not.
type Class struct {
	WaitingClass
	Required []string
	Only     []coordinator.AgentID // none: any agent may have its tasks
	// Criteria say which agents may have its tasks, whatever these are doing, and why the others may not. Usable are
	// those that may and are not ejected from a required capability; of these, those in fleet.ready may be given a
	// task now.
	Criteria criteria.Feasible
	Routed   bool                 // of a task type's route: preserved for the policy's life
	Asked    int                  // tasks that came since demand was last handed over
	Lots     market.Class         // the open auctions of its tasks
	Served   time.Time            // when one of its tasks was dispatched
	Pace     flow.Pace            // how many are, of late
	moved    time.Time            // when something had moved for it when that was looked at last (see movedAt)
	Lacks    admission.ClassState // the quota that its tasks wait for
}

type (
	WaitingClass = queue.Class[*Task, *Class]
	Line         = queue.Line[*Task, *Class]
)

// Unserved reports whether no agent of this fleet may ever have its tasks.
func (c *Class) Unserved() bool { return c.Criteria.Able == 0 }

// Admission is what admission keeps of the class.
func (c *Class) Admission() *admission.ClassState { return &c.Lacks }

// pending is every task that waits: for a slot or for quota, in the queue, or aside.
type pending struct {
	queue.Queue[*Task, *Class]
	Count [4]int // by priority, including tasks that wait aside
	key   criteria.Key
}

// Total returns how many tasks wait, of any priority.
func (p *pending) Total() int { return p.Count[0] + p.Count[1] + p.Count[2] + p.Count[3] }

// Backlog returns the number of tasks that wait for a slot, without those that are offered.
func (s *State) Backlog() int { return s.Pending.Total() - len(s.Market.Lots()) }

// class finds or makes the class of a set of requirements; keep says that a new one is
// remembered, because tasks may wait in it.
func (s *State) class(of kin, keep bool) *Class {
	p, f := &s.Pending, &s.Fleet
	key := p.keyOf(of)
	if c := p.Find(key); c != nil {
		return c.Of
	}
	c := &Class{Required: of.needs.Required, Only: of.needs.Only, Criteria: f.Index.Meet(of.needs)}
	p.Start(&c.WaitingClass, key, c)
	c.Lots.Of = c
	c.Usable = s.Ejections.Usable(c.Criteria.Set, c.Required)
	if keep {
		p.Keep(&c.WaitingClass, func(o *Class) bool { return o.Routed || o.Lots.Open() > 0 || s.Isolated.Has(o) })
	}
	return c
}

// Before reports whether a, of two tasks of a group and priority, goes before b.
func Before(a, b *Task) bool {
	if a.Due != b.Due {
		return a.Due < b.Due
	}
	return a.Arrival < b.Arrival
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
	// asks: the tasks are offered before they are given to an agent. They have classes of their own, because one
	// that is not to be offered yet must not keep others waiting.
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

// Enter has the task wait in its class.
func (p *pending) Enter(now time.Time, t *Task) {
	if c := t.Needs.Class; p.Push(&c.WaitingClass, t.Leaf, t.Level, t) {
		c.Pace.Restart(now)
	}
}

// Leave removes a waiting task from its class.
func (p *pending) Leave(t *Task) { p.Take(&t.Needs.Class.WaitingClass, t.Leaf, t.Level, t.Index) }

package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/flow"
	"taskbus/coordinator/engine/internal/market"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/fairshare"
)

// class is all waiting tasks that the same agents could take: the same required
// capabilities, the same barred agents, the same pool of LLM quota, offered before they are
// given or not.
type class struct {
	waitingClass
	required []string
	only     []coordinator.AgentID // none: any agent may have its tasks
	// criteria say which agents may have its tasks, whatever these are doing, and why the others may not. Usable are
	// those that may and are not ejected from a required capability; of these, those in fleet.ready may be given a
	// task now.
	criteria criteria.Feasible
	routed   bool                 // of a task type's route: preserved for the policy's life
	asked    int                  // tasks that came since demand was last handed over
	lots     market.Class         // the open auctions of its tasks
	served   time.Time            // when one of its tasks was dispatched
	pace     flow.Pace            // how many are, of late
	moved    time.Time            // when something had moved for it when that was looked at last (see movedAt)
	lacks    admission.ClassState // the quota that its tasks wait for
}

type (
	waitingClass = queue.Class[*openTask, *class]
	line         = queue.Line[*openTask, *class]
)

// unserved reports whether no agent of this fleet may ever have its tasks.
func (c *class) unserved() bool { return c.criteria.Able == 0 }

// Admission is what admission keeps of the class.
func (c *class) Admission() *admission.ClassState { return &c.lacks }

// pending is every task that waits: for a slot or for quota, in the queue, or aside.
type pending struct {
	queue.Queue[*openTask, *class]
	count [4]int // by priority, including tasks that wait aside
	key   criteria.Key
}

func newPending(s *fairshare.Shares) pending {
	return pending{Queue: queue.New[*class](s, before, func(t *openTask, i int) { t.index = i })}
}

func (p *pending) total() int { return p.count[0] + p.count[1] + p.count[2] + p.count[3] }

// class finds or makes the class of a set of requirements; keep says that a new one is
// remembered, because tasks may wait in it.
func (e *Engine) class(of kin, keep bool) *class {
	p, f := &e.pending, &e.fleet
	key := p.keyOf(of)
	if c := p.Find(key); c != nil {
		return c.Of
	}
	c := &class{required: of.needs.Required, only: of.needs.Only, criteria: f.Index.Meet(of.needs)}
	p.Start(&c.waitingClass, key, c)
	c.Usable = e.ejections.Usable(c.criteria.Set, c.required)
	if keep {
		p.Keep(&c.waitingClass, func(o *class) bool { return o.routed || o.lots.Open() > 0 || e.isolated.Has(o) })
	}
	return c
}

// before reports whether a, of two tasks of a group and priority, goes before b.
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

// push has the task wait in its class.
func (p *pending) push(now time.Time, t *openTask) {
	if c := t.needs.class; p.Push(&c.waitingClass, t.leaf, t.level, t) {
		c.pace.Restart(now)
	}
}

// take removes a waiting task from its class.
func (p *pending) take(t *openTask) { p.Take(&t.needs.class.waitingClass, t.leaf, t.level, t.index) }

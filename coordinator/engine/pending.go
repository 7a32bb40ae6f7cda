package engine

import (
	"strings"

	"taskbus/coordinator"
)

// class is all waiting tasks that the same agents could take: the same required
// capabilities, the same barred agents, offered before they are given or not. Whether anybody is ready is one question
// for the whole class, so waking costs by classes, not by tasks.
type class struct {
	key      string
	required []string
	feasible bitset
	// usable are those of feasible that are not ejected from a required capability.
	usable  bitset
	nobody  bool // feasible is empty: no agent of this fleet
	routed  bool // of a task type's route: kept for the policy's life
	waiting heap[*openTask]
	active  int // place in pending.active, -1 when nobody waits
	asked   int // tasks that came since demand was last handed over
	// lots are the auctions of its tasks that are open, seeking those that hold no slot.
	lots, seeking int
}

// pending is every task that waits for a slot.
//
// The order is by rank, the smallest first: accepted_at minus priority steps
// times the ageing time, then the order of arrival. Within one priority that is
// oldest first; between priorities it is the higher first, until the lower has
// waited `steps × priority_ageing` longer: no task is ever overtaken by one that
// was accepted more than 3 × priority_ageing after it.
type pending struct {
	classes map[string]*class
	active  []*class // classes in which somebody waits
	count   [4]int   // waiting tasks by priority, delayed ones included
}

// maxIdleClasses bounds the cached classes in which nobody waits.
const maxIdleClasses = 1024

func newPending() pending { return pending{classes: make(map[string]*class)} }

func (p *pending) total() int { return p.count[0] + p.count[1] + p.count[2] + p.count[3] }

// class finds or makes the class of a set of requirements; keep says that a new one is
// remembered, because tasks may wait in it.
func (e *Engine) class(of kin, keep bool) *class {
	p, f := &e.pending, &e.fleet
	required, key := of.required, of.key()
	if c := p.classes[key]; c != nil {
		return c
	}
	if keep && len(p.classes) >= maxIdleClasses+len(p.active) {
		for k, c := range p.classes {
			if c.active < 0 && !c.routed && c.lots == 0 {
				delete(p.classes, k)
			}
		}
	}
	c := &class{key: key, required: required, feasible: f.capable(required, of.barred), active: -1}
	c.nobody = c.feasible.empty()
	c.usable = e.usable(c.feasible, required)
	c.waiting = heap[*openTask]{
		before: func(a, b *openTask) bool {
			if a.rank != b.rank {
				return a.rank < b.rank
			}
			return a.arrival < b.arrival
		},
		place: func(t *openTask, i int) { t.index = i },
	}
	if keep {
		p.classes[key] = c
	}
	return c
}

// kin is what tasks of one class have in common.
type kin struct {
	required []string
	barred   []coordinator.AgentID
	// asks: they are offered before they are given to anybody. They have classes of
	// their own, because one that is not to be offered yet must not keep others waiting.
	asks bool
}

// key is unambiguous because neither capabilities nor ids contain the separators.
func (k kin) key() string {
	if len(k.barred) == 0 && len(k.required) == 1 && !k.asks {
		return k.required[0]
	}
	var b strings.Builder
	for i, c := range k.required {
		if i > 0 {
			b.WriteByte(0)
		}
		b.WriteString(c)
	}
	for _, a := range k.barred {
		b.WriteByte(1)
		b.WriteString(string(a))
	}
	if k.asks {
		b.WriteByte(2)
	}
	return b.String()
}

// push lets the task wait in its class.
func (p *pending) push(t *openTask) {
	c := t.needs.class
	c.waiting.push(t)
	if c.active < 0 {
		c.active = len(p.active)
		p.active = append(p.active, c)
	}
}

// take removes a waiting task from its class.
func (p *pending) take(t *openTask) {
	c := t.needs.class
	c.waiting.remove(t.index)
	if len(c.waiting.items) > 0 {
		return
	}
	last := p.active[len(p.active)-1]
	p.active[c.active] = last
	last.active = c.active
	p.active = p.active[:len(p.active)-1]
	c.active = -1
}

// servable lists the classes in which somebody waits whom the agent of that
// number could serve, as a heap by the rank of their first task.
func (p *pending) servable(agent int) heap[*class] {
	h := heap[*class]{
		before: func(a, b *class) bool {
			x, y := a.waiting.items[0], b.waiting.items[0]
			return a.waiting.before(x, y)
		},
		place: func(*class, int) {},
	}
	for _, c := range p.active {
		if c.feasible.has(agent) {
			h.push(c)
		}
	}
	return h
}

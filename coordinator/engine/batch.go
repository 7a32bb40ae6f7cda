package engine

import (
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// Batching: tasks of one kind that arrive together are decided together, and those
// that go to one agent share a batch id.
//
// There are two halves, and neither knows of the other. A task of a batched type
// that could be decided at once waits a moment for others of its kind (gather), and
// what has gathered is decided in one go (decideBatch). And whatever tasks of one
// kind are given to one agent in one moment share a batch id (share), however they
// came to be: they had gathered, or had waited for slots that became free together.
//
// Each task of a batch is an ordinary dispatch: only when it is decided and, for those
// that follow the first, to whom it goes is another matter than for a single one.
//
// A task that has come back, is redelivered, or whose dispatch did not get through
// has waited long enough, and goes alone.

// batchKey is what the tasks of one batch have in common: everything that the choice
// of an agent looks at, but for priority and age.
type batchKey struct {
	taskType, class, strategy string
	preferred                 string // the task's own; empty: its route's
	affinity                  string
	session                   uint64
}

// batchKeyOf gives the key of a task that has been resolved. Its preferred agents are
// separated by what no id contains.
func batchKeyOf(t *openTask) batchKey {
	n := &t.needs
	k := batchKey{taskType: t.task.Type, class: n.class.key, strategy: n.strategy.Name}
	if len(t.task.Preferred) > 0 {
		var b strings.Builder
		for _, id := range t.task.Preferred {
			b.WriteString(string(id))
			b.WriteByte(0)
		}
		k.preferred = b.String()
	}
	if n.strategy.Prepare != nil {
		c := coordinator.Case{Task: t.task, Required: len(n.required)}
		n.strategy.Prepare(&c)
		k.affinity, k.session = c.Affinity, c.Session
	}
	return k
}

// batches are the tasks that wait for others of their kind, and the dispatches of
// the moment that may share a batch id.
type batches struct {
	// limits of the task types that are batched; the others are not among them.
	limits    map[string]coordinator.Batch
	gathering map[batchKey]*gathering
	sharing   map[company][]*coordinator.Dispatch
}

// gathering is the tasks of one kind that wait for others, and until when at the
// latest.
type gathering struct {
	members []*openTask
	closes  time.Time
}

// company is the tasks of one kind that go to one agent.
type company struct {
	batchKey
	agent coordinator.AgentID
}

func newBatches() batches {
	return batches{gathering: make(map[batchKey]*gathering), sharing: make(map[company][]*coordinator.Dispatch)}
}

// under takes over which task types a policy has batched.
func (b *batches) under(p *coordinator.Policy) {
	b.limits = nil
	for taskType, route := range p.Routes { // order does not matter: it is a copy
		if route.Batch.MaxSize < 2 {
			continue
		}
		if b.limits == nil {
			b.limits = make(map[string]coordinator.Batch)
		}
		b.limits[taskType] = route.Batch
	}
}

// limitsOf gives the limits of the batch that the task may share; false when it goes
// alone.
func (b *batches) limitsOf(t *openTask) (limits coordinator.Batch, batched bool) {
	if !t.fresh || b.limits == nil || t.asks() { // bids are for one task
		return limits, false
	}
	limits, batched = b.limits[t.task.Type]
	return limits, batched
}

// gather lets a new task wait for others of its kind; false when it is to be decided
// now: nothing is to be gained, or it has no time for it.
//
// The first of a batch opens it for MaxWait; it closes before that when it is full.
// The wait is a part of the time for which a task may be pending, so it is never
// longer than the assignment timeout: with one of 0 nothing waits. A task whose
// deadline is less than twice as far away as the end of the wait does not wait. Nor
// does one for which others of its class wait already: it stands in line with them,
// and those that wait for a slot share batches, too.
func (e *Engine) gather(now time.Time, t *openTask) bool {
	limits, batched := e.batches.limitsOf(t)
	if !batched || t.from != "" { // it has waited in its lane
		return false
	}
	if c := t.needs.class; c.nobody || c.first() != nil || !t.until.IsZero() ||
		e.backlog() >= e.policy.Settings.MaxQueueSize {
		return false
	}
	key, until := batchKeyOf(t), e.pendingUntil(now, t)
	g := e.batches.gathering[key]
	if g == nil {
		g = &gathering{closes: earlier(now.Add(limits.MaxWait), until)}
	}
	wait := g.closes.Sub(now)
	if d := t.task.Deadline; wait <= 0 || !d.IsZero() && d.Sub(now) < 2*wait {
		return false
	}
	t.state, t.until = stateGathering, until
	e.pending.count[t.task.Priority]++
	e.batches.gathering[key] = g
	g.members = append(g.members, t)
	if len(g.members) >= limits.MaxSize {
		e.gathered(now, t)
	} else {
		e.timers.schedule(&t.retry, g.closes)
	}
	return true
}

// gathered decides the batch for which the task waits: it is full, or its time is up.
func (e *Engine) gathered(now time.Time, t *openTask) {
	key := batchKeyOf(t)
	members := e.batches.gathering[key].members
	delete(e.batches.gathering, key)
	e.endGathering(members)
	e.decideBatch(now, members)
}

// endGathering makes tasks that wait for others ready to be decided.
func (e *Engine) endGathering(members []*openTask) {
	for _, t := range members {
		e.pending.count[t.task.Priority]--
		e.timers.cancel(&t.retry)
		t.state = stateDeciding
	}
}

// leaveBatch takes one task out of those that wait for others; for these nothing
// changes.
func (e *Engine) leaveBatch(t *openTask) {
	key := batchKeyOf(t)
	g := e.batches.gathering[key]
	g.members = slices.DeleteFunc(g.members, func(m *openTask) bool { return m == t })
	if len(g.members) == 0 {
		delete(e.batches.gathering, key)
	}
}

// dissolve ends all gathering. It gives the batches as they are, in the order of the
// tasks that go first in each.
func (e *Engine) dissolve() [][]*openTask {
	all := make([][]*openTask, 0, len(e.batches.gathering))
	for _, g := range e.batches.gathering { // order does not matter: they are sorted
		e.endGathering(g.members)
		sortByDue(g.members)
		all = append(all, g.members)
	}
	slices.SortFunc(all, func(a, b []*openTask) int { return byDue(a[0], b[0]) })
	clear(e.batches.gathering)
	return all
}

// decideBatch gives tasks of one kind to agents: the one that goes first as if it
// were alone, the others to the same agent, in the order of byDue, for as long as it can
// take them. So the highest priority decides the place of all. What the agent has no
// slot for begins the next batch, for the agent that the strategy then prefers. An
// agent with more slots is not sought: the strategy knows better than the size of a
// batch who should have the work, and nobody who could run now waits for better
// company. Those for whom no agent has a slot wait for one.
func (e *Engine) decideBatch(now time.Time, members []*openTask) {
	sortByDue(members)
	var at *agent
	var decision decisionWithRoom // that of the first
	var first *openTask
	size := 0
	for _, t := range members {
		// Under another policy than when it came it may be impossible, or of another kind.
		if reason, text := e.resolve(t); reason != coordinator.ReasonNone {
			e.fail(now, t, reason, text, nil)
			continue
		}
		if at != nil && e.waitsForQuota(t) { // as it would alone; the others need not
			e.place(now, t)
			continue
		}
		limits, _ := e.batches.limitsOf(t)
		if at != nil && size < limits.MaxSize && !t.late(now) && batchKeyOf(t) == batchKeyOf(first) && e.follows(t, at) {
			size++
			e.assignBest(now, t, at, &decision.Decision)
			continue
		}
		var chosen *coordinator.Decision
		if at, chosen = e.place(now, t); at != nil {
			decision.keep(chosen)
		}
		first, size = t, 1
	}
}

// follows tells whether the agent may have the task as well, now.
func (e *Engine) follows(t *openTask, a *agent) bool {
	q := e.question(t)
	if !q.feasible.Has(a.Number) {
		return false
	}
	q.feasible = agentset.New(len(e.fleet.Agents))
	q.feasible.Add(a.Number)
	chosen, _ := e.fleet.choose(q)
	return chosen != nil
}

// share notes a dispatch that may share a batch with others of the same moment.
func (e *Engine) share(t *openTask, d *coordinator.Dispatch) {
	limits, batched := e.batches.limitsOf(t)
	if !batched {
		return
	}
	c := company{batchKeyOf(t), d.Agent}
	others := e.batches.sharing[c]
	if len(others) == limits.MaxSize {
		e.seal(others)
		others = nil
	}
	e.batches.sharing[c] = append(others, d)
}

// sealBatches ends a moment: what is dispatched from here on is in other batches.
func (e *Engine) sealBatches() {
	if len(e.batches.sharing) == 0 {
		return
	}
	for _, list := range e.batches.sharing { // order does not matter: each is sealed by itself
		e.seal(list)
	}
	clear(e.batches.sharing)
}

// seal has dispatches share a batch, which is named after the first of them. A task
// shares a batch once in its life and a dispatch id names one dispatch, so a batch id
// names one batch.
func (e *Engine) seal(list []*coordinator.Dispatch) {
	if len(list) < 2 {
		return
	}
	for _, d := range list {
		d.BatchID, d.BatchSize = list[0].DispatchID, len(list)
		if t := e.held[d.Handle]; t != nil && t.dispatchID == d.DispatchID {
			t.batch = d.BatchID
		}
	}
}

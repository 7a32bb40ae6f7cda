package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Agents may have quota of their own. Then it differs who lacks it, and a task waits for what comes
// back to any of them.

// lackers are the agents for which a task lacks quota.
type lackers struct {
	bitset
	// nodes are those at which something must come back before one of them has it: of groups and
	// above. That of an agent stands under its group's (fairshare.Ledger.GroupNode).
	nodes []string
	// again is when one of the models that the task may go to may have room by itself; zero: none, or it
	// has no choice.
	again time.Time
}

// behind notes where what an agent lacks comes back.
func (l *lackers) behind(ledger *fairshare.Ledger, v *fairshare.Verdict) {
	for _, id := range [2]string{ledger.GroupNode(v.Node), ledger.GroupNode(v.Behind)} {
		if !slices.Contains(l.nodes, id) {
			l.nodes = append(l.nodes, id)
		}
	}
}

// triesAt has the task try by itself then, if not sooner; zero: it need not.
func (l *lackers) triesAt(now, at time.Time) {
	if at.IsZero() {
		return
	}
	if !at.After(now) { // what is refused is not asked again at once
		at = now.Add(time.Millisecond)
	}
	if l.again.IsZero() || at.Before(l.again) {
		l.again = at
	}
}

// agentsOwn are the agents that have quota of their own, by group, and all of them under "". What
// they have in a provider's pool is for the groups below theirs, too, where those have quota by
// agent themselves.
func agentsOwn(q *coordinator.Quotas) map[string][]coordinator.AgentID {
	own := make(map[string][]coordinator.AgentID)
	if q == nil {
		return own
	}
	type member struct {
		group string
		agent coordinator.AgentID
	}
	known := make(map[member]bool)
	add := func(group string, agents ...coordinator.AgentID) {
		for _, id := range agents {
			if m := (member{group, id}); !known[m] {
				known[m], own[group] = true, append(own[group], id)
			}
		}
	}
	for i := range q.Nodes {
		if n := &q.Nodes[i]; n.Kind == coordinator.QuotaAgent {
			add(q.Nodes[n.Parent].Name, coordinator.AgentID(n.Name))
			add("", coordinator.AgentID(n.Name))
		}
	}
	for i := range q.Nodes { // parents before children
		n := &q.Nodes[i]
		if n.Kind == coordinator.QuotaGroup && len(own[n.Name]) > 0 && q.Nodes[n.Parent].Kind == coordinator.QuotaGroup {
			add(n.Name, own[q.Nodes[n.Parent].Name]...)
		}
	}
	return own
}

// others looks, after a task was refused for one agent, or was not for nobody in particular, for
// those of its class for whom there is quota: where agents have some of their own, that differs.
// able are those that are ready, nil: none; lacks is what to wait for if that helps nothing, nil:
// nothing, but an agent; and without everybody for whom there is none, nil: it makes no
// difference who has the task. Those who have none of their own are asked once for all.
func (e *Engine) others(now time.Time, t *openTask, refused *fairshare.Verdict) (able bitset, lacks *fairshare.Verdict, without *lackers) {
	q, several := &e.quotas, e.routesOfTask(t) != nil
	own := q.byAgent[t.task.Group]
	if len(own) == 0 && !several {
		return nil, refused, nil
	}
	if without = (&lackers{bitset: newBitset(len(e.fleet.agents))}); !refused.OK {
		lacks = refused
		without.behind(q.ledger, refused)
	}
	somebody := false // it may be a matter of waiting for an agent
	ask := func(id coordinator.AgentID, these bitset) {
		x := e.checkFor(now, t, id)
		if v := x.verdict; !v.OK {
			without.add(these)
			without.behind(q.ledger, &v)
			for i := range x.refused {
				without.behind(q.ledger, &x.refused[i])
				without.triesAt(now, x.refused[i].RetryAt)
			}
			if lacks == nil || sooner(&v, lacks) {
				if lacks = &v; several { // it waits in that pool
					t.quota.take(&x)
				}
			}
			return
		}
		these.each(func(i int) {
			switch {
			case !e.fleet.ready.has(i):
				somebody = true
			case able == nil:
				able = newBitset(len(e.fleet.agents))
				fallthrough
			default:
				able.set(i)
			}
		})
	}
	rest, one := slices.Clone(t.needs.class.usable), newBitset(len(e.fleet.agents))
	for _, id := range own {
		a := e.fleet.byID[id]
		if a == nil || a.number < 0 || !rest.has(a.number) {
			continue
		}
		rest.clear(a.number)
		one.set(a.number)
		ask(id, one)
		one.clear(a.number)
	}
	if !rest.empty() {
		ask("", rest)
	}
	if somebody && lacks != nil && lacks.Permanent {
		lacks = &fairshare.Verdict{Node: lacks.Node, Kind: lacks.Kind, Dimension: lacks.Dimension, Limit: lacks.Limit}
	}
	return able, lacks, without
}

// sooner tells whether one refusal ends before another.
func sooner(a, b *fairshare.Verdict) bool {
	switch {
	case a.Permanent || b.Permanent:
		return !a.Permanent
	case a.RetryAt.IsZero() || b.RetryAt.IsZero():
		return !a.RetryAt.IsZero()
	}
	return a.RetryAt.Before(b.RetryAt)
}

// ownWaits are those for whom it makes a difference which agent has the task.
type ownWaits struct {
	all    []*quotaWait
	behind map[string][]*quotaWait // by their nodes (see lackers)
	try    []*quotaWait            // those that are yet to try what was given back
	unled  []lackKey               // queues that were without a first for a moment at least
}

func (o *ownWaits) add(w *quotaWait) {
	o.all = append(o.all, w)
	for _, node := range w.without.nodes {
		o.behind[node] = append(o.behind[node], w)
	}
}

func (o *ownWaits) remove(w *quotaWait) {
	if o.all = minus(o.all, w); w.woken {
		o.try, w.woken = minus(o.try, w), false
	}
	for _, node := range w.without.nodes {
		if left := minus(o.behind[node], w); len(left) > 0 {
			o.behind[node] = left
		} else {
			delete(o.behind, node)
		}
	}
}

// wake has those try for whose agents something may have come back at the node.
func (o *ownWaits) wake(node string) {
	for _, w := range o.behind[node] {
		if !w.woken {
			o.try, w.woken = append(o.try, w), true
		}
	}
}

// wakeUnled has those try who may wait behind the first of a queue that has none any more: he was
// served, has left, or lacks something else. false: nobody does.
func (q *quotaWaits) wakeUnled() bool {
	for _, key := range q.own.unled {
		if k := q.queues[key]; k == nil || k.first == nil {
			q.own.wake(q.ledger.GroupNode(key.node))
		}
	}
	q.own.unled = q.own.unled[:0]
	return len(q.own.try) > 0
}

// next is whose turn it is of those that are to try: of the highest priority first.
func (o *ownWaits) next(s *fairshare.Shares) *quotaWait {
	best := o.try[0]
	for _, w := range o.try[1:] {
		if w.task.level > best.task.level || w.task.level == best.task.level && s.Before(w.leaf, best.leaf) {
			best = w
		}
	}
	return best
}

// retryOwn has those try again for whom it makes a difference which agent has the task, and
// who did not lack anything for this one.
func (e *Engine) retryOwn(a *agent) {
	q := &e.quotas.waits
	for i := 0; i < len(q.own.all); {
		if w := q.own.all[i]; w.class.usable.has(a.number) && !w.without.has(a.number) {
			q.unpark(w)
			q.retried = append(q.retried, w)
		} else {
			i++
		}
	}
}

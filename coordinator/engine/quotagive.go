package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// assign gives the task to this very agent if there is quota for it; else the task waits, or
// fails because there never will be, and false is returned.
func (e *Engine) assign(now time.Time, t *openTask, a *agent, d *coordinator.Decision) bool {
	v := e.afford(now, t, a)
	if v.OK {
		e.dispatch(now, t, a, d)
		return true
	}
	if _, lacks, without := e.others(now, t, &v); lacks != nil {
		e.lacksQuota(now, t, lacks, without)
	}
	return false
}

// assignBest gives the task to the agent that was chosen for it or, if there is no quota for
// that one, to the best of those for whom there is. It returns who has it; nil: nobody.
func (e *Engine) assignBest(now time.Time, t *openTask, a *agent, d *coordinator.Decision) (*agent, *coordinator.Decision) {
	v := e.afford(now, t, a)
	if !v.OK {
		able, lacks, without := e.others(now, t, &v)
		if able != nil {
			q := e.question(t)
			q.feasible = able
			if a, d = e.fleet.choose(q); a != nil {
				v = e.afford(now, t, a)
			}
		}
		if !v.OK {
			e.lacksQuota(now, t, lacks, without)
			return nil, nil
		}
	}
	e.dispatch(now, t, a, d)
	return a, d
}

// agentsOwn are the groups of which some agent has quota of its own.
func agentsOwn(q *coordinator.Quotas) map[string]bool {
	own := make(map[string]bool)
	if q == nil {
		return own
	}
	for i := range q.Nodes {
		if n := &q.Nodes[i]; n.Kind == coordinator.QuotaAgent {
			own[q.Nodes[n.Parent].Name], own[""] = true, true
		}
	}
	return own
}

// others looks, after a task was refused for one agent, or was not for nobody in particular, for
// those of its class for whom there is quota: where agents have some of their own, that differs.
// able are those that are ready, nil: none; lacks is what to wait for if that helps nothing, nil:
// nothing, but an agent; and without everybody for whom there is none, nil: it makes no
// difference who has the task.
func (e *Engine) others(now time.Time, t *openTask, refused *fairshare.Verdict) (able bitset, lacks *fairshare.Verdict, without bitset) {
	q, c := &e.quotas, t.quota.charge
	if !q.byAgent[c.Group] {
		return nil, refused, nil
	}
	if without = newBitset(len(e.fleet.agents)); !refused.OK {
		lacks = refused
	}
	somebody := false // it may be a matter of waiting for an agent
	t.needs.class.usable.each(func(i int) {
		c.Agent = e.fleet.agents[i].spec.ID
		p := q.ledger.PathOf(&c)
		v := q.ledger.Check(now, &p, &c)
		switch {
		case v.OK && e.fleet.ready.has(i):
			if able == nil {
				able = newBitset(len(e.fleet.agents))
			}
			able.set(i)
		case v.OK:
			somebody = true
		default:
			without.set(i)
			if lacks == nil || sooner(&v, lacks) {
				lacks = &v
			}
		}
	})
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

// lacksFor tells what keeps the task from whoever could have it now; nil: nothing does.
func (e *Engine) lacksFor(now time.Time, t *openTask) (*fairshare.Verdict, bitset) {
	able, lacks, without := e.whoLacks(now, t)
	if able != nil {
		return nil, nil
	}
	return lacks, without
}

// whoLacks is others for a task that was not refused yet.
func (e *Engine) whoLacks(now time.Time, t *openTask) (able bitset, lacks *fairshare.Verdict, without bitset) {
	h := e.quotaDemand(t)
	if h == nil || h.open {
		return nil, nil, nil
	}
	c := h.charge
	c.Agent = ""
	p := e.quotas.ledger.PathOf(&c)
	v := e.quotas.ledger.Check(now, &p, &c)
	if v.OK && !e.quotas.byAgent[c.Group] {
		return nil, nil, nil
	}
	return e.others(now, t, &v)
}

// affordable tells whether there is quota for giving the task to the agent now.
func (e *Engine) affordable(now time.Time, t *openTask, id coordinator.AgentID) bool {
	h := e.quotaDemand(t)
	if h == nil || h.open {
		return true
	}
	c := h.charge
	c.Agent = id
	p := e.quotas.ledger.PathOf(&c)
	return e.quotas.ledger.Check(now, &p, &c).OK
}

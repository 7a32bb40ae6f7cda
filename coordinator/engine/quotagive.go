package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/fairshare"
)

// assign gives the task to this very agent if there is quota for it; else the task waits, or
// fails because there never will be, and false is returned.
func (e *Engine) assign(now time.Time, t *openTask, a *agent, d *coordinator.Decision) bool {
	v := e.reserveQuota(now, t, a)
	if v.OK {
		e.dispatch(now, t, a, d)
		return true
	}
	if _, lacks, without := e.agentsWithQuota(now, t, &v); lacks != nil {
		e.waitForQuota(now, t, lacks, without)
	}
	return false
}

// assignBest gives the task to the agent that was chosen for it or, if there is no quota for
// that one, to the best of those for which there is. It returns the agent that has it; nil: none.
func (e *Engine) assignBest(
	now time.Time, t *openTask, a *agent, d *coordinator.Decision,
) (*agent, *coordinator.Decision) {
	v := e.reserveQuota(now, t, a)
	if !v.OK {
		able, lacks, without := e.agentsWithQuota(now, t, &v)
		if able != nil {
			if a, d = e.chooseAmong(t, able); a != nil {
				if v = e.reserveQuota(now, t, a); !v.OK { // it is to wait behind another
					without.Agents.Unite(able)
					without.WaitFor(e.quotas.ledger, &v)
					if lacks == nil || sooner(&v, lacks) {
						lacks = &v
					}
				}
			}
		}
		if !v.OK {
			e.waitForQuota(now, t, lacks, without)
			return nil, nil
		}
	}
	e.dispatch(now, t, a, d)
	return a, d
}

// quotaMissing is what keeps the task from every agent that could have it now; nil: nothing does.
func (e *Engine) quotaMissing(now time.Time, t *openTask) (*fairshare.Verdict, *admission.Lacking) {
	able, lacks, without := e.checkQuota(now, t)
	if able != nil {
		return nil, nil
	}
	return lacks, without
}

// checkQuota is agentsWithQuota for a task that was not refused yet.
func (e *Engine) checkQuota(
	now time.Time, t *openTask,
) (able agentset.Set, lacks *fairshare.Verdict, without *admission.Lacking) {
	h := e.quotaDemand(t)
	if h == nil || h.open {
		return nil, nil, nil
	}
	v := e.checkFor(now, t, "").verdict
	if v.OK && len(e.quotas.byAgent[h.charge.Group]) == 0 {
		return nil, nil, nil
	}
	return e.agentsWithQuota(now, t, &v)
}

// affordable reports whether there is quota for giving the task to the agent now.
func (e *Engine) affordable(now time.Time, t *openTask, id coordinator.AgentID) bool {
	h := e.quotaDemand(t)
	if h == nil || h.open {
		return true
	}
	return e.checkFor(now, t, id).verdict.OK
}

// checkFor is whether there is quota for the task with that agent, or without one with agents that have none
// of their own, and what it would be charged to.
func (e *Engine) checkFor(now time.Time, t *openTask, id coordinator.AgentID) taskChoice {
	if routes := e.routesOfTask(t); routes != nil {
		return e.chooseFor(now, t, id, routes)
	}
	c, usual := t.quota.charge, t.quota.usual
	e.quotas.ledger.GiveTo(id, &c, &usual, t.task.Type, t.task.EstimatedUsage)
	p := e.quotas.ledger.PathOf(&c)
	return taskChoice{charge: c, usual: usual, verdict: e.quotas.ledger.Check(now, &p, &c)}
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

// agentsWithQuota looks, after a task was refused for one agent or checked without one, for the agents of its
// class for which there is quota: where agents have some of their own, that differs. able are those that are
// ready, nil: none. lacks is what to wait for if there are none, nil: nothing but an agent. without are all
// for which there is no quota, nil: it makes no difference which agent has the task. Agents that have none of
// their own are checked together.
func (e *Engine) agentsWithQuota(
	now time.Time, t *openTask, refused *fairshare.Verdict,
) (able agentset.Set, lacks *fairshare.Verdict, without *admission.Lacking) {
	q, several := &e.quotas, e.routesOfTask(t) != nil
	own := q.byAgent[t.task.Group]
	if len(own) == 0 && !several {
		return nil, refused, nil
	}
	lacking := agentset.New(len(e.fleet.Agents))
	if without = (&admission.Lacking{Agents: lacking}); !refused.OK {
		lacks = refused
		without.WaitFor(q.ledger, refused)
	}
	busy := false // an agent that is not ready has quota: it may be a matter of waiting for it
	check := func(id coordinator.AgentID, these agentset.Set) {
		x := e.checkFor(now, t, id)
		if v := x.verdict; !v.OK {
			lacking.Unite(these)
			without.WaitFor(q.ledger, &v)
			for i := range x.refused {
				without.WaitFor(q.ledger, &x.refused[i])
				without.TryAt(now, x.refused[i].RetryAt)
			}
			if lacks == nil || sooner(&v, lacks) {
				if lacks = &v; several { // it waits in that pool
					t.quota.take(&x)
				}
			}
			return
		}
		these.Each(func(i int) {
			switch {
			case !e.fleet.Ready.Has(i):
				busy = true
			case able == nil:
				able = agentset.New(len(e.fleet.Agents))
				fallthrough
			default:
				able.Add(i)
			}
		})
	}
	rest, one := slices.Clone(t.needs.class.Usable), agentset.New(len(e.fleet.Agents))
	for _, id := range own {
		a := e.fleet.ByID[id]
		if a == nil || a.Number < 0 || !rest.Has(a.Number) {
			continue
		}
		rest.Remove(a.Number)
		one.Add(a.Number)
		check(id, one)
		one.Remove(a.Number)
	}
	if !rest.Empty() {
		check("", rest)
	}
	if busy && lacks != nil && lacks.Permanent {
		lacks = &fairshare.Verdict{Node: lacks.Node, Kind: lacks.Kind, Dimension: lacks.Dimension, Limit: lacks.Limit}
	}
	return able, lacks, without
}

// sooner reports whether one refusal ends before another.
func sooner(a, b *fairshare.Verdict) bool {
	switch {
	case a.Permanent || b.Permanent:
		return !a.Permanent
	case a.RetryAt.IsZero() || b.RetryAt.IsZero():
		return !a.RetryAt.IsZero()
	}
	return a.RetryAt.Before(b.RetryAt)
}

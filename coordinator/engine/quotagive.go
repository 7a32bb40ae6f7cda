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
				if v = e.afford(now, t, a); !v.OK { // it is to wait behind somebody
					without.add(able)
					without.behind(e.quotas.ledger, &v)
					if lacks == nil || sooner(&v, lacks) {
						lacks = &v
					}
				}
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

// lacksFor tells what keeps the task from whoever could have it now; nil: nothing does.
func (e *Engine) lacksFor(now time.Time, t *openTask) (*fairshare.Verdict, *lackers) {
	able, lacks, without := e.whoLacks(now, t)
	if able != nil {
		return nil, nil
	}
	return lacks, without
}

// whoLacks is others for a task that was not refused yet.
func (e *Engine) whoLacks(now time.Time, t *openTask) (able bitset, lacks *fairshare.Verdict, without *lackers) {
	h := e.quotaDemand(t)
	if h == nil || h.open {
		return nil, nil, nil
	}
	v := e.checkFor(now, t, "").verdict
	if v.OK && len(e.quotas.byAgent[h.charge.Group]) == 0 {
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
	return e.checkFor(now, t, id).verdict.OK
}

// checkFor tells whether there is quota for the task with that agent, or with nobody in particular, and
// what it would be charged to.
func (e *Engine) checkFor(now time.Time, t *openTask, id coordinator.AgentID) taskChoice {
	if routes := e.routesOfTask(t); routes != nil {
		return e.chooseFor(now, t, id, routes)
	}
	c, usual := t.quota.charge, t.quota.usual
	e.quotas.ledger.GiveTo(id, &c, &usual, t.task.Type, t.task.EstimatedUsage)
	p := e.quotas.ledger.PathOf(&c)
	return taskChoice{charge: c, usual: usual, verdict: e.quotas.ledger.Check(now, &p, &c)}
}

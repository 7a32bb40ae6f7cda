package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/fairshare"
)

// quotaDue ends reservations that have expired without a report of how they went. Waiting tasks are served at the
// end of this moment's duties.
func (k *kernel) quotaDue(now time.Time) {
	for key, c := range k.Quotas.Overdue(now) {
		if c.Call {
			out := k.Calls.Expire(now, key, c)
			k.CallsChanged(&out)
		} else {
			k.Commit(k.Quotas.ExpireDue(now, key, c))
		}
	}
	k.QuotaAlerts() // an expired call may be charged
}

// assign gives the task to this very agent if there is quota for it; else the task waits, or
// fails because there never will be, and false is returned.
func (k *kernel) assign(now time.Time, t *state.Task, a *state.Agent, d *coordinator.Decision) bool {
	v := k.ReserveQuota(now, t, a)
	if v.OK {
		k.dispatch(now, t, a, d)
		return true
	}
	r := k.Quotas.Others(now, t.Task, t.Quota, &v, k.Takers(t), true)
	k.waitForQuota(now, t, &r)
	return false
}

// assignBest gives the task to the agent that was chosen for it or, if there is no quota for
// that one, to the best of those for which there is. It returns the agent that has it; nil: none.
func (k *kernel) assignBest(
	now time.Time, t *state.Task, a *state.Agent, d *coordinator.Decision,
) (*state.Agent, *coordinator.Decision) {
	v := k.ReserveQuota(now, t, a)
	if v.OK {
		k.dispatch(now, t, a, d)
		return a, d
	}
	r := k.Quotas.Others(now, t.Task, t.Quota, &v, k.Takers(t), true)
	if r.Able != nil {
		if a, d = k.ChooseAmong(t, r.Able); a != nil {
			if v = k.ReserveQuota(now, t, a); v.OK {
				k.dispatch(now, t, a, d)
				return a, d
			}
			k.Quotas.RefusedToo(&r, &v)
		}
	}
	k.waitForQuota(now, t, &r)
	return nil, nil
}

// waitForQuota has a task wait for quota that its group, or the pool, lacks; or fails it because no
// limit will ever allow so much.
func (k *kernel) waitForQuota(now time.Time, t *state.Task, r *admission.Refusal) {
	v := &r.Lacks
	k.Quotas.Refused[v.Limit][v.Dimension]++
	if v.Limit == fairshare.LimitPrice {
		k.Unpriced(&t.Quota.Charge, true)
	}
	if v.Permanent {
		k.Fail(now, t, coordinator.ReasonExceedsQuota, v.Describe(), nil)
		return
	}
	if k.wait(now, t); t.Stage != state.Waiting {
		return
	}
	w := &admission.Wait{Class: t.Needs.Class, Leaf: t.Leaf, Level: t.Level, Task: t, Charge: &t.Quota.Charge, Lacks: *v,
		Without: r.Without}
	k.Quotas.Waits.Park(now, w, t.Task.Group)
	t.Needs.Class.Park(w.Leaf)
	k.ScheduleQuota()
}

// exceedsQuota fails a task that asks for more than its quotas ever allow, with any agent.
func (k *kernel) exceedsQuota(now time.Time, t *state.Task) bool {
	first := t.Needs.Class.Usable.First(t.Needs.Class.Usable)
	if first < 0 {
		return false
	}
	r, exceeds := k.Quotas.Exceeds(now, t.Task, k.QuotaDemand(t), k.Fleet.Agents[first].Spec.ID, k.Takers(t))
	if exceeds {
		k.waitForQuota(now, t, &r)
	}
	return exceeds
}

// serveQuotas serves what waited for quota that may be back, and what waits for an agent alone: one task at a
// time, in the order that admission gives.
func (k *kernel) serveQuotas(now time.Time) {
	q := &k.Quotas
	if !q.Installed() {
		k.ScheduleQuota() // what is open from the time of quotas ends all the same
		return
	}
	q.Claimed = false
	for _, w := range q.Waits.Begin(now) {
		k.Claims.Wanted(w.Class.(*state.Class).Usable)
	}
	for s, ok := q.Waits.Next(k.QuotaView()); ok; s, ok = q.Waits.Next(k.QuotaView()) {
		served, given := false, q.Given
		k.Unpark(s.Unpark, true)
		if w := s.Blocked; w != nil {
			q.Refused[w.Lacks.Limit][w.Lacks.Dimension]++
		}
		if s.Levels != 0 {
			q.Claimed = q.Claimed || len(s.Unpark) > 0 && k.Claims.Due()
			served = k.serveFirst(now, s.Levels, s.Others)
		}
		q.Waits.Done(served, q.Given != given)
	}
	k.ScheduleQuota() // whatever has ended meanwhile
}

// serveFirst serves the task that is next among those that wait for an agent alone, and have one that is ready,
// at these levels; at the others something waits for quota. false: there is none.
func (k *kernel) serveFirst(now time.Time, levels, others uint8) bool {
	line := k.Pending.LineFor(k.Fleet.Ready, levels, others)
	defer line.End()
	return k.serveNext(now, &line)
}

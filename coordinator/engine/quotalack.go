package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// lacksQuota lets a task wait for quota that its group, or the pool, has not got; or fails
// it because no limit will ever allow so much. without are the agents for which it lacks; nil:
// it does for everybody.
func (e *Engine) lacksQuota(now time.Time, t *openTask, v *fairshare.Verdict, without *lackers) {
	e.quotas.flow.refused[v.Limit][v.Dimension]++
	if v.Limit == fairshare.LimitPrice {
		e.unpriced(&t.quota.charge, true)
	}
	if v.Permanent {
		e.fail(now, t, coordinator.ReasonExceedsQuota, v.Describe(), nil)
		return
	}
	if e.wait(now, t); t.state != stateWaiting {
		return
	}
	lacks := notAtOnce(now, *v)
	w := &quotaWait{
		class: t.needs.class, leaf: t.leaf, task: t, lacks: lacks, without: without,
		path: e.quotas.ledger.PathOf(&t.quota.charge),
	}
	switch {
	case without == nil && lacks.Empty && e.quotas.undivided(&lacks):
		w.leaf = -1
	case !lacks.Owns: // else it borrows nothing
		w.borrower = e.quotas.ledger.Borrower(t.task.Group, &w.path, &lacks)
	}
	e.quotas.waits.park(w)
	e.scheduleQuota()
}

// notAtOnce is a refusal that ends after now: what is refused is not asked again at once.
func notAtOnce(now time.Time, v fairshare.Verdict) fairshare.Verdict {
	for _, at := range [2]*time.Time{&v.RetryAt, &v.OwnAt} {
		if !at.IsZero() && !at.After(now) {
			*at = now.Add(time.Millisecond)
		}
	}
	return v
}

// undivided tells whether it is a pool that has nothing left, or a model, and no part of it is
// anybody's own: then everybody who is charged to it lacks the same.
func (q *quotas) undivided(v *fairshare.Verdict) bool {
	if v.Kind != coordinator.QuotaPool && v.Kind != coordinator.QuotaModel {
		return false
	}
	key := division{v.Node, v.Limit, v.Dimension}
	divided, known := q.waits.divided[key]
	if !known {
		if q.waits.divided == nil {
			q.waits.divided = make(map[division]bool)
		}
		divided = q.ledger.Divided(v.Node, v.Limit, v.Dimension)
		q.waits.divided[key] = divided
	}
	return !divided
}

// waitsForQuota tells whether the task is to wait for quota behind another of its group, or
// of its pool.
func (e *Engine) waitsForQuota(t *openTask) bool {
	if !e.quotas.ledger.Installed() {
		return false
	}
	c, level := t.needs.class, levelOf(t)
	return c.lacks.stands(t, level) || e.quotas.waits.of[waitKey{c, e.leafOf(t)}].stands(t, level)
}

// stands tells whether the task stands behind the one that waits.
func (w *quotaWait) stands(t *openTask, level int) bool {
	switch {
	case w == nil:
		return false
	case w.leaf < 0 || level != w.task.level:
		return level <= w.task.level
	}
	return before(w.task, t)
}

// overtakes has those of its group, or its pool, try again before whom the task goes that begins
// to wait. It may need less, and would stand behind somebody who waits.
func (e *Engine) overtakes(t *openTask) {
	q := &e.quotas.waits
	for _, w := range [2]*quotaWait{t.needs.class.lacks, q.of[waitKey{t.needs.class, t.leaf}]} {
		if w != nil && !w.stands(t, t.level) {
			q.unpark(w)
			e.wanted(w.class)
		}
	}
}

// exceedsQuota fails a task that asks for more than its quotas ever allow, whoever has it. All
// agents are looked at only if what it exceeds is the first one's own.
func (e *Engine) exceedsQuota(now time.Time, t *openTask) bool {
	h := e.quotaDemand(t)
	i := t.needs.class.usable.first(t.needs.class.usable)
	if h == nil || h.open || i < 0 {
		return false
	}
	x := e.checkFor(now, t, e.fleet.agents[i].spec.ID)
	v := x.verdict
	if !v.Permanent {
		return false
	}
	own := func(v fairshare.Verdict) bool { return v.Kind == coordinator.QuotaAgent }
	lacks, without := &v, (*lackers)(nil)
	if own(v) || slices.ContainsFunc(x.refused, own) {
		var able bitset
		if able, lacks, without = e.others(now, t, &v); able != nil || !lacks.Permanent {
			return false
		}
	}
	e.lacksQuota(now, t, lacks, without)
	return true
}

// division asks whether what a node may use is divided among those below it.
type division struct {
	node  string
	limit fairshare.Limit
	dim   coordinator.Dimension
}

package engine

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// endCall ends a reservation by its caller's word.
func (e *Engine) endCall(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) (recorded bool) {
	l := e.quotas.ledger
	charge, open, known := l.Find(c.Key)
	if !known || foreign(c, &charge) {
		a.State = coordinator.CallUnknown
		return false
	}
	e.callOf(a, &charge)
	begun := l.BegunAt(c.Key)
	switch {
	case c.Op == coordinator.CallRelease && !open:
		a.State = coordinator.CallEnded
		return false
	case c.Op == coordinator.CallRelease:
		l.Release(now, c.Key, c.Keep)
		a.Amounts = coordinator.Amounts{}
		e.record(e.answeredCall(c, &charge, &coordinator.QuotaEnded{Key: c.Key, How: coordinator.QuotaReleased, At: now, Keep: c.Keep}))
	default:
		used := charge.Amounts
		if used[coordinator.DimConcurrency] = 0; c.Meant == coordinator.UsageExact {
			used = l.Used(&charge, charge.Operation, &c.Usage)
		}
		if e.doubtCall(c, a, &charge, &used) {
			return false
		}
		a.Amounts = used
		if !e.settleCall(now, c, &charge, used, c.Meant == coordinator.UsageExact) {
			a.State = coordinator.CallEnded
			return false
		}
	}
	e.hear(now, begun, c, &charge)
	return true
}

// doubtCall tells whether what an agent says of itself is not to be believed. What a coordinator has
// admitted by itself that one has judged, and its agent has been answered.
func (e *Engine) doubtCall(c *coordinator.Call, a *coordinator.CallAnswer, charge *fairshare.Charge, used *coordinator.Amounts) bool {
	if !c.OwnOnly || c.Admitted {
		return false
	}
	d := e.quotas.ledger.Doubted(charge, used)
	if d == nil {
		return false
	}
	NotBelieved(a, d)
	return true
}

// NotBelieved answers an agent whose own word is in doubt.
func NotBelieved(a *coordinator.CallAnswer, d *fairshare.Doubt) {
	a.State = coordinator.CallDoubted
	a.Lacks = &coordinator.QuotaLack{
		Node: d.Node, Dimension: d.Dimension, Limit: fairshare.LimitBudget.String(),
		Text: fmt.Sprintf("it says %s, and an agent is believed up to %s for this call, by what was reserved and by the budget of %s",
			describeAmount(d.Dimension, d.Told), describeAmount(d.Dimension, d.Most), d.Node),
	}
}

func describeAmount(d coordinator.Dimension, n int64) string {
	if d == coordinator.DimCost {
		return fmt.Sprintf("$%.2f", float64(n)/1e6)
	}
	return fmt.Sprintf("%d %s", n, d)
}

// settleCall charges what was used; false: that has been done before. measured: it is known, and
// not estimated.
func (e *Engine) settleCall(now time.Time, c *coordinator.Call, charge *fairshare.Charge, used coordinator.Amounts, measured bool) bool {
	q := &e.quotas
	ended := q.ledger.Settle(now, c.Key, used, c.Keep)
	if !ended.Known || ended.Again {
		return false
	}
	record := &coordinator.QuotaEnded{Key: c.Key, How: coordinator.QuotaSettled, Used: used, At: now, Keep: c.Keep, Late: lateOwner(charge, ended)}
	if measured {
		record.Type = charge.Operation
		if record.Type == "" {
			record.Type = unnamedCall
		}
		e.excessive("", charge, ended.Excess)
	}
	e.answeredCall(c, charge, record)
	q.observe(charge, record)
	e.countDay(charge, record)
	e.record(record)
	return true
}

// unnamedCall is what calls are learnt as of which nobody says of what sort they are, nor of which
// model.
const unnamedCall = "call"

func endedOrUnknown(known bool) coordinator.CallState {
	if known {
		return coordinator.CallEnded
	}
	return coordinator.CallUnknown
}

// expireCall ends a reservation of which nobody told how it went.
func (e *Engine) expireCall(now time.Time, key coordinator.TaskKey, charge *fairshare.Charge) {
	if charge.Untold {
		used := charge.Amounts
		used[coordinator.DimConcurrency] = 0
		e.settleCall(now, &coordinator.Call{Key: key, Keep: true}, charge, used, false)
		return
	}
	e.quotas.ledger.Expire(now, key)
	e.record(&coordinator.QuotaEnded{Key: key, How: coordinator.QuotaExpired, At: now})
}

// answeredCall adds to the record of a call's end how its provider has answered. A refusal because
// of the provider's limits is none of its answers: it says nothing about how it does its work.
func (e *Engine) answeredCall(c *coordinator.Call, charge *fairshare.Charge, r *coordinator.QuotaEnded) *coordinator.QuotaEnded {
	if w := c.Heard; w != nil && !w.Throttled() {
		r.Heard, r.Failed, r.Took = true, w.Failed(), w.Latency
		e.quotas.ledger.Observe(charge, r.Failed, r.Took)
	}
	return r
}

// hear takes over what the provider has said of its limits. A pool is left alone for a little longer
// than it wants, by the chance of the call that was refused: whoever else uses the same account comes
// back at the moment that the provider has named, and so would other pools of it.
func (e *Engine) hear(now, begun time.Time, c *coordinator.Call, charge *fairshare.Charge) {
	if c.Heard == nil {
		return
	}
	by := coordinator.AgentID("")
	if c.OwnOnly {
		by = c.Agent
	}
	said := *c.Heard
	said.RetryAfter += coordinator.Spread(said.RetryAfter, coordinator.Mix(c.Key[0]^e.policy.Settings.Seed))
	if r := e.quotas.ledger.Hear(now, begun, charge, &said, by); r != nil {
		e.record(r)
	}
}

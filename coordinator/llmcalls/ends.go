package llmcalls

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/hash"
)

// endCall ends a reservation as its caller reports.
func (x *Leases) endCall(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) (recorded bool) {
	l := x.ledger
	charge, open, known := l.Find(c.Key)
	if !known || foreign(c, &charge) {
		a.State = coordinator.CallUnknown
		return false
	}
	x.callOf(a, &charge)
	begun := l.BegunAt(c.Key)
	switch {
	case c.Op == coordinator.CallRelease && !open:
		a.State = coordinator.CallEnded
		return false
	case c.Op == coordinator.CallRelease:
		ended := &coordinator.QuotaEnded{Key: c.Key, How: coordinator.QuotaReleased, At: now, Keep: c.Keep, Word: wordOf(c)}
		l.End(ended)
		a.Amounts = coordinator.Amounts{}
		x.record(x.answeredCall(c, &charge, ended))
	default:
		var unpriced coordinator.ModelUnpriced
		lacks, used := false, charge.Amounts
		used[coordinator.DimConcurrency] = 0
		if u, told := c.Told(float64(used[coordinator.DimInputTokens]), float64(used[coordinator.DimOutputTokens])); told {
			used = l.Used(&charge, charge.Operation, &u, wordOf(c))
			unpriced, lacks = l.UsageUnpriced(&charge, charge.Operation, &u, wordOf(c))
		}
		if doubt := x.doubted(now, c, &charge, &used, &charge.Amounts); doubt != nil {
			x.beyondBelief(a, &charge, doubt, charge.Amounts[doubt.Dimension])
			return false
		}
		a.Amounts = used
		if !x.settleCall(now, c, &charge, used, c.Meant == coordinator.UsageExact) {
			a.State = coordinator.CallEnded
			return false
		}
		if lacks {
			x.tell(unpriced)
		}
	}
	x.hear(now, begun, c, &charge)
	return true
}

// doubted holds the usage reported of a call against the limits of trust; nil: it is within them, or the
// coordinator that has admitted it by itself has judged that, and has answered. asked is what was
// reserved for it.
func (x *Leases) doubted(
	now time.Time, c *coordinator.Call, charge *fairshare.Charge, used, asked *coordinator.Amounts,
) *fairshare.Doubt {
	l := x.ledger
	switch {
	case c.Admitted:
		return nil
	case c.OwnOnly && c.Op == coordinator.CallCharge:
		return l.DoubtedUnasked(now, charge)
	case c.OwnOnly:
		return l.Doubted(now, c.Key, used)
	}
	told := *charge
	told.Amounts = *used
	return l.DoubtedCall(&told, asked)
}

// beyondBelief answers usage that is beyond the trust limit, and announces it to operators: nothing is charged.
func (x *Leases) beyondBelief(a *coordinator.CallAnswer, c *fairshare.Charge, d *fairshare.Doubt, asked int64) {
	NotBelieved(a, d)
	x.tell(coordinator.UsageExcessive{
		Agent: c.Agent, Group: c.Group, Dimension: d.Dimension, Estimated: asked, Reported: d.Told,
	})
}

// NotBelieved answers a report that is in doubt.
func NotBelieved(a *coordinator.CallAnswer, d *fairshare.Doubt) {
	by := "no call takes more"
	if d.Node != "" {
		by = fmt.Sprintf("by what was reserved, by the %s of %s, and by what has been told beyond that before",
			d.Limit, d.Node)
	}
	a.State = coordinator.CallDoubted
	a.Lacks = &coordinator.QuotaLack{
		Node: d.Node, Dimension: d.Dimension, Limit: d.Limit.String(),
		Text: fmt.Sprintf("it says %s, and is believed up to %s for this call: %s",
			describeAmount(d.Dimension, d.Told), describeAmount(d.Dimension, d.Most), by),
	}
}

// wordOf returns which kind of report a call's end comes from.
func wordOf(c *coordinator.Call) coordinator.QuotaWord {
	switch {
	case !c.OwnOnly:
		return coordinator.WordBelieved
	case c.Op == coordinator.CallCharge:
		return coordinator.WordUnasked
	default:
		return coordinator.WordOwn
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
func (x *Leases) settleCall(
	now time.Time, c *coordinator.Call, charge *fairshare.Charge, used coordinator.Amounts, measured bool,
) bool {
	record := &coordinator.QuotaEnded{
		Key: c.Key, How: coordinator.QuotaSettled, Used: used, At: now, Keep: c.Keep, Word: wordOf(c),
	}
	ended := x.ledger.End(record)
	if !ended.Known || ended.Again {
		return false
	}
	record.Late = ended.LateOwner(charge)
	if measured {
		record.Type = charge.Operation
		if record.Type == "" {
			record.Type = unnamedCall
		}
		if ended.Excess.Used > 0 {
			x.tell(ended.Excess.Effect("", charge, record))
		}
	}
	x.answeredCall(c, charge, record)
	if record.Type != "" {
		charge.Observe(x.estimator, record.Type, &record.Used)
	}
	x.out.Settled = append(x.out.Settled, Settled{*charge, record})
	x.record(record)
	return true
}

// unnamedCall is what calls are learnt as that name neither their sort nor a model.
const unnamedCall = "call"

func endedOrUnknown(known bool) coordinator.CallState {
	if known {
		return coordinator.CallEnded
	}
	return coordinator.CallUnknown
}

// Expire ends a reservation that was not reported as ended in time.
func (x *Leases) Expire(now time.Time, key coordinator.TaskKey, charge *fairshare.Charge) Outcome {
	x.begin()
	if charge.Untold {
		used := charge.Amounts
		used[coordinator.DimConcurrency] = 0
		x.settleCall(now, &coordinator.Call{Key: key, Keep: true}, charge, used, false)
		return x.out
	}
	ended := &coordinator.QuotaEnded{Key: key, How: coordinator.QuotaExpired, At: now}
	x.ledger.End(ended)
	x.record(ended)
	return x.out
}

// answeredCall adds to the record of a call's end how its provider has answered. A refusal because
// of the provider's limits is none of its answers: it says nothing about how it does its work.
func (x *Leases) answeredCall(
	c *coordinator.Call, charge *fairshare.Charge, r *coordinator.QuotaEnded,
) *coordinator.QuotaEnded {
	if w := c.Heard; w != nil && !w.Throttled() {
		r.Heard, r.Failed, r.Took = true, w.Failed(), w.Latency
		x.ledger.Observe(charge, r.Failed, r.Took, speaker(c))
	}
	return r
}

// hear takes over what the provider has said of its limits. A pool is left alone for a little longer
// than it wants, by the chance of the call that was refused: others that use the same account come back
// at the moment that the provider has named, and so would other pools of it.
func (x *Leases) hear(now, begun time.Time, c *coordinator.Call, charge *fairshare.Charge) {
	if c.Heard == nil {
		return
	}
	said := *c.Heard
	said.RetryAfter += hash.Spread(said.RetryAfter, hash.Mix(c.Key[0]^x.seed))
	if r := x.ledger.Hear(now, begun, charge, &said, speaker(c)); r != nil {
		x.record(r)
	}
}

// speaker returns the agent that reports a call by itself; empty: a gateway does.
func speaker(c *coordinator.Call) coordinator.AgentID {
	if c.OwnOnly {
		return c.Agent
	}
	return ""
}

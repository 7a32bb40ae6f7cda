package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// callAsked answers what is asked about calls that no task stands for: what is to be set aside for
// them is, or nothing of it. They are charged to the same quotas as tasks. They have no turn, for
// they wait for no agent; but where tasks wait for a rate they stand back behind these.
func (e *Engine) callAsked(now time.Time, ev *coordinator.CallAsked) {
	answered := &coordinator.CallAnswered{Token: ev.Token, Answers: make([]coordinator.CallAnswer, len(ev.Calls))}
	records, all := len(e.recorder.records), true
	for i := range ev.Calls {
		a := &answered.Answers[i]
		e.call(now, &ev.Calls[i], a)
		all = all && a.State == coordinator.CallGranted
	}
	for i := range ev.Calls {
		c, a := &ev.Calls[i], &answered.Answers[i]
		switch {
		case !setsAside(c.Op) || a.State != coordinator.CallGranted || a.Standing:
		case all:
			e.callStands(now, c, a)
		default:
			e.quotas.ledger.Release(now, c.Key, false)
			a.State, a.Until = coordinator.CallPutBy, time.Time{}
		}
	}
	e.quotaAlerts()
	answered.Changed = len(e.recorder.records) > records
	e.emit(answered)
}

// setsAside tells whether something is set aside by an operation, if only for a moment.
func setsAside(op coordinator.CallOp) bool {
	return op == coordinator.CallReserve || op == coordinator.CallConsume || op == coordinator.CallCharge
}

// call answers about one call. What it sets aside is not recorded yet.
func (e *Engine) call(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) {
	switch c.Op {
	case coordinator.CallExtend:
		e.extendCall(now, c, a)
	case coordinator.CallSettle, coordinator.CallRelease:
		e.endCall(now, c, a)
	default:
		e.admitCall(now, c, a)
	}
}

// admitCall sets aside what a call asks for, or tells whether it could be.
func (e *Engine) admitCall(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) {
	q := &e.quotas
	charge, ok := e.callCharge(c)
	e.callOf(a, &charge)
	if !ok {
		a.State = coordinator.CallForeign
		return
	}
	path := q.ledger.PathOf(&charge)
	if !q.ledger.Installed() || path.Empty() {
		return // no quota concerns it
	}
	var v fairshare.Verdict
	if k := q.waits.ahead(now, &charge, int(c.Priority)); k != nil && c.Op != coordinator.CallCharge && !q.ledger.Knows(c.Key) {
		v = k.refusal(q.ledger)
	} else {
		v = e.askLedger(now, c, &charge, &path)
	}
	a.Borrowed = v.Borrowed
	switch {
	case v.Known:
		e.standingCall(c, a)
	case v.OK:
		if c.Op == coordinator.CallReserve {
			a.Until = e.callEnds(now, c)
		}
	default:
		e.refuseCall(a, &v)
	}
	a.Budget, a.Rate = q.ledger.Tightest(now, &path, &charge.Amounts)
}

// askLedger has the ledger set aside what is asked for.
func (e *Engine) askLedger(now time.Time, c *coordinator.Call, charge *fairshare.Charge, path *fairshare.Path) fairshare.Verdict {
	l := e.quotas.ledger
	switch c.Op {
	case coordinator.CallCheck:
		return l.Check(now, path, charge)
	case coordinator.CallCharge:
		return l.Charge(now, c.Key, charge)
	case coordinator.CallConsume:
		return l.Reserve(now, c.Key, charge, time.Time{}) // for this moment
	default:
		return l.Reserve(now, c.Key, charge, e.callEnds(now, c))
	}
}

// callEnds is when a reservation ends that is made, or extended, now.
func (e *Engine) callEnds(now time.Time, c *coordinator.Call) time.Time {
	ttl := c.TTL
	if ttl <= 0 {
		ttl = e.policy.Quotas.ReservationTTL
	}
	return now.Add(ttl)
}

// callCharge is what a call is charged for; false: its agent has no right to the group.
func (e *Engine) callCharge(c *coordinator.Call) (charge fairshare.Charge, ok bool) {
	q := &e.quotas
	group, own := c.Group, true
	if c.OwnOnly || group == "" {
		its, listed := q.ledger.GroupOfAgent(c.Agent)
		if own = group == "" || listed && group == its; own {
			group = its
		}
	}
	switch {
	case c.NoRequest:
		charge = q.ledger.Part(group, c.Operation, &c.Usage)
	case c.Exact:
		charge = q.ledger.Exactly(group, c.Operation, &c.Usage)
	default:
		charge, _ = q.ledger.Demand(group, c.Operation, &c.Usage, q.estimator)
	}
	charge.Agent, charge.NoBorrowing = c.Agent, c.NoBorrowing
	charge.Call, charge.Operation, charge.Untold, charge.Expect = true, c.Operation, c.ChargeUntold, 0
	if charge.Amounts[coordinator.DimConcurrency] = c.Seats; c.Op == coordinator.CallConsume || c.Op == coordinator.CallCharge {
		charge.Amounts[coordinator.DimConcurrency] = 0
	}
	return charge, own
}

// callOf fills in what an answer says of a charge.
func (e *Engine) callOf(a *coordinator.CallAnswer, c *fairshare.Charge) {
	a.Agent, a.Group, a.Provider, a.Model, a.Amounts = c.Agent, c.Group, c.Provider, c.Model, c.Amounts
	a.Pool = e.quotas.ledger.PoolOf(c)
}

// standingCall answers who asks again under the key of a reservation that stands, or has ended.
func (e *Engine) standingCall(c *coordinator.Call, a *coordinator.CallAnswer) {
	l := e.quotas.ledger
	charge, open, _ := l.Find(c.Key)
	e.callOf(a, &charge)
	a.Standing = true
	switch {
	case open:
		a.Until = l.EndOf(c.Key)
	case c.Op == coordinator.CallReserve:
		a.State = coordinator.CallEnded
	}
}

func (e *Engine) refuseCall(a *coordinator.CallAnswer, v *fairshare.Verdict) {
	if a.State = coordinator.CallRefused; v.Permanent {
		a.State = coordinator.CallNever
	}
	a.Lacks = &coordinator.QuotaLack{
		Node: v.Node, Dimension: v.Dimension, Limit: v.Limit.String(), RetryAt: v.RetryAt, Text: describeLack(v),
	}
}

// callStands records what has been set aside for a call, and charges it at once if its end is
// known.
func (e *Engine) callStands(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) {
	q := &e.quotas
	charge, open, _ := q.ledger.Find(c.Key)
	if !open {
		return // no quota concerns it
	}
	if e.recorder.on {
		e.record(&coordinator.QuotaReserved{
			Key: c.Key, Group: charge.Group, Agent: charge.Agent, Provider: charge.Provider, Model: charge.Model,
			Amounts: charge.Amounts, NoBorrowing: charge.NoBorrowing, At: now, Until: a.Until,
			Call: true, Operation: charge.Operation, Untold: charge.Untold,
		})
	}
	if c.Op != coordinator.CallReserve {
		e.settleCall(now, c.Key, &charge, charge.Amounts, c.Keep, c.Op == coordinator.CallCharge && !c.NoRequest)
	}
}

// extendCall sets more aside, or for longer.
func (e *Engine) extendCall(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) {
	q := &e.quotas
	charge, open, known := q.ledger.Find(c.Key)
	if !open {
		a.State = endedOrUnknown(known)
		return
	}
	var more coordinator.Amounts
	if c.Usage != (coordinator.Usage{}) {
		more = q.ledger.Used(&charge, charge.Operation, &c.Usage)
		more[coordinator.DimRequests] = int64(c.Usage.Requests) // it is the same call
	}
	more[coordinator.DimConcurrency] = c.Seats
	until := time.Time{}
	if c.TTL > 0 {
		until = now.Add(c.TTL)
	}
	v := q.ledger.Extend(now, c.Key, more, until)
	if whole, _, _ := q.ledger.Find(c.Key); v.OK {
		e.callOf(a, &whole)
		a.Until, a.Borrowed = q.ledger.EndOf(c.Key), v.Borrowed
		e.record(&coordinator.QuotaExtended{Key: c.Key, More: more, At: now, Until: until})
		return
	}
	e.callOf(a, &charge)
	a.Until = q.ledger.EndOf(c.Key)
	e.refuseCall(a, &v)
}

// endCall ends a reservation by its caller's word.
func (e *Engine) endCall(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) {
	q := &e.quotas
	charge, open, known := q.ledger.Find(c.Key)
	e.callOf(a, &charge)
	switch {
	case !known:
		a.State = coordinator.CallUnknown
	case c.Op == coordinator.CallRelease && !open:
		a.State = coordinator.CallEnded
	case c.Op == coordinator.CallRelease:
		q.ledger.Release(now, c.Key, c.Keep)
		a.Amounts = coordinator.Amounts{}
		e.record(&coordinator.QuotaEnded{Key: c.Key, How: coordinator.QuotaReleased, At: now, Keep: c.Keep})
	default:
		used := charge.Amounts
		if used[coordinator.DimConcurrency] = 0; c.Exact {
			used = q.ledger.Used(&charge, charge.Operation, &c.Usage)
		}
		if a.Amounts = used; !e.settleCall(now, c.Key, &charge, used, c.Keep, c.Exact) {
			a.State = coordinator.CallEnded
		}
	}
}

// settleCall charges what was used; false: that has been done before. measured: it is known, and
// not estimated.
func (e *Engine) settleCall(now time.Time, key coordinator.TaskKey, charge *fairshare.Charge, used coordinator.Amounts, keep, measured bool) bool {
	q := &e.quotas
	ended := q.ledger.Settle(now, key, used, keep)
	if !ended.Known || ended.Again {
		return false
	}
	record := &coordinator.QuotaEnded{Key: key, How: coordinator.QuotaSettled, Used: used, At: now, Keep: keep}
	if measured {
		record.Type = charge.Operation
		if record.Type == "" {
			record.Type = unnamedCall
		}
		e.excessive("", charge, ended.Excess)
	}
	q.observe(charge, record)
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
		e.settleCall(now, key, charge, used, true, false)
		return
	}
	e.quotas.ledger.Expire(now, key)
	e.record(&coordinator.QuotaEnded{Key: key, How: coordinator.QuotaExpired, At: now})
}

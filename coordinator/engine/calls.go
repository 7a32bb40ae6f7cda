package engine

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// callAsked answers what is asked about calls that no task stands for: what is to be set aside for
// them is, or nothing of it. Then comes what is told about others. They are charged to the same
// quotas as tasks. They have no turn, for they wait for no agent; but where tasks wait for a rate
// they stand back behind these.
func (e *Engine) callAsked(now time.Time, ev *coordinator.CallAsked) {
	answered := &coordinator.CallAnswered{Token: ev.Token, Answers: make([]coordinator.CallAnswer, len(ev.Calls))}
	l, all := e.quotas.ledger, true
	l.Due(now) // what has been remembered for long enough is forgotten; what has expired has ended
	l.Tentatively(len(ev.Calls) > 1)
	for i := range ev.Calls {
		if asks(ev.Calls[i].Op) {
			e.admitCall(now, ev.Calls, answered.Answers, i)
			all = all && answered.Answers[i].State == coordinator.CallGranted
		}
	}
	l.Tentatively(false)
	for i := range ev.Calls {
		c, a := &ev.Calls[i], &answered.Answers[i]
		switch {
		case !asks(c.Op) || c.Op == coordinator.CallCheck || a.State != coordinator.CallGranted:
		case a.Standing && (all || l.Knows(c.Key)):
		case all:
			answered.Changed = e.callStands(now, c, a) || answered.Changed
		default:
			l.Withdraw(c.Key) // it is not recorded
			a.State, a.Until = coordinator.CallPutBy, time.Time{}
		}
	}
	for i := range ev.Calls {
		switch c, a := &ev.Calls[i], &answered.Answers[i]; {
		case !asks(c.Op):
			answered.Changed = e.callTold(now, ev.Calls, answered.Answers, i) || answered.Changed
		case c.Op != coordinator.CallCheck && a.State == coordinator.CallRefused:
			l.Lacks(now, &fairshare.Charge{Group: a.Group, Agent: a.Agent, Provider: a.Provider, Model: a.Model, Amounts: a.Amounts})
		}
	}
	e.quotaAlerts()
	e.emit(answered)
}

// asks tells whether an operation asks for room, or about it; else it tells of what was used.
func asks(op coordinator.CallOp) bool {
	return op == coordinator.CallReserve || op == coordinator.CallConsume || op == coordinator.CallCheck
}

// callTold takes over what is told of the i-th call, and tells whether that is recorded.
func (e *Engine) callTold(now time.Time, calls []coordinator.Call, answers []coordinator.CallAnswer, i int) (recorded bool) {
	switch c, a := &calls[i], &answers[i]; c.Op {
	case coordinator.CallExtend:
		return e.extendCall(now, c, a)
	case coordinator.CallCharge:
		e.admitCall(now, calls, answers, i)
		return a.State == coordinator.CallGranted && !a.Standing && e.callStands(now, c, a)
	default:
		return e.endCall(now, c, a)
	}
}

// admitCall sets aside what the i-th call asks for, or tells whether it could be. It is not recorded
// yet.
func (e *Engine) admitCall(now time.Time, calls []coordinator.Call, answers []coordinator.CallAnswer, i int) {
	q, c, a := &e.quotas, &calls[i], &answers[i]
	if c.Op != coordinator.CallCheck && q.ledger.Knows(c.Key) {
		e.standingCall(c, a)
		return
	}
	if why := q.ledger.UnlistedCall(calls, i); why != "" {
		a.State, a.Agent, a.Group = coordinator.CallUnlisted, c.Agent, c.Group
		a.Lacks = &coordinator.QuotaLack{Text: why}
		return
	}
	if to, chosen := e.route(now, calls, answers, i); chosen {
		one := sentTo(c, to)
		c = &one
	}
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
	if e.doubtAsked(now, c, a, &charge) {
		return
	}
	if of, crowded := q.ledger.Crowded(c.Agent); crowded && c.Op == coordinator.CallReserve {
		a.State = coordinator.CallRefused
		a.Lacks = &coordinator.QuotaLack{
			Node: "calls", Dimension: coordinator.DimConcurrency, Limit: "open",
			Text: fmt.Sprintf("%d calls are open that nobody has settled or released, and no more may be", of),
		}
		return
	}
	v := e.askLedger(now, c, &charge, &path)
	if c.Op != coordinator.CallCheck && (v.OK || v.Limit == fairshare.LimitPrice) {
		e.unpriced(&charge, !v.OK)
	}
	switch a.Borrowed = v.Borrowed; {
	case !v.OK:
		e.refuseCall(a, &v)
	case c.Op == coordinator.CallReserve:
		a.Until = e.callEnds(now, c, &charge)
	}
	a.Limits = q.ledger.Left(now, &path, &charge.Amounts, &v)
}

// doubtAsked tells whether what is asked for, or told of without having been asked for, is not to be believed.
// A gateway may ask for anything: it is limited.
func (e *Engine) doubtAsked(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer, charge *fairshare.Charge) bool {
	if c.Op == coordinator.CallCharge {
		doubt := e.doubted(now, c, charge, &charge.Amounts, &coordinator.Amounts{})
		if doubt != nil {
			e.beyondBelief(a, charge, doubt, 0)
		}
		return doubt != nil
	}
	return e.doubtPlan(c, a, charge)
}

// doubtPlan tells whether an agent asks for more than can be believed.
func (e *Engine) doubtPlan(c *coordinator.Call, a *coordinator.CallAnswer, charge *fairshare.Charge) bool {
	if !c.OwnOnly || c.Admitted {
		return false
	}
	doubt := e.quotas.ledger.DoubtedPlan(charge)
	if doubt != nil {
		NotBelieved(a, doubt)
	}
	return doubt != nil
}

// askLedger has the ledger set aside what is asked for, or tells whether it could. But for what has
// been used already, a call stands back behind who waits for the same.
func (e *Engine) askLedger(now time.Time, c *coordinator.Call, charge *fairshare.Charge, path *fairshare.Path) fairshare.Verdict {
	l := e.quotas.ledger
	if c.Op == coordinator.CallCharge {
		return l.Charge(now, c.Key, charge)
	}
	if a := &charge.Amounts; c.Meant != coordinator.UsagePart && a[coordinator.DimTotalTokens] == 0 && a[coordinator.DimCost] == 0 {
		if v := l.CheckDebt(now, path); !v.OK {
			return v
		}
	}
	if k := e.quotas.waits.ahead(now, charge, int(c.Priority)); k != nil {
		return k.refusal(l)
	}
	var v fairshare.Verdict
	switch c.Op {
	case coordinator.CallCheck:
		v = l.Check(now, path, charge)
	case coordinator.CallConsume:
		v = l.Reserve(now, c.Key, charge, time.Time{}) // for this moment
	default:
		v = l.Reserve(now, c.Key, charge, e.callEnds(now, c, charge))
	}
	l.SoonestEnd(&v, charge.Amounts[v.Dimension])
	return v
}

// callEnds is when a reservation ends that is made, or extended, now, under quotas. Seats that all share an agent
// does not hold by its own token for longer than quotas.yaml says, unless it extends them again: else
// one question would take all of them for a day.
func (e *Engine) callEnds(now time.Time, c *coordinator.Call, charge *fairshare.Charge) time.Time {
	ttl, usual := c.TTL, e.policy.Quotas.ReservationTTL
	if ttl <= 0 || c.OwnOnly && ttl > usual && e.quotas.ledger.TakesSeats(charge) {
		ttl = usual
	}
	return now.Add(ttl)
}

// extendedEnds is when a reservation ends that is extended now to the whole of a charge; zero: when it
// would have. Under no quotas any more it stands for as long as is asked.
func (e *Engine) extendedEnds(now time.Time, c *coordinator.Call, whole *fairshare.Charge) time.Time {
	l := e.quotas.ledger
	switch {
	case !l.Installed() && c.TTL > 0:
		return now.Add(c.TTL)
	case !l.Installed():
	case c.TTL > 0:
		return e.callEnds(now, c, whole)
	case c.OwnOnly && c.Seats > 0 && l.TakesSeats(whole): // it may have had none until now, and end when it likes
		if usual := e.callEnds(now, c, whole); l.EndOf(c.Key).After(usual) {
			return usual
		}
	}
	return time.Time{}
}

// callCharge is what a call is charged for; false: its agent has no right to the group.
func (e *Engine) callCharge(c *coordinator.Call) (charge fairshare.Charge, ok bool) {
	q := &e.quotas
	charge, guessed, ok := q.ledger.ForCall(c, q.estimator)
	q.ledger.Bound(&charge, guessed)
	return charge, ok
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
	if foreign(c, &charge) || open && c.Op != coordinator.CallReserve || AnotherCall(c.Asked, charge.Asked) {
		a.State = coordinator.CallTaken
		return
	}
	e.callOf(a, &charge)
	a.Standing = true
	switch {
	case open:
		a.Until = l.EndOf(c.Key)
	case c.Op == coordinator.CallReserve || !l.Counted(c.Key): // what has ended was another sort of call
		a.State = coordinator.CallEnded
	}
}

// AnotherCall tells whether what is asked for under an id is not what was asked for under it before.
func AnotherCall(asks, asked uint64) bool { return asks != 0 && asked != 0 && asks != asked }

// foreign tells whether a reservation is another agent's than the one that who asks speaks for.
func foreign(c *coordinator.Call, charge *fairshare.Charge) bool {
	return c.OwnOnly && charge.Agent != c.Agent
}

func (e *Engine) refuseCall(a *coordinator.CallAnswer, v *fairshare.Verdict) {
	if a.State = coordinator.CallRefused; v.Permanent {
		a.State = coordinator.CallNever
	}
	a.Lacks = lackFor(v)
}

// callStands records what has been set aside for a call, and charges it at once if its end is
// known. false: no quota concerns it.
func (e *Engine) callStands(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) (recorded bool) {
	l := e.quotas.ledger
	charge, open, _ := l.Find(c.Key)
	if !open {
		return false
	}
	l.Stands(c.Key)
	charge.Known = e.quotas.names.keep(now, l, &charge)
	l.KeepNames(c.Key, charge.Known)
	if e.recorder.on {
		r := charge.Reserved(c.Key, now)
		r.Until = a.Until
		e.record(r)
	}
	if c.Op != coordinator.CallReserve {
		// What an agent says of itself without having asked is charged, but nobody's estimates learn
		// from it: it may say anything.
		e.settleCall(now, c, &charge, charge.Amounts, c.Op == coordinator.CallCharge && c.Meant != coordinator.UsagePart && !c.OwnOnly)
	}
	return true
}

// extendCall sets more aside, or for longer.
func (e *Engine) extendCall(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) (recorded bool) {
	q := &e.quotas
	charge, open, known := q.ledger.Find(c.Key)
	if foreign(c, &charge) {
		open, known = false, false
	}
	if !open {
		a.State = endedOrUnknown(known)
		return false
	}
	var more coordinator.Amounts
	if c.Usage != (coordinator.Usage{}) {
		of := charge
		of.Amounts[coordinator.DimCost] = 0 // what is set aside already is not set aside once more
		more = q.ledger.Used(&of, charge.Operation, &c.Usage, wordOf(c))
		more[coordinator.DimRequests] = int64(c.Usage.Requests) // it is the same call
	}
	more[coordinator.DimConcurrency] = c.Seats
	all := charge.With(&more)
	if e.doubtPlan(c, a, &all) {
		return false
	}
	until := e.extendedEnds(now, c, &all)
	v := q.ledger.Extend(now, c.Key, more, until)
	q.ledger.SoonestEnd(&v, more[v.Dimension])
	path := q.ledger.PathOf(&charge)
	a.Limits = q.ledger.Left(now, &path, &more, &v)
	if whole, _, _ := q.ledger.Find(c.Key); v.OK {
		e.callOf(a, &whole)
		a.Until, a.Borrowed = q.ledger.EndOf(c.Key), v.Borrowed
		e.record(&coordinator.QuotaExtended{Key: c.Key, More: more, At: now, Until: until})
		return true
	}
	e.callOf(a, &charge)
	a.Until = q.ledger.EndOf(c.Key)
	e.refuseCall(a, &v)
	return false
}

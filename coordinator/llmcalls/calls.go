package llmcalls

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/estimates"
)

// Waits are the tasks that wait for quota.
type Waits interface {
	// Ahead is the refusal of a call of a priority that must stand back behind a task which waits for the
	// same; false: there is none. It gets a copy, which costs no allocation.
	Ahead(now time.Time, c fairshare.Charge, priority int) (fairshare.Verdict, bool)
}

// Leases are what is set aside for calls. The ledger has them; beside it there are the names that calls
// have used on the day.
type Leases struct {
	ledger    *fairshare.Ledger
	estimator *estimates.Estimator
	waits     Waits
	usual     time.Duration // how long a reservation stands
	seed      uint64
	names     names
	out       Outcome
}

// New makes the leases of a ledger. Its caller goes on using ledger and estimator.
func New(l *fairshare.Ledger, e *estimates.Estimator, w Waits) Leases {
	return Leases{ledger: l, estimator: e, waits: w}
}

// Under takes over what a policy says of calls, beside its quotas, which the ledger has.
func (x *Leases) Under(p *coordinator.Policy) {
	if x.seed = p.Settings.Seed; p.Quotas != nil {
		x.usual = p.Quotas.ReservationTTL
	}
}

// Outcome is what has happened beside the answers, each in its order: what must survive, what is to be
// announced, and what was settled. It stands until the next call of a method of Leases.
type Outcome struct {
	Records []coordinator.Record
	Effects []coordinator.Effect
	Settled []Settled
}

// Settled is what a call was charged for, and how it ended.
type Settled struct {
	Charge fairshare.Charge
	Ended  *coordinator.QuotaEnded
}

func (x *Leases) record(r coordinator.Record) { x.out.Records = append(x.out.Records, r) }

func (x *Leases) tell(f coordinator.Effect) { x.out.Effects = append(x.out.Effects, f) }

// unpriced reports a call of a model without a price, where money is limited.
func (x *Leases) unpriced(c *fairshare.Charge, refused bool) {
	if f, is := x.ledger.ModelUnpriced(c, refused); is {
		x.tell(f)
	}
}

// begin forgets the latest outcome.
func (x *Leases) begin() {
	x.out = Outcome{x.out.Records[:0], x.out.Effects[:0], x.out.Settled[:0]}
}

// Answer answers what is asked about calls: what is to be set aside for them is, or nothing of it. Then
// it takes over what is reported about others.
func (x *Leases) Answer(now time.Time, ev *coordinator.CallAsked) (*coordinator.CallAnswered, Outcome) {
	x.begin()
	answered := &coordinator.CallAnswered{Token: ev.Token, Answers: make([]coordinator.CallAnswer, len(ev.Calls))}
	l, all := x.ledger, true
	l.Due(now) // what has been remembered for long enough is forgotten; what has expired has ended
	l.Tentatively(len(ev.Calls) > 1)
	for i := range ev.Calls {
		if Asks(ev.Calls[i].Op) {
			x.admitCall(now, ev.Calls, answered.Answers, i)
			all = all && answered.Answers[i].State == coordinator.CallGranted
		}
	}
	l.Tentatively(false)
	for i := range ev.Calls {
		c, a := &ev.Calls[i], &answered.Answers[i]
		switch {
		case !Asks(c.Op) || c.Op == coordinator.CallCheck || a.State != coordinator.CallGranted:
		case a.Standing && (all || l.Knows(c.Key)):
		case all:
			answered.Changed = x.callStands(now, c, a) || answered.Changed
		default:
			l.Withdraw(c.Key) // it is not recorded
			a.State, a.Until = coordinator.CallPutBy, time.Time{}
		}
	}
	for i := range ev.Calls {
		switch c, a := &ev.Calls[i], &answered.Answers[i]; {
		case !Asks(c.Op):
			answered.Changed = x.callTold(now, ev.Calls, answered.Answers, i) || answered.Changed
		case c.Op != coordinator.CallCheck && a.State == coordinator.CallRefused:
			l.Lacks(now, &fairshare.Charge{
				Group: a.Group, Agent: a.Agent, Provider: a.Provider, Model: a.Model, Amounts: a.Amounts,
			})
		}
	}
	return answered, x.out
}

// Asks reports whether an operation asks for room, or about it; else it reports what was used.
func Asks(op coordinator.CallOp) bool {
	return op == coordinator.CallReserve || op == coordinator.CallConsume || op == coordinator.CallCheck
}

// callTold takes over what is reported of the i-th call; false: it changes nothing.
func (x *Leases) callTold(
	now time.Time, calls []coordinator.Call, answers []coordinator.CallAnswer, i int,
) (recorded bool) {
	switch c, a := &calls[i], &answers[i]; c.Op {
	case coordinator.CallExtend:
		return x.extendCall(now, c, a)
	case coordinator.CallCharge:
		x.admitCall(now, calls, answers, i)
		return a.State == coordinator.CallGranted && !a.Standing && x.callStands(now, c, a)
	default:
		return x.endCall(now, c, a)
	}
}

// admitCall sets aside what the i-th call asks for, or checks whether it could be. It is not recorded
// yet.
func (x *Leases) admitCall(now time.Time, calls []coordinator.Call, answers []coordinator.CallAnswer, i int) {
	c, a := &calls[i], &answers[i]
	if c.Op != coordinator.CallCheck && x.ledger.Knows(c.Key) {
		x.standingCall(c, a)
		return
	}
	if why := x.ledger.UnlistedCall(calls, i); why != "" {
		a.State, a.Agent, a.Group = coordinator.CallUnlisted, c.Agent, c.Group
		a.Lacks = &coordinator.QuotaLack{Text: why}
		return
	}
	if to, chosen := x.route(now, calls, answers, i); chosen {
		one := sentTo(c, to)
		c = &one
	}
	charge, ok := x.callCharge(c)
	x.callOf(a, &charge)
	if !ok {
		a.State = coordinator.CallForeign
		return
	}
	path := x.ledger.PathOf(&charge)
	if !x.ledger.Installed() || path.Empty() {
		return // no quota concerns it
	}
	if x.doubtAsked(now, c, a, &charge) {
		return
	}
	if of, crowded := x.ledger.Crowded(c.Agent); crowded && c.Op == coordinator.CallReserve {
		a.State = coordinator.CallRefused
		a.Lacks = &coordinator.QuotaLack{
			Node: "calls", Dimension: coordinator.DimConcurrency, Limit: "open",
			Text: fmt.Sprintf("%d calls are open, neither settled nor released, and no more may be", of),
		}
		return
	}
	v := x.askLedger(now, c, &charge, &path, true)
	if c.Op != coordinator.CallCheck && (v.OK || v.Limit == fairshare.LimitPrice) {
		x.unpriced(&charge, !v.OK)
	}
	switch a.Borrowed = v.Borrowed; {
	case !v.OK:
		x.refuseCall(a, &v)
	case c.Op == coordinator.CallReserve:
		a.Until = x.callEnds(now, c, &charge)
	}
	a.Limits = x.ledger.Left(now, &path, &charge.Amounts, &v)
}

// doubtAsked reports whether what is asked for, or reported without having been asked for, is beyond
// trust. A gateway may ask for anything: it is limited.
func (x *Leases) doubtAsked(
	now time.Time, c *coordinator.Call, a *coordinator.CallAnswer, charge *fairshare.Charge,
) bool {
	if c.Op == coordinator.CallCharge {
		doubt := x.doubted(now, c, charge, &charge.Amounts, &coordinator.Amounts{})
		if doubt != nil {
			x.beyondBelief(a, charge, doubt, 0)
		}
		return doubt != nil
	}
	return x.doubtPlan(c, a, charge)
}

// doubtPlan reports whether an agent asks for more than can be believed.
func (x *Leases) doubtPlan(c *coordinator.Call, a *coordinator.CallAnswer, charge *fairshare.Charge) bool {
	if !c.OwnOnly || c.Admitted {
		return false
	}
	doubt := x.ledger.DoubtedPlan(charge)
	if doubt != nil {
		NotBelieved(a, doubt)
	}
	return doubt != nil
}

// askLedger has the ledger set aside what is asked for, or asks whether it could. But for what has
// been used already, a call stands back behind tasks that wait for the same.
func (x *Leases) askLedger(
	now time.Time, c *coordinator.Call, charge *fairshare.Charge, path *fairshare.Path, keep bool,
) fairshare.Verdict {
	l := x.ledger
	if c.Op == coordinator.CallCharge {
		return l.Charge(now, c.Key, charge)
	}
	a := &charge.Amounts
	if c.Meant != coordinator.UsagePart && a[coordinator.DimTotalTokens] == 0 && a[coordinator.DimCost] == 0 {
		if v := l.CheckDebt(now, path); !v.OK {
			return v
		}
	}
	if v, behind := x.waits.Ahead(now, *charge, int(c.Priority)); behind {
		return v
	}
	var v fairshare.Verdict
	switch c.Op {
	case coordinator.CallCheck:
		v = l.Ask(now, path, charge, keep)
	case coordinator.CallConsume:
		v = l.Reserve(now, c.Key, charge, time.Time{}) // for this moment
	default:
		v = l.Reserve(now, c.Key, charge, x.callEnds(now, c, charge))
	}
	l.SoonestEnd(&v, charge.Amounts[v.Dimension])
	return v
}

// callEnds returns when a reservation ends that is made, or extended, now, under quotas. Seats that all share
// are not held by an agent's own token for longer than quotas.yaml says, unless it extends them again:
// else one question would take all of them for a day.
func (x *Leases) callEnds(now time.Time, c *coordinator.Call, charge *fairshare.Charge) time.Time {
	ttl := c.TTL
	if ttl <= 0 || c.OwnOnly && ttl > x.usual && x.ledger.TakesSeats(charge) {
		ttl = x.usual
	}
	return now.Add(ttl)
}

// extendedEnds returns when a reservation ends that is extended now to the whole of a charge; zero: when it
// would have. Under no quotas any more it stands for as long as is asked for.
func (x *Leases) extendedEnds(now time.Time, c *coordinator.Call, whole *fairshare.Charge) time.Time {
	l := x.ledger
	switch {
	case !l.Installed() && c.TTL > 0:
		return now.Add(c.TTL)
	case !l.Installed():
	case c.TTL > 0:
		return x.callEnds(now, c, whole)
	case c.OwnOnly && c.Seats > 0 && l.TakesSeats(whole): // it may have had none until now, and end when it likes
		if usual := x.callEnds(now, c, whole); l.EndOf(c.Key).After(usual) {
			return usual
		}
	}
	return time.Time{}
}

// callCharge returns what a call is charged for; false: its agent has no right to the group.
func (x *Leases) callCharge(c *coordinator.Call) (charge fairshare.Charge, ok bool) {
	charge, guessed, ok := x.ledger.ForCall(c, x.estimator)
	x.ledger.Bound(&charge, guessed)
	return charge, ok
}

// callOf fills in what an answer says of a charge.
func (x *Leases) callOf(a *coordinator.CallAnswer, c *fairshare.Charge) {
	a.Agent, a.Group, a.Provider, a.Model, a.Amounts = c.Agent, c.Group, c.Provider, c.Model, c.Amounts
	a.Pool = x.ledger.PoolOf(c)
}

// standingCall answers a question under the key of a reservation that stands, or has ended.
func (x *Leases) standingCall(c *coordinator.Call, a *coordinator.CallAnswer) {
	l := x.ledger
	charge, open, _ := l.Find(c.Key)
	if foreign(c, &charge) || open && c.Op != coordinator.CallReserve || AnotherCall(c.Asked, charge.Asked) {
		a.State = coordinator.CallTaken
		return
	}
	x.callOf(a, &charge)
	a.Standing = true
	switch {
	case open:
		a.Until = l.EndOf(c.Key)
	case c.Op == coordinator.CallReserve || !l.Counted(c.Key): // what has ended was another sort of call
		a.State = coordinator.CallEnded
	}
}

// AnotherCall reports whether what is asked for under an id is not what was asked for under it before.
func AnotherCall(asks, asked uint64) bool { return asks != 0 && asked != 0 && asks != asked }

// foreign reports whether a reservation is not of the agent that the caller speaks for.
func foreign(c *coordinator.Call, charge *fairshare.Charge) bool {
	return c.OwnOnly && charge.Agent != c.Agent
}

func (x *Leases) refuseCall(a *coordinator.CallAnswer, v *fairshare.Verdict) {
	if a.State = coordinator.CallRefused; v.Permanent {
		a.State = coordinator.CallNever
	}
	a.Lacks = v.Lack()
}

// callStands records what has been set aside for a call, and charges it at once if its end is
// known. false: no quota concerns it.
func (x *Leases) callStands(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) (recorded bool) {
	l := x.ledger
	charge, open, _ := l.Find(c.Key)
	if !open {
		return false
	}
	l.Stands(c.Key)
	charge.Known = x.names.keep(now, l, &charge)
	l.KeepNames(c.Key, charge.Known)
	r := charge.Reserved(c.Key, now)
	r.Until = a.Until
	x.record(r)
	if c.Op != coordinator.CallReserve {
		// What an agent says of itself without having asked is charged, but no estimates learn from it: it
		// may say anything.
		measured := c.Op == coordinator.CallCharge && c.Meant != coordinator.UsagePart && !c.OwnOnly
		x.settleCall(now, c, &charge, charge.Amounts, measured)
	}
	return true
}

// extendCall sets more aside, or for longer.
func (x *Leases) extendCall(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) (recorded bool) {
	charge, open, known := x.ledger.Find(c.Key)
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
		more = x.ledger.Used(&of, charge.Operation, &c.Usage, wordOf(c))
		more[coordinator.DimRequests] = int64(c.Usage.Requests) // it is the same call
	}
	more[coordinator.DimConcurrency] = c.Seats
	all := charge.With(&more)
	if x.doubtPlan(c, a, &all) {
		return false
	}
	until := x.extendedEnds(now, c, &all)
	v := x.ledger.Extend(now, c.Key, more, until)
	x.ledger.SoonestEnd(&v, more[v.Dimension])
	path := x.ledger.PathOf(&charge)
	a.Limits = x.ledger.Left(now, &path, &more, &v)
	if whole, _, _ := x.ledger.Find(c.Key); v.OK {
		x.callOf(a, &whole)
		a.Until, a.Borrowed = x.ledger.EndOf(c.Key), v.Borrowed
		x.record(&coordinator.QuotaExtended{Key: c.Key, More: more, At: now, Until: until})
		return true
	}
	x.callOf(a, &charge)
	a.Until = x.ledger.EndOf(c.Key)
	x.refuseCall(a, &v)
	return false
}

package service

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// onLoss admits calls while no leader can be asked, as far as quotas.yaml lets each coordinator do
// so for the pools that they concern (on_loss), and keeps what it has admitted until the leader has
// been told: that is charged then, whatever the limits. What it holds it holds in memory: if the
// process ends before, calls have been made that nobody has charged.
//
// Whose quota a call takes, at which provider, and whether it may, is found by names as the leader
// finds it. One pool decides then: that of the call's provider if it is listed, else the one without a
// provider. What it may use is counted in a ledger of its own, which knows these pools alone.
type onLoss struct {
	mu        sync.Mutex
	names     *fairshare.Directory
	estimator *fairshare.Estimator // has learnt nothing: what is not stated counts as quotas.yaml assumes
	pools     map[string]string    // those that admit something, by provider: what ledger calls them
	ledger    *fairshare.Ledger
	owed      map[coordinator.TaskKey]*owedCall
}

// owedCall is a call that was admitted here.
type owedCall struct {
	call  coordinator.Call // as the leader is to be told of it: CallCharge
	until time.Time        // when its end is no longer waited for; zero: it has been told
}

// maxOwed bounds what is held: about 400 bytes each. Beyond it nothing is admitted.
const maxOwed = 1 << 16

// lossTTL is for how long the end of a call is waited for that was admitted here: if it is not told
// by then, the call is charged as it was estimated.
const lossTTL = 2 * time.Minute

func newOnLoss() *onLoss {
	return &onLoss{
		names: fairshare.NewDirectory(nil), estimator: fairshare.NewEstimator(),
		ledger: fairshare.NewLedger(), owed: make(map[coordinator.TaskKey]*owedCall),
	}
}

// under takes over the pools of a policy. What they have let pass stays counted.
func (o *onLoss) under(now time.Time, q *coordinator.Quotas) {
	if q == nil || len(q.Loss) == 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.pools = nil
		o.ledger.Install(now, nil)
		return
	}
	names, nodes, pools := fairshare.NewDirectory(q), slices.Clone(q.Loss), make(map[string]string, len(q.Loss))
	for i := range nodes { // each by a name of its own, so that no other is charged with it
		name := strconv.Itoa(i)
		pools[nodes[i].Provider], nodes[i].Provider = name, name
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.names, o.pools = names, pools
	o.estimator.SetDefaultOutput(q.DefaultOutput)
	o.ledger.Install(now, &coordinator.Quotas{Nodes: nodes, Location: q.Location, TombstoneTTL: lossTTL, ReservationTTL: lossTTL})
}

// admit answers calls as far as that may be done here, and counts those that were admitted; false:
// somebody else must answer, and nothing has been admitted. As with a leader, if one of those that
// were asked about together is refused, none is admitted.
func (o *onLoss) admit(now time.Time, asked []coordinator.Call) (answers []coordinator.CallAnswer, admitted int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pools) == 0 && len(o.owed) == 0 {
		return nil, 0, false
	}
	answers = make([]coordinator.CallAnswer, len(asked))
	var made []int
	all := true
	for i := range asked {
		answered, admitted := o.one(now, &asked[i], &answers[i])
		if admitted {
			made = append(made, i)
		}
		if !answered {
			o.undo(now, asked, made)
			return nil, 0, false
		}
		all = all && answers[i].State == coordinator.CallGranted
	}
	if !all {
		o.undo(now, asked, made)
		for _, i := range made {
			answers[i].State, answers[i].Until = coordinator.CallPutBy, time.Time{}
		}
		return answers, 0, true
	}
	for _, i := range made {
		if asked[i].Op == coordinator.CallConsume {
			o.count(now, asked[i].Key, nil) // its end is known
		}
	}
	return answers, len(made), true
}

// undo takes back calls that were admitted a moment ago.
func (o *onLoss) undo(now time.Time, asked []coordinator.Call, made []int) {
	for _, i := range made {
		o.ledger.Release(now, asked[i].Key, false)
		delete(o.owed, asked[i].Key)
	}
}

// one answers one call; answered is false if that may not be done here.
func (o *onLoss) one(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) (answered, admitted bool) {
	held := o.owed[c.Key]
	switch c.Op {
	case coordinator.CallSettle, coordinator.CallRelease:
		if held == nil || held.until.IsZero() {
			return false, false
		}
		o.end(now, held, c, a)
		return true, false
	case coordinator.CallReserve, coordinator.CallConsume, coordinator.CallCheck:
	default:
		return false, false
	}
	if held != nil && c.Op != coordinator.CallCheck {
		o.standing(held, c, a)
		return true, false
	}
	if len(c.Routes) > 0 {
		return false, false
	}
	group, _ := o.names.GroupOfCall(c)
	to := o.names.ServiceOf(group, &c.Usage)
	keys := o.names.Keys(to.Provider)
	if len(keys) == 0 {
		return o.at(now, c, a)
	}
	for _, key := range keys { // the first that lets it pass
		one := *c
		one.Usage.Provider, one.Usage.Model = key, to.Model
		if answered, admitted = o.at(now, &one, a); answered {
			break
		}
	}
	return answered, admitted
}

// at answers a call by the pool of the one provider, with its key, that it names or its group does.
func (o *onLoss) at(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) (answered, admitted bool) {
	charge, guessed, own := o.names.ForCall(c, o.estimator)
	pool, listed := o.pools[o.names.ProviderOf(&charge)]
	if !listed {
		return false, false
	}
	o.of(a, &charge)
	if !own { // an agent that is not known here may have been registered: the journal knows
		a.State = coordinator.CallForeign
		_, known := o.names.GroupOfAgent(c.Agent)
		return known, false
	}
	counted := fairshare.Charge{Provider: pool, Amounts: charge.Amounts, Call: true}
	o.ledger.Bound(&counted, guessed)
	if c.Op == coordinator.CallCheck {
		path := o.ledger.PathOf(&counted)
		return o.ledger.Check(now, &path, &counted).OK, false
	}
	if len(o.owed) >= maxOwed || !o.ledger.Reserve(now, c.Key, &counted, now.Add(lossTTL)).OK {
		return false, false
	}
	held := &owedCall{call: o.asCharge(c, &charge)}
	if c.Op == coordinator.CallReserve {
		held.until = now.Add(lossTTL)
		a.Until = held.until
	}
	o.owed[c.Key] = held
	return true, true
}

// asCharge is how the leader is told of a call: by all the names and amounts that were answered, so
// that these are charged, whatever the defaults and estimates are by then.
func (o *onLoss) asCharge(c *coordinator.Call, charge *fairshare.Charge) coordinator.Call {
	told := *c
	told.Op, told.Keep, told.Seats, told.TTL = coordinator.CallCharge, true, 0, 0
	told.Group, told.OwnOnly = charge.Group, false // it has been seen to that the group is the agent's
	if told.Usage.Model = charge.Model; charge.Provider != "" {
		if told.Usage.Provider = o.names.ProviderOf(charge); told.Usage.Provider == "" {
			told.Usage.Provider = charge.Provider
		}
	}
	if c.Meant == coordinator.UsageEstimated {
		told.Usage.InputTokens = float64(charge.Amounts[coordinator.DimInputTokens])
		told.Usage.OutputTokens = float64(charge.Amounts[coordinator.DimOutputTokens])
	}
	return told
}

// of fills in what an answer says of a charge.
func (o *onLoss) of(a *coordinator.CallAnswer, c *fairshare.Charge) {
	a.Agent, a.Group, a.Provider, a.Model, a.Amounts, a.Own = c.Agent, c.Group, c.Provider, c.Model, c.Amounts, true
	a.Pool = o.names.PoolOf(c)
}

// ofHeld fills in what an answer says of a call that was admitted here: what will be charged.
func (o *onLoss) ofHeld(a *coordinator.CallAnswer, held *owedCall) *fairshare.Charge {
	charge, _, _ := o.names.ForCall(&held.call, o.estimator)
	o.of(a, &charge)
	return &charge
}

// standing answers who asks again for what was admitted here.
func (o *onLoss) standing(held *owedCall, c *coordinator.Call, a *coordinator.CallAnswer) {
	o.ofHeld(a, held)
	a.Standing, a.Until = true, held.until
	if held.until.IsZero() && c.Op == coordinator.CallReserve {
		a.State = coordinator.CallEnded
	}
}

// end takes over how a call has ended that was admitted here.
func (o *onLoss) end(now time.Time, held *owedCall, c *coordinator.Call, a *coordinator.CallAnswer) {
	if c.Op == coordinator.CallRelease {
		o.ofHeld(a, held)
		a.Amounts = coordinator.Amounts{}
		o.ledger.Release(now, c.Key, false)
		delete(o.owed, c.Key)
		return
	}
	held.until = time.Time{}
	// What was admitted has its tokens written out (asCharge).
	if used, told := c.Told(held.call.Usage.InputTokens, held.call.Usage.OutputTokens); told {
		provider, model := held.call.Usage.Provider, held.call.Usage.Model
		held.call.Usage, held.call.Meant = used, coordinator.UsageExact
		if held.call.Usage.Provider == "" {
			held.call.Usage.Provider, held.call.Usage.Model = provider, model
		}
	}
	o.count(now, c.Key, &o.ofHeld(a, held).Amounts)
}

// count ends what is set aside here for a call: at what it has used, nil: at what it was let pass for.
func (o *onLoss) count(now time.Time, key coordinator.TaskKey, used *coordinator.Amounts) {
	charge, _, _ := o.ledger.Find(key)
	if used != nil {
		charge.Amounts = *used
	}
	charge.Amounts[coordinator.DimConcurrency] = 0 // its seat is free
	o.ledger.Settle(now, key, charge.Amounts, false)
}

// answered puts the ends of calls that were admitted here in the place of the leader's answer, who
// knows nothing of them.
func (o *onLoss) answered(now time.Time, asked []coordinator.Call, answers []coordinator.CallAnswer) []coordinator.CallAnswer {
	for i := range answers {
		if answers[i].State != coordinator.CallUnknown {
			continue
		}
		c := &asked[i]
		o.mu.Lock()
		if held := o.owed[c.Key]; held != nil && !held.until.IsZero() && (c.Op == coordinator.CallSettle || c.Op == coordinator.CallRelease) {
			answers[i] = coordinator.CallAnswer{}
			o.end(now, held, c, &answers[i])
		}
		o.mu.Unlock()
	}
	return answers
}

// due are up to n calls that the leader is to be told of.
func (o *onLoss) due(now time.Time, n int) (calls []coordinator.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, ends := o.ledger.Due(now); ends; key, ends = o.ledger.Due(now) {
		o.count(now, key, nil)
	}
	for _, held := range o.owed { // in any order: they are charged whatever the limits
		if len(calls) == n {
			break
		}
		if !held.until.After(now) {
			calls = append(calls, held.call)
		}
	}
	return calls
}

// told drops what the leader has been told of.
func (o *onLoss) told(calls []coordinator.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range calls {
		delete(o.owed, calls[i].Key)
	}
}

// waiting is how many calls have been admitted here and not been told of.
func (o *onLoss) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.owed)
}

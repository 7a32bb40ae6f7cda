package onloss

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/estimates"
	"taskbus/coordinator/llmcalls"
)

// Calls admits calls while no leader can be asked, as far as quotas.yaml lets each coordinator do so for
// the pools that they concern (on_loss), and keeps what it has admitted until it is reported to the leader:
// that is charged then, whatever the limits. It is kept in memory: if the process ends before, the calls
// are never charged.
//
// The tenant and the provider of a call, and whether it is admitted, are found by names as the leader does.
// One pool decides then: that of the call's provider if it is listed, else the one without a
// provider. What it may use is counted in a ledger of its own, which knows these pools alone.
type Calls struct {
	names     *billing.Directory
	estimator *estimates.Estimator // has learnt nothing: what is not stated counts as quotas.yaml assumes
	pools     map[string]string    // those that admit something, by provider: what ledger calls them
	ledger    *fairshare.Ledger
	owed      map[coordinator.TaskKey]*call
	owedBy    map[coordinator.AgentID]int // how many of them are each agent's
	words     ownWords
}

// call is one that was admitted here.
type call struct {
	told     coordinator.Call // as it is to be reported to the leader: CallCharge
	until    time.Time        // when its end is no longer waited for; zero: it has been reported
	consumed bool             // admitted and ended by one report
	word     spoken
}

// most bounds what is held: about 400 bytes each. Beyond it nothing is admitted. Nor is more than
// mostOf of one agent, the part of it that a leader lets one have of all that may be open: else one
// with calls that never end would keep all others out.
const (
	most   = 1 << 16
	mostOf = most / (fairshare.MostOpen / fairshare.MostOpenOf)
)

// TTL is for how long the end of a call is waited for that was admitted here: if it is not reported
// by then, the call is charged as it was estimated.
const TTL = 2 * time.Minute

// New returns what admits nothing, until it is Under quotas.
func New() *Calls {
	return &Calls{
		names: billing.NewDirectory(nil), estimator: estimates.New(),
		ledger: fairshare.NewLedger(), owed: make(map[coordinator.TaskKey]*call),
		owedBy: make(map[coordinator.AgentID]int),
		words:  newOwnWords(),
	}
}

// Under takes over the pools of a policy. What they have let pass stays counted.
func (o *Calls) Under(now time.Time, q *coordinator.Quotas) {
	if q == nil || len(q.Loss) == 0 {
		o.pools = nil
		o.ledger.Install(now, nil)
		return
	}
	names, nodes, pools := billing.NewDirectory(q), slices.Clone(q.Loss), make(map[string]string, len(q.Loss))
	for i := range nodes {
		name := lossName(nodes[i].Provider)
		pools[nodes[i].Provider], nodes[i].Provider = name, name
	}
	o.names, o.pools = names, pools
	o.words.under(q)
	o.estimator.SetDefaultOutput(q.DefaultOutput)
	o.ledger.Install(now, &coordinator.Quotas{Nodes: nodes, Location: q.Location, TombstoneTTL: TTL,
		ReservationTTL: TTL})
}

// lossName returns the ledger's name for the pool of a provider, or of one of its keys; that without a provider,
// too. No other pool has it, as a key's would be the provider's as well, and it stays the same when others
// are listed.
func lossName(provider string) string { return "/" + strings.Replace(provider, "@", "/", 1) }

// Admit answers calls as far as that may be done here, and counts those that were admitted; false: another
// coordinator must answer, and nothing has been admitted. As with a leader, if one of those that were asked
// about together is refused, none is admitted.
func (o *Calls) Admit(now time.Time, asked []coordinator.Call) (answers []coordinator.CallAnswer, admitted int,
	ok bool) {
	if len(o.pools) == 0 && len(o.owed) == 0 {
		return nil, 0, false
	}
	answers = make([]coordinator.CallAnswer, len(asked))
	var made []int
	all := true
	for i := range asked {
		answered, admitted := o.one(now, asked, i, &answers[i])
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
			o.lapse(now, o.owed[asked[i].Key]) // its end is known
		}
	}
	return answers, len(made), true
}

// undo takes back calls that were admitted a moment ago, and have not ended in the same question.
func (o *Calls) undo(now time.Time, asked []coordinator.Call, made []int) {
	for _, i := range made {
		if held := o.owed[asked[i].Key]; held != nil {
			o.ledger.Release(now, asked[i].Key, false)
			o.drop(held)
		}
	}
}

// one answers the i-th call; answered is false if that may not be done here.
func (o *Calls) one(now time.Time, asked []coordinator.Call, i int, a *coordinator.CallAnswer) (answered,
	admitted bool) {
	c := &asked[i]
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
	if len(c.Routes) > 0 || o.names.UnlistedCall(asked, i) != "" { // the leader says so
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
func (o *Calls) at(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) (answered, admitted bool) {
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
	word := spoken{own: c.OwnOnly}
	if c.OwnOnly { // no limit of its own bounds what it asks for here: it is uncorroborated
		var doubt *fairshare.Doubt
		if word.amounts, doubt = o.words.asks(now, charge, guessed); doubt != nil {
			llmcalls.NotBelieved(a, doubt)
			return true, false
		}
	}
	counted := fairshare.Charge{Provider: pool, Amounts: charge.Amounts, Call: true}
	o.ledger.Bound(&counted, guessed)
	if c.Op == coordinator.CallCheck {
		path := o.ledger.PathOf(&counted)
		return o.ledger.Check(now, &path, &counted).OK, false
	}
	if c.Agent != "" && o.owedBy[c.Agent] >= mostOf {
		a.State = coordinator.CallRefused
		a.Lacks = &coordinator.QuotaLack{
			Node: "calls", Dimension: coordinator.DimConcurrency, Limit: "open",
			Text: fmt.Sprintf(
				"%d calls of this agent were admitted while no leader could be asked, and no more may be until some are charged",
				mostOf),
		}
		return true, false
	}
	if len(o.owed) >= most || !o.ledger.Reserve(now, c.Key, &counted, now.Add(TTL)).OK {
		return false, false
	}
	held := &call{told: o.asCharge(c, &charge), consumed: c.Op == coordinator.CallConsume, word: word}
	if c.Op == coordinator.CallReserve {
		held.until = now.Add(TTL)
		a.Until = held.until
	}
	o.owed[c.Key] = held
	o.owedBy[c.Agent]++
	o.words.opens(c.Agent, &held.word)
	return true, true
}

// drop forgets a call that was admitted here.
func (o *Calls) drop(held *call) {
	o.words.closes(held.told.Agent, &held.word)
	delete(o.owed, held.told.Key)
	if o.owedBy[held.told.Agent]--; o.owedBy[held.told.Agent] == 0 {
		delete(o.owedBy, held.told.Agent)
	}
}

// asCharge returns how a call is reported to the leader: by all the names and amounts that were answered, so
// that these are charged, whatever the defaults and estimates are by then.
func (o *Calls) asCharge(c *coordinator.Call, charge *fairshare.Charge) coordinator.Call {
	told := *c
	told.Op, told.Keep, told.Seats, told.TTL = coordinator.CallCharge, true, 0, 0
	told.Group, told.Admitted = charge.Group, true // it has been seen to that the group is the agent's
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
func (o *Calls) of(a *coordinator.CallAnswer, c *fairshare.Charge) {
	a.Agent, a.Group, a.Provider, a.Model, a.Amounts, a.Own = c.Agent, c.Group, c.Provider, c.Model, c.Amounts, true
	a.Pool = o.names.PoolOf(c)
}

// ofHeld fills in what an answer says of a call that was admitted here: what will be charged.
func (o *Calls) ofHeld(a *coordinator.CallAnswer, held *call) *fairshare.Charge {
	charge, _, _ := o.names.ForCall(&held.told, o.estimator)
	o.of(a, &charge)
	return &charge
}

package onloss

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/llmcalls"
)

// standing answers a repeated request for what was admitted here, as a leader does: an id stands for one
// sort of call.
func (o *Calls) standing(held *call, c *coordinator.Call, a *coordinator.CallAnswer) {
	open := !held.until.IsZero()
	if open && c.Op != coordinator.CallReserve || llmcalls.AnotherCall(c.Asked, held.told.Asked) {
		a.State = coordinator.CallTaken
		return
	}
	o.ofHeld(a, held)
	a.Standing, a.Until = true, held.until
	if !open && (c.Op == coordinator.CallReserve || !held.consumed) {
		a.State = coordinator.CallEnded
	}
}

// end takes over how a call has ended that was admitted here.
func (o *Calls) end(now time.Time, held *call, c *coordinator.Call, a *coordinator.CallAnswer) {
	if c.Op == coordinator.CallRelease {
		o.ofHeld(a, held)
		a.Amounts = coordinator.Amounts{}
		o.ledger.Release(now, c.Key, false)
		o.drop(held)
		return
	}
	ended := *held
	ended.until = time.Time{}
	// What was admitted has its tokens written out (asCharge).
	used, exact := c.Told(held.told.Usage.InputTokens, held.told.Usage.OutputTokens)
	if exact {
		provider, model := held.told.Usage.Provider, held.told.Usage.Model
		ended.told.Usage, ended.told.Meant, ended.told.OwnOnly = used, coordinator.UsageExact, c.OwnOnly
		if ended.told.Usage.Provider == "" {
			ended.told.Usage.Provider, ended.told.Usage.Model = provider, model
		}
	}
	charge := o.ofHeld(a, &ended)
	if exact {
		if doubt := o.doubted(now, held, charge, c.OwnOnly); doubt != nil { // it stands
			o.ofHeld(a, held)
			llmcalls.NotBelieved(a, doubt)
			return
		}
	}
	ended.word.own = c.OwnOnly
	if *held = ended; exact {
		o.words.book(now, c.Key, charge, &charge.Amounts, &held.word)
	} else {
		o.words.book(now, c.Key, charge, nil, &held.word)
	}
	o.count(now, c.Key, &charge.Amounts)
}

// doubted holds what an agent (own), or a gateway, says was used against what can be believed; nil: it is. That
// it was let pass by safe_limits makes it no more credible to others' budgets, but to these.
func (o *Calls) doubted(now time.Time, held *call, used *fairshare.Charge, own bool) *fairshare.Doubt {
	if !own {
		return o.words.anyones(now, used)
	}
	if doubt := o.ledger.Doubted(now, held.told.Key, &used.Amounts); doubt != nil {
		return doubt
	}
	return o.words.says(now, used, &held.word)
}

// lapse ends a call that was not reported as ended: it counts as it was admitted.
func (o *Calls) lapse(now time.Time, held *call) {
	charge, _, _ := o.names.ForCall(&held.told, o.estimator)
	o.words.book(now, held.told.Key, &charge, nil, &held.word)
	o.count(now, held.told.Key, nil)
}

// count ends what is set aside here for a call: at what it has used, nil: at what it was let pass for.
func (o *Calls) count(now time.Time, key coordinator.TaskKey, used *coordinator.Amounts) {
	charge, _, _ := o.ledger.Find(key)
	if used != nil {
		charge.Amounts = *used
	}
	charge.Amounts[coordinator.DimConcurrency] = 0 // its seat is free
	o.ledger.Settle(now, key, charge.Amounts, false)
}

// Answered puts the ends of calls that were admitted here in the place of the answer of the leader, which
// does not know them.
func (o *Calls) Answered(now time.Time, asked []coordinator.Call,
	answers []coordinator.CallAnswer) []coordinator.CallAnswer {
	for i := range answers {
		if answers[i].State != coordinator.CallUnknown {
			continue
		}
		c := &asked[i]
		if held := o.owed[c.Key]; held != nil && !held.until.IsZero() &&
			(c.Op == coordinator.CallSettle || c.Op == coordinator.CallRelease) {
			answers[i] = coordinator.CallAnswer{}
			o.end(now, held, c, &answers[i])
		}
	}
	return answers
}

// Due returns up to n calls that are to be reported to the leader.
func (o *Calls) Due(now time.Time, n int) (calls []coordinator.Call) {
	for key, ends := o.ledger.Due(now); ends; key, ends = o.ledger.Due(now) {
		if held := o.owed[key]; held != nil {
			o.lapse(now, held)
		} else {
			o.count(now, key, nil)
		}
	}
	for _, held := range o.owed { // in any order: they are charged whatever the limits
		if len(calls) == n {
			break
		}
		if !held.until.After(now) {
			calls = append(calls, held.told)
		}
	}
	return calls
}

// Reported drops calls that have been reported to the leader.
func (o *Calls) Reported(calls []coordinator.Call) {
	for i := range calls {
		if held := o.owed[calls[i].Key]; held != nil {
			o.drop(held)
		}
	}
}

// Owed returns how many calls have been admitted here and not been reported.
func (o *Calls) Owed() int {
	return len(o.owed)
}

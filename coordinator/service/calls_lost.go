package service

import (
	"context"
	"slices"
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
// A call concerns the pool of its provider, if that is listed, else the one without a provider. What
// it may use is counted in a ledger of its own, which knows these pools alone.
type onLoss struct {
	mu     sync.Mutex
	quotas *coordinator.Quotas
	ledger *fairshare.Ledger
	owed   map[coordinator.TaskKey]*owedCall
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
	return &onLoss{ledger: fairshare.NewLedger(), owed: make(map[coordinator.TaskKey]*owedCall)}
}

// under takes over the pools of a policy.
func (o *onLoss) under(now time.Time, q *coordinator.Quotas) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.quotas = q; q == nil {
		o.ledger.Install(now, nil)
		return
	}
	o.ledger.Install(now, &coordinator.Quotas{Nodes: q.Loss, Prices: q.Prices, Location: q.Location, TombstoneTTL: lossTTL, ReservationTTL: lossTTL})
}

// poolOf is the pool that decides about a call; false: nothing is admitted to it.
func (o *onLoss) poolOf(c *coordinator.Call) (provider string, ok bool) {
	provider = c.Usage.Provider
	for i := range o.quotas.Nodes { // the group's own, if the call names none
		if n := &o.quotas.Nodes[i]; provider == "" && n.Kind == coordinator.QuotaGroup && n.Name == c.Group {
			provider = n.Provider
		}
	}
	listed := func(nodes []coordinator.QuotaNode, provider string) bool {
		return slices.ContainsFunc(nodes, func(n coordinator.QuotaNode) bool {
			return n.Kind == coordinator.QuotaPool && n.Parent < 0 && (n.Provider == provider || coordinator.ProviderOfPool(n.Provider) == provider)
		})
	}
	if provider != "" && listed(o.quotas.Nodes, provider) {
		return provider, listed(o.quotas.Loss, provider)
	}
	return "", listed(o.quotas.Loss, "")
}

// admit answers calls as far as that may be done here; false: somebody else must.
func (o *onLoss) admit(now time.Time, asked []coordinator.Call) ([]coordinator.CallAnswer, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.quotas == nil || len(o.quotas.Loss) == 0 {
		return nil, false
	}
	answers := make([]coordinator.CallAnswer, len(asked))
	for i := range asked {
		if !o.one(now, &asked[i], &answers[i]) {
			return nil, false
		}
	}
	return answers, true
}

// one answers one call. Whatever has been admitted stays so, also where another one is not: it is
// safe to ask again.
func (o *onLoss) one(now time.Time, c *coordinator.Call, a *coordinator.CallAnswer) bool {
	a.Agent, a.Group, a.Provider, a.Model, a.Own = c.Agent, c.Group, c.Usage.Provider, c.Usage.Model, true
	held := o.owed[c.Key]
	switch c.Op {
	case coordinator.CallSettle, coordinator.CallRelease:
		if held == nil || held.until.IsZero() {
			return false
		}
		o.end(now, held, c)
		return true
	case coordinator.CallReserve, coordinator.CallConsume, coordinator.CallCheck:
	default:
		return false
	}
	if held != nil && c.Op != coordinator.CallCheck {
		a.Standing, a.Until = true, held.until
		return true
	}
	provider, ok := o.poolOf(c)
	if !ok || len(o.owed) >= maxOwed || len(c.Routes) > 0 {
		return false
	}
	charge := o.ledger.Exactly("", c.Operation, &c.Usage)
	charge.Provider, charge.Model, charge.Call = provider, "", true
	charge.Amounts[coordinator.DimConcurrency] = c.Seats
	if c.Op == coordinator.CallCheck {
		path := o.ledger.PathOf(&charge)
		return o.ledger.Check(now, &path, &charge).OK
	}
	if v := o.ledger.Reserve(now, c.Key, &charge, now.Add(lossTTL)); !v.OK {
		return false
	}
	held = &owedCall{call: *c}
	held.call.Op, held.call.Keep, held.call.Seats, held.call.TTL = coordinator.CallCharge, true, 0, 0
	if c.Op == coordinator.CallReserve {
		held.until = now.Add(lossTTL)
		a.Until = held.until
	}
	o.owed[c.Key] = held
	return true
}

// end takes over how a call has ended that was admitted here.
func (o *onLoss) end(now time.Time, held *owedCall, c *coordinator.Call) {
	if c.Op == coordinator.CallRelease {
		o.ledger.Release(now, c.Key, false)
		delete(o.owed, c.Key)
		return
	}
	charge, _, _ := o.ledger.Find(c.Key)
	charge.Amounts[coordinator.DimConcurrency] = 0 // its seat is free
	o.ledger.Settle(now, c.Key, charge.Amounts, false)
	held.until = time.Time{}
	if c.Exact {
		provider, model := held.call.Usage.Provider, held.call.Usage.Model
		held.call.Usage, held.call.Exact = c.Usage, true
		if held.call.Usage.Provider == "" {
			held.call.Usage.Provider, held.call.Usage.Model = provider, model
		}
	}
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
			o.end(now, held, c)
			answers[i] = coordinator.CallAnswer{Agent: c.Agent, Group: c.Group, Own: true}
		}
		o.mu.Unlock()
	}
	return answers
}

// due are up to n calls that the leader is to be told of.
func (o *onLoss) due(now time.Time, n int) (calls []coordinator.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ledger.Due(now)
	for _, held := range o.owed { // in any order: they are charged whatever the limits
		if len(calls) < n && !held.until.After(now) {
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

const (
	tellEvery = time.Second
	tellAtOne = 256
)

// tellOwed tells the leader of calls that were admitted here, until ctx ends.
func (s *Service) tellOwed(ctx context.Context) {
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for calls := s.lost.due(s.now(), tellAtOne); len(calls) > 0; calls = s.lost.due(s.now(), tellAtOne) {
			asking, cancel := context.WithTimeout(ctx, forwardTimeout)
			_, err := s.askSomebody(asking, calls)
			cancel()
			if err != nil {
				break // they are told of later
			}
			s.lost.told(calls)
			s.log.Info().Int("calls", len(calls)).Msg("charged calls that were admitted while no leader could be asked")
		}
	}
}

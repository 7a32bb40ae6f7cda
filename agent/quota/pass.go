package quota

import "sync/atomic"

// Pass is the admission of one call. Settle or Release tell how it has ended, without waiting for
// the coordinator; what comes after the first of them does nothing.
type Pass struct {
	from     source
	takes    estimate
	provider string
	ended    atomic.Bool
}

// Provider that is charged, with its key where it has several (openai@main); empty: none is, or nothing has been
// reserved.
func (p *Pass) Provider() string { return p.provider }

// Expected is what the call is expected to take: what Settle charges if no more is known.
func (p *Pass) Expected() Usage { return p.takes.usage() }

// source is what a call was admitted from.
type source interface {
	// used tells that the call has ended; nil: as much as was expected of it.
	used(e estimate, u *Usage, heard *Response)
	// unused tells that the call was not made, or has failed.
	unused(e estimate, heard *Response)
}

// Settle reports what the call has used; nil: it is not known, as much as was expected. heard, how the
// provider has answered, may be nil.
func (p *Pass) Settle(used *Usage, heard *Response) {
	if !p.ended.Swap(true) {
		p.from.used(p.takes, used, heard)
	}
}

// Release tells that the call was not made, or has failed: nothing is charged. heard may be nil.
func (p *Pass) Release(heard *Response) {
	if !p.ended.Swap(true) {
		p.from.unused(p.takes, heard)
	}
}

// estimate is what one call is expected to take.
type estimate struct{ in, out int64 }

func (e estimate) usage() Usage { return Usage{Requests: 1, InputTokens: e.in, OutputTokens: e.out} }

func (e estimate) times(n int64) estimate { return estimate{e.in * n, e.out * n} }

func (e estimate) atLeast(o estimate) estimate { return estimate{max(e.in, o.in), max(e.out, o.out)} }

func (e estimate) fits(o estimate) bool { return e.in <= o.in && e.out <= o.out }

// meanWith is an exponential mean over about eight, rounded up.
func (e estimate) meanWith(now estimate, known bool) estimate {
	if !known {
		return now
	}
	mean := func(old, now int64) int64 { return old + (now-old+7)>>3 }
	return estimate{mean(e.in, now.in), mean(e.out, now.out)}
}

// sort are the calls that may share a lease.
type sort struct {
	group, provider, model, operation string
	noBorrowing                       bool
	priority                          int // -1: not said
}

func sortOf(c *Call) sort {
	s := sort{c.Group, c.Provider, c.Model, c.Operation, c.NoBorrowing, -1}
	if c.Priority != nil {
		s.priority = *c.Priority
	}
	return s
}

// call is what is reserved for n calls at once, of each of which so much is expected.
func (s sort) call(n int64, each expected) *Call {
	c := &Call{
		Group: s.group, Provider: s.provider, Model: s.model, Operation: s.operation, NoBorrowing: s.noBorrowing,
		Requests: n, Concurrency: new(n),
	}
	all := each.times(n)
	if each.inKnown {
		c.InputTokens = new(bounded(all.in))
	}
	if each.outKnown {
		c.OutputTokens = new(bounded(all.out))
	}
	if s.priority >= 0 {
		c.Priority = new(s.priority)
	}
	return c
}

// charge is what is charged for calls that have been made.
func (s sort) charge(id string, u *Usage) *Call {
	c := s.call(1, expected{estimate{u.InputTokens, u.OutputTokens}, true, true})
	c.ID, c.Requests, c.CostUSD = id, u.Requests, u.CostUSD
	return c
}

// debt is where calls are counted that were admitted without asking.
type debt struct {
	teller *teller
	sort   sort
}

func (d debt) used(e estimate, u *Usage, _ *Response) {
	if u == nil {
		u = new(e.usage())
	}
	d.teller.owe(d.sort, *u)
}

func (d debt) unused(estimate, *Response) {}

package journal

import "taskbus/coordinator"

// The records of quotas.

const (
	quotaAgent = 1 << iota
	quotaProvider
	quotaModel
	quotaNoBorrowing // a flag, like the next but one
	quotaUntil
	quotaBefore
	quotaLoans
	quotaServed
	quotaTurn // at the end, as all that follows: earlier versions have not known it
	quotaCall
	quotaOperation
	quotaUntold
	quotaNames
	quotaAsked
	quotaPayer
)

func (c *coder) quotaReserved(r *coordinator.QuotaReserved) {
	m := c.mask(on(r.Agent != "", quotaAgent) |
		on(r.Provider != "", quotaProvider) |
		on(r.Model != "", quotaModel) |
		on(r.NoBorrowing, quotaNoBorrowing) |
		on(!r.Until.IsZero(), quotaUntil) |
		on(r.Before, quotaBefore) |
		on(len(r.Loans) > 0, quotaLoans) |
		on(len(r.Served) > 0, quotaServed) |
		on(uint8(r.Level)|r.Waiting != 0, quotaTurn) |
		on(r.Call, quotaCall) |
		on(r.Operation != "", quotaOperation) |
		on(r.Untold, quotaUntold) |
		on(r.Known != 0, quotaNames) |
		on(r.Asked != 0, quotaAsked) |
		on(r.Payer != "", quotaPayer))
	c.key(&r.Key)
	name(c, &r.Group)
	if m&quotaAgent != 0 {
		name(c, &r.Agent)
	}
	if m&quotaProvider != 0 {
		name(c, &r.Provider)
	}
	if m&quotaModel != 0 {
		name(c, &r.Model)
	}
	c.amounts(&r.Amounts)
	integer(c, &r.Expect)
	c.flag(&r.NoBorrowing, m&quotaNoBorrowing != 0)
	c.time(&r.At)
	if m&quotaUntil != 0 {
		c.time(&r.Until)
	}
	c.flag(&r.Before, m&quotaBefore != 0)
	member(c, &r.State, 256)
	if m&quotaLoans != 0 {
		list(c, &r.Loans, leastLoan, (*coder).quotaLoan)
	}
	if m&quotaServed != 0 {
		names(c, &r.Served)
	}
	if m&quotaTurn != 0 {
		member(c, &r.Level, int(coordinator.PriorityCritical)+1)
		member(c, &r.Waiting, 256)
	}
	c.flag(&r.Call, m&quotaCall != 0)
	if m&quotaOperation != 0 {
		name(c, &r.Operation)
	}
	c.flag(&r.Untold, m&quotaUntold != 0)
	if m&quotaNames != 0 {
		member(c, &r.Known, coordinator.NumNamesKept)
	}
	if m&quotaAsked != 0 {
		c.uvarint(&r.Asked)
	}
	if m&quotaPayer != 0 {
		name(c, &r.Payer)
	}
}

// leastLoan is how many bytes a loan takes up at the very least.
const leastLoan = 4

func (c *coder) quotaLoan(n *coordinator.QuotaLoan) {
	name(c, &n.From)
	name(c, &n.To)
	member(c, &n.Dimension, coordinator.NumDimensions)
	integer(c, &n.Amount)
}

// amounts writes a bit for each dimension that has any, and these.
func (c *coder) amounts(a *coordinator.Amounts) {
	set := uint64(0)
	for d := range a {
		set |= on(a[d] != 0, 1<<d)
	}
	m := c.mask(set)
	for d := range a {
		if m&(1<<d) != 0 {
			integer(c, &a[d])
		}
	}
}

const (
	extendedUntil = 1 << iota
)

func (c *coder) quotaExtended(r *coordinator.QuotaExtended) {
	m := c.mask(on(!r.Until.IsZero(), extendedUntil))
	c.key(&r.Key)
	c.amounts(&r.More)
	c.time(&r.At)
	if m&extendedUntil != 0 {
		c.time(&r.Until)
	}
}

const (
	endedKeep = 1 << iota
	endedType
	endedTook // at the end, as what follows: earlier versions have not known it
	endedHeard
	endedFailed
	endedLate
	endedWord
	endedTold
)

func (c *coder) quotaEnded(r *coordinator.QuotaEnded) {
	m := c.mask(on(r.Keep, endedKeep) | on(r.Type != "", endedType) | on(r.Took != 0, endedTook) | on(r.Heard,
		endedHeard) | on(r.Failed, endedFailed) | on(r.Late != nil, endedLate) | on(r.Word != 0,
		endedWord) | on(r.Told != (coordinator.Amounts{}), endedTold))
	c.key(&r.Key)
	member(c, &r.How, coordinator.NumQuotaEnds)
	c.amounts(&r.Used)
	c.time(&r.At)
	c.flag(&r.Keep, m&endedKeep != 0)
	if m&endedType != 0 {
		name(c, &r.Type)
	}
	c.flag(&r.Heard, m&endedHeard != 0)
	c.flag(&r.Failed, m&endedFailed != 0)
	if m&endedTook != 0 {
		integer(c, &r.Took)
	}
	if m&endedLate != 0 {
		if !c.writing {
			r.Late = new(coordinator.QuotaOwner)
		}
		c.quotaOwner(r.Late)
	}
	if m&endedWord != 0 {
		member(c, &r.Word, coordinator.NumQuotaWords)
	}
	if m&endedTold != 0 {
		c.amounts(&r.Told)
	}
}

const (
	ownerCall = 1 << iota
	ownerNames
)

func (c *coder) quotaOwner(o *coordinator.QuotaOwner) {
	m := c.mask(on(o.Call, ownerCall) | on(o.Known != 0, ownerNames))
	name(c, &o.Group)
	name(c, &o.Agent)
	name(c, &o.Provider)
	name(c, &o.Model)
	c.flag(&o.Call, m&ownerCall != 0)
	c.time(&o.At)
	if m&ownerNames != 0 {
		member(c, &o.Known, coordinator.NumNamesKept)
	}
}

const (
	heardBlocked = 1 << iota
	heardCut
	heardBefore
	heardCalls
	heardBy
	heardRest
	heardTakes
	heardTeller // at the end: earlier versions have not known it
)

func (c *coder) poolHeard(r *coordinator.PoolHeard) {
	m := c.mask(on(!r.BlockedUntil.IsZero(), heardBlocked) | on(!r.CutAt.IsZero(), heardCut) | on(r.Before, heardBefore) |
		on(r.Calls != 0 || r.Success != 0 || r.Latency != 0, heardCalls) | on(r.By != "", heardBy) | on(!r.RestUntil.IsZero(),
		heardRest) | on(!r.TakesAfter.IsZero(), heardTakes) |
		on(r.Teller != "" || r.BeganSuccess != 0 || r.BeganLatency != 0, heardTeller))
	name(c, &r.Node)
	c.time(&r.At)
	if m&heardBlocked != 0 {
		c.time(&r.BlockedUntil)
	}
	integer(c, &r.PerMille)
	if m&heardCut != 0 {
		c.time(&r.CutAt)
	}
	integer(c, &r.Refusals)
	c.amounts(&r.Taken)
	if c.flag(&r.Before, m&heardBefore != 0); m&heardCalls != 0 {
		integer(c, &r.Calls)
		integer(c, &r.Success)
		integer(c, &r.Latency)
	}
	if m&heardBy != 0 {
		name(c, &r.By)
	}
	if m&heardRest != 0 {
		c.time(&r.RestUntil)
	}
	if m&heardTakes != 0 {
		c.time(&r.TakesAfter)
	}
	if m&heardTeller != 0 {
		name(c, &r.Teller)
		integer(c, &r.BeganSuccess)
		integer(c, &r.BeganLatency)
	}
}

const (
	beforeRate = 1 << iota
)

func (c *coder) quotaBefore(r *coordinator.QuotaBefore) {
	m := c.mask(on(r.Rate, beforeRate))
	name(c, &r.Node)
	member(c, &r.Dimension, coordinator.NumDimensions)
	c.flag(&r.Rate, m&beforeRate != 0)
	integer(c, &r.Start)
	list(c, &r.Values, 1, func(c *coder, v *int64) { integer(c, v) })
}

func (c *coder) quotaTold(r *coordinator.QuotaTold) {
	c.mask(0)
	name(c, &r.Node)
	member(c, &r.Dimension, coordinator.NumDimensions)
	integer(c, &r.Percent)
	c.time(&r.At)
}

const (
	estimateFirst = 1 << iota
	estimateInput
)

func (c *coder) estimateBefore(r *coordinator.EstimateBefore) {
	m := c.mask(on(r.First, estimateFirst) | on(r.Input, estimateInput))
	c.flag(&r.First, m&estimateFirst != 0)
	c.flag(&r.Input, m&estimateInput != 0)
	name(c, &r.Tenant)
	name(c, &r.Model)
	member(c, &r.Level, 256)
	integer(c, &r.Bucket)
	integer(c, &r.Sum)
	list(c, &r.Counts, 1, func(c *coder, v *uint32) {
		wide := int64(*v)
		integer(c, &wide)
		*v = uint32(wide)
	})
}

const (
	shareFirst = 1 << iota
	shareOwn
)

func (c *coder) shareBefore(r *coordinator.ShareBefore) {
	m := c.mask(on(r.First, shareFirst) | on(r.Own, shareOwn))
	c.flag(&r.First, m&shareFirst != 0)
	c.flag(&r.Own, m&shareOwn != 0)
	name(c, &r.Group)
	name(c, &r.Parent)
	list(c, &r.Values, 1, func(c *coder, v *int64) { integer(c, v) })
}

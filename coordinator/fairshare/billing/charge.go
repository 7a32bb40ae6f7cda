package billing

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/estimates"
)

// Most bounds every amount that is asked for or reported, so that sums of a few do not overflow:
// a thousand times what any configured limit can be.
const Most int64 = 1 << 60

// least is what a call counts for of which nothing is known but that it is one.
const least = 1000

// MostCost bounds what one task counts for, and CostCap what a group may be in debt, or lag behind:
// thousands of usual calls.
const (
	MostCost = 1 << 24
	CostCap  = 1 << 26
)

// Charge is what asks for quota.
type Charge struct {
	Group string
	// Payer is the group of the agent that a task without a group is given to: it is charged, and Group alone
	// has the turn.
	Payer           string
	Agent           coordinator.AgentID
	Provider, Model string
	Amounts         coordinator.Amounts
	// Expect is what it counts for in the order of turns (see Weigh). No limit depends on it.
	Expect int64
	// NoBorrowing: it is to stay within budgets of its own. (Rates and seats that others
	// leave it may have: nothing of them is missing later.)
	NoBorrowing bool
	// Unpriced: it is for a model without a price (see coordinator.UnpricedRule).
	Unpriced bool
	// Call: it is not for a task, and has no turn. Operation is what sort of call it is; Untold:
	// it is charged as reserved, not given back, if its end is never reported.
	Call      bool
	Operation string
	Untold    bool
	// Known is by which names it stands in the history.
	Known coordinator.NameKept
	// Asked is a hash of what was asked for (see coordinator.Call); 0: not known.
	Asked uint64
}

// With returns the charge with so much more, each of its amounts up to the most that is counted of any.
func (c Charge) With(more *coordinator.Amounts) Charge {
	Tidy(&c.Amounts)
	by := *more
	Tidy(&by)
	for d := range c.Amounts {
		c.Amounts[d] = min(c.Amounts[d]+by[d], Most)
	}
	return c
}

// ModelName names what is charged for, for people.
func (c *Charge) ModelName() string {
	switch {
	case c.Provider == "" && c.Model == "":
		return "an unnamed model"
	case c.Model == "":
		return c.Provider
	default:
		return c.Provider + "/" + c.Model
	}
}

// Reserved returns the record of a reservation that a charge was made for.
func (c *Charge) Reserved(key coordinator.TaskKey, at time.Time) *coordinator.QuotaReserved {
	return &coordinator.QuotaReserved{
		Key: key, Group: c.Group, Agent: c.Agent, Provider: c.Provider, Model: c.Model,
		Amounts: c.Amounts, Expect: c.Expect, NoBorrowing: c.NoBorrowing, At: at,
		Call: c.Call, Operation: c.Operation, Untold: c.Untold, Known: c.Known, Asked: c.Asked, Payer: c.Payer,
	}
}

// ChargeOf returns the charge that a reservation was made for by its record.
func ChargeOf(r *coordinator.QuotaReserved) Charge {
	c := Charge{
		Group: r.Group, Agent: r.Agent, Provider: r.Provider, Model: r.Model, Amounts: r.Amounts, Expect: r.Expect,
		NoBorrowing: r.NoBorrowing,
		Call:        r.Call, Operation: r.Operation, Untold: r.Untold, Known: r.Known, Asked: r.Asked, Payer: r.Payer,
	}
	Tidy(&c.Amounts)
	return c
}

// Observe teaches the estimator what a call, or task, has taken that was charged so: of its model, and
// what a task has taken of its type as well, for those that do not say that they use a model.
func (c *Charge) Observe(e *estimates.Estimator, taskType string, a *coordinator.Amounts) {
	s := service{c.Provider, c.Model, taskType}
	e.Observe(c.Group, s.learntAs(), a[coordinator.DimInputTokens], a[coordinator.DimOutputTokens])
	if !c.Call && s.model != "" {
		e.Observe(c.Group, unknownService+taskType, a[coordinator.DimInputTokens], a[coordinator.DimOutputTokens])
	}
}

// Weigh makes one number of amounts, for the order of turns: the tokens, output counted twice
// as VTC does, in one unit for all groups, whatever their limits and models. What has no
// tokens counts as a small call. At most MostCost.
func Weigh(a *coordinator.Amounts) int64 {
	cost := arith.Add(a[coordinator.DimInputTokens], arith.MulDiv(a[coordinator.DimOutputTokens], 2, 1))
	if cost == 0 {
		cost = least
	}
	return min(cost, MostCost)
}

// Tidy brings amounts into their range.
func Tidy(a *coordinator.Amounts) {
	for d := range a {
		a[d] = min(max(0, a[d]), Most)
	}
}

package billing

import (
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/estimates"
)

// unknownService begins the name under which a task type's calls are learnt if no model is stated.
const unknownService = "task:"

// ServiceOf returns the provider and model that a group's calls go to, as far as usage and
// configuration say: a provider with several keys by its own name, unless a key was named.
func (d *Directory) ServiceOf(group string, u *coordinator.Usage) (s coordinator.Service) {
	if u != nil {
		s.Provider, s.Model = u.Provider, u.Model
	}
	if s.Provider != "" && s.Model != "" { // no default is asked for
		return s
	}
	if n, known := d.groups[group]; known {
		s.Provider, s.Model = d.defaults(n, s.Provider, s.Model)
	}
	if s.Provider == "" {
		s.Provider = d.prices.only[s.Model]
	}
	return s
}

// priceFor puts into a charge without a group, and into what is usual for it, what its tokens cost with
// the model that the calls of its agent's group go to; of an agent that is not listed with its own.
func (d *Directory) priceFor(c *Charge, usual *coordinator.Amounts, taskType string) {
	s := d.serviceUsed(c, taskType)
	for _, a := range [...]*coordinator.Amounts{&c.Amounts, usual} {
		if a[coordinator.DimTotalTokens] > 0 {
			a[coordinator.DimCost], _ = d.prices.cost(s.provider, s.model, taskType,
				a[coordinator.DimRequests], a[coordinator.DimInputTokens], a[coordinator.DimOutputTokens])
		}
	}
}

// serviceOf returns what a group's calls of a task type are for. Of a provider with keys it names the
// pool: the first key if none was chosen. So what is charged says for good where it was.
func (d *Directory) serviceOf(group, taskType string, u *coordinator.Usage) service {
	s := d.ServiceOf(group, u)
	if keys := d.Keys(s.Provider); len(keys) > 0 {
		s.Provider = keys[0]
	}
	return service{s.Provider, s.Model, taskType}
}

// learntAs returns the name under which an estimator keeps what is learnt of a service.
func (s service) learntAs() string {
	if s.model == "" {
		return unknownService + s.operation
	}
	return s.model
}

// Guessed says which amounts of a charge are estimates: Of has a bit, 1 << Dimension, for each amount, and
// Sure is how much it is at the least by what was stated.
type Guessed struct {
	Of   uint8
	Sure coordinator.Amounts
}

// demanded is what is asked for before it has run: a call, or a task.
type demanded struct {
	group, operation string // operation: the task type
	usage            *coordinator.Usage
	// noTokens: it is stated that there are none. assumed: where neither usage nor experience says
	// anything it is a usual call of an LLM; else it takes no tokens, whatever model its group calls.
	noTokens, assumed bool
}

// ForTask returns the charge for a task of a group before it has run, whatever the limits, what is usual for it, and
// what of the charge e has estimated. noTokens: it is stated that it takes none.
func (d *Directory) ForTask(group, taskType string, u *coordinator.Usage, noTokens bool, e *estimates.Estimator) (
	c Charge, usual coordinator.Amounts, guessed Guessed) {
	return d.demand(demanded{group: group, operation: taskType, usage: u, noTokens: noTokens}, e)
}

// AssignTo has a charge for a task, and what is usual for it, be those of an agent. A task without a group is charged
// to the group of its agent, so that it costs what that one's model does, unless it states its cost. It returns
// whether that is a guess.
func (d *Directory) AssignTo(agent coordinator.AgentID, c *Charge, usual *coordinator.Amounts, taskType string,
	u *coordinator.Usage) (guessed Guessed) {
	c.Agent, c.Payer = agent, ""
	if c.Group == "" {
		c.Payer, _ = d.GroupOfAgent(agent)
	}
	if c.Group != "" || u != nil && u.CostUSD > 0 {
		return guessed
	}
	d.priceFor(c, usual, taskType)
	if cost := c.Amounts[coordinator.DimCost]; cost > 0 && (u == nil || u.InputTokens <= 0 || u.OutputTokens <= 0) {
		sure := *c
		sure.Amounts = coordinator.Amounts{}
		if u != nil {
			sure.Amounts, _ = d.prices.amountsOf(u, service{}, 1)
		}
		var none coordinator.Amounts
		d.priceFor(&sure, &none, taskType)
		guessed.Of = 1 << coordinator.DimCost
		guessed.Sure[coordinator.DimCost] = min(cost, sure.Amounts[coordinator.DimCost])
	}
	return guessed
}

// demand returns the charge for it, whatever the limits: what is stated, and for what is not, what e has
// learnt of such tasks.
func (d *Directory) demand(x demanded, e *estimates.Estimator) (c Charge, usual coordinator.Amounts, guessed Guessed) {
	group, u := x.group, x.usage
	s := d.serviceOf(group, x.operation, u)
	c = Charge{Group: group, Provider: s.provider, Model: s.model}
	var stated coordinator.Usage
	if u != nil {
		stated = *u
	}
	expected := stated
	name := s.learntAs()
	assumed := x.assumed || stated.Provider != "" || stated.Model != "" || stated.InputTokens > 0 ||
		stated.OutputTokens > 0
	if !assumed { // that its group calls a model does not say that it does
		name = unknownService + s.operation
	}
	guess := func(d coordinator.Dimension, by estimates.Estimate, stated, expected *float64) {
		if by.Level > estimates.LevelDefault || assumed {
			*stated, *expected = float64(by.Reserve), float64(by.Expect)
			guessed.Of |= 1 << d
		}
	}
	input := wholeUp(stated.InputTokens) // as far as it is stated: a guess would choose the wrong bucket
	if !x.noTokens && stated.InputTokens <= 0 {
		guess(coordinator.DimInputTokens, e.EstimateInput(group, name), &stated.InputTokens, &expected.InputTokens)
	}
	if !x.noTokens && stated.OutputTokens <= 0 {
		guess(coordinator.DimOutputTokens, e.Estimate(group, name, input, 0), &stated.OutputTokens,
			&expected.OutputTokens)
	}
	if guessed.Of != 0 {
		if guessed.Of |= 1 << coordinator.DimTotalTokens; stated.CostUSD <= 0 {
			guessed.Of |= 1 << coordinator.DimCost
		}
		if u != nil {
			guessed.Sure, _ = d.prices.amountsOf(u, s, 1)
		}
	}
	if c.Amounts, _ = d.prices.amountsOf(&stated, s, 1); assumed && !x.noTokens {
		c.Unpriced = d.prices.lacks(s, u, c.Amounts[coordinator.DimTotalTokens])
	}
	usual, _ = d.prices.amountsOf(&expected, s, 1)
	if !assumed && guessed.Of == 0 && stated.CostUSD <= 0 { // no call is paid for, either
		c.Amounts[coordinator.DimCost], usual[coordinator.DimCost] = 0, 0
	}
	c.Expect = Weigh(&usual)
	return c, usual, guessed
}

// exactly returns the charge for a call of a group of which the usage is known.
func (d *Directory) exactly(group, operation string, u *coordinator.Usage) (c Charge) {
	s := d.serviceOf(group, operation, u)
	c = Charge{Group: group, Provider: s.provider, Model: s.model}
	c.Amounts, _ = d.prices.amountsOf(u, s, 0)
	c.Unpriced = d.prices.lacks(s, u, c.Amounts[coordinator.DimTotalTokens])
	return c
}

// part returns the charge for a part of a call that has been counted already: exactly what is stated,
// and no request unless some are.
func (d *Directory) part(group, operation string, u *coordinator.Usage) (c Charge) {
	s := d.serviceOf(group, operation, u)
	c = Charge{Group: group, Provider: s.provider, Model: s.model}
	c.Amounts, _ = d.prices.count(u, s, 0, 0)
	c.Unpriced = d.prices.lacks(s, u, c.Amounts[coordinator.DimTotalTokens])
	return c
}

// GroupOfCall returns the group that a call is charged to; false: its agent has no right to it.
func (d *Directory) GroupOfCall(c *coordinator.Call) (group string, own bool) {
	if (!c.OwnOnly || c.Admitted) && c.Group != "" {
		return c.Group, true
	}
	its, listed := d.GroupOfAgent(c.Agent)
	if c.Group == "" || listed && c.Group == its {
		return its, true
	}
	return c.Group, false
}

// ForCall returns what a call is charged for, whatever the limits, and what of that e has estimated; own is
// false if its agent has no right to the group that it names.
func (d *Directory) ForCall(c *coordinator.Call, e *estimates.Estimator) (charge Charge, guessed Guessed, own bool) {
	group, own := d.GroupOfCall(c)
	u, atLeast := c.Usage, int64(0)
	if c.OwnOnly {
		u, atLeast = ownWord(&u)
	}
	switch c.Meant {
	case coordinator.UsagePart:
		charge = d.part(group, c.Operation, &u)
	case coordinator.UsageExact:
		charge = d.exactly(group, c.Operation, &u)
	default:
		charge, _, guessed = d.demand(demanded{group: group, operation: c.Operation, usage: &u, assumed: true}, e)
	}
	for _, cost := range [...]*int64{&charge.Amounts[coordinator.DimCost], &guessed.Sure[coordinator.DimCost]} {
		*cost = max(*cost, atLeast)
	}
	charge.Agent, charge.NoBorrowing = c.Agent, c.NoBorrowing
	charge.Call, charge.Operation, charge.Untold, charge.Expect, charge.Asked = true, c.Operation, c.ChargeUntold, 0,
		c.Asked
	if charge.Amounts[coordinator.DimConcurrency] = c.Seats; c.Op == coordinator.CallConsume ||
		c.Op == coordinator.CallCharge {
		charge.Amounts[coordinator.DimConcurrency] = 0
	}
	return charge, guessed, own
}

// Used is what a task, or call, that was charged so has taken by a report, at the prices of now. The model,
// if the report names none, is the charge's: else a task that names the model itself would pay nothing. Of
// a charge without a group it is that of its agent's. What has no price costs what was set aside for it:
// else a report that names such a model afterwards would pay nothing.
//
// An agent's own report lowers no price: what it says that it costs counts where that is more, or, of a model
// without a price, where no money is limited. Of its call that was for a dearer model than it names now that
// one's price counts, which was looked at when the call was let pass.
func (d *Directory) Used(c *Charge, taskType string, u *coordinator.Usage,
	word coordinator.QuotaWord) coordinator.Amounts {
	s, said, atLeast := d.serviceUsed(c, taskType), *u, int64(0)
	if word != coordinator.WordBelieved {
		said, atLeast = ownWord(u)
	}
	a, priced := d.prices.amountsOf(&said, s, 0)
	cost := &a[coordinator.DimCost]
	if !priced && (atLeast == 0 || d.limitsMoney(c)) {
		*cost = c.Amounts[coordinator.DimCost]
	}
	if word != coordinator.WordBelieved && c.Call {
		asked, _ := d.prices.cost(s.provider, s.model, s.operation, a[coordinator.DimRequests],
			a[coordinator.DimInputTokens], a[coordinator.DimOutputTokens])
		*cost = max(*cost, asked)
	}
	*cost = max(*cost, atLeast)
	return a
}

// ownWord returns a usage as its agent reports it, without the cost, which prices say, and the cost that it
// reports.
func ownWord(u *coordinator.Usage) (without coordinator.Usage, cost int64) {
	without = *u
	without.CostUSD = 0
	return without, microUSD(u.CostUSD)
}

// limitsMoney reports whether any limit of a charge is of money.
func (d *Directory) limitsMoney(c *Charge) bool {
	p := d.PathOf(c)
	for _, n := range p.Nodes() {
		if spec := d.Spec(n); spec.Budgets[coordinator.DimCost] != nil || spec.Rates[coordinator.DimCost] != nil {
			return true
		}
	}
	return false
}

// Unpriced reports whether a charge is for a model without a price, also by what its agent's group calls.
func (d *Directory) Unpriced(c *Charge) bool {
	if !c.Unpriced {
		return false
	}
	s := d.serviceUsed(c, c.Operation) // or it is for the model of its agent's group
	return s == (service{c.Provider, c.Model, c.Operation}) || d.prices.lacks(s, nil, 0)
}

// LacksPrice reports whether what a task, or call, that was charged so has taken by a report has no price,
// and of which model it was.
func (d *Directory) LacksPrice(c *Charge, taskType string, u *coordinator.Usage,
	word coordinator.QuotaWord) (of coordinator.Service, lacks bool) {
	s := d.serviceUsed(c, taskType)
	if word != coordinator.WordBelieved {
		said, _ := ownWord(u)
		u = &said
	}
	a, _ := d.prices.amountsOf(u, s, 0)
	lacks = d.prices.lacks(s, u, a[coordinator.DimTotalTokens])
	s = s.of(u)
	return coordinator.Service{Provider: s.provider, Model: s.model}, lacks
}

// serviceUsed returns what a task, or call, was for that was charged so, as far as its usage does not say.
func (d *Directory) serviceUsed(c *Charge, taskType string) service {
	s := service{c.Provider, c.Model, taskType}
	if at, known := d.agents[c.Agent]; known && c.Group == "" {
		s.provider, s.model = d.defaults(d.above[at], s.provider, s.model)
	}
	return s
}

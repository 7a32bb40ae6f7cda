package engine_test

import (
	"strings"
	"testing"

	"taskbus/coordinator"
)

// ownPrices is a team of $100 a day, and models that cost $100 and $1 for a million tokens sent, twice as much
// for those received: 1,000 and 500 cost 200,000 µ$ and 2,000 µ$.
const ownPrices = `
groups: [{id: team, limits: {cost_usd: {amount: 100, per: day}}}, {id: free}]
agents: [{id: x, group_id: team}, {id: y, group_id: free}]
prices:
  - {provider: openai, model: big, input_per_million_tokens: 100, output_per_million_tokens: 200}
  - {provider: openai, model: mini, input_per_million_tokens: 1, output_per_million_tokens: 2}
`

// costing is a call of 1,000 and 500 tokens that is said to cost so many dollars.
func costing(op coordinator.CallOp, own bool, model string, dollars float64) *coordinator.Call {
	c := called("1", "team", "openai", model, 1000, 500)
	c.Agent, c.Op, c.OwnOnly, c.Usage.CostUSD = "x", op, own, dollars
	return c
}

// What an agent says of itself lowers no price: the list's is the least that it is charged, however it tells of it;
// a gateway says what something costs.
func TestOwnWordLowersNoPrice(t *testing.T) {
	const consume, charge, settle = coordinator.CallConsume, coordinator.CallCharge, coordinator.CallSettle
	for name, c := range map[string]struct {
		op      coordinator.CallOp
		own     bool
		model   string
		dollars float64
		cost    int64
	}{
		"consumed by its own word":                {consume, true, "big", 0.000001, 200_000},
		"consumed for more":                       {consume, true, "big", 0.5, 500_000},
		"consumed by a gateway's word":            {consume, false, "big", 0.000001, 1},
		"charged by its own word":                 {charge, true, "big", 0.000001, 200_000},
		"charged by a gateway's word":             {charge, false, "big", 0.000001, 1},
		"settled by its own word":                 {settle, true, "", 0.000001, 200_000},
		"settled for more":                        {settle, true, "", 0.5, 500_000},
		"settled by a gateway's word":             {settle, false, "", 0.000001, 1},
		"settled for a cheaper model":             {settle, true, "mini", 0, 200_000},
		"settled for a cheaper one, by a gateway": {settle, false, "mini", 0, 2000},
		"settled for one without a price":         {settle, true, "new", 0.000001, 200_000}, // what was set aside, too
	} {
		t.Run(name, func(t *testing.T) {
			r := calls(t, ownPrices)
			if c.op == settle {
				r.state(costing(coordinator.CallReserve, c.own, "big", c.dollars), coordinator.CallGranted)
			}
			told := r.Apply(r.now, coordinator.CallAsked{Token: 1,
				Calls: []coordinator.Call{*costing(c.op, c.own, c.model, c.dollars)}}, nil)
			if a := told[len(told)-1].(*coordinator.CallAnswered).Answers[0]; a.State != coordinator.CallGranted ||
				a.Amounts[coordinator.DimCost] != c.cost {
				t.Errorf("it is %s, %d µ$, want %d", a.State, a.Amounts[coordinator.DimCost], c.cost)
			}
			r.holds("pool/team", coordinator.DimCost, c.cost, 0)
			if got := unpricedOf(told); (len(got) > 0) != (c.model == "new") {
				t.Errorf("told: %q", got)
			}
		})
	}
}

// An extension is not cheaper either: 1,000 and 500 tokens more of the model that was asked for.
func TestOwnWordLowersNoPriceOfAnExtension(t *testing.T) {
	for own, cost := range map[bool]int64{true: 400_000, false: 200_001} {
		r := calls(t, ownPrices)
		r.state(costing(coordinator.CallReserve, own, "big", 0), coordinator.CallGranted)
		r.state(costing(coordinator.CallExtend, own, "", 0.000001), coordinator.CallGranted)
		r.holds("pool/team", coordinator.DimCost, 0, cost)
	}
}

// Where money is limited a model without a price is one also if an agent says itself what it costs. Where it is
// not, that is what it costs.
func TestOwnWordIsNoPrice(t *testing.T) {
	for own, want := range map[bool]coordinator.CallState{true: coordinator.CallNever, false: coordinator.CallGranted} {
		for _, op := range []coordinator.CallOp{coordinator.CallReserve, coordinator.CallConsume, coordinator.CallCheck} {
			r := calls(t, ownPrices)
			effects := r.Apply(r.now, coordinator.CallAsked{Token: 1, Calls: []coordinator.Call{*costing(op, own, "new", 0.25)}},
				nil)
			if a := effects[len(effects)-1].(*coordinator.CallAnswered).Answers[0]; a.State != want {
				t.Errorf("%s, own %t: it is %s, want %s", op, own, a.State, want)
			}
			if got := unpricedOf(effects); (len(got) > 0) != (own && op != coordinator.CallCheck) {
				t.Errorf("%s, own %t: told %q", op, own, got)
			}
		}
	}
	r := calls(t, ownPrices)
	c := costing(coordinator.CallConsume, true, "new", 0.25)
	c.Agent, c.Group = "y", "free"
	if a := r.state(c, coordinator.CallGranted); a.Amounts[coordinator.DimCost] != 250_000 {
		t.Errorf("%d µ$, want 250000", a.Amounts[coordinator.DimCost])
	}
}

// The result of a task is its agent's word. What it says of a model without a price is told of, and costs what
// was set aside where money is limited.
func TestResultLowersNoPrice(t *testing.T) {
	for name, c := range map[string]struct {
		group, model string
		dollars      float64
		cost         int64
		told         string
	}{
		"less":                        {"team", "", 0.000001, 200_000, ""},
		"more":                        {"team", "", 0.5, 500_000, ""},
		"for a model without a price": {"team", "new", 0.000001, 200_000, "openai/new of team at pool/team, refused: false"},
		"where no money is limited":   {"free", "new", 0.25, 250_000, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a")).under(t, ownPrices))
			r.Record(true)
			r.give(job("t1").of(c.group).tokens(1000, 500).with("big"))
			b := says("a", "t1").used(1000, 500)
			b.Usage.Model, b.Usage.CostUSD = c.model, c.dollars
			b.Timestamp = r.now
			effects := r.Apply(r.now, coordinator.ResultReported{Result: b.Result, Live: true}, nil)
			if got := strings.Join(unpricedOf(effects), "; "); got != c.told {
				t.Errorf("told: %q, want %q", got, c.told)
			}
			ends := 0
			for _, rec := range r.Records(nil) {
				if ended, is := rec.(*coordinator.QuotaEnded); is {
					if ends++; ended.Used[coordinator.DimCost] != c.cost {
						t.Errorf("it costs %d µ$, want %d", ended.Used[coordinator.DimCost], c.cost)
					}
				}
			}
			if ends != 1 {
				t.Errorf("it has ended %d times", ends)
			}
		})
	}
}

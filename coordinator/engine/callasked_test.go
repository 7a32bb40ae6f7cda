package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// An id stands for one call: with another body it is taken, and nothing is charged, whether what stands under
// it is open or has ended, and at a leader that has taken over by records or a snapshot. The same body is answered
// again.
func TestSameIDAnotherBody(t *testing.T) {
	ask := func(op coordinator.CallOp, id string, in float64, change func(*coordinator.Call)) coordinator.Call {
		c := *tokens(op, id, in, 0)
		c.Group, c.TTL, c.Keep = "team", time.Minute, true
		if change != nil {
			change(&c)
		}
		c.Asked = c.HashAsked()
		return c
	}
	first := leads(t, policyOf(worker("a")).under(t, oneTeam))
	ops := map[coordinator.CallOp]string{coordinator.CallReserve: "reserved", coordinator.CallConsume: "consumed",
		coordinator.CallCharge: "charged"}
	for op, id := range ops {
		if a := first.ask(ask(op, id, 100, nil))[0]; a.State != coordinator.CallGranted || a.Standing {
			t.Fatalf("%s: %+v", op, a)
		}
	}
	all := heirs(first)
	all["live"] = first
	for name, r := range all {
		for op, id := range ops {
			for what, c := range map[string]struct {
				change func(*coordinator.Call)
				taken  bool
			}{
				"the same":          {nil, false},
				"for longer":        {func(c *coordinator.Call) { c.TTL = time.Hour }, false},
				"with priority":     {func(c *coordinator.Call) { c.Priority = coordinator.PriorityHigh }, false},
				"more":              {func(c *coordinator.Call) { c.Usage.InputTokens = 500 }, true},
				"of output":         {func(c *coordinator.Call) { c.Usage.InputTokens, c.Usage.OutputTokens = 0, 100 }, true},
				"at a price":        {func(c *coordinator.Call) { c.Usage.CostUSD = 1 }, true},
				"for another group": {func(c *coordinator.Call) { c.Group = "" }, true},
				"at another model":  {func(c *coordinator.Call) { c.Usage.Model = "m" }, true},
				"another operation": {func(c *coordinator.Call) { c.Operation = "chat" }, true},
				"meant otherwise":   {func(c *coordinator.Call) { c.Meant = coordinator.UsageEstimated }, true},
				"with a seat":       {func(c *coordinator.Call) { c.Seats = 1 }, true},
				"without borrowing": {func(c *coordinator.Call) { c.NoBorrowing = true }, true},
				"charged if untold": {func(c *coordinator.Call) { c.ChargeUntold = true }, true},
				"with another at hand": {func(c *coordinator.Call) {
					c.Routes = []coordinator.Service{{Provider: "p", Model: "m"}}
				}, true},
			} {
				a := r.ask(ask(op, id, 100, c.change))[0]
				if c.taken && a.State != coordinator.CallTaken || !c.taken && (a.State != coordinator.CallGranted || !a.Standing) {
					t.Errorf("%s, %s %s: %+v", name, op, what, a)
				}
			}
		}
		if n, _ := r.Ledger().Node(r.now, "pool/team"); n.Budgets[0].Used != 200 || n.Budgets[0].Reserved != 100 {
			t.Errorf("%s: %+v, want 200 used and 100 reserved", name, n.Budgets[0])
		}
	}
	// Of a body that an earlier version has not noted nothing is known.
	c := ask(coordinator.CallConsume, "consumed", 500, nil)
	c.Asked = 0
	if a := first.ask(c)[0]; a.State != coordinator.CallGranted || !a.Standing {
		t.Errorf("without a hash: %+v", a)
	}
}

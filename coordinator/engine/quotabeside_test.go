package engine

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// besideQuotas is a month of $100, shared by two teams, one of which may spend no more than $5 in a minute.
const besideQuotas = `
pool: {limits: {cost_usd: {amount: 100, per: month}}, borrowing: {rule: never}}
groups: [{id: a, limits: {cost_usd: {amount: 5, per: minute}}}, {id: b}]
agents: [{id: x, group_id: a}]
`

// A limit for another period holds beside the part by weight of what is above, and does not take its
// place: team a has $5 in each minute, and half of the month's $100.
func TestLimitsOfSeveralPeriodsAddUp(t *testing.T) {
	const cost = coordinator.DimCost
	r := calls(t, besideQuotas)
	ask := func(id, group string, usd float64, want coordinator.CallState) coordinator.CallAnswer {
		c := tokens(coordinator.CallConsume, id, 0, 0)
		c.Agent, c.Group, c.Usage.CostUSD = "", group, usd
		return r.state(c, want)
	}
	for i := range 10 { // $5 in each of ten minutes are the half of the month
		ask(fmt.Sprint("a", i), "a", 5, coordinator.CallGranted)
		if lacks := ask("more", "a", 1, coordinator.CallRefused).Lacks; lacks.Node != "pool/a" && i < 9 {
			t.Errorf("in a minute: %+v", lacks)
		}
		r.pass(time.Minute)
	}
	if lacks := ask("more", "a", 1, coordinator.CallRefused).Lacks; lacks.Node != "pool/a@month" {
		t.Errorf("in the month: %+v", lacks)
	}
	r.holds("pool/a@month", cost, 50_000_000, 0)
	r.holds("pool/a", cost, 0, 0) // a new minute
	ask("b0", "b", 50, coordinator.CallGranted)
	r.holds("pool", cost, 100_000_000, 0)
	checkIndexes(t, r.Engine)
}

// What was used of both is known to who takes over, and after a reload that takes the minute's limit away
// the part of the month stays what it was used for.
func TestLimitsOfSeveralPeriodsAreInSnapshots(t *testing.T) {
	const cost = coordinator.DimCost
	r := calls(t, besideQuotas)
	c := tokens(coordinator.CallConsume, "1", 0, 0)
	c.Agent, c.Group, c.Usage.CostUSD = "x", "a", 3
	r.state(c, coordinator.CallGranted)
	for node, want := range map[string]int64{
		"pool/a": 3_000_000, "pool/a@month": 3_000_000, "pool/a/x": 3_000_000, "pool/a/x@month": 3_000_000, "pool": 3_000_000,
	} {
		r.holds(node, cost, want, 0)
	}
	records := r.quotas.ledger.Export(r.now)
	again := ready(t, policyOf(worker("a").slots(10)).under(t, besideQuotas))
	for _, one := range records {
		again.quotas.ledger.Fold(one)
	}
	for _, node := range []string{"pool/a", "pool/a@month", "pool/a/x", "pool/a/x@month", "pool"} {
		again.holds(node, cost, 3_000_000, 0)
	}
}

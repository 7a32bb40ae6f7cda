package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
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
	engine.CheckIndexes(t, r.Engine)
}

// What was used of both is known to the next leader, and after a reload that takes the minute's limit away
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
	records := r.Ledger().Export(r.now)
	again := ready(t, policyOf(worker("a").slots(10)).under(t, besideQuotas))
	for _, one := range records {
		again.Ledger().Fold(one)
	}
	for _, node := range []string{"pool/a", "pool/a@month", "pool/a/x", "pool/a/x@month", "pool"} {
		again.holds(node, cost, 3_000_000, 0)
	}
}

// A limit of 0 is never, of money too: a has its $50 of $100, at noon as well, when half of what b has not used
// has accrued to it.
func TestBorrowingLimitOfZero(t *testing.T) {
	for limit, want := range map[string]coordinator.CallState{"0": coordinator.CallRefused,
		"none": coordinator.CallGranted} {
		r := calls(t, "pool: {limits: {cost_usd: {amount: 100, per: day}}}\ngroups: [{id: a, borrowing: {limit: "+limit+
			"}}, {id: b}]\n")
		for i, usd := range []float64{50, 10} {
			c := tokens(coordinator.CallConsume, fmt.Sprint(i), 0, 0)
			c.Agent, c.Group, c.Usage.CostUSD = "", "a", usd
			r.state(c, []coordinator.CallState{coordinator.CallGranted, want}[i])
		}
	}
}

// Several limits of a group's own hold together: $2 an hour, and $5 of the day's $10.
func TestOwnLimitsOfSeveralPeriods(t *testing.T) {
	r := calls(t, "pool: {limits: {cost_usd: {amount: 10, per: day}}}\n"+
		"groups: [{id: a, limits: {cost_usd: [{amount: 2, per: hour}, {amount: 5, per: day, borrow: 0}]}}, {id: b}]\n")
	spent := 0
	for hour := range 4 {
		for range 3 {
			c := tokens(coordinator.CallConsume, fmt.Sprint(spent), 0, 0)
			c.Agent, c.Group, c.Usage.CostUSD = "", "a", 1
			if r.ask(c)[0].State == coordinator.CallGranted {
				spent++
			}
		}
		if want := min(2*(hour+1), 5); spent != want {
			t.Errorf("after %d hours it has spent $%d, want $%d", hour+1, spent, want)
		}
		r.pass(time.Hour)
	}
}

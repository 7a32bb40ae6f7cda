package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// TestFairShareDivisions: what the document divides among agents by weight, each of them can use,
// to the unit, and not one more: of its own, for none of these tasks may borrow.
func TestFairShareDivisions(t *testing.T) {
	for _, c := range []struct {
		quotas string
		of     []int64 // of agents a, b, c, ... of the group
	}{
		// 3.2.1: 100,000 by 2:2:1 are 40,000 for each 2 and 20,000.
		{"100000; 2 2 1", []int64{40_000, 40_000, 20_000}},
		// 3.2.1, agents.yaml and groups.yaml: project_alpha by 5:5, project_beta by 3:2.
		{"500000; 5 5", []int64{250_000, 250_000}},
		{"300000; 3 2", []int64{180_000, 120_000}},
		// 3.3: project_beta by 4:1.
		{"300000; 4 1", []int64{240_000, 60_000}},
		// 2.4: a million by 5:3:2:1. Elevenths, rounded down, are 454,545, 272,727, 181,818 and
		// 90,909: the one that is left goes to the highest weight.
		{"1000000; 5 3 2 1", []int64{454_546, 272_727, 181_818, 90_909}},
		// 2.4: 1000 by 10:5:5.
		{"1000; 10 5 5", []int64{500, 250, 250}},
	} {
		t.Run(c.quotas, func(t *testing.T) {
			var total int64
			weights := make([]int64, len(c.of))
			fields := []any{&total}
			for i := range weights {
				fields = append(fields, &weights[i])
			}
			format := "%d;"
			for range weights {
				format += " %d"
			}
			if _, err := fmt.Sscanf(c.quotas, format, fields...); err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("groups:\n  - {id: team, total_quota_monthly_tokens: %d, reset_interval: monthly}\nagents:\n",
				total)
			for i, w := range weights {
				text += fmt.Sprintf("  - {id: %c, group_id: team, weight: %d, initial_quota: 0}\n", 'a'+i, w)
			}
			d := demonstrate(t, text)
			for i, part := range c.of {
				agent := coordinator.AgentID(rune('a' + i))
				proud := func(tokens int64) *taskBuilder { b := d.call(agent, tokens); b.NoBorrowing = true; return b }
				want(t, d.assign(proud(part+1)), fmt.Sprintf("fail call-%d exceeds_quota", d.calls))
				if !d.consume(proud(part)) {
					t.Errorf("%s cannot use its %d", agent, part)
				}
				if d.consume(proud(2)) { // halves of one token are none
					t.Errorf("%s can use more than %d", agent, part)
				}
			}
			if g, _ := d.budget("pool/team"); g.Used != total {
				t.Errorf("%d are used of %d", g.Used, total)
			}
		})
	}
}

// TestFairShareDimensions is 4.2: agent A may use 100,000 tokens a month and make 5 requests a
// second, agent B spend 50 dollars a month at 2 requests a second. Every task keeps both limits of
// its agent: the rate paces it, the month ends it.
func TestFairShareDimensions(t *testing.T) {
	d := demonstrate(t, `
groups: [{id: team}]
agents:
  - {id: A, group_id: team, initial_quota: 100000, rate_limit_rps: 5}
  - {id: B, group_id: team, rate_limit_rps: 2, limits: {cost_usd: {amount: 50, per: month}}}
`)
	began := d.now
	for range 21 { // 5,000 tokens each: 20 are 100,000
		d.consume(d.call("A", 5000))
	}
	for range 11 { // 5 dollars each: 10 are 50
		b := d.call("B", 2)
		b.EstimatedUsage.CostUSD = 5
		d.consume(b)
	}
	last, n := make(map[coordinator.AgentID]time.Duration), make(map[coordinator.AgentID]int)
	for _, x := range d.dispatches { // as many as in a second at once: 5 and 2
		n[x.Agent]++
	}
	if n["A"] != 5 || n["B"] != 2 {
		t.Errorf("at once %v", n)
	}
	for range 100 {
		before := len(d.dispatches)
		d.pass(100 * time.Millisecond)
		for _, x := range d.dispatches[before:] {
			last[x.Agent] = d.now.Sub(began)
			n[x.Agent]++
		}
		d.answer(before)
	}
	// The 20th of A after 15/5 = 3 s, the 10th of B after 8/2 = 4 s; the 21st and 11th not at all.
	if n["A"] != 20 || last["A"] != 3*time.Second || n["B"] != 10 || last["B"] != 4*time.Second {
		t.Errorf("%v, the last after %v", n, last)
	}
	february := time.Date(2030, 2, 1, 0, 0, 0, 0, time.UTC)
	for id, dimension := range map[coordinator.TaskID]coordinator.Dimension{"call-21": coordinator.DimTotalTokens,
		"call-32": coordinator.DimCost} {
		p, _ := d.Place(d.now, d.open(id).Task())
		if v := p.Lacks; v == nil || v.Dimension != dimension || v.Limit != fairshare.LimitBudget ||
			!v.RetryAt.Equal(february) {
			t.Errorf("%s waits for %+v", id, v)
		}
	}
}

// TestFairShareBucket is the document's bucket of 10 at 2 a second (2.2.1), asked 14 times 0.1 s
// apart: 12 pass, the 10 and two of the 2.6 that come in meanwhile. What is refused asks no more.
// After 3 s more there are 10 + 2·4.4 - 12 = 6.8 in it, and 4 requests 0.4 s apart all pass.
func TestFairShareBucket(t *testing.T) {
	const bucket = "groups: [{id: team}]\nagents: [{id: a, group_id: team, rate_limit_rps: 2, burst_capacity: 10}]\n"
	d, passed := demonstrate(t, bucket), 0
	for range 14 {
		b := d.call("a", 2)
		if d.consume(b) {
			passed++
		} else {
			d.withdraw(b.ID)
		}
		d.pass(100 * time.Millisecond)
	}
	if passed != 12 {
		t.Errorf("%d of 14 pass", passed)
	}
	d.pass(3 * time.Second)
	if n, _ := d.Ledger().Node(d.now, "pool/team/a"); n.Rates[0].Remaining != 6 {
		t.Errorf("after 3 s there are %d", n.Rates[0].Remaining)
	}
	for i := range 4 {
		if !d.consume(d.call("a", 2)) {
			t.Errorf("number %d of the usual ones is refused", i+1)
		}
		d.pass(400 * time.Millisecond)
	}

	// Tasks are not refused, they wait: all 14 go, the 13th when 10 + 2t is 13, after 1.5 s, and
	// the 14th after 2 s.
	d = demonstrate(t, bucket)
	began, when := d.now, []time.Duration(nil)
	for i := range 30 {
		before := len(d.dispatches)
		if i < 14 {
			d.consume(d.call("a", 2))
		}
		for range d.dispatches[before:] {
			when = append(when, d.now.Sub(began))
		}
		before = len(d.dispatches)
		d.pass(100 * time.Millisecond)
		for range d.answer(before) {
			when = append(when, d.now.Sub(began))
		}
	}
	if len(when) != 14 || when[12] != 1500*time.Millisecond || when[13] != 2*time.Second {
		t.Errorf("they go at %v", when)
	}
}

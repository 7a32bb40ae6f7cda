package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// priced is a group with that many dollars a day, and what a million tokens of openai's model big
// cost: so much sent, twice as much received.
func priced(dollars string, input int) string {
	return fmt.Sprintf(`
groups: [{id: team, limits: {cost_usd: {amount: %s, per: day}}}]
prices:
  - {provider: openai, model: big, input_per_million_tokens: %d, output_per_million_tokens: %d}
`, dollars, input, 2*input)
}

// reprice installs quotas in which only the price is another.
func (r *rig) reprice(dollars string, input int) []string {
	r.t.Helper()
	p := *r.Policy()
	p.Version += "'"
	return r.apply(coordinator.PolicyChanged{Policy: &(&policyBuilder{p}).under(r.t, priced(dollars, input)).Policy})
}

// What is set aside is priced when it is, and what was used when that is told: after a reload at the
// double price a task like one before has the double set aside, the one that is open keeps what it
// has, and settles at the price that there is when its agent tells what it took.
func TestQuotaReloadOfPrices(t *testing.T) {
	const cost = coordinator.DimCost
	for name, c := range map[string]struct {
		end  func(r *rig)
		used int64
	}{
		"it says how many tokens": {func(r *rig) { r.tell(says("a", "t1").used(40, 20)) }, 16_000}, // 40·200 + 20·400
		"and of which model": {func(r *rig) {
			b := says("a", "t1").used(40, 20)
			b.Usage.Provider, b.Usage.Model = "openai", "big"
			r.tell(b)
		}, 16_000},
		"of a model without a price": {func(r *rig) {
			b := says("a", "t1").used(40, 20)
			b.Usage.Model = "new"
			r.tell(b)
		}, 10_000}, // what was set aside
		"it says that it cost more": {func(r *rig) {
			b := says("a", "t1").used(40, 20)
			b.Usage.CostUSD = 0.017
			r.tell(b)
		}, 17_000},
		"it says nothing: what was thought then": {func(r *rig) { r.tell(says("a", "t1")) }, 10_000},
		"it says so late": {func(r *rig) {
			r.Track("a")
			r.pass(6 * time.Minute) // overdue: nothing is set aside any more
			r.tell(says("a", "t1").of("t1.1").used(40, 20))
		}, 16_000},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, patient(policyOf(worker("a").slots(10)).under(t, priced("1", 100))))
			r.give(job("t1").of("team").tokens(50, 25).with("big"))
			r.holds("pool/team", cost, 0, 10_000) // 50·100 + 25·200 µ$
			want(t, r.reprice("1", 200))
			r.holds("pool/team", cost, 0, 10_000)
			r.give(job("t2").of("team").tokens(50, 25).with("big"))
			r.holds("pool/team", cost, 0, 10_000+20_000) // 50·200 + 25·400
			c.end(r)
			n, _ := r.Ledger().Node(r.now, "pool/team")
			if got := n.Budgets[0].Used; got != c.used {
				t.Errorf("%d µ$ are used, want %d", got, c.used)
			}
		})
	}
}

// A task that waits is priced anew by a reload: of $0.025 two that are open have $0.02; a third, of
// as much, waits. At half the price it takes $0.005, and goes.
func TestQuotaReloadOfPricesWakes(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(10)).under(t, priced("0.025", 100))))
	for _, id := range []coordinator.TaskID{"t1", "t2"} {
		r.give(job(id).of("team").tokens(50, 25).with("big"))
	}
	want(t, r.assign(job("t3").of("team").tokens(50, 25).with("big")))
	want(t, keepDispatches(r.reprice("0.025", 50)), "dispatch t3.1 a")
	r.holds("pool/team", coordinator.DimCost, 0, 25_000)
}

// A task without a group is charged to its agent's, and its tokens cost what they do of the model of
// that group.
func TestQuotaPriceOfATaskWithoutGroup(t *testing.T) {
	r := ready(t, policyOf(worker("a")).under(t, `
groups: [{id: team, provider: openai, model: big, limits: {cost_usd: {amount: 1, per: day}}}]
agents: [{id: a, group_id: team}]
prices:
  - {provider: openai, model: big, input_per_million_tokens: 100, output_per_million_tokens: 200}
`))
	r.give(job("t1").tokens(50, 25))
	r.tell(says("a", "t1").used(40, 20))
	r.holds("pool/team", coordinator.DimCost, 40*100+20*200, 0)
}

// The history books a task without a group to its agent's group, where that is charged for it, also by the
// books of a coordinator that takes over, and where its end is told late.
func TestPayerOfATaskWithoutGroup(t *testing.T) {
	for name, c := range map[string]struct {
		agent              coordinator.AgentID
		group, payer, late string
	}{
		"without a group, of a listed agent": {agent: "a", payer: "team", late: "team"},
		"without a group, of another agent":  {agent: "b"},
		"with another group":                 {agent: "a", group: "rest", late: "rest"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := func() *policyBuilder {
				return policyOf(worker(c.agent)).
					under(t,
						"groups: [{id: team}, {id: rest}]\nagents: [{id: a, group_id: team}]\npool: {limits: {total_tokens: {amount: "+
							"1000, per: day}}}\n")
			}
			r, heir := ready(t, policy()), ready(t, policy())
			r.Record(true)
			task := job("t1").tokens(50, 25)
			if c.group != "" {
				task = task.of(c.group)
			}
			r.give(task)
			r.Track(c.agent)
			r.pass(6 * time.Minute) // overdue
			began, ends := 0, 0
			fold := func() {
				for _, rec := range r.Records(nil) {
					heir.Fold(r.now, rec)
					switch rec := rec.(type) {
					case *coordinator.QuotaReserved:
						if began++; rec.Group != c.group || rec.Payer != c.payer {
							t.Errorf("it is of %q and paid by %q, want %q", rec.Group, rec.Payer, c.payer)
						}
					case *coordinator.QuotaEnded:
						if ends++; ends == 2 && (rec.Late == nil || rec.Late.Group != c.late) {
							t.Errorf("it ends as %+v, want one of %q", rec.Late, c.late)
						}
					}
				}
			}
			fold()
			for _, x := range heir.Ledger().Export(r.now) {
				if rec, is := x.(*coordinator.QuotaReserved); is && rec.Payer != c.payer {
					t.Errorf("who takes over has it as paid by %q", rec.Payer)
				}
			}
			r.tell(says(c.agent, "t1").of("t1.1").used(40, 20))
			if fold(); began != 1 || ends != 2 {
				t.Errorf("it has begun %d times, and ended %d", began, ends)
			}
		})
	}
}

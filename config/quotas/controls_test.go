package quotas

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// controlQuotas is what quotas become with standing controls, with their source (see
// [ControlledFile.With]).
func controlQuotas(base *coordinator.Quotas, controls []coordinator.QuotaControl) (*coordinator.Quotas, []Suspended) {
	return NewControlledFile(base).With(controls, true)
}

// controlledFile is FAIR-SHARE's example with a provider: 1,000,000 tokens a month, of which alpha
// has 500,000, shared 3:2 by its agents, and beta 300,000.
const controlledFile = `
timezone: UTC
pool: {limits: {total_tokens: {amount: 1000000, per: month}}}
groups:
  - {id: alpha, weight: 3, total_quota_monthly_tokens: 500000, reset_interval: monthly}
  - {id: beta, limits: {total_tokens: {amount: 300000, per: month}, cost_usd: [{amount: 5, per: day}, {rate: 0.5, per: minute}], concurrency: {amount: 4}}}
agents:
  - {id: a1, group_id: alpha, weight: 3, initial_quota: 0, rate_limit_rps: 2.5, burst_capacity: 10}
  - {id: a2, group_id: alpha, weight: 2}
providers:
  - provider: openai
    models:
      - {model: gpt-4o, share: by_weight, limits: {requests: {rate: 100, per: minute}}}
  - {provider: lab, limits: {concurrency: {amount: 8}}}
`

func set(target, key, value string) coordinator.QuotaControl {
	return control(coordinator.ControlSet, target, key, value)
}

func control(kind coordinator.QuotaControlKind, target, key, value string) coordinator.QuotaControl {
	return coordinator.QuotaControl{Kind: kind, Target: target, Key: key, Value: value}.Named()
}

// nodeOf is the node of that id.
func nodeOf(t testing.TB, q *coordinator.Quotas, id string) *coordinator.QuotaNode {
	t.Helper()
	i := slices.IndexFunc(q.Nodes, func(n coordinator.QuotaNode) bool { return n.ID == id })
	if i < 0 {
		t.Fatalf("there is no node %s in:\n%s", id, outline(q))
	}
	return &q.Nodes[i]
}

// Each control changes what it says, and nothing else.
func TestControlsChangeTheFile(t *testing.T) {
	boosted := func(target, key, value string) coordinator.QuotaControl {
		return control(coordinator.ControlBoost, target, key, value)
	}
	limit := func(dim coordinator.Dimension, l *coordinator.QuotaLimit) string {
		if l == nil {
			return "none"
		}
		return DescribeLimit(dim, l)
	}
	tokens := func(q *coordinator.Quotas, id string) string {
		return limit(coordinator.DimTotalTokens, nodeOf(t, q, id).Budgets[coordinator.DimTotalTokens])
	}
	requests := func(q *coordinator.Quotas, id string) string {
		return limit(coordinator.DimRequests, nodeOf(t, q, id).Rates[coordinator.DimRequests])
	}
	weight := func(q *coordinator.Quotas, id string) string { return fmt.Sprint(nodeOf(t, q, id).Weight) }
	for _, c := range []struct {
		name     string
		controls []coordinator.QuotaControl
		of       func(*coordinator.Quotas, string) string
		node     string
		before   string
		want     string
	}{
		{"a group's weight", []coordinator.QuotaControl{set("pool/alpha", "weight", "5")}, weight, "pool/alpha", "3", "5"},
		{"an agent's weight counts in every tree", []coordinator.QuotaControl{set("pool/alpha/a2", "weight", "7")}, weight,
			"openai/gpt-4o/alpha/a2", "2", "7"},
		{"a group's weight at one model", []coordinator.QuotaControl{set("openai/gpt-4o/alpha", "weight", "9")}, weight,
			"openai/gpt-4o/alpha", "3", "9"},
		{"and nowhere else", []coordinator.QuotaControl{set("openai/gpt-4o/alpha", "weight", "9")}, weight, "pool/alpha", "3",
			"3"},
		{"FAIR-SHARE's budget", []coordinator.QuotaControl{set("pool/alpha", "total_tokens.amount", "600000")}, tokens,
			"pool/alpha", "500000 per month", "600000 per month"},
		{"its period", []coordinator.QuotaControl{set("pool/alpha", "total_tokens.per", "week")}, tokens, "pool/alpha",
			"500000 per month", "500000 per week"},
		{"a period in seconds goes instead of the word",
			[]coordinator.QuotaControl{set("pool/beta", "total_tokens.interval_seconds", "90")}, tokens, "pool/beta",
			"300000 per month", "300000 per 90 s"},
		{"an amount instead of a part by weight keeps the period",
			[]coordinator.QuotaControl{set("pool/alpha/a1", "total_tokens.amount", "100000")}, tokens, "pool/alpha/a1",
			"by_weight per month", "100000 per month"},
		{"none: a part by weight again", []coordinator.QuotaControl{set("pool/beta", "total_tokens.amount", "none")}, tokens,
			"pool/beta", "300000 per month", "by_weight per month"},
		{"the pool", []coordinator.QuotaControl{set("pool", "total_tokens.amount", "2000000")}, tokens, "pool",
			"1000000 per month", "2000000 per month"},
		{"rate_limit_rps", []coordinator.QuotaControl{set("pool/alpha/a1", "requests.rate", "4")}, requests, "pool/alpha/a1",
			"rate 5 per 2 s, burst 10, borrow 0", "rate 4 per second, burst 10, borrow 0"},
		{"burst_capacity", []coordinator.QuotaControl{set("pool/alpha/a1", "requests.burst", "20")}, requests,
			"pool/alpha/a1", "rate 5 per 2 s, burst 10, borrow 0", "rate 5 per 2 s, burst 20, borrow 0"},
		{"what FAIR-SHARE has no key for", []coordinator.QuotaControl{set("pool/alpha/a1", "requests.borrow", "3")}, requests,
			"pool/alpha/a1", "rate 5 per 2 s, burst 10, borrow 0", "rate 5 per 2 s, burst 10, borrow 3"},
		{"a new limit", []coordinator.QuotaControl{set("pool/alpha/a2", "requests.per", "minute"),
			set("pool/alpha/a2", "requests.rate", "6")}, requests, "pool/alpha/a2", "none", "rate 6 per minute"},
		{"a rate beside a budget", []coordinator.QuotaControl{set("pool/beta", "cost_usd.rate", "0.25")},
			func(q *coordinator.Quotas, id string) string {
				n := nodeOf(t, q, id)
				return limit(coordinator.DimCost, n.Budgets[coordinator.DimCost]) + "; " +
					limit(coordinator.DimCost, n.Rates[coordinator.DimCost])
			}, "pool/beta", "5 per day; rate 0.5 per minute", "5 per day; rate 0.25 per minute"},
		{"a model's rate", []coordinator.QuotaControl{set("openai/gpt-4o", "requests.rate", "50")}, requests, "openai/gpt-4o",
			"rate 100 per minute, borrow 0, lend 0", "rate 50 per minute, borrow 0, lend 0"},

		// 500,000 and half of it. Of 1,000,000 the pool keeps 250,000 - 50,000 for no group.
		{"a boost in percent, of a budget", []coordinator.QuotaControl{boosted("pool/alpha", "total_tokens", "+40%")}, tokens,
			"pool/alpha", "500000 per month", "700000 per month"},
		{"by an amount", []coordinator.QuotaControl{boosted("pool/alpha", "total_tokens.amount", "+123")}, tokens,
			"pool/alpha", "500000 per month", "500123 per month"},
		{"downwards", []coordinator.QuotaControl{boosted("pool/alpha", "total_tokens.amount", "-10%")}, tokens, "pool/alpha",
			"500000 per month", "450000 per month"},
		{"of a part by weight: 3/5 of 500,000 = 300,000, and a tenth",
			[]coordinator.QuotaControl{boosted("pool/alpha/a1", "total_tokens", "+10%")}, tokens, "pool/alpha/a1",
			"by_weight per month", "330000 per month"},
		{"of what is set, whichever came first", []coordinator.QuotaControl{boosted("pool/alpha", "total_tokens", "+50%"),
			set("pool/alpha", "total_tokens.amount", "400000")}, tokens, "pool/alpha", "500000 per month", "600000 per month"},
		{"of rate_limit_rps: 2.5 and half of it", []coordinator.QuotaControl{boosted("pool/alpha/a1", "requests", "+50%")},
			requests, "pool/alpha/a1", "rate 5 per 2 s, burst 10, borrow 0", "rate 15 per 4 s, burst 10, borrow 0"},
		{"of seats, rounded down: 4 and 30 % = 5.2", []coordinator.QuotaControl{boosted("pool/beta", "concurrency", "+30%")},
			func(q *coordinator.Quotas, id string) string {
				return limit(coordinator.DimConcurrency, nodeOf(t, q, id).Seats)
			}, "pool/beta", "4", "5"},
		{"of a weight, to the nearest: 3 and half = 4.5", []coordinator.QuotaControl{boosted("pool/alpha", "weight", "+50%")},
			weight, "pool/alpha", "3", "5"},
		{"of a weight, one point less", []coordinator.QuotaControl{boosted("pool/alpha", "weight", "-1")}, weight,
			"pool/alpha", "3", "2"},
		{"of all own limits: the dollars, too", []coordinator.QuotaControl{boosted("pool/beta", "limits", "+10%")},
			func(q *coordinator.Quotas, id string) string {
				n := nodeOf(t, q, id)
				return limit(coordinator.DimTotalTokens, n.Budgets[coordinator.DimTotalTokens]) + "; " +
					limit(coordinator.DimCost, n.Budgets[coordinator.DimCost]) + "; " +
					limit(coordinator.DimCost, n.Rates[coordinator.DimCost]) + "; " + limit(coordinator.DimConcurrency, n.Seats)
			}, "pool/beta", "300000 per month; 5 per day; rate 0.5 per minute; 4",
			"330000 per month; 5.5 per day; rate 0.55 per minute; 4"},
		{"of all own limits, each of several budgets once", []coordinator.QuotaControl{
			control(coordinator.ControlGroup, "gamma", "",
				`{"limits": {"requests": [{"amount": 100, "per": "hour"}, {"amount": 1000, "per": "day"}]}}`),
			boosted("pool/gamma", "limits", "+10%"),
		}, func(q *coordinator.Quotas, id string) string {
			n := nodeOf(t, q, id)
			return limit(coordinator.DimRequests, n.Budgets[coordinator.DimRequests]) + "; " +
				limit(coordinator.DimRequests, &n.Beside[0].QuotaLimit)
		}, "pool/gamma", "", "110 per hour; 1100 per day"},

		{"a group is registered", []coordinator.QuotaControl{control(coordinator.ControlGroup, "gamma", "",
			`{"weight": 2, "total_quota_monthly_tokens": 200000}`)}, tokens, "pool/gamma", "", "200000 per month"},
		{"an agent in it, in whatever order", []coordinator.QuotaControl{
			control(coordinator.ControlAgent, "g1", "", `{"group_id": "gamma", "rate_limit_rps": 2}`),
			control(coordinator.ControlGroup, "gamma", "", `{"parent": "beta"}`),
		}, requests, "pool/beta/gamma/g1", "", "rate 2 per second, borrow 0"},
		{"and changed", []coordinator.QuotaControl{
			set("pool/gamma", "weight", "4"), control(coordinator.ControlGroup, "gamma", "", `{}`),
		}, weight, "openai/gpt-4o/gamma", "", "4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := mustParse(t, controlledFile)
			if c.before != "" {
				if got := c.of(base, c.node); got != c.before {
					t.Fatalf("%s is %s in the file, not %s", c.node, got, c.before)
				}
			}
			q, suspended := controlQuotas(base, c.controls)
			if len(suspended) > 0 {
				t.Fatalf("suspended: %+v", suspended)
			}
			if got := c.of(q, c.node); got != c.want {
				t.Errorf("%s is %s, want %s", c.node, got, c.want)
			}
			// What stands in its place is a file that says the same.
			if again := mustParse(t, q.Source); outline(again) != outline(q) {
				t.Errorf("its source says otherwise:\n%s\nthan it:\n%s", outline(again), outline(q))
			}
			if outline(base) != outline(mustParse(t, controlledFile)) {
				t.Error("the file's own quotas have changed")
			}
		})
	}
}

// What no file may say no control may either, and the refusal says what to do.
func TestControlsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		name    string
		control coordinator.QuotaControl
		want    string
	}{
		{"more than there is", set("pool/alpha", "total_tokens.amount", "800000"),
			"pool has 1000000 of total_tokens, less than those below it have of their own (alpha 800000, beta 300000); " +
				"lower theirs or raise this"},
		{"likewise for a time", control(coordinator.ControlBoost, "pool/alpha", "total_tokens", "+50%"),
			"(alpha 750000, beta 300000)"},
		{"nothing left for who shares by weight", set("pool/alpha/a1", "total_tokens.amount", "500000"),
			"others have all of it"},
		{"no such node", set("pool/gamma", "weight", "1"),
			"no node of the quota trees is called pool/gamma; `taskbus quota ls` lists them"},
		{"no such setting", set("pool/alpha", "tokens.amount", "1"), `"tokens.amount" is no setting of a node`},
		{"nothing said of the limit", set("pool/alpha", "total_tokens", "1"),
			"total_tokens does not say what of the limit; write total_tokens.amount"},
		{"a value out of range", set("pool/alpha", "weight", "1000001"),
			"groups[0].weight: must be a whole number from 0 to 1000000, not 1000001"},
		{"a word for a number", set("pool/alpha", "weight", "many"),
			`groups[0].weight: must be a whole number from 0 to 1000000, not "many"`},
		{"a negative one", set("pool/alpha", "weight", "-1"),
			`groups[0].weight: must be a whole number from 0 to 1000000, not -1`},
		{"the pool has no weight", set("pool", "weight", "3"), "pool.weight: unknown key"},
		{"a limit without a period", set("pool/alpha", "cost_usd.amount", "3"), "does not say for how long; add per"},
		{"a provider has nothing to lend to", set("lab", "concurrency.lend", "3"), "a pool has nothing above it"},
		{"agents at a provider", set("openai/gpt-4o/alpha/a1", "weight", "3"),
			"has nothing of its own in the tree of a provider"},
		{"budget or rate", set("pool/beta", "cost_usd.borrow", "3"), "could be that of the budget or of the rate"},
		{"boost: of which", control(coordinator.ControlBoost, "pool/beta", "cost_usd", "+10%"),
			"say cost_usd.amount or cost_usd.rate"},
		{"boost without a sign", control(coordinator.ControlBoost, "pool/alpha", "total_tokens", "50%"),
			"must be an amount or percentage with its sign"},
		{"boost beyond measure", control(coordinator.ControlBoost, "pool/alpha", "total_tokens", "+1001%"),
			"must be at most +1000%"},
		{"boost below nothing", control(coordinator.ControlBoost, "pool/alpha", "total_tokens", "-101%"),
			"less than nothing"},
		{"boost of a burst", control(coordinator.ControlBoost, "pool/alpha/a1", "requests.burst", "+1"),
			"requests.burst is no amount"},
		{"boost of a part of a rate", control(coordinator.ControlBoost, "openai/gpt-4o/alpha", "requests", "+10%"),
			"has no rate of requests of its own"},
		{"boost of nothing", control(coordinator.ControlBoost, "lab", "total_tokens", "+10%"),
			"lab has no limit of total_tokens to boost"},
		{"a group that there is", control(coordinator.ControlGroup, "alpha", "", "{}"),
			"quotas.yaml lists group alpha itself"},
		{"a key that there is not", control(coordinator.ControlGroup, "gamma", "", `{"wieght": 1}`),
			"groups[2].wieght: unknown key; did you mean weight?"},
		{"an id of another", control(coordinator.ControlGroup, "gamma", "", `{"id": "delta"}`), "leave id out"},
		{"no object", control(coordinator.ControlGroup, "gamma", "", `[1]`), "must be an object with the keys of groups[]"},
		{"an alias bomb", control(coordinator.ControlGroup, "gamma", "", "{a: &x [1], b: *x}"), "alias"},
		{"an agent of no group", control(coordinator.ControlAgent, "x", "", `{"group_id": "gamma"}`),
			"agents[2].group_id: no group is called gamma"},
		{"a circle", control(coordinator.ControlGroup, "gamma", "", `{"parent": "gamma"}`), "goes round in a circle"},
		{"the name of all others", control(coordinator.ControlGroup, "other", "", "{}"),
			"other stands for the groups that are not listed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := mustParse(t, controlledFile)
			good := set("pool/alpha", "weight", "5")
			q, suspended := controlQuotas(base, []coordinator.QuotaControl{c.control, good})
			if c.control.ID == good.ID { // it took its place
				return
			}
			if len(suspended) != 1 || suspended[0].ID != c.control.ID || !strings.Contains(suspended[0].Why, c.want) {
				t.Fatalf("suspended: %+v\nwant it with %q", suspended, c.want)
			}
			if strings.Contains(suspended[0].Why, "line 0") {
				t.Errorf("speaks of lines: %s", suspended[0].Why)
			}
			if got := nodeOf(t, q, "pool/alpha").Weight; got != 5 {
				t.Errorf("the other control does not count: weight %d", got)
			}
		})
	}
}

// Of many that do not fit each is told, and all others count.
func TestManyControlsThatDoNotFit(t *testing.T) {
	base := mustParse(t, controlledFile)
	var list []coordinator.QuotaControl
	bad := make(map[string]bool)
	for i := range 40 {
		id := fmt.Sprintf("g%02d", i)
		entry := fmt.Sprintf(`{"weight": %d}`, i)
		if i%7 == 3 {
			entry = `{"weight": "much"}`
		}
		c := control(coordinator.ControlGroup, id, "", entry)
		bad[c.ID] = i%7 == 3
		list = append(list, c)
	}
	q, suspended := controlQuotas(base, list)
	if len(suspended) != 6 { // 3, 10, 17, 24, 31, 38
		t.Errorf("%d are suspended: %+v", len(suspended), suspended)
	}
	for _, s := range suspended {
		if !bad[s.ID] {
			t.Errorf("%s is suspended: %s", s.ID, s.Why)
		}
	}
	if got := nodeOf(t, q, "pool/g39").Weight; got != 39 {
		t.Errorf("g39 has the weight %d", got)
	}
}

// FAIR-SHARE's keys are no names of settings, and the refusal says which name is: what it says is one.
func TestFairShareKeysAreNamedAsLimits(t *testing.T) {
	base := mustParse(t, controlledFile)
	for key, value := range map[string]string{
		"total_quota_monthly_tokens": "310000", "reset_interval": "month", "reset_interval_seconds": "86400",
		"initial_quota": "by_weight", "rate_limit_rps": "4", "burst_capacity": "20",
	} {
		target := "pool/alpha"
		if key == "initial_quota" || key == "rate_limit_rps" || key == "burst_capacity" {
			target = "pool/alpha/a1"
		}
		_, suspended := controlQuotas(base, []coordinator.QuotaControl{set(target, key, value)})
		if len(suspended) != 1 {
			t.Fatalf("%s: %+v", key, suspended)
		}
		_, write, _ := strings.Cut(suspended[0].Why, key+" is not changed by that name: write ")
		write, _, _ = strings.Cut(write, ", with ")
		if _, suspended = controlQuotas(base, []coordinator.QuotaControl{set(target, write, value)}); len(suspended) > 0 {
			t.Errorf("%s is to be written %q, which is refused: %+v", key, write, suspended)
		}
	}
	if len(fairShareKeys) != 6 {
		t.Errorf("%d keys of FAIR-SHARE's are known, and 6 are tested", len(fairShareKeys))
	}
}

func TestControlsWithoutAFile(t *testing.T) {
	c := set("pool", "weight", "1")
	q, suspended := controlQuotas(nil, []coordinator.QuotaControl{c})
	if q != nil || len(suspended) != 1 || suspended[0].Why != "there is no quotas.yaml" {
		t.Errorf("%v, %+v", q, suspended)
	}
	base := mustParse(t, "{}")
	if q, suspended := controlQuotas(base, nil); q != base || suspended != nil {
		t.Error("without controls the file's quotas must be what counts, and no copy, which would be installed anew")
	}
	// An empty file is enough to register a group.
	q, suspended = controlQuotas(base,
		[]coordinator.QuotaControl{control(coordinator.ControlGroup, "a", "",
			`{"limits": {"requests": {"amount": 3, "per": "day"}}}`)})
	if len(suspended) > 0 || nodeOf(t, q, "pool/a").Budgets[coordinator.DimRequests].Nominal != 3 {
		t.Errorf("%+v", suspended)
	}
}

// Whatever controls stand: what comes of them is a valid file again, and without them it is what
// it was.
func TestAnyControlsGiveAValidFile(t *testing.T) {
	base := mustParse(t, controlledFile)
	plain := outline(base)
	targets := []string{"pool", "pool/alpha", "pool/beta", "pool/alpha/a1", "pool/alpha/a2", "pool/gamma", "openai",
		"openai/gpt-4o", "openai/gpt-4o/alpha", "openai/gpt-4o/beta", "lab", "no/such"}
	keys := []string{"weight", "limits", "total_tokens", "total_tokens.amount", "total_tokens.per", "requests.rate",
		"requests.burst", "requests.borrow", "cost_usd.amount", "cost_usd.rate", "concurrency", "concurrency.amount",
		"concurrency.lend", "nonsense"}
	values := []string{"0", "1", "5", "250000", "0.5", "by_weight", "none", "month", "day", "10%", "+10%", "-50%", "+3",
		"-1", "+1000%"}
	rapid.Check(t, func(t *rapid.T) {
		var list []coordinator.QuotaControl
		for range rapid.IntRange(0, 6).Draw(t, "controls") {
			c := coordinator.QuotaControl{
				Kind:   coordinator.QuotaControlKind(rapid.IntRange(0, 3).Draw(t, "kind")),
				Target: rapid.SampledFrom(targets).Draw(t, "target"), Key: rapid.SampledFrom(keys).Draw(t, "key"),
				Value: rapid.SampledFrom(values).Draw(t, "value"), At: time.Unix(0, 0),
			}
			if c.Kind >= coordinator.ControlGroup {
				c.Target, c.Key = rapid.SampledFrom([]string{"gamma", "alpha", "g1"}).Draw(t, "name"), ""
				c.Value = rapid.SampledFrom([]string{`{}`, `{"weight": 2}`, `{"group_id": "alpha"}`,
					`{"group_id": "gamma", "initial_quota": 5}`, `{"parent": "alpha"}`,
					`{"limits": {"cost_usd": {"amount": 0.5, "per": "day"}}}`, `x`}).Draw(t, "entry")
			}
			c = c.Named()
			if !slices.ContainsFunc(list, func(o coordinator.QuotaControl) bool { return o.ID == c.ID }) {
				list = append(list, c)
			}
		}
		q, suspended := controlQuotas(base, list)
		if len(suspended) == len(list) && q != base {
			t.Fatal("nothing counts, and the quotas are others")
		}
		again, err := Parse([]byte(q.Source), "again")
		if err != nil {
			t.Fatalf("%v\nin:\n%s", err, q.Source)
		}
		if outline(again) != outline(q) {
			t.Fatalf("%s\nwant\n%s", outline(again), outline(q))
		}
		if outline(base) != plain {
			t.Fatal("the file's own quotas have changed")
		}
	})
}

package quotas

import (
	"fmt"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// What a rule takes of a weight comes after what people say of it, leaves the least weight whatever
// they say, and what it adds to limits that have no room is left out.
func TestControlsOfRules(t *testing.T) {
	ruled := controlledFile + "adjustment: {idle: {min_weight: 2}, slow: {above_ms: 1000}}\n"
	base := mustParse(t, ruled)
	rule := func(name, target, key, value string) coordinator.QuotaControl {
		c := control(coordinator.ControlBoost, target, key, value)
		c.Rule = name
		return c.Named()
	}
	for _, c := range []struct {
		name     string
		controls []coordinator.QuotaControl
		weight   int64 // of alpha, 3 in the file
	}{
		{"a point", []coordinator.QuotaControl{rule("idle", "pool/alpha", "weight", "-1")}, 2},
		{"no more than leaves the least", []coordinator.QuotaControl{rule("idle", "pool/alpha", "weight", "-5")}, 2},
		{"of what people have set, whoever was first", []coordinator.QuotaControl{rule("idle", "pool/alpha", "weight", "-5"),
			set("pool/alpha", "weight", "9")}, 4},
		{"of which little is left", []coordinator.QuotaControl{set("pool/alpha", "weight", "1"),
			rule("idle", "pool/alpha", "weight", "-5")}, 1},
		{"people may go below it", []coordinator.QuotaControl{control(coordinator.ControlBoost, "pool/alpha", "weight",
			"-3")}, 0},
		{"both", []coordinator.QuotaControl{set("pool/alpha", "weight", "9"),
			control(coordinator.ControlBoost, "pool/alpha", "weight", "+2"), rule("idle", "pool/alpha", "weight", "-4")}, 7},
	} {
		q, suspended := controlQuotas(base, c.controls)
		if got := nodeOf(t, q, "pool/alpha").Weight; got != c.weight || len(suspended) > 0 {
			t.Errorf("%s: weight %d, want %d; %+v", c.name, got, c.weight, suspended)
		}
	}
	// Of the pool's 1,000,000 alpha and beta have 800,000: beta's 300,000 and 50 % fit, and then
	// alpha's 500,000 and 50 % do not.
	more := []coordinator.QuotaControl{rule("slow", "pool/beta", "limits", "+50%"),
		rule("slow", "pool/alpha", "limits", "+50%")}
	q, suspended := controlQuotas(base, more)
	if len(suspended) != 1 || suspended[0].ID != more[1].ID ||
		nodeOf(t, q, "pool/beta").Budgets[coordinator.DimTotalTokens].Nominal != 450_000 ||
		nodeOf(t, q, "pool/alpha").Budgets[coordinator.DimTotalTokens].Nominal != 500_000 {
		t.Errorf("%+v", suspended)
	}
	if q, _ := controlQuotas(base, nil); outline(q) != outline(mustParse(t, ruled)) {
		t.Error("without them it is not the file")
	}
}

// BenchmarkControlQuotas merges with a file of 100 groups of 100 agents each.
func BenchmarkControlQuotas(b *testing.B) {
	var text strings.Builder
	text.WriteString("groups:\n")
	for g := range 100 {
		fmt.Fprintf(&text, "  - {id: g%d, limits: {total_tokens: {amount: 100000, per: month}}}\n", g)
	}
	text.WriteString("agents:\n")
	for a := range 10_000 {
		fmt.Fprintf(&text, "  - {id: a%d, group_id: g%d, weight: 5}\n", a, a%100)
	}
	base := mustParse(b, text.String())
	for _, n := range []int{1, 1000} {
		var list []coordinator.QuotaControl
		for i := range n {
			list = append(list, control(coordinator.ControlBoost, fmt.Sprintf("pool/g%d/a%d", i%100, i), "weight", "-1"))
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, suspended := controlQuotas(base, list); len(suspended) > 0 {
					b.Fatal(suspended)
				}
			}
		})
	}
}

package usage

import (
	"maps"
	"testing"
)

// A bill is the provider's: what its keys were used for is added up, unless one of them is asked for.
func TestCostsOfKeys(t *testing.T) {
	row := func(provider string, cost int64) Row {
		return Row{Key{Day: "2026-11-22", Provider: provider, Model: "m"}, Counts{TotalTokens: 1, Cost: cost}}
	}
	// without a key: of before there were any
	all := []Row{row("lab", 5), row("openai", 10), row("openai@a", 20), row("openai@b", 30)}
	if m := Costs(all, "openai").Models; len(m) != 2 || m[0].Provider != "openai" || m[0].Cost != 60 ||
		m[1].Provider != "lab" {
		t.Errorf("%+v", m)
	}
	if m := Costs(all[3:], "openai@b").Models; len(m) != 1 || m[0].Provider != "openai@b" || m[0].Cost != 30 {
		t.Errorf("%+v", m)
	}
	for _, c := range []struct {
		bill     string // the lines of provider and cost in millionths
		provider string
		want     map[string]int64 // ours, by provider
	}{
		{"openai,0.00006", "", map[string]int64{"openai": 60}}, // 10 + 20 + 30
		{",0.00006", "openai", map[string]int64{"openai": 60}},
		{",0.00003", "openai@b", map[string]int64{"openai@b": 30}},
		// the account of b has a bill of its own
		{"openai,0.00003\n2026-11-22,m,openai@b,0.00003", "", map[string]int64{"openai": 30, "openai@b": 30}},
		{"lab,0.000005", "", map[string]int64{"lab": 5}},
		{"openai@c,0.1", "", map[string]int64{}},
	} {
		bill := readBill(t, "date,model,provider,cost_usd\n2026-11-22,m,"+c.bill+"\n", BillOptions{Provider: c.provider})
		r := Reconcile(all, bill, ByDay, "", "", Tolerance{Percent: -1, Cost: -1}) // every one differs
		got := make(map[string]int64)
		for _, d := range r.Differences {
			if d.Ours != 0 {
				got[d.Provider] = d.Ours
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s (%s): %v; want %v", c.bill, c.provider, got, c.want)
		}
	}
}

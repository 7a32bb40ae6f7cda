package quotas

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/tests/support/configtest"
)

// FAIR-SHARE's own example (3.2.1), read as it stands there.
func TestFairShareExample(t *testing.T) {
	q := mustParse(t, string(quotaFiles(t)["valid-fair-share"]))
	month := coordinator.Period{Unit: coordinator.PerMonth}
	group := func(name string, tokens int64) coordinator.QuotaNode {
		n := coordinator.QuotaNode{ID: "pool/" + name, Kind: coordinator.QuotaGroup, Name: name, Weight: 1}
		n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: tokens, Period: month}
		return n
	}
	agent := func(group, name string, parent int, weight, rps, burst int64) coordinator.QuotaNode {
		n := coordinator.QuotaNode{ID: "pool/" + group + "/" + name, Kind: coordinator.QuotaAgent, Name: name, Parent: parent,
			Weight: weight}
		n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: coordinator.ByWeight,
			Period: month} // initial_quota: 0
		n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{
			Nominal: rps, Per: time.Second, Burst: burst, Borrow: coordinator.Bound{Kind: coordinator.BoundAmount,
				Value: 0}, // a hard rate
		}
		return n
	}
	want := []coordinator.QuotaNode{
		{ID: "pool", Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1},
		group("project_alpha", 500_000),
		agent("project_alpha", "agent_core_business_1", 1, 5, 5, 10),
		agent("project_alpha", "agent_core_business_2", 1, 5, 5, 10),
		group("project_beta", 300_000),
		agent("project_beta", "agent_marketing_tool", 4, 2, 2, 4), // siblings by name
		agent("project_beta", "agent_research_1", 4, 3, 3, 6),
	}
	if got := outline(q); got != outline(&coordinator.Quotas{Nodes: want}) {
		t.Errorf("got:\n%swant:\n%s", got, outline(&coordinator.Quotas{Nodes: want}))
	}
	for i := range min(len(want), len(q.Nodes)) {
		if g, w := q.Nodes[i], want[i]; g.Parent != w.Parent || g.Name != w.Name {
			t.Errorf("node %d is %+v, want %+v", i, g, w)
		}
	}
	// 500,000 by 5:5 and 300,000 by 2:3 of the nodes' weights.
	if got := arith.Apportion(500_000, []int64{want[2].Weight, want[3].Weight}, nil); !slices.Equal(got,
		[]int64{250_000, 250_000}) {
		t.Errorf("project_alpha: %v", got)
	}
	if got := arith.Apportion(300_000, []int64{want[5].Weight, want[6].Weight}, nil); !slices.Equal(got,
		[]int64{120_000, 180_000}) {
		t.Errorf("project_beta: %v", got)
	}
}

// The nodes of every valid file, a line each, are those of the .nodes file beside it.
func TestQuotaGoldenNodes(t *testing.T) {
	for name, data := range quotaFiles(t) {
		if !strings.HasPrefix(name, "valid-") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			configtest.Golden(t, *update, filepath.Join("testdata", name+".nodes"), outline(mustParse(t, string(data))))
		})
	}
}

// outline writes nodes down as a person wants to read them.
func outline(q *coordinator.Quotas) string {
	var b strings.Builder
	for i := range q.Nodes {
		n := &q.Nodes[i]
		fmt.Fprintf(&b, "%s %s, weight %d", n.Kind, n.ID, n.Weight)
		if n.Provider != "" {
			fmt.Fprintf(&b, ", of %s", strings.TrimSuffix(n.Provider+" "+n.Model, " "))
		}
		b.WriteByte('\n')
		for dim := range coordinator.Dimension(coordinator.NumDimensions) {
			for _, l := range []*coordinator.QuotaLimit{n.Budgets[dim], n.Rates[dim]} {
				if l != nil {
					fmt.Fprintf(&b, "  %s: %s\n", dim, limitOutline(l))
				}
			}
		}
		for k := range n.Beside {
			fmt.Fprintf(&b, "  %s beside: %s\n", n.Beside[k].Dimension, limitOutline(&n.Beside[k].QuotaLimit))
		}
		if n.Seats != nil {
			fmt.Fprintf(&b, "  %s: %s\n", coordinator.DimConcurrency, limitOutline(n.Seats))
		}
		if n.Borrowing != (coordinator.Borrowing{}) {
			fmt.Fprintf(&b, "  %+v\n", n.Borrowing)
		}
	}
	return b.String()
}

func limitOutline(l *coordinator.QuotaLimit) string {
	text := fmt.Sprint(l.Nominal)
	if l.Nominal == coordinator.ByWeight {
		text = "by weight"
	}
	switch {
	case l.Per > 0:
		text += fmt.Sprintf(" every %s, burst %d", l.Per, l.Burst)
	case l.Period.Unit == coordinator.PerInterval:
		text += fmt.Sprintf(" every %s", l.Period.Interval)
	case l.Period.Unit != 0:
		text += " per " + budgetPeriods[l.Period.Unit]
	}
	bound := func(name string, b coordinator.Bound) {
		switch b.Kind {
		case coordinator.BoundAmount:
			text += fmt.Sprintf(", %s %d", name, b.Value)
		case coordinator.BoundPercent:
			text += fmt.Sprintf(", %s %d%%", name, b.Value)
		}
	}
	bound("borrow", l.Borrow)
	bound("lend", l.Lend)
	return text
}

// Nothing depends on the order in which the file lists its entries: neither the nodes, nor
// thereby which gets the unit that a division leaves over.
func TestQuotaOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups := []string{
			"{id: a, limits: {total_tokens: {amount: 7, per: day}}}", "{id: b, weight: 2}", "{id: c, parent: b}",
			"{id: d, parent: a, borrowing: {rule: never}}", "{id: e, parent: c}",
		}
		agents := []string{"{id: x, group_id: d}", "{id: y, group_id: d, weight: 3}", "{id: z, group_id: e}"}
		providers := []string{"{provider: p, share: by_weight, limits: {requests: {rate: 3, per: second}}}",
			"{provider: q, models: [{model: n}, {model: m}]}"}
		file := func(shuffled bool) string {
			parts := map[string][]string{"groups": groups, "agents": agents, "providers": providers}
			keys := []string{"agents", "groups", "providers"}
			if shuffled {
				keys = rapid.Permutation(keys).Draw(rt, "sections")
			}
			var b strings.Builder
			for _, key := range keys {
				list := parts[key]
				if shuffled {
					list = rapid.Permutation(list).Draw(rt, key)
				}
				fmt.Fprintf(&b, "%s: [%s]\n", key, strings.Join(list, ", "))
			}
			return b.String()
		}
		one, other := mustParse(t, file(false)), mustParse(t, file(true))
		if a, b := outline(one), outline(other); a != b {
			rt.Fatalf("one order gives\n%s\nanother\n%s", a, b)
		}
		if a, b := string(Append(nil, one)), string(Append(nil, other)); a != b {
			rt.Fatalf("versions %s and %s", a, b)
		}
	})
}

// planned is a group of a generated file: its budget (-1: by weight), and its weight.
type planned struct {
	name   string
	own    int64
	weight int64
	below  []*planned
}

// fits reports whether whole can be divided among the groups, by the rule of the file: what is
// promised does not exceed it, and it leaves something for those that share by weight.
func fits(whole int64, groups []*planned) bool {
	left, byWeight := whole, false
	weights := make([]int64, len(groups))
	for i, g := range groups {
		if g.own < 0 {
			weights[i] = g.weight
			byWeight = byWeight || g.weight > 0
		} else {
			left -= g.own
		}
	}
	if left < 0 || left == 0 && whole > 0 && byWeight {
		return false
	}
	for i, part := range arith.Apportion(left, weights, nil) {
		if own := groups[i].own; own >= 0 {
			part = own
		}
		if !fits(part, groups[i].below) {
			return false
		}
	}
	return true
}

// A file is accepted if and only if what it promises can be kept, however deep.
func TestQuotaSumsAreThoseOfTheTree(t *testing.T) {
	accepted, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		var text strings.Builder
		n := 0
		var plan func(parent string, level int) []*planned
		plan = func(parent string, level int) []*planned {
			var groups []*planned
			for range rapid.IntRange(0, 3).Draw(rt, "children") {
				n++
				g := &planned{name: fmt.Sprintf("g%03d", n), own: rapid.Int64Range(-1, 4).Draw(rt, "own"),
					weight: rapid.Int64Range(0, 3).Draw(rt, "weight")}
				fmt.Fprintf(&text, "  - {id: %s, weight: %d", g.name, g.weight)
				if parent != "" {
					fmt.Fprintf(&text, ", parent: %s", parent)
				}
				if g.own >= 0 {
					fmt.Fprintf(&text, ", total_quota_monthly_tokens: %d", g.own)
				}
				text.WriteString("}\n")
				if level < 3 {
					g.below = plan(g.name, level+1)
				}
				groups = append(groups, g)
			}
			return groups
		}
		whole := rapid.Int64Range(0, 12).Draw(rt, "whole")
		groups := plan("", 1)
		file := fmt.Sprintf("pool: {limits: {total_tokens: {amount: %d, per: month}}}\ngroups:\n%s", whole, text.String())
		_, err := Parse([]byte(file), "quotas.yaml")
		if want := fits(whole, groups); (err == nil) != want {
			rt.Fatalf("can be kept: %v; the loader says %v, of:\n%s", want, err, file)
		}
		if err == nil {
			accepted++
		} else {
			refused++
		}
	})
	if accepted == 0 || refused == 0 {
		t.Errorf("%d files accepted, %d refused: both must occur", accepted, refused)
	}
}

// What a provider's tree costs in nodes is bounded, whatever the file.
func TestQuotaNodesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("groups:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "- {id: g%d}\n", i)
	}
	b.WriteString("providers:\n")
	for i := range 100 { // 1 + 1000 + 100·(1 + 1000) nodes are 101,101
		fmt.Fprintf(&b, "- {provider: p%d, share: by_weight, limits: {requests: {rate: 1, per: second}}}\n", i)
	}
	_, err := Parse([]byte(b.String()), "quotas.yaml")
	if err == nil || strings.Count(err.Error(), "\n") != 0 ||
		!strings.Contains(err.Error(), "makes more than 100000 nodes") {
		t.Errorf("101,101 nodes: %v", err)
	}
	// Two providers that are not shared are one node each: 1 + 1000 + 98·1001 + 2 = 99,101.
	fewer := strings.NewReplacer("p98, share: by_weight", "p98", "p99, share: by_weight", "p99").Replace(b.String())
	if q := mustParse(t, fewer); len(q.Nodes) != 99_101 {
		t.Errorf("%d nodes, want 99,101", len(q.Nodes))
	}
}

// Whatever is accepted holds what coordinator.Quotas promises.
func checkQuotas(t testing.TB, q *coordinator.Quotas) {
	ids := make(map[string]bool)
	for i := range q.Nodes {
		n := &q.Nodes[i]
		switch {
		case ids[n.ID]:
			t.Errorf("two nodes are called %s", n.ID)
		case (n.Parent < 0) != (n.Kind == coordinator.QuotaPool) || n.Parent >= i:
			t.Errorf("%s %s has the parent %d", n.Kind, n.ID, n.Parent)
		case n.Parent >= 0 && n.ID != q.Nodes[n.Parent].ID+"/"+n.Name || n.Parent < 0 && n.ID != n.Name:
			t.Errorf("%s is called %s", n.ID, n.Name)
		case n.Weight < 0 || n.Weight > maxWeight || strings.Count(n.ID, "/") >= maxLevels+8: // models may hold some
			t.Errorf("%+v", n)
		}
		ids[n.ID] = true
		for dim := range coordinator.Dimension(coordinator.NumDimensions) {
			for _, kind := range []limitKind{kindBudget, kindRate, kindSeats} {
				l := kind.of(n, dim)
				if l == nil {
					continue
				}
				byWeight := l.Nominal == coordinator.ByWeight && n.Parent >= 0 && kind.of(&q.Nodes[n.Parent], dim) != nil
				if !byWeight && (l.Nominal < 0 || l.Nominal > maxAmount) || l.Burst < 0 || l.Burst > maxAmount ||
					(kind == kindRate) != (l.Per > 0) || kind == kindRate && l.Nominal == 0 ||
					(l.Period.Unit == coordinator.PerInterval) != (l.Period.Interval > 0) || dim == coordinator.DimConcurrency &&
					kind != kindSeats {
					t.Errorf("%s: %s: %+v", n.ID, dim, l)
				}
			}
		}
	}
	if len(q.Nodes) == 0 || q.Nodes[0].ID != "pool" || q.Nodes[0].Provider != "" {
		t.Errorf("the first node is not the pool: %+v", q.Nodes)
	}
	if q.Location == nil || q.RepayPercent < 0 || q.RepayPercent > 100 ||
		q.ReservationTTL < time.Second || q.TombstoneTTL < time.Second || q.DefaultOutput < 1 {
		t.Errorf("%+v", q)
	}
	priced := make(map[[3]string]bool)
	for _, p := range q.Prices {
		if key := [3]string{p.Provider, p.Model, p.Operation}; priced[key] || p.Provider == "" ||
			min(p.PerRequest, p.InputPerMillion, p.OutputPerMillion) < 0 {
			t.Errorf("price %+v", p)
		} else {
			priced[key] = true
		}
	}
}

func TestValidQuotasKeepThePromises(t *testing.T) {
	files := quotaFiles(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, "valid-") {
			checkQuotas(t, mustParse(t, string(files[name])))
		}
	}
}

package usage

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator/view"
)

// A pool by the month, a group by the month with an agent, and one by the day, after the journal was lost on the
// 20th: everything counts as 0, but for 30 tokens that the daily group has used since.
func TestCorrections(t *testing.T) {
	month, day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	monthly := func(dimension string, used float64) view.QuotaBudget {
		return view.QuotaBudget{Dimension: dimension, Used: used, PeriodFrom: month, ResetTime: month.AddDate(0, 1, 0)}
	}
	daily := func(used float64) view.QuotaBudget {
		return view.QuotaBudget{Dimension: "total_tokens", Used: used, PeriodFrom: day, ResetTime: day.AddDate(0, 0, 1)}
	}
	hourly := view.QuotaBudget{Dimension: "total_tokens", PeriodFrom: day.Add(10 * time.Hour),
		ResetTime: day.Add(11 * time.Hour)}
	nodes := []view.QuotaNode{
		{ID: "pool", Kind: "pool", Name: "pool",
			Budgets: []view.QuotaBudget{monthly("total_tokens", 30), monthly("cost_usd", 0)}},
		{ID: "pool/a", Kind: "group", Name: "a", Parent: "pool",
			Budgets: []view.QuotaBudget{monthly("total_tokens", 0), monthly("cost_usd", 0)}},
		{ID: "pool/a/a1", Kind: "agent", Name: "a1", Parent: "pool/a",
			Budgets: []view.QuotaBudget{monthly("total_tokens", 0)}},
		{ID: "pool/b", Kind: "group", Name: "b", Parent: "pool", Budgets: []view.QuotaBudget{daily(30)}},
		{ID: "pool/c", Kind: "group", Name: "c", Parent: "pool", Budgets: []view.QuotaBudget{hourly}},
	}
	row := func(day, group, agent string, tokens, micro int64) Row {
		return Row{Key{Day: day, Group: group, Agent: agent}, Counts{TotalTokens: tokens, Cost: micro}}
	}
	rows := []Row{
		row("2026-10-31", "a", "a1", 9999, 9_999_999), // last month's
		row("2026-11-02", "a", "a1", 400, 1_250_000),
		row("2026-11-20", "a", "a2", 100, 250_000), // of no agent that has a part
		row("2026-11-19", "b", "b1", 700, 0),       // another day's for b, but this month's for the pool
		row("2026-11-20", "b", "b1", 50, 0),
		row("2026-11-20", "c", "c1", 10, 0),
	}
	want := []Correction{
		{"pool/a/a1", "total_tokens", 400},        //
		{"pool/b", "total_tokens", 20},            // 50 today, 30 count
		{"pool/a", "total_tokens", 100},           // 500, of which a1's 400 have come from below
		{"pool/a", "cost_usd", 1_500_000},         // $1.25 and $0.25
		{"pool", "total_tokens", 1260 - 30 - 520}, // 400+100+700+50+10; 30 count, 20+400+100 have come from below
	}
	got := Corrections(nodes, rows, nil)
	if !slices.Equal(got, want) {
		t.Errorf("corrections\n%+v, want\n%+v", got, want)
	}
	if first := RestoreFrom(nodes, nil); first != "2026-11-01" {
		t.Errorf("rows are needed from %q on", first)
	}
	used := apply(nodes, got)
	for i := range nodes {
		for j := range nodes[i].Budgets {
			b := &nodes[i].Budgets[j]
			b.Used = float64(used[nodes[i].ID+" "+b.Dimension]) / unitsPer(b.Dimension)
		}
	}
	if again := Corrections(nodes, rows, nil); len(again) != 0 {
		t.Errorf("done again, it corrects %+v", again)
	}
}

// apply is what counts as used after corrections, each of which moves the nodes above as well.
func apply(nodes []view.QuotaNode, corrections []Correction) map[string]int64 {
	used, above := make(map[string]int64), make(map[string]string)
	for _, n := range nodes {
		above[n.ID] = n.Parent
		for _, b := range n.Budgets {
			used[n.ID+" "+b.Dimension] = units(b.Dimension, b.Used)
		}
	}
	for _, c := range corrections {
		for id := c.Node; id != ""; id = above[id] {
			if _, has := used[id+" "+c.Dimension]; has {
				used[id+" "+c.Dimension] += c.By
			}
		}
	}
	return used
}

// The group's budget is of the month, the pool's of the day: what the group used before today is taken off the pool
// again, which its correction has moved as well.
func TestCorrectionsOfOtherPeriodsAbove(t *testing.T) {
	month, day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	nodes := []view.QuotaNode{
		{ID: "pool", Kind: "pool", Name: "pool",
			Budgets: []view.QuotaBudget{{Dimension: "requests", PeriodFrom: day, ResetTime: day.AddDate(0, 0, 1)}}},
		{ID: "pool/a", Kind: "group", Name: "a", Parent: "pool",
			Budgets: []view.QuotaBudget{{Dimension: "requests", PeriodFrom: month, ResetTime: month.AddDate(0, 1, 0)}}},
	}
	rows := []Row{
		{Key{Day: "2026-11-05", Group: "a"}, Counts{Requests: 1000}},
		{Key{Day: "2026-11-20", Group: "a"}, Counts{Requests: 100}},
	}
	got := Corrections(nodes, rows, time.UTC)
	if want := []Correction{{"pool/a", "requests", 1100}, {"pool", "requests", -1000}}; !slices.Equal(got, want) {
		t.Errorf("corrections %+v, want %+v", got, want)
	}
	if used := apply(nodes, got); used["pool requests"] != 100 || used["pool/a requests"] != 1100 {
		t.Errorf("used then: %v", used)
	}
}

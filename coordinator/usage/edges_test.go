package usage

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/view"
)

// A bill whose lines are each as dear as they may be, 100 million dollars, adds up to no less than nothing:
// in billionths, 100 of them are more than a number holds. A row counts up to a billion dollars.
func TestSumOfDearLines(t *testing.T) {
	var b strings.Builder
	b.WriteString("date,model,cost_usd\n")
	for i := range 100 {
		fmt.Fprintf(&b, "2026-11-22,m%d,99999999.5\n", i)
	}
	b.WriteString("2026-11-22,credit,-99999999.5\n")
	bill, err := ReadBill([]byte(b.String()), BillOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bill.Has = []string{ColumnDate, "cost_usd"} // by day alone
	r := Reconcile(nil, bill, ByDay, "", "", Tolerance{})
	if len(r.Totals) != 1 || r.Totals[0].Bill != Most {
		t.Errorf("%+v, want %d micro-USD", r.Totals, Most)
	}
}

// The gap behind which a history goes on is told with its end, also if messages behind it are damaged
// before there is a state to go on from.
func TestDamagedBehindAGap(t *testing.T) {
	b := newBook()
	b.write(reserved(1, b.at, "g", "a"))
	p := New(State{Mark: NoMark()}, nil)
	take(t, p, b.messages, 0)
	if _, ok := p.Batch(); !ok {
		t.Fatal("there is no batch")
	}
	b.next += 5 // what is between is missing
	b.write(settled(1, b.at, 1, 1))
	b.write(settled(2, b.at, 1, 1))
	damaged := len(b.messages) - 1
	b.messages[damaged] = append([]byte(nil), b.messages[damaged]...)
	b.messages[damaged][len(b.messages[damaged])-1] ^= 0xff
	open := reserved(3, b.at, "g", "a")
	open.Before = true
	b.snapshot(open)
	b.write(settled(3, b.at, 1, 1))
	take(t, p, b.messages, 2)
	batch, ok := p.Batch()
	if !ok {
		t.Fatal("there is no batch")
	}
	for _, g := range batch.Gaps {
		if g.To.IsZero() {
			t.Errorf("%+v has no end", g)
		}
		if strings.Contains(g.Reason, "missing") != (g.Lost == 1) {
			t.Errorf("%+v: one was open before what is missing", g)
		}
	}
	if len(batch.Gaps) != 2 {
		t.Errorf("%d gaps: %+v", len(batch.Gaps), batch.Gaps)
	}
}

// A task that names no group takes the quota of its agent's: it counts for the forecast of that, too.
func TestForecastsCountTasksOfNoGroup(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	budget := func() []view.QuotaBudget {
		return []view.QuotaBudget{{Dimension: "total_tokens", Cap: 1e6, PeriodFrom: at.Add(-12 * time.Hour),
			ResetTime: at.Add(12 * time.Hour)}}
	}
	nodes := []view.QuotaNode{
		{ID: "pool", Kind: "pool", Name: "pool", Budgets: budget()},
		{ID: "pool/x", Kind: "group", Name: "x", Parent: "pool", Budgets: budget()},
		{ID: "pool/x/a", Kind: "agent", Name: "a", Parent: "pool/x", Budgets: budget()},
	}
	past := Past{From: "2026-11-21", To: "2026-11-21", Rows: []Row{
		{Key{Day: "2026-11-21", Agent: "a", Source: SourceTask}, Counts{TotalTokens: 100}},
		{Key{Day: "2026-11-21", Group: "x", Agent: "a", Source: SourceTask}, Counts{TotalTokens: 20}},
		{Key{Day: "2026-11-21", Agent: "unlisted", Source: SourceTask}, Counts{TotalTokens: 4}},
	}}
	// Half of the day is left: 62 of 124 of all, 60 of 120 of x and of a.
	for i, f := range Forecasts(nodes, "", at, nil, &past) {
		if want := []float64{62, 60, 60}[i]; math.Abs(f.Expected-want) > 1e-9 {
			t.Errorf("%s: %v are expected, want %v", f.Node.ID, f.Expected, want)
		}
	}
}

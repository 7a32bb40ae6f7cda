package alerts

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// What people are told of a budget: in which units, when it resets, and whether it may borrow.
func TestWordsOfReached(t *testing.T) {
	midnight := time.Date(2030, 2, 1, 0, 0, 0, 0, time.UTC)
	for want, f := range map[string]coordinator.QuotaReached{
		"pool/g at 80 %: 800 of 1000 total_tokens, resets 1 Feb": {Node: "pool/g", Percent: 80,
			Dimension: coordinator.DimTotalTokens, Used: 800, Cap: 1000, Ends: midnight},
		"pool/g at 100 %: 1000 of 1000 total_tokens, resets 1 Feb 12:30 UTC; it may borrow more of what others leave": {
			Node: "pool/g", Percent: 100, Dimension: coordinator.DimTotalTokens, Used: 1000, Cap: 1000,
			Ends: midnight.Add(12*time.Hour + 30*time.Minute), MayBorrow: true},
	} {
		if _, a := Reached(&f, midnight); a.Text != want || a.Subject != "pool/g total_tokens" {
			t.Errorf("%q of %q, want %q", a.Text, a.Subject, want)
		}
	}
	if got := Amount("cost_usd", 3.5); got != "$3.50" {
		t.Errorf("%s, want $3.50", got)
	}
}

// An event has one id, whichever coordinator publishes it and when; another budget, period or percentage has another.
func TestIDs(t *testing.T) {
	now := time.Unix(1000, 0)
	f := coordinator.QuotaReached{Node: "pool/g", Percent: 80, Dimension: coordinator.DimTotalTokens, Ends: now}
	_, first := Reached(&f, now)
	_, again := Reached(&f, now.Add(time.Hour))
	if first.ID != again.ID {
		t.Errorf("%s, later %s", first.ID, again.ID)
	}
	seen := map[string]bool{first.ID: true}
	for _, vary := range []func(*coordinator.QuotaReached){
		func(f *coordinator.QuotaReached) { f.Node = "pool/h" },
		func(f *coordinator.QuotaReached) { f.Percent = 90 },
		func(f *coordinator.QuotaReached) { f.Ends = now.Add(time.Hour) },
		func(f *coordinator.QuotaReached) { f.Dimension = coordinator.DimRequests },
	} {
		other := f
		vary(&other)
		_, a := Reached(&other, now)
		if seen[a.ID] {
			t.Errorf("%+v has an id that another has", other)
		}
		seen[a.ID] = true
	}
}

// What was published is not found again until its period is over.
func TestToldOverrunsAreForgottenWithTheirPeriod(t *testing.T) {
	ends := time.Unix(2000, 0)
	o, node := make(Overruns), view.QuotaNode{ID: "pool/g"}
	o[overrunOf(&node, &view.QuotaBudget{Dimension: "total_tokens", ResetTime: ends})] = true
	if o.Forget(ends.Add(-time.Nanosecond)); len(o) != 1 {
		t.Error("forgotten before its period ends")
	}
	if o.Forget(ends); len(o) != 0 {
		t.Error("kept when its period is over")
	}
}

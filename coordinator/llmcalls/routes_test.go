package llmcalls

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// TestChoose: the earlier of equals; one that has room before one that has none; of those that have none the
// first that may be asked again, and one that never may last.
func TestChoose(t *testing.T) {
	l := fairshare.NewLedger()
	l.Install(epoch, ten().Quotas)
	ok := fairshare.Verdict{OK: true}
	at := func(d time.Duration) fairshare.Verdict { return fairshare.Verdict{RetryAt: epoch.Add(d)} }
	never := fairshare.Verdict{Permanent: true}
	beside := &coordinator.QuotaLack{Text: "its other part has no room there"}
	for _, c := range []struct {
		name   string
		routes []Route
		best   int
		chosen bool
	}{
		{"equals", []Route{{Verdict: ok}, {Verdict: ok}}, 0, true},
		{"room", []Route{{Verdict: at(time.Second)}, {Verdict: ok}}, 1, true},
		{"sooner", []Route{{Verdict: at(time.Hour)}, {Verdict: at(time.Minute)}}, 1, false},
		{"when something ends", []Route{{}, {Verdict: at(time.Hour)}}, 1, false},
		{"never", []Route{{Verdict: never}, {}}, 1, false},
		{"not with its part", []Route{{Verdict: ok, Beside: beside}, {Verdict: ok}}, 1, true},
		{"never with its part", []Route{{Verdict: ok, Beside: beside, Never: true}, {}}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			best, scores := Choose(epoch, l, c.routes)
			if best != c.best || scores[best].Chosen != c.chosen || scores[1-best].Chosen {
				t.Errorf("%d of %+v", best, scores)
			}
		})
	}
}

// TestScore: 1/4 each of what is left, price, latency and success.
func TestScore(t *testing.T) {
	facts := []routeFacts{
		{left: 0.5, cost: 200, latency: 1000, success: 1},
		{left: 1, cost: 100, latency: 0, success: 0.8}, // its latency is not known: as fast as the fastest
	}
	scores := make([]coordinator.RouteScore, 2)
	score(facts, scores, coordinator.RouteTerms{Remaining: 1, Price: 1, Latency: 1, Success: 1})
	if got := scores[0].Score; got != (0.5+0.5+1+1)/4 { // 100 of 200; 1000 of 1000
		t.Errorf("the first has %v", got)
	}
	if got := scores[1].Score; got != (1+1+1+0.8)/4 {
		t.Errorf("the second has %v", got)
	}
}

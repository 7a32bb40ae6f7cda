package fleet

import (
	"fmt"
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// Half of a demand expires in 5 min, so that n tasks are a rate of n · ln 2 / 300 s: of 3000 tasks, 6.93 a second.
func TestDemandHalves(t *testing.T) {
	w := newWorld(t, 4, coordinator.Settings{}, "go")
	for i := range 3 {
		w.at(1).reports(i, coordinator.StatusReady)
	}
	flexibility := func(want float64) {
		t.Helper()
		if w.Weigh(); math.Abs(w.Views[0].Flexibility-want) > 1e-9 {
			t.Errorf("flexibility %g, want %g", w.Views[0].Flexibility, want)
		}
	}
	if !w.TakesDemand(w.now) {
		t.Fatal("the first counts are not taken")
	}
	w.Asked([]string{"go"}, 3000)
	flexibility(1000) // 3000 tasks by 3 agents of 4 that are online
	if w.at(1.9).TakesDemand(w.now) {
		t.Error("counts are taken again within a second")
	}
	w.at(301).TakesDemand(w.now)
	flexibility(500)
	w.at(601).TakesDemand(w.now)
	w.Asked([]string{"go"}, 250)
	flexibility((750 + 250) / 3.)
	w.reports(2, coordinator.StatusOffline)
	flexibility(1000 / 2.)

	// Half of 1000 is left after 5 min, and 100 asked since; 2 agents of 4 are online, one of them ejected.
	trusted := agentset.New(4)
	trusted.Add(0)
	s := w.Capabilities(start.Add(901*time.Second), map[string]Waiting{"go": {Tasks: 6, Asked: 100}, "none": {}})
	if w.Supply(&s[0], trusted); len(s) != 1 || math.Abs(s[0].Demand-600*math.Ln2/300) > 1e-9 || s[0].Waiting != 6 ||
		s[0].Agents != 4 || s[0].Online != 2 || s[0].Usable != 1 || s[0].Slots != 4 || s[0].Free != 4 {
		t.Errorf("%+v", s)
	}

	// 1000 tasks are less than 1/1000 after 20 halvings of 5 min: 1000 / 2²⁰ = 0.00095.
	if w.at(601 + 19*300).TakesDemand(w.now); len(w.demanded) != 1 {
		t.Error("forgotten after 19 halvings")
	}
	if w.at(601 + 20*300).TakesDemand(w.now); len(w.demanded) != 0 {
		t.Errorf("%v is left", w.demanded)
	}
}

// Tasks may require what no agent offers, at most demandMost of it is remembered. What the fleet offers always is.
func TestDemandIsBounded(t *testing.T) {
	w := newWorld(t, 1, coordinator.Settings{}, "go")
	for i := range 2 * demandMost {
		w.Asked([]string{fmt.Sprint(i)}, 1)
	}
	if w.Asked([]string{"go"}, 1); len(w.demanded) != demandMost+1 {
		t.Errorf("%d capabilities, want %d", len(w.demanded), demandMost+1)
	}
}

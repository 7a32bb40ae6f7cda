package agent_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/agent"
	"taskbus/agent/balance"
	"taskbus/messages"
)

// values are those of a registry: counters and gauges by name and label value, of
// histograms how many observations there were.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	synctest.Wait()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			switch {
			case m.GetCounter() != nil:
				all[name] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				all[name] = m.GetGauge().GetValue()
			default:
				all[name] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return all
}

func TestMetrics(t *testing.T) {
	inRig(t, func(r *rig) {
		registry := prometheus.NewRegistry()
		c := r.config()
		c.Slots, c.Bidder, c.Metrics = 4, modest, registry
		c.Pull = pullConfig(balance.ModeEqual, false) // a claim each second
		a := r.runWith(c, work(time.Hour))

		r.offer("a", "b", "c", "d", "e") // four slots
		r.award("a")
		r.rejectBid("b", messages.BidLost)
		r.give("a")

		r.pass(time.Second)
		r.grant(r.lastClaim(1).said.ClaimID, 0, 8)
		r.pass(time.Second)
		r.give("x", "y")
		r.grant(r.lastClaim(2).said.ClaimID, 2, 8)
		r.pass(time.Second) // the third has no answer within 5 s
		r.pass(5 * time.Second)

		got := values(t, registry)
		for name, want := range map[string]float64{
			"taskbus_agent_offers_total bid":                           4,
			"taskbus_agent_offers_total declined":                      1,
			"taskbus_agent_offers_total late":                          0,
			"taskbus_agent_bid_outcomes_total won":                     1,
			"taskbus_agent_bid_outcomes_total lost":                    1,
			"taskbus_agent_bid_outcomes_total full":                    0,
			"taskbus_agent_claims_total granted":                       1,
			"taskbus_agent_claims_total empty":                         1,
			"taskbus_agent_claims_total unanswered":                    1,
			"taskbus_agent_claimed_items_total":                        2,
			"taskbus_agent_load_balancing_discovery_total":             4, // at 1, 2, 3 and, at once, 8 s
			"taskbus_agent_load_balancing_underload_adjustments_total": 0,
			"taskbus_agent_load_balancing_overload_adjustments_total":  0,
			"taskbus_agent_load_balancing_discovery_interval_seconds":  4,
			"taskbus_agent_load_balancing_queue_depth":                 4,
			"taskbus_agent_load_balancing_load_factor":                 3, // all but the first, which knows of no fleet
			"taskbus_agent_load_balancing_current_interval_seconds":    1,
			"taskbus_agent_load_balancing_current_queue_depth":         3,
			"taskbus_agent_load_balancing_current_load_factor":         3.0 / 40, // 30 pending and 10 unclaimed
			"taskbus_agent_load_balancing_target_drain_seconds":        20,
		} {
			if value, there := got[name]; !there || value != want {
				t.Errorf("%s is %v (there: %v), want %v", name, value, there, want)
			}
		}
		// (1+0)/(2+8) = 0.1 items/s (the weights of 8 s have hardly fallen) of 2: 0.05.
		if target := got["taskbus_agent_load_balancing_target_load_factor"]; target < 0.05 || target > 0.053 {
			t.Errorf("target load factor %v, want 0.05", target)
		}

		a.stop()
		r.pass(time.Minute)
		if left := values(t, registry); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// Intervals that differ from the base by more than the jitter: two empty answers make
// 2 s and 4 s of 1 s.
func TestAdjustmentsAreCounted(t *testing.T) {
	inRig(t, func(r *rig) {
		registry := prometheus.NewRegistry()
		c := r.config()
		c.Pull, c.Metrics = pullConfig(balance.ModeEqual, true), registry
		r.runWith(c, nothing)
		for n := 1; n <= 2; n++ {
			r.grant(r.awaitClaim(n, 5*time.Second).said.ClaimID, 0, 1)
		}
		got := values(t, registry)
		if n := got["taskbus_agent_load_balancing_underload_adjustments_total"]; n != 2 {
			t.Errorf("%v longer intervals, want 2", n)
		}
		if n := got["taskbus_agent_load_balancing_overload_adjustments_total"]; n != 0 {
			t.Errorf("%v shorter intervals, want 0", n)
		}
		if _, there := got["taskbus_agent_offers_total bid"]; there {
			t.Error("metrics of bidding of an agent that does not bid")
		}
	})
}

// Two agents cannot count in the same place; each with a label of its own can.
func TestMetricsOfTwoAgents(t *testing.T) {
	inRig(t, func(r *rig) {
		registry := prometheus.NewRegistry()
		c := r.config()
		of := func(id string) prometheus.Registerer {
			return prometheus.WrapRegistererWith(prometheus.Labels{"agent_id": id}, registry)
		}
		c.Bidder, c.Metrics = agent.DefaultBidder(0, 0), of("a1")
		r.runWith(c, nothing)
		c.ID = "a2"
		err := agent.Run(context.Background(), c, nothing)
		if err == nil || !strings.Contains(err.Error(), "WrapRegistererWith") {
			t.Fatalf("Run gives %v", err)
		}
		c.Metrics = of("a2")
		r.runWith(c, nothing)
		r.offer("t")
		if n := values(t, registry)["taskbus_agent_offers_total a1 bid"]; n != 1 {
			t.Errorf("%v bids of a1, want 1", n)
		}
	})
}

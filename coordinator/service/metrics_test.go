package service

import (
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/metrics"
)

// scraped gives the samples of a registry by name and labels, as Prometheus would
// read them.
func scraped(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	samples := make(map[string]float64)
	for line := range strings.Lines(w.Body.String()) {
		name, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatalf("sample %q: %v", line, err)
		}
		samples[name] = v
	}
	return samples
}

func TestMetricsOfAgents(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		check := func(want map[string]float64) {
			t.Helper()
			got := scraped(t, r.service.options.Registry)
			for name, w := range want {
				if v, ok := got[name]; !ok || v != w {
					t.Errorf("%s = %v (there: %v), want %v", name, v, ok, w)
				}
			}
			if _, scored := got[`taskbus_assignment_score_count{strategy="capability_match"}`]; scored {
				t.Error("a strategy that does not score has a series of scores")
			}
		}
		r.heartbeat("a1", 0)
		if err := r.report("a1", 16, 28); err != nil {
			t.Fatal(err)
		}
		if err := r.report("a2", 8, 14); err != nil {
			t.Fatal(err)
		}
		check(map[string]float64{
			`taskbus_agent_capacity_items_per_second{agent_id="a1"}`: 16,
			`taskbus_agent_capacity_items_per_second{agent_id="a2"}`: 8,
			`taskbus_capacity_items_per_second`:                      24,
			`taskbus_agent_queue_depth{agent_id="a1"}`:               28,
			`taskbus_agent_queue_depth{agent_id="a2"}`:               14,
			`taskbus_global_queue_depth`:                             42, // nothing waits
			`taskbus_agent_load_factor{agent_id="a1"}`:               28. / 42,
			`taskbus_agent_target_load_factor{agent_id="a1"}`:        16. / 24,
			`taskbus_agent_target_load_factor{agent_id="a2"}`:        8. / 24,
			`taskbus_agents_ejected`:                                 0,
			`taskbus_agent_series_dropped`:                           0,
			`taskbus_assignment_concentration`:                       0, // fewer than 50 tasks
			`taskbus_agent_assignments_total{agent_id="a1"}`:         0,
			`taskbus_agent_current_load{agent_id="a1"}`:              0,
		})
		r.task("t-1", "build", "") // a2 is full: it has more pending than slots
		check(map[string]float64{
			`taskbus_agent_assignments_total{agent_id="a1"}`: 1,
			`taskbus_agent_current_load{agent_id="a1"}`:      1, // one task, one slot
			`taskbus_agent_success_rate{agent_id="a1"}`:      r.info("a1").SuccessRate,
		})
	})
}

// A fleet too large has no series of single agents; one line says so.
func TestSeriesOfAgentsAreBounded(t *testing.T) {
	agents := func(n int) string {
		var b strings.Builder
		b.WriteString("agents:\n")
		for i := range n {
			fmt.Fprintf(&b, "  a%d: {capabilities: [go], max_concurrent_tasks: 1}\n", i)
		}
		return b.String()
	}
	ofAgents := 0
	for _, d := range metrics.FleetDescs {
		if strings.HasSuffix(d.String(), "variableLabels: {agent_id}}") {
			ofAgents++
		}
	}
	for n, dropped := range map[int]bool{metrics.MaxAgents: false, metrics.MaxAgents + 1: true} {
		inRig(t, agents(n), func(r *rig) {
			for range 3 {
				got := scraped(t, r.service.options.Registry)
				series := 0
				for name := range got {
					if strings.Contains(name, "agent_id=") && !strings.Contains(name, `"other"`) {
						series++
					}
				}
				const ofBids = 4 // series that an agent has once a bid of it has come to an end
				if want := (ofAgents - ofBids) * n; dropped && series != 0 || !dropped && series != want {
					t.Errorf("%d agents: %d series of single agents", n, series)
				}
				if got["taskbus_agent_series_dropped"] != metrics.Bool(dropped) ||
					got[`taskbus_agents{state="never_seen"}`] != float64(n) {
					t.Errorf("%d agents: dropped %v, counted %v", n, got["taskbus_agent_series_dropped"],
						got[`taskbus_agents{state="never_seen"}`])
				}
			}
			if lines := strings.Count(r.log.String(), "too large for metrics of single agents"); lines != int(
				metrics.Bool(dropped)) {
				t.Errorf("%d agents: %d lines", n, lines)
			}
		})
	}
}

// What is counted for every task costs no allocation.
func TestCountingATaskIsCheap(t *testing.T) {
	r := resultSession(t)
	at := time.Unix(1000, 0)
	d := dispatchOf(taskNamed("t-1", at), "a1", 1, at)
	d.Decision = &coordinator.Decision{Strategy: "least_loaded", Scored: true,
		Candidates: []coordinator.Candidate{{Agent: "a1", Key: coordinator.Key{First: -0.5}}}}
	r.s.metrics.Assigned(d, at)
	if got := testing.AllocsPerRun(100, func() { r.s.metrics.Assigned(d, at) }); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

func BenchmarkCountTask(b *testing.B) {
	r := resultSession(b)
	at := time.Unix(1000, 0)
	for _, scored := range []bool{false, true} {
		b.Run(fmt.Sprintf("scored=%v", scored), func(b *testing.B) {
			d := dispatchOf(taskNamed("t-1", at), "a1", 1, at)
			d.Decision = &coordinator.Decision{Strategy: "least_loaded", Scored: scored,
				Candidates: []coordinator.Candidate{{Agent: "a1", Key: coordinator.Key{First: -0.5}}}}
			b.ReportAllocs()
			for b.Loop() {
				r.s.metrics.Assigned(d, at)
			}
		})
	}
}

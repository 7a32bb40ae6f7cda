package simulator

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyScenario is a small world with everything in it that can go wrong: crashes,
// lost heartbeats, silence, agents that queue, tasks that take too long, newcomers.
func anyScenario(t *rapid.T) string {
	pick := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name) }
	var b strings.Builder
	fmt.Fprintf(&b, "duration_seconds: 120\ndrain_seconds: 20000\nseeds: [%d]\nfleet:\n",
		rapid.IntRange(0, 1000).Draw(t, "seed"))
	for g := range rapid.IntRange(1, 3).Draw(t, "groups") {
		fmt.Fprintf(&b,
			"  - {name: g%d, count: %d, slots: %d, capabilities: %s, service: %s, success_rate: %s, heartbeat_seconds: %s, "+
				"heartbeat_loss: %s, reports: %s, busy_when_full: %s, accept_timeout_seconds: %s%s%s}\n",
			g, rapid.IntRange(1, 4).Draw(t, "count"), rapid.IntRange(1, 3).Draw(t, "slots"),
			pick("capabilities", "[x]", "[x, y]"),
			pick("service", "1", "{exponential: {mean: 5}}", "{lognormal: {mean: 10, sigma: 1}}"),
			pick("success", "1", "0.5", "0"), pick("heartbeat", "1", "10", "60"), pick("loss", "0", "0.5"),
			pick("reports", "full", "results", "heartbeats"), pick("busy", "true", "false"), pick("accept", "2", "60"),
			pick("crash", "", ", crash: {mtbf_seconds: 40, mttr_seconds: 20}"), pick("join", "", ", join_at_seconds: 100"))
	}
	fmt.Fprintf(&b, "  - {name: sure, capabilities: [x, y], service: 1}\nworkloads:\n")
	fmt.Fprintf(&b,
		"  - {task_type: one, required_capabilities: [x], arrivals: %s, timeout_seconds: %s, priorities: {low: 1, "+
			"critical: 1}}\n",
		pick("arrivals", "{poisson: {rate: 1}}", "{bursts: {every_seconds: 20, size: 30}}", "{closed: {tasks: 10}}"),
		pick("timeout", "3", "300"))
	fmt.Fprintf(&b, "  - {task_type: two, required_capabilities: [x, y], arrivals: {constant: {rate: 0.5}}, count: 100}\n")
	fmt.Fprintf(&b, "strategies:\n  - %s\n  - {name: heartbeat_only, advertised_slots: 50}\n",
		pick("strategy", "random", "round_robin", "least_loaded", "load_balanced", "reward_rate"))
	fmt.Fprintf(&b,
		"settings: {assignment_timeout_seconds: %s, max_queue_size: %s, stale_agent_threshold_seconds: 30, "+
			"eligible_statuses: %s}\n",
		pick("assignment", "0", "30"), pick("queue", "20", "10000"), pick("eligible", "[ready]", "[ready, busy]"))
	return b.String()
}

// Never is a task lost or counted twice, and when there is time to drain none stays
// open; the measured shares are shares. The run is the same when it is repeated.
func TestNoTaskIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := anyScenario(t)
		play := func() (*Report, []byte) {
			s, err := Read("any.yaml", "any", []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			r, err := Play(t.Context(), s, Options{})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			var b bytes.Buffer
			if err := WriteJSON(&b, r); err != nil {
				t.Fatal(err)
			}
			return r, b.Bytes()
		}
		r, first := play()
		if _, second := play(); !bytes.Equal(first, second) {
			t.Fatalf("the second run differs\n%s", text)
		}
		for _, p := range r.Strategies {
			n := p.Tasks
			if n.Arrived != n.Succeeded+n.FailedByAgent+n.Refused+n.Open {
				t.Fatalf("%s: tasks do not add up: %+v\n%s", p.Label, n, text)
			}
			if n.Open > 0 {
				t.Fatalf("%s: %d of %d tasks never end\n%s", p.Label, n.Open, n.Arrived, text)
			}
			for name, v := range map[string]Value{
				"success": p.SuccessRate, "utilisation": p.Utilisation, "Jain": p.Jain,
				"regret": p.RegretSuccess, "reward": p.RegretReward,
			} {
				if !(v.Mean >= 0 && v.Mean <= 1+1e-9) {
					t.Fatalf("%s: %s is %g\n%s", p.Label, name, v.Mean, text)
				}
			}
			if p.Violations.Mean > 120 {
				t.Fatalf("%s: violated for %g of 120 s", p.Label, p.Violations.Mean)
			}
		}
	})
}

// Under every strategy the same tasks come, those of open workloads at the same times, and a task takes as
// long, on whatever group, and ends the same way on one agent. A closed workload beside them, whose tasks
// come when those before them have ended, changes nothing of that.
func TestCommonRandomNumbers(t *testing.T) {
	s := scenario(t, `
duration_seconds: 2000
fleet:
	- {name: a, count: 3, slots: 2, capabilities: [work], service: {lognormal: {mean: 10, sigma: 1}}, success_rate: 0.7}
	- {name: b, count: 1, slots: 2, speed: 2, capabilities: [work], service: {lognormal: {mean: 10, sigma: 1}}, success_rate: 0.7}
workloads:
	- {task_type: back, required_capabilities: [work], arrivals: {closed: {tasks: 3}}, count: 60}
	- {task_type: job, required_capabilities: [work], arrivals: {poisson: {rate: 0.4}}, priorities: {low: 1, high: 2}}
	- {task_type: other, required_capabilities: [work], arrivals: {bursts: {every_seconds: 100, size: 3}}}
strategies: [random, round_robin, least_loaded, {name: heartbeat_only, advertised_slots: 1000}]
settings: {assignment_timeout_seconds: 100000}
`)
	const quick = 3 // the agent of group b
	first := finished(t, s, 0, 1)
	tasks := map[uint64]*task{}
	for i := range first.tasks.count {
		k := first.tasks.at(int32(i))
		tasks[k.draws] = k
	}
	elsewhere, renumbered := 0, 0
	for variant := 1; variant < len(s.Strategies); variant++ {
		label := s.Strategies[variant].Label
		w := finished(t, s, variant, 1)
		if w.tasks.count != first.tasks.count {
			t.Fatalf("%s: %d tasks, under %s %d", label, w.tasks.count, s.Strategies[0].Label, first.tasks.count)
		}
		for i := range w.tasks.count {
			b := w.tasks.at(int32(i))
			a := tasks[b.draws]
			if a == nil || a.kind != b.kind {
				t.Fatalf("%s: task %d is none of those under %s", label, i, s.Strategies[0].Label)
			}
			if s.Workloads[b.stream].Arrivals.Kind != ArriveClosed && a.arrived != b.arrived {
				t.Fatalf("task %d came at %d, under %s at %d", i, b.arrived, s.Strategies[0].Label, a.arrived)
			}
			here, there := w.length(b, &w.agents[0]), first.length(a, &first.agents[2])
			if here != there {
				t.Fatalf("%s: task %d takes another time", label, i)
			}
			// Both groups have one distribution, and b works twice as fast.
			if onB := w.length(b, &w.agents[quick]); max(onB*2-here, here-onB*2) > 2 {
				t.Fatalf("task %d takes %d ns on a and %d on b", i, here, onB)
			}
			if a.began != b.began {
				elsewhere++
			}
			if k := first.tasks.at(int32(i)); k.draws != b.draws {
				renumbered++
			}
		}
	}
	if elsewhere == 0 || renumbered == 0 {
		t.Errorf("%d tasks began at another time, %d came in another order: the comparison shows nothing", elsewhere,
			renumbered)
	}
	other := finished(t, s, 0, 2)
	same := other.tasks.count == first.tasks.count
	for i := 0; same && i < first.tasks.count; i++ {
		same = other.tasks.at(int32(i)).arrived == first.tasks.at(int32(i)).arrived
	}
	if same {
		t.Error("another seed gives the same arrivals")
	}
}

// Poisson arrivals: as many as asked for, and as irregular as they should be: the
// squared coefficient of variation of the gaps is 1. None of the tasks ends, so that
// the world still knows when each came.
func TestPoissonArrivals(t *testing.T) {
	text := oneAgent("service: 1000", "arrivals: {poisson: {rate: 200}}", "[least_loaded]")
	text = strings.NewReplacer("duration_seconds: 100", "duration_seconds: 200", "settings: {",
		"settings: {max_queue_size: 100000, ").Replace(text)
	s := scenario(t, "drain_seconds: 0\n"+text)
	w := finished(t, s, 0, 1)
	n := float64(w.tasks.count)
	approx(t, "arrivals", n, 200*200, 0.02) // 40,000 ± 200
	sum, squares := 0.0, 0.0
	for i := 1; i < w.tasks.count; i++ {
		gap := float64(w.tasks.at(int32(i)).arrived-w.tasks.at(int32(i-1)).arrived) / 1e9
		sum += gap
		squares += gap * gap
	}
	mean := sum / (n - 1)
	approx(t, "variation of the gaps", squares/(n-1)/(mean*mean)-1, 1, 0.05)
}

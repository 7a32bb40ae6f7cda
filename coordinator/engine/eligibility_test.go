package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestCriteria shows COORDINATOR's five criteria on both sides of their limits.
// Each case is one agent, its report, and a task that needs "go".
func TestCriteria(t *testing.T) {
	const (
		ready   = coordinator.StatusReady
		busy    = coordinator.StatusBusy
		offline = coordinator.StatusOffline
	)
	busyCounts := func(s *coordinator.Settings) { s.BusyIsEligible = true }
	nothing := func(*coordinator.Settings) {}
	tests := []struct {
		name    string
		agent   *specBuilder
		report  *reportBuilder // nil: none
		silence time.Duration  // since the report
		set     func(*coordinator.Settings)
		want    coordinator.Ineligibility
	}{
		// 1. Capabilities: {go} ⊆ offered.
		{"has it and more", worker("a").can("go", "py"), beat("a"), 0, nothing, coordinator.Eligible},
		{"has another", worker("a").can("py"), beat("a"), 0, nothing, coordinator.LacksCapability},
		{"has none", worker("a"), beat("a"), 0, nothing, coordinator.LacksCapability},

		// 2. Status.
		{"ready", worker("a").can("go"), beat("a").status(ready), 0, nothing, coordinator.Eligible},
		{"busy", worker("a").can("go"), beat("a").status(busy), 0, nothing, coordinator.NotReady},
		{"busy counts", worker("a").can("go"), beat("a").status(busy), 0, busyCounts, coordinator.Eligible},
		{"busy counts, but is full", worker("a").can("go"), beat("a").status(busy).active(1), 0, busyCounts,
			coordinator.Full},
		{"offline", worker("a").can("go"), beat("a").status(offline), 0, nothing, coordinator.WentOffline},
		{"offline though busy counts", worker("a").can("go"), beat("a").status(offline), 0, busyCounts,
			coordinator.WentOffline},
		{"no report", worker("a").can("go"), nil, 0, nothing, coordinator.NotSeen},

		// 3. Capacity: active < max_concurrent_tasks, and available_capacity ≥ 1.
		{"2 of 3", worker("a").can("go").slots(3), beat("a").active(2), 0, nothing, coordinator.Eligible}, // 3 − 2 = 1 free
		{"3 of 3", worker("a").can("go").slots(3), beat("a").active(3), 0, nothing, coordinator.Full},     // 3 − 3 = 0
		{"4 of 3", worker("a").can("go").slots(3), beat("a").active(4), 0, nothing, coordinator.Full},     // never below 0
		{"1 available", worker("a").can("go").slots(3), beat("a").available(1), 0, nothing, coordinator.Eligible},
		{"0 available", worker("a").can("go").slots(3), beat("a").available(0), 0, nothing, coordinator.Full},

		// 4. Load < 90 %, strictly.
		{"load 0.8999", worker("a").can("go"), beat("a").load(0.8999), 0, nothing, coordinator.Eligible},
		{"load 0.9", worker("a").can("go"), beat("a").load(0.9), 0, nothing, coordinator.Overloaded},
		{"load 1", worker("a").can("go"), beat("a").load(1), 0, nothing, coordinator.Overloaded},
		// Own dispatches count as slots, not as load: 9 of 10 are taken, 1 is left.
		{"9 of 10 slots", worker("a").can("go").slots(10), beat("a").active(9), 0, nothing, coordinator.Eligible},

		// 5. Heartbeat: stale when the threshold of 120 s is reached.
		{"119.999999999 s ago", worker("a").can("go"), beat("a"), staleAfter - 1, nothing, coordinator.Eligible},
		{"120 s ago", worker("a").can("go"), beat("a"), staleAfter, nothing, coordinator.WentStale},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Assignment timeout 0: a task that no agent can have fails at once and says why.
			p := policyOf(tt.agent, worker("other").can("else")).route("go", "go").
				set(func(s *coordinator.Settings) { s.AssignmentTimeout = 0 }).set(tt.set)
			r := boot(t, p)
			if tt.report != nil {
				r.hear(tt.report)
				r.pass(tt.silence)
			}
			got := r.assign(job("t").kind("go"))
			if tt.want == coordinator.Eligible {
				want(t, got, "dispatch t.1 a")
				return
			}
			if len(r.failures) != 1 {
				t.Fatalf("no failure: %v", got)
			}
			d := r.failures[0].Decision
			expected := [coordinator.NumIneligibilities]int{}
			expected[coordinator.LacksCapability] = 1 // "other" lacks "go"
			expected[tt.want]++
			if d.Refused != expected {
				t.Errorf("refused %v, want %v", d.Refused, expected)
			}
			if near := d.Nearest; (near != nil) != (tt.want != coordinator.LacksCapability) || near != nil &&
				(near.Agent != "a" || near.Why != tt.want) {
				t.Errorf("nearest %+v", near)
			}
		})
	}
}

// TestReportedMaximum: a report may lower the configured maximum, never raise it.
func TestReportedMaximum(t *testing.T) {
	for reported, free := range map[int]int{
		0: 4, // says nothing: the configured 4
		2: 2, // min(2, 4)
		9: 4, // min(9, 4)
	} {
		r := boot(t, policyOf(worker("a").slots(4)))
		b := beat("a")
		b.MaxConcurrent = reported
		r.hear(b)
		if got := r.Snapshot(r.now).Agents[0].Free; got != free {
			t.Errorf("reported maximum %d: %d free, want %d", reported, got, free)
		}
	}
}

// TestOwnDispatchesCountAtOnce: no heartbeat comes between these tasks.
func TestOwnDispatchesCountAtOnce(t *testing.T) {
	r := boot(t, policyOf(worker("a").slots(3)))
	r.hear(beat("a").active(1).available(2).load(0.1))
	view := func(inFlight, free int, load float64) {
		t.Helper()
		a := r.Snapshot(r.now).Agents[0]
		if a.InFlight != inFlight || a.Free != free || a.Load != load {
			t.Errorf("in flight %d, free %d, load %v; want %d, %d, %v", a.InFlight, a.Free, a.Load, inFlight, free, load)
		}
	}
	view(1, 2, 1.0/3) // max(reported 0.1, 1/3); min(3−1, 2−0) = 2 free
	want(t, r.assign(job("t1")), "dispatch t1.1 a")
	view(2, 1, 2.0/3) // 1 reported + 1 own
	want(t, r.assign(job("t2")), "dispatch t2.1 a")
	view(3, 0, 1)
	want(t, r.assign(job("t3"))) // full: waits
	want(t, r.confirm(1), "ack 1")
	view(3, 0, 1) // a confirm frees nothing
	want(t, r.pass(time.Second))
	want(t, r.hear(beat("a").active(1)), "dispatch t3.1 a") // t1 finished; 1 + t2 on its way = 2 of 3
}

// TestReasons: each reason that the engine can give when it can wait no longer.
func TestReasons(t *testing.T) {
	now := func(s *coordinator.Settings) { s.AssignmentTimeout = 0 }
	two := func() *policyBuilder {
		return policyOf(worker("a").can("go"), worker("b").can("go")).route("go", "go").set(now)
	}
	tests := []struct {
		name string
		make func(t *testing.T) *rig
		task *taskBuilder
		want string
	}{
		{"no such type", func(t *testing.T) *rig { return ready(t, two()) }, job("t").kind("nonsense"), "unknown_task_type"},
		{"a type of its own, with capabilities", func(t *testing.T) *rig { return ready(t, two()) },
			job("t").kind("nonsense").needs("go"), ""},
		{"nobody has it", func(t *testing.T) *rig { return ready(t, two()) }, job("t").needs("gpu"), "no_eligible_agents"},
		{"nobody has both", func(t *testing.T) *rig { return ready(t, two()) }, job("t").kind("go").needs("gpu"),
			"no_eligible_agents"},
		{"no agents at all", func(t *testing.T) *rig { return boot(t, policyOf().set(now)) }, job("t"), "no_eligible_agents"},
		{"all excluded", func(t *testing.T) *rig { return ready(t, two()) }, job("t").not("a", "b"), "no_eligible_agents"},
		{"nobody came", func(t *testing.T) *rig { return boot(t, two()) }, job("t"), "no_agents_online"},
		{"one offline, one stale", func(t *testing.T) *rig {
			r := boot(t, two())
			r.hear(beat("a"))
			r.pass(staleAfter)
			r.hear(beat("b").status(coordinator.StatusOffline))
			return r
		}, job("t"), "no_agents_online"},
		{"one full, one overloaded", func(t *testing.T) *rig {
			r := boot(t, two())
			r.hear(beat("a").active(1))
			r.hear(beat("b").load(0.95))
			return r
		}, job("t"), "all_agents_at_capacity"},
		{"one offline, one full", func(t *testing.T) *rig {
			r := boot(t, two())
			r.hear(beat("a").active(1))
			return r
		}, job("t"), "all_agents_at_capacity"},
		{"too long a timeout", func(t *testing.T) *rig {
			return ready(t, two().set(func(s *coordinator.Settings) { s.MaxTimeout = time.Minute }))
		}, &taskBuilder{coordinator.Task{ID: "t", Type: "any", Timeout: time.Minute + 1}}, "invalid_message"},
		{"the longest timeout", func(t *testing.T) *rig {
			return ready(t, two().set(func(s *coordinator.Settings) { s.MaxTimeout = time.Minute }))
		}, &taskBuilder{coordinator.Task{ID: "t", Type: "any", Timeout: time.Minute}}, ""},
		{"unknown strategy", func(t *testing.T) *rig { return ready(t, two()) }, job("t").by("first_fit"), "invalid_message"},
		{"deadline reached", func(t *testing.T) *rig { return ready(t, two()) },
			&taskBuilder{coordinator.Task{ID: "t", Type: "any", Deadline: epoch.Add(interval)}}, "deadline_exceeded"},
		{"deadline a moment away", func(t *testing.T) *rig { return ready(t, two()) },
			&taskBuilder{coordinator.Task{ID: "t", Type: "any", Deadline: epoch.Add(interval + 1)}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.make(t)
			got := r.assign(tt.task)
			if tt.want == "" {
				want(t, got, "dispatch t.1 a")
				return
			}
			want(t, got, "fail t "+tt.want)
			f := r.failures[0].Failure
			if f.Text == "" || f.Attempts != 0 || !f.FailedAt.Equal(r.now) {
				t.Errorf("failure %+v", f)
			}
		})
	}
}

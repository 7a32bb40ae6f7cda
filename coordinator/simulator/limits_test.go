package simulator

import (
	"strings"
	"testing"
)

// What would never end, or not fit into memory, is refused where it stands.
func TestLimits(t *testing.T) {
	const arrivals = "{poisson: {rate: 1}}"
	tests := []struct {
		name, old, changed string
		line               int
		want               string
	}{
		{"bursts at every tick of no clock", arrivals, "{bursts: {every_seconds: 1e-10, size: 1}}", 5,
			"every_seconds: must be at least 1e-09 seconds, not"},
		{"a crash at no time", "service: 1", "service: 1, crash: {mtbf_seconds: 1e-10, mttr_seconds: 1}", 3,
			"mtbf_seconds: must be at least 1e-09 seconds, not"},
		{"no time to work", "required_capabilities: [x]", "required_capabilities: [x], timeout_seconds: 1e-10", 5,
			"timeout_seconds: must be at least 1e-09"},
		{"ends as it begins", "required_capabilities: [x]", "required_capabilities: [x], until_seconds: 1e-10", 5,
			"until_seconds: must be at least 1e-09"},
		{"hardly later", "required_capabilities: [x]", "required_capabilities: [x], from_seconds: 1e-10", 5,
			"from_seconds: must be at least 1e-09 seconds, or 0, not"},
		{"a start of no length", "[least_loaded]", "[least_loaded]\nsettings: {slow_start_seconds: 1e-9}", 7,
			"slow_start_seconds: must be at least 0.001 seconds, or 0, not"},
		{"gone as it comes", "[least_loaded]", "[least_loaded]\nsettings: {stale_agent_threshold_seconds: 1e-9}", 7,
			"must be at least 0.001 seconds, not"},
		{"work without time", "service: 1", "service: 1e-9", 3, "must be a number from 0.000001"},
		{"speed that leaves no time", "service: 1", "service: 1e-3, speed: 1e6", 3,
			"service: its mean divided by speed must be at least 1e-06 seconds, not 1e-09"},
		{"the same for one type", "service: 1", "service: 1, speed: 1e3, service_by_type: {job: 1e-5}", 3,
			"service_by_type.job: its mean divided by speed"},
		// 1e6/s · 100 s = 1e8.
		{"too many at random", "rate: 1", "rate: 1e6", 5,
			"workloads[0]: about 1e+08 tasks of it arrive in one run, with those before it 1e+08, and 2e+07 are the most; " +
				"let fewer arrive"},
		// ⌈100 s/3 s⌉ · 1e6 = 3.4e7.
		{"too large bursts", arrivals, "{bursts: {every_seconds: 3, size: 1000000}}", 5, "about 3.4e+07 tasks"},
		// 1e5 agents · 3700 s/1 ms = 3.7e11 heartbeats.
		{"too many heartbeats", "service: 1", "service: 1, count: 100000, heartbeat_seconds: 0.001", 1,
			"up to 3.7e+11 heartbeats"},
		// 3700 s/2 ns.
		{"too many crashes", "service: 1", "service: 1, crash: {mtbf_seconds: 1e-9, mttr_seconds: 1e-9}", 1,
			"1.85e+12 crashes"},
		{"a seed twice", "duration_seconds: 100", "duration_seconds: 100\nseeds: [1, 2, 1]", 2,
			"seeds[2]: is in line 2 already"},
		{"no seed", "duration_seconds: 100", "duration_seconds: 100\nseeds: 0", 2, "must be a whole number from 1 to 1000"},
		{"too many seeds", "duration_seconds: 100", "duration_seconds: 100\nseeds: [" + strings.Repeat("1, ", 1000) + "2]", 2,
			"must be at most 1000 seeds, not 1001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			faultAt(t, tt.old, tt.changed, tt.line, tt.want)
		})
	}
}

// How many tasks of a workload are to be expected in 100 s.
func TestExpectedTasks(t *testing.T) {
	tests := []struct {
		name, agent, workload string
		want                  float64
	}{
		{"at random", "service: 1", "arrivals: {poisson: {rate: 3}}", 300},
		{"in a part of the time", "service: 1", "from_seconds: 10, until_seconds: 30, arrivals: {constant: {rate: 3}}", 60},
		{"until after the end", "service: 1", "until_seconds: 1000, arrivals: {constant: {rate: 3}}", 300},
		{"before it begins", "service: 1", "from_seconds: 50, until_seconds: 30, arrivals: {constant: {rate: 3}}", 0},
		{"a number of them", "service: 1", "count: 7, arrivals: {constant: {rate: 3}}", 7},
		{"bursts at 0, 30, 60 and 90 s", "service: 1", "arrivals: {bursts: {every_seconds: 30, size: 5}}", 20},
		{"closed, 2 slots at 4/s", "service: 0.5, speed: 2, slots: 2", "arrivals: {closed: {tasks: 9}}", 9 + 2*4*100},
		{"closed, 2 open of 3 slots at 1/s", "service: 1, slots: 3", "arrivals: {closed: {tasks: 2}}", 2 + 2*1*100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := scenario(t, oneAgent(tt.agent, tt.workload, "[least_loaded]"))
			approx(t, "tasks", s.expected(&s.Workloads[0]), tt.want, 1e-9)
		})
	}
	// A hundred slots that end a million tasks a second each: 1e10 in 100 s.
	_, err := Read("fast.yaml", "fast",
		[]byte(oneAgent("service: 1e-6, slots: 100", "arrivals: {closed: {tasks: 100}}", "[least_loaded]")))
	if err == nil || !strings.Contains(err.Error(), "workloads[0]: about 1e+10 tasks") {
		t.Errorf("error %v, want one that counts 1e+10 tasks", err)
	}
}

// With the shortest of all times that are allowed, together, a run still ends.
func TestShortestTimesEnd(t *testing.T) {
	const text = `
duration_seconds: 0.5
fleet:
	- {name: a, count: 2, advertised_slots: 5, capabilities: [w], service: {exponential: {mean: 1e-6}}, success_rate: 0.5, heartbeat_seconds: 0.001,
	   accept_timeout_seconds: 1e-9, crash: {mtbf_seconds: 0.01, mttr_seconds: 1e-9}, join_at_seconds: 1e-9}
workloads:
	- {task_type: one, required_capabilities: [w], timeout_seconds: 1e-9, arrivals: {closed: {tasks: 10}}, count: 10000}
	- {task_type: two, required_capabilities: [w], arrivals: {bursts: {every_seconds: 1e-9, size: 1}}, until_seconds: 1e-6}
strategies: [round_robin, reward_rate, {name: random, reports: heartbeats}]
settings:
	slow_start_seconds: 0.001
	stale_agent_threshold_seconds: STALE
	assignment_timeout_seconds: 0.001
	max_retry_attempts: 100
	poisoned_after_agents: 100
	circuit_breaker: {consecutive_faults: 1, base_seconds: 0.001, longest_seconds: 0.001}
`
	for _, stale := range []string{"0.001", "10"} {
		for _, p := range played(t, scenario(t, strings.Replace(text, "STALE", stale, 1))).Strategies {
			conserved(t, p.Label, p.Tasks)
			if p.Tasks.Arrived < 1000 || p.Tasks.Open > 0 {
				t.Errorf("%s, stale after %s s: %+v, want at least the thousand of the bursts, and none open", p.Label, stale,
					p.Tasks)
			}
		}
	}
}

// What cannot be foreseen, such as a trace, ends when it becomes too large.
func TestCrowdedRunsEnd(t *testing.T) {
	for want, limit := range map[string]func(*world){
		"strategy least_loaded, seed 1: after 6 s 5 tasks have arrived":     func(w *world) { w.maxTasks = 5 },
		"strategy least_loaded, seed 1: after 3 s 2 tasks are open at once": func(w *world) { w.maxOpen = 2 },
	} {
		// They come at 1, 2, 3 … s, and the first ends at 3.5 s: the third finds two open, the
		// sixth five before it.
		s := scenario(t, oneAgent("service: 2.5", "arrivals: {constant: {rate: 1}}", "[least_loaded]"))
		w, err := newWorld(s, &s.Strategies[0], 1, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		limit(w)
		if err := w.run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// Of 100,000 tasks that come in turn and end, only the last page is still known: the
// full pages before it, ⌊100,000/4,096⌋ = 24, are forgotten.
func TestEndedTasksAreForgotten(t *testing.T) {
	s := scenario(t, oneAgent("service: 0.0005", "arrivals: {constant: {rate: 1000}}, count: 100000, until_seconds: 200",
		"[least_loaded]"))
	s.Duration, s.Workloads[0].Until = s.Duration*2, s.Duration*2
	w := finished(t, s, 0, 1)
	if w.tasks.count != 100_000 || len(w.tasks.pages) != 25 {
		t.Fatalf("%d tasks on %d pages, want 100,000 on 25", w.tasks.count, len(w.tasks.pages))
	}
	for i, p := range w.tasks.pages {
		if (p == nil) != (i < 24) {
			t.Errorf("page %d: forgotten is %v", i, p == nil)
		}
	}
	if n := w.outcome(0).tasks; n.Succeeded != 100_000 {
		t.Errorf("%+v, want 100,000 successes", n)
	}
}

// What reaches terminals and charts holds nothing that these would act on.
func TestControlCharacters(t *testing.T) {
	tests := []struct {
		name, old, changed string
		line               int
		want               string
	}{
		{"in about", "duration_seconds: 100", "duration_seconds: 100\nabout: \"a\\e[31mb\"", 2,
			`about: must be text on one line without control characters, not "a\x1b[31mb"`},
		{"two lines", "duration_seconds: 100", "duration_seconds: 100\nabout: \"a\\nb\"", 2, "on one line"},
		{"of eight bits", "duration_seconds: 100", "duration_seconds: 100\nabout: \"a\\x9bb\"", 2, "on one line"},
		{"that turns the writing round", "duration_seconds: 100", "duration_seconds: 100\nabout: \"a\u202eb\"", 2,
			"on one line"},
		{"in a label", "[least_loaded]", `[{name: least_loaded, label: "a\0b"}]`, 6, "label: must be text on one line"},
		{"in a formula", "[least_loaded]", `[{name: expression, formula: "load\e"}]`, 6,
			"formula: must be text of one or more lines without control characters"},
		{"in a key", "service: 1", `service: 1, service_by_type: {"a\eb": 1}`, 3,
			`service_by_type."a\x1bb": the key holds a control character`},
		{"as it is", "duration_seconds: 100", "duration_seconds: 100\nabout: a\x1b[31mb", 2,
			"holds the control character U+001B; remove it"},
		{"no text at all", "duration_seconds: 100", "duration_seconds: 100\nabout: a\xff", 2, "not UTF-8 text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { faultAt(t, tt.old, tt.changed, tt.line, tt.want) })
	}
}

package simulator

import (
	"fmt"
	"testing"
)

// erlangC is the probability that a task has to wait when tasks arrive at random, a
// of them at work on average, on c slots with exponential durations.
func erlangC(c int, a float64) float64 {
	sum, term := 0.0, 1.0
	for k := range c {
		if k > 0 {
			term *= a / float64(k)
		}
		sum += term
	}
	last := term * a / float64(c) * float64(c) / (float64(c) - a)
	return last / (sum + last)
}

// The coordinator holds tasks until there is a free slot, so that a fleet of equal
// agents is the M/M/c queue of the textbooks: the mean wait is C(c, λ/µ)/(cµ − λ),
// whichever agent takes which task. The tolerance is that of the sample: six runs
// of 20,000 tasks, at loads where the waits of neighbours are much alike.
func TestWaitsAreThoseOfErlang(t *testing.T) {
	tests := []struct {
		name            string
		agents, slots   int
		rate            float64 // per second, µ = 0.1
		wantC, wantMean float64
	}{
		// M/M/1: C = ρ = 0.7, 0.7/(0.1 − 0.07) = 23.33 s.
		{"M/M/1, load 0.7", 1, 1, 0.07, 0.7, 23.3333},
		// M/M/4, a = 3.2: C = 0.5964, 0.5964/(0.4 − 0.32) = 7.455 s.
		{"M/M/4 as 4 agents, load 0.8", 4, 1, 0.32, 0.5964, 7.4553},
		{"M/M/4 as 2 agents of 2 slots", 2, 2, 0.32, 0.5964, 7.4553},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.agents * tt.slots
			probability := erlangC(c, tt.rate/0.1)
			approx(t, "Erlang C", probability, tt.wantC, 1e-3)
			approx(t, "mean wait by the formula", probability/(0.1*float64(c)-tt.rate), tt.wantMean, 1e-3)
			s := scenario(t, fmt.Sprintf(`
duration_seconds: %d
warm_up_seconds: 2000
seeds: 6
fleet:
	- {name: a, count: %d, slots: %d, capabilities: [work], service: {exponential: {mean: 10}}}
workloads:
	- {task_type: job, required_capabilities: [work], arrivals: {poisson: {rate: %g}}, timeout_seconds: 100000}
strategies: [least_loaded]
settings: {assignment_timeout_seconds: 100000, max_load: 1.01}
`, int(20000/tt.rate), tt.agents, tt.slots, tt.rate))
			p := played(t, s).Strategies[0]
			approx(t, "mean wait", p.WaitMean.Mean, tt.wantMean, 0.06)
			approx(t, "utilisation", p.Utilisation.Mean, tt.rate/0.1/float64(c), 0.02)
			approx(t, "work conservation violated", p.Violations.Mean, 0, 0)
		})
	}
}

// The table of herding: trusting heartbeats that are up to 30 s old is far worse
// than chance, counting one's own dispatches far better, and holding tasks until a
// slot is free leaves hardly any wait.
func TestStaleHeartbeatsHerd(t *testing.T) {
	s, err := Open("herding")
	if err != nil {
		t.Fatal(err)
	}
	s.Strategies = s.Strategies[:4]
	wait := make(map[string]Value)
	p99 := make(map[string]float64)
	for _, p := range played(t, s).Strategies {
		wait[p.Label], p99[p.Label] = p.WaitMean, p.WaitP99.Mean
		conserved(t, p.Label, p.Tasks)
	}
	random, stale := wait["random, pushed"].Mean, wait["heartbeats only, pushed"].Mean
	own, held := wait["counts own dispatches, pushed"].Mean, wait["least_loaded"].Mean
	if random < 5 || random > 40 {
		t.Errorf("random: mean wait %.1f s; 100 queues of 4 slots at 85 %% with such work make about 14", random)
	}
	if stale < 20*random {
		t.Errorf("heartbeats only: mean wait %.1f s, want far more than random's %.1f", stale, random)
	}
	if own > random || p99["counts own dispatches, pushed"] > p99["random, pushed"]/2 {
		t.Errorf("own dispatches counted: mean wait %.1f s, p99 %.1f; want less than random's %.1f, %.1f",
			own, p99["counts own dispatches, pushed"], random, p99["random, pushed"])
	}
	if held > 0.1 {
		t.Errorf("held until a slot is free: mean wait %.3f s, want next to none", held)
	}
}

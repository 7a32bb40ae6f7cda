package simulator

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

const goldenScenario = `
about: a small one
duration_seconds: 500
warm_up_seconds: 50
seeds: 2
fleet:
	- {name: good, count: 2, slots: 2, capabilities: [work], service: {exponential: {mean: 8}}, success_rate: 0.9}
	- {name: poor, slots: 2, capabilities: [work], service: {exponential: {mean: 8}}, success_rate: 0.4}
workloads:
	- {task_type: job, required_capabilities: [work], arrivals: {poisson: {rate: 0.7}}}
strategies: [random, round_robin, {name: least_loaded, label: impatient, settings: {assignment_timeout_seconds: 0}}]
settings: {max_load: 1.01, circuit_breaker: {enabled: false}}
`

// The outputs of a small scenario, as people and programs see them; and byte for
// byte the same when it is played again.
func TestOutputs(t *testing.T) {
	for _, o := range []struct {
		file  string
		write func(*Report, *bytes.Buffer) error
	}{
		{"report.txt", func(r *Report, b *bytes.Buffer) error { return r.WriteTable(b) }},
		{"report.csv", func(r *Report, b *bytes.Buffer) error { return r.WriteCSV(b) }},
		{"report.json", func(r *Report, b *bytes.Buffer) error { return WriteJSON(b, r) }},
	} {
		t.Run(o.file, func(t *testing.T) {
			var first, second bytes.Buffer
			for _, b := range []*bytes.Buffer{&first, &second} {
				if err := o.write(played(t, scenario(t, goldenScenario)), b); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(first.Bytes(), second.Bytes()) {
				t.Error("the second time it is different")
			}
			path := filepath.Join("testdata", o.file)
			if *update {
				if err := os.WriteFile(path, first.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first.Bytes(), want) {
				t.Errorf("not as in %s (if it should not be: go test -update):\n%s", path, first.String())
			}
		})
	}
}

// Only a stopwatch brings in what differs from run to run: here one whose every
// look is a second later, so that each of two runs takes 1 s.
func TestTiming(t *testing.T) {
	s := scenario(t, goldenScenario)
	s.Strategies = s.Strategies[:1]
	looks := time.Duration(0)
	r, err := Play(t.Context(), s, Options{Stopwatch: func() time.Duration { looks += time.Second; return looks }})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Strategies[0]
	approx(t, "seconds", p.Timing.Seconds, 2, 0)
	approx(t, "events/s", p.Timing.EventsPerSecond, 2*p.Events.Mean/2, 1e-12)
}

func TestProgressRisesToOne(t *testing.T) {
	last := -1.0
	_, err := Play(t.Context(), scenario(t, goldenScenario), Options{Progress: func(share float64) {
		if share < last || share > 1 {
			t.Errorf("%g after %g", share, last)
		}
		last = share
	}})
	if err != nil || last < 0.5 {
		t.Errorf("error %v, progress ends at %g", err, last)
	}
}

func TestSummary(t *testing.T) {
	runs := []outcome{{throughput: 1}, {throughput: 2}, {throughput: 3}}
	of := func(o *outcome) float64 { return o.throughput }
	// Mean 2, standard deviation 1, t = 4.303 for 2 degrees of freedom: 4.303/√3.
	v := Summarise(runs, of)
	approx(t, "mean", v.Mean, 2, 1e-12)
	approx(t, "interval", v.Interval, 2.484338, 1e-6)
	if v := Summarise(runs[:1], of); v != (Value{Mean: 1}) {
		t.Errorf("one run: %+v, want no interval", v)
	}
	sorted := []float64{1, 2, 3, 4}
	for q, want := range map[float64]float64{0: 1, 0.25: 1, 0.5: 2, 0.51: 3, 0.99: 4, 1: 4} {
		if got := Quantile(sorted, q); got != want {
			t.Errorf("quantile %g of 1 to 4 is %g, want %g", q, got, want)
		}
	}
}

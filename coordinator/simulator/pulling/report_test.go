package pulling

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"taskbus/coordinator/simulator"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestComparison holds the shipped scenario to the design's own simulation of the same
// fleet, of which the numbers are in the comments: agent-3 takes as many items per claim as
// agent-1 and does a quarter of the work, so that most items end up with it.
func TestComparison(t *testing.T) {
	r, err := Play(t.Context(), shipped(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	type band struct{ least, most float64 }
	tests := []struct {
		load       int
		label      string
		throughput band // items/s
		idle       band // of agent-1
		slow       band // items that agent-3 holds
		backlog    band // items in all
	}{
		// 5.9/s, 90 % and 11.8 s (47 items) when agent-3 asks first in every second; over
		// all the moments at which agents may ask, 9 to 16.
		{0, "fixed, 1 s", band{8, 17}, band{0.60, 0.92}, band{32, 48}, band{49, 49}},
		// 4.6/s, 98 %, 12.1 s.
		{0, "literal", band{4.2, 5.2}, band{0.96, 1}, band{47, 49}, band{49, 49}},
		// 4.7/s, 98 %, 12.1 s.
		{0, "literal-share", band{4.2, 5.2}, band{0.96, 1}, band{47, 49}, band{49, 49}},
		// 27.7/s, 0.3 %, 1.28 s: with a poll every second, what is held shrinks by a
		// second's work from 1.75 s, and so is 1.25 s in the mean.
		{0, "fixed, fair part granted", band{27.2, 28.5}, band{0, 0.01}, band{4.8, 5.4}, band{49, 49}},
		// Hits shorten the interval, and the mean is nearer to 1.75 s.
		{0, "equal drain", band{27.2, 28.5}, band{0, 0.01}, band{5.8, 7}, band{49, 49}},
		// 837 items. 8 items each second are 4 too many for agent-3, and 8 too few for
		// agent-1: 4·195 s is 780 in the middle of the measured time.
		{1, "fixed, 1 s", band{19, 21}, band{0.45, 0.55}, band{650, 900}, band{900, 1300}},
		// 3494 and growing. 25.2 − 13 items/s that are not done for 195 s are 2400.
		{1, "literal", band{12, 15}, band{0.85, 1}, band{1200, 1700}, band{2000, 3000}},
		// 3429 and growing. 25.2 − 7.6 for 195 s: 3430.
		{1, "literal-share", band{7, 8.5}, band{0.85, 1}, band{3000, 3800}, band{3000, 3800}},
		// 3.7 items.
		{1, "fixed, fair part granted", band{24.7, 25.8}, band{0, 0.1}, band{2, 4.5}, band{20, 50}},
		{1, "equal drain", band{24.7, 25.8}, band{0, 0.1}, band{1, 3.7}, band{10, 25}},
		// 24 items/s are left.
		{2, "equal drain", band{23.2, 24.5}, band{0, 0.01}, band{0, 0}, band{49, 49}},
	}
	within := func(p *Performance, what string, got float64, b band) {
		t.Helper()
		if got < b.least-1e-6 || got > b.most+1e-6 {
			t.Errorf("%s: %s %v, want %v to %v", p.Label, what, got, b.least, b.most)
		}
	}
	for _, tt := range tests {
		p := find(t, r, tt.load, tt.label)
		within(p, "throughput", p.Throughput.Mean, tt.throughput)
		within(p, "idle part of agent-1", p.Agents[0].Idle.Mean, tt.idle)
		within(p, "items of agent-3", 4*p.Agents[2].Drain.Mean, tt.slow)
		within(p, "backlog", p.Backlog.Mean, tt.backlog)
	}
	// Right after a claim everybody has the same: 49/28 s, and 33/16 and 16/8 after the
	// death. Of the others none is near.
	for label, want := range map[string][]float64{"equal drain": {1.75, 1.75, 1.75},
		"fixed, fair part granted": {1.75, 1.75, 1.75}} {
		for i, a := range find(t, r, 0, label).Agents {
			if math.Abs(a.AfterClaim.Mean-want[i]) > 1e-9 {
				t.Errorf("%s, agent-%d: %v s after a claim, want %v", label, i+1, a.AfterClaim.Mean, want[i])
			}
		}
	}
	for i, want := range []float64{33. / 16, 16. / 8} {
		if got := find(t, r, 2, "equal drain").Agents[i].AfterClaim.Mean; math.Abs(got-want) > 1e-9 {
			t.Errorf("after the death, agent-%d: %v s after a claim, want %v", i+1, got, want)
		}
	}
	if most := []float64{r.Loads[0].Most, r.Loads[1].Most, r.Loads[2].Most}; most[0] != 28 || most[1] != 25.2 ||
		most[2] != 24 {
		t.Errorf("possible are %v items/s, want 28, 25.2 and 24", most)
	}
}

func find(t *testing.T, r *Report, load int, label string) *Performance {
	t.Helper()
	for i := range r.Loads[load].Controllers {
		if p := &r.Loads[load].Controllers[i]; p.Label == label {
			return p
		}
	}
	t.Fatalf("no controller is called %q", label)
	return nil
}

const goldenSection = `
  agents:
    - {name: fast, capacity_items_per_second: 4}
    - {name: slow, capacity_items_per_second: 1, slots: 20}
  loads:
    - {items: 10}
    - {arrivals_per_second: 3, death: {agent: slow, at_seconds: 10}}
  controllers:
    - {mode: fixed, max_claim_items: 3, base_discovery_interval_ms: 500}
    - equal
`

func golden(t *testing.T) *simulator.Scenario {
	s := scenario(t, goldenSection)
	s.WarmUp, s.Seeds = s.Duration/5, simulator.Seeds(2)
	return s
}

// The outputs of a small scenario, as people and programs see them; and byte for byte
// the same when it is played again.
func TestOutputs(t *testing.T) {
	for _, o := range []struct {
		file  string
		write func(*Report, *bytes.Buffer) error
	}{
		{"report.txt", func(r *Report, b *bytes.Buffer) error { return r.WriteTable(b) }},
		{"report.csv", func(r *Report, b *bytes.Buffer) error { return r.WriteCSV(b) }},
	} {
		t.Run(o.file, func(t *testing.T) {
			var first, second bytes.Buffer
			for _, b := range []*bytes.Buffer{&first, &second} {
				r, err := Play(t.Context(), golden(t), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := o.write(r, b); err != nil {
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

// TestCourses: a hundred spans, of which the mean is that of the whole run.
func TestCourses(t *testing.T) {
	s := golden(t)
	s.WarmUp = 0
	var shares []float64
	r, err := Play(t.Context(), s, func(share float64) { shares = append(shares, share) })
	if err != nil {
		t.Fatal(err)
	}
	// 2 loads × 2 controllers × 2 seeds.
	if len(shares) != 8 || shares[0] != 0.125 || shares[7] != 1 {
		t.Errorf("progress %v, want eighths up to 1", shares)
	}
	var b bytes.Buffer
	if err := simulator.WriteJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	var read Report
	if err := json.Unmarshal(b.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	for _, p := range read.Loads[0].Controllers {
		for i, a := range p.Agents {
			mean := 0.0
			for _, x := range a.DrainCourse {
				mean += x / spans
			}
			if len(a.DrainCourse) != spans || math.Abs(mean-a.Drain.Mean) > 1e-6 || mean == 0 {
				t.Errorf("%s, %s: %d spans with a mean of %v, want %d of %v", p.Label, read.Agents[i].Name, len(a.DrainCourse),
					mean, spans, a.Drain.Mean)
			}
		}
	}
	// Dead from second 10 of 100 on: a tenth alive, and nothing held after that.
	for _, p := range read.Loads[1].Controllers {
		slow := p.Agents[1]
		if slow.Alive != 0.1 || slow.DrainCourse[9] == 0 || slow.DrainCourse[10] != 0 || p.Agents[0].Alive != 1 {
			t.Errorf("%s: alive %v, drain %v and %v s before and after the death", p.Label, slow.Alive, slow.DrainCourse[9],
				slow.DrainCourse[10])
		}
	}
}

package sharing

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskbus/coordinator/simulator"
)

var update = flag.Bool("update", false, "write the golden files anew")

func shipped(t *testing.T, name string) *simulator.Scenario {
	t.Helper()
	s, err := simulator.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The outputs of the scenario that comes with the program, as people and programs see them;
// and byte for byte the same when it is played again.
func TestOutputs(t *testing.T) {
	var reports [2]*Report
	for i := range reports {
		var err error
		if reports[i], err = Play(t.Context(), shipped(t, "sharing"), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []struct {
		file  string
		write func(*Report, *bytes.Buffer) error
	}{
		{"report.txt", func(r *Report, b *bytes.Buffer) error { return r.WriteTable(b) }},
		{"report.csv", func(r *Report, b *bytes.Buffer) error { return r.WriteCSV(b) }},
	} {
		t.Run(o.file, func(t *testing.T) {
			var first, second bytes.Buffer
			for i, b := range []*bytes.Buffer{&first, &second} {
				if err := o.write(reports[i], b); err != nil {
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

// TestPolicies on the scenario that comes with the program: chat alone needs more than there
// is, code a tenth of it.
func TestPolicies(t *testing.T) {
	s := shipped(t, "sharing")
	s.Seeds = simulator.Seeds(3)
	var shares []float64
	r, err := Play(t.Context(), s, Options{Progress: func(share float64) { shares = append(shares, share) }})
	if err != nil {
		t.Fatal(err)
	}
	// 2 weights × 7 policies × 3 seeds.
	if len(shares) != 42 || shares[20] != 0.5 || shares[41] != 1 {
		t.Errorf("progress %v, want 42 steps up to 1", shares)
	}
	if need := r.Tenants[1].Demand.Mean; need < 33 || r.Tenants[0].Demand.Mean > 4 {
		t.Fatalf("chat needs %v slots of %d, code %v: the scenario is not what it says", need, r.Slots,
			r.Tenants[0].Demand.Mean)
	}
	for _, c := range r.Comparisons {
		by := map[string]*Performance{}
		for i := range c.Policies {
			p := &c.Policies[i]
			by[p.Policy] = p
			// Only what goes by shares has a bound, and keeps to it.
			if (p.Bound == nil) != (p.Policy == "fcfs" || p.Policy == "round_robin") || p.Bound != nil &&
				p.Gap.Mean > p.Bound.Mean {
				t.Errorf("%s, %s: gap %v, bound %v", c.Label, p.Policy, p.Gap.Mean, p.Bound)
			}
			if p.Bound != nil && (p.Jain.Mean < 0.998 || p.Minute.Mean < 0.95) {
				t.Errorf("%s, %s: Jain's index %v, of the worst minute %v", c.Label, p.Policy, p.Jain.Mean, p.Minute.Mean)
			}
			// Chat's own flood is what it waits for, in any order.
			if own := p.Waits[1].P50.Mean; own < 20 {
				t.Errorf("%s, %s: chat waits for %v s, though it floods", c.Label, p.Policy, own)
			}
		}
		order := []string{"taskbus", "at_finish", "reserve_max", "round_robin", "fcfs"}
		for i, name := range order[1:] {
			if better := order[i]; by[better].Gap.Mean >= by[name].Gap.Mean {
				t.Errorf("%s: %s has a gap of %v, %s one of %v", c.Label, better, by[better].Gap.Mean, name, by[name].Gap.Mean)
			}
		}
		// With one queue for all, code waits as long as chat; by shares not.
		one, taskbus := by["fcfs"].Waits, by["taskbus"].Waits
		if one[0].P50.Mean < 0.8*one[1].P50.Mean || taskbus[0].P50.Mean > 2 || taskbus[0].P99.Mean > 10 {
			t.Errorf("%s: code waits for %v s with one queue, and for %v and %v s by shares", c.Label, one[0].P50.Mean,
				taskbus[0].P50.Mean, taskbus[0].P99.Mean)
		}
	}
	var b bytes.Buffer
	if err := simulator.WriteJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	var read Report
	if err := json.Unmarshal(b.Bytes(), &read); err != nil || len(read.Comparisons) != 2 ||
		read.Comparisons[1].Label != "code 3 : chat 1" {
		t.Errorf("JSON: %v, %+v", err, read.Comparisons)
	}
}

// TestTheDocumentationShowsIt: docs/simulator.md has the table of the policies by the first weights.
func TestTheDocumentationShowsIt(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, shown, _ := strings.Cut(read("testdata/report.txt"), "weights code 1 : chat 1\n\n")
	shown, _, found := strings.Cut(shown, "\n\nweights code 3")
	if page := read("../../../docs/simulator.md"); !found || !strings.Contains(page, "```\n"+shown+"\n```") {
		t.Errorf("docs/simulator.md does not show what the scenario gives now:\n%s", shown)
	}
}

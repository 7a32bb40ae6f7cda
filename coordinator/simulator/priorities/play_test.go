package priorities

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskbus/coordinator/simulator"
)

var update = flag.Bool("update", false, "write the golden files anew")

func shipped(t *testing.T) *simulator.Scenario {
	t.Helper()
	s, err := simulator.Open("priorities")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOutputs: the scenario that comes with the program, as people and programs see it; byte for byte the
// same when it is played again.
func TestOutputs(t *testing.T) {
	var reports [2]*Report
	for i := range reports {
		var err error
		if reports[i], err = Play(t.Context(), shipped(t), nil); err != nil {
			t.Fatal(err)
		}
	}
	for file, write := range map[string]func(*Report, *bytes.Buffer) error{
		"report.txt": func(r *Report, b *bytes.Buffer) error { return r.WriteTable(b) },
		"report.csv": func(r *Report, b *bytes.Buffer) error { return r.WriteCSV(b) },
	} {
		var first, second bytes.Buffer
		for i, b := range []*bytes.Buffer{&first, &second} {
			if err := write(reports[i], b); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s: the second time it is different", file)
		}
		path := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, first.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := first.String(); got != string(want) {
			t.Errorf("%s (write it with: go test ./coordinator/simulator/priorities -update)\n%s", file, got)
		}
	}
}

// TestWhoWaits: 72 tasks a second come for 48 that can be done, so after 600 s 14,400 wait, for which the
// slots take 300 s. First come, first served they wait for 0 to 300 s, of any priority, and so they do by
// ageing, less the 15 s that are three steps. By turns urgent ones wait for a fraction of the second that a
// slot takes, and low ones have their 1 of 5 of what critical and high leave: they are not starved as in a
// strict order.
func TestWhoWaits(t *testing.T) {
	r, err := Play(t.Context(), shipped(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string][]Wait{}
	for _, o := range r.Orders {
		of[o.Order] = o.Priorities // critical first
	}
	between := func(what string, v simulator.Value, least, most float64) {
		t.Helper()
		if v.Mean < least || v.Mean > most {
			t.Errorf("%s: %v, want %v to %v", what, v.Mean, least, most)
		}
	}
	between("critical, first come, first served, p99", of["fcfs"][0].P99, 270, 310)
	between("critical, by ageing, p99", of["ageing"][0].P99, 255, 310)
	between("critical, by turns, p99", of["weighted"][0].P99, 0, 0.5)
	between("high, by turns, p99", of["weighted"][1].P99, 0, 0.5)
	between("critical, strict, p99", of["strict"][0].P99, 0, 0.5)
	// Critical and high are 10 % of 72 tasks, so 7.2 of 48 slots' tasks in a second: of the other 40.8 low has a
	// fifth by turns, 8.2 or 17 % of all. Normal is 43.2 in a second, more than is left: in a strict order low
	// has nothing.
	between("low, by turns, of the starts", of["weighted"][3].Share, 0.15, 0.19)
	between("low, strict, of the starts", of["strict"][3].Share, 0, 0.02)
}

func TestPlayRefusesOtherScenarios(t *testing.T) {
	s, err := simulator.Open("herding")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Play(t.Context(), s, nil); err == nil || !strings.Contains(err.Error(), "no section priorities") {
		t.Errorf("%v", err)
	}
	if _, err := simulator.Play(t.Context(), shipped(t), simulator.Options{}); err == nil ||
		!strings.Contains(err.Error(), "package priorities plays it") {
		t.Errorf("%v", err)
	}
}

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const smallScenario = `about: a small one
duration_seconds: 200
fleet:
  - {name: a, count: 2, slots: 2, capabilities: [work], service: {exponential: {mean: 8}}, success_rate: 0.9}
workloads:
  - {task_type: job, required_capabilities: [work], arrivals: {poisson: {rate: 0.4}}}
strategies: [random, least_loaded, {name: expression, formula: "success_rate / (1.0 + load)"}]
`

func scenarioFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// simulated runs the command and gives what it wrote.
func simulated(t *testing.T, wantCode int, args ...string) (out, err string) {
	t.Helper()
	r := newRig()
	if code := r.run(t, append([]string{"simulate"}, args...)...); code != wantCode {
		t.Fatalf("simulate %v: exit code %d, want %d\n%s%s", args, code, wantCode, r.out.String(), r.err.String())
	}
	return r.out.String(), r.err.String()
}

func TestSimulateOutputs(t *testing.T) {
	path := scenarioFile(t, smallScenario)
	table, stderr := simulated(t, exitOK, path)
	for _, want := range []string{"mine: a small one", "STRATEGY", "least_loaded", "expression", "a ×2"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not say %q:\n%s", want, table)
		}
	}
	if stderr != "" {
		t.Errorf("no terminal, and yet on stderr: %q", stderr)
	}
	if again, _ := simulated(t, exitOK, path); again != table {
		t.Error("the second time the table is different")
	}

	var report struct {
		Scenario   string
		Seeds      []int
		Strategies []struct{ Label string }
	}
	out, _ := simulated(t, exitOK, path, "-o", "json", "--seeds", "3")
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Scenario != "mine" || len(report.Seeds) != 3 || len(report.Strategies) != 3 {
		t.Errorf("JSON: %v, %+v", err, report)
	}
	out, _ = simulated(t, exitOK, path, "-o", "csv")
	if lines, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(lines) < 30 {
		t.Errorf("CSV: %v, %d lines", err, len(lines))
	}
}

func TestSimulateDrawsTheSameChart(t *testing.T) {
	path, dir := scenarioFile(t, smallScenario), t.TempDir()
	var charts [2][]byte
	for i, name := range []string{"one.svg", "two.SVG"} {
		file := filepath.Join(dir, name)
		simulated(t, exitOK, path, "--plot", file)
		var err error
		if charts[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(charts[0], charts[1]) || !bytes.Contains(charts[0], []byte("<svg")) {
		t.Error("the charts are different, or no SVG")
	}
	if _, stderr := simulated(t, exitUsage, path, "--plot", "chart.gif"); !strings.Contains(stderr, ".svg or .png") {
		t.Errorf("stderr %q", stderr)
	}
}

func TestSimulateListAndShow(t *testing.T) {
	list, _ := simulated(t, exitOK, "--list")
	for _, name := range []string{"adr-018", "azure", "balancing", "drift", "herding", "newcomer", "sinkhole", "ten-thousand"} {
		if !strings.Contains(list, "\n"+name+" ") {
			t.Errorf("%s is not listed:\n%s", name, list)
		}
	}
	// What is shown can be played as a file of one's own.
	text, _ := simulated(t, exitOK, "newcomer", "--show")
	if table, _ := simulated(t, exitOK, scenarioFile(t, text), "--seeds", "1"); !strings.Contains(table, "newcomer ×2") {
		t.Errorf("the table of the copy:\n%s", table)
	}
}

func TestSimulateRefusals(t *testing.T) {
	bad := scenarioFile(t, strings.Replace(strings.Replace(smallScenario, "slots:", "slotz:", 1), "random", "randm", 1))
	formula := scenarioFile(t, strings.Replace(smallScenario, "success_rate /", "succes_rate /", 1))
	tests := []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"no scenario", nil, exitUsage, []string{"name a scenario", "herding"}},
		{"two", []string{"herding", "drift"}, exitUsage, []string{"one scenario at a time"}},
		{"unknown", []string{"hearding"}, exitFailed, []string{"did you mean herding?"}},
		{"no such file", []string{"none.yaml"}, exitFailed, []string{"none.yaml", "--list"}},
		{"unknown form", []string{"herding", "-o", "xml"}, exitUsage, []string{"table, json or csv"}},
		{"seeds", []string{"herding", "--seeds", "-1"}, exitUsage, []string{"at least 1"}},
		{"absent trace", []string{"azure", "--traces", t.TempDir()}, exitFailed, []string{"AzureLLMInferenceTrace_code.csv", "--traces names the folder"}},
		{"faults", []string{bad}, exitFailed, []string{"mine.yaml:4: fleet[0].slotz: unknown key; did you mean slots?",
			"mine.yaml:7: strategies[0]: no strategy is called", "the scenario has 2 faults"}},
		{"formula", []string{formula}, exitFailed, []string{"succes_rate"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, stderr := simulated(t, tt.code, tt.args...)
			for _, want := range tt.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr does not say %q:\n%s", want, stderr)
				}
			}
		})
	}
}

// Ctrl-C ends a long simulation, with the code that shells expect.
func TestSimulateInterrupted(t *testing.T) {
	r := newRig()
	r.signals <- syscall.SIGINT
	if code := r.run(t, "simulate", "ten-thousand", "--seeds", "1000"); code != exitInterrupted {
		t.Errorf("exit code %d, want %d\n%s", code, exitInterrupted, r.err.String())
	}
	if out := r.out.String(); out != "" {
		t.Errorf("half a result is printed: %q", out)
	}
}

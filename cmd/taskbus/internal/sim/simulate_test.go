package sim

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"taskbus/cmd/taskbus/cli"
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
	if code := r.Run(t, append([]string{"simulate"}, args...)...); code != wantCode {
		t.Fatalf("simulate %v: exit code %d, want %d\n%s%s", args, code, wantCode, r.Out.String(), r.Err.String())
	}
	return r.Out.String(), r.Err.String()
}

func TestSimulateOutputs(t *testing.T) {
	path := scenarioFile(t, smallScenario)
	table, stderr := simulated(t, cli.ExitOK, path)
	for _, want := range []string{"mine: a small one", "STRATEGY", "least_loaded", "expression", "a ×2"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not say %q:\n%s", want, table)
		}
	}
	if stderr != "" {
		t.Errorf("no terminal, and yet on stderr: %q", stderr)
	}
	if again, _ := simulated(t, cli.ExitOK, path); again != table {
		t.Error("the second time the table is different")
	}

	var report struct {
		Scenario   string
		Seeds      []int
		Strategies []struct{ Label string }
	}
	out, _ := simulated(t, cli.ExitOK, path, "-o", "json", "--seeds", "3")
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Scenario != "mine" || len(report.Seeds) != 3 ||
		len(report.Strategies) != 3 {
		t.Errorf("JSON: %v, %+v", err, report)
	}
	out, _ = simulated(t, cli.ExitOK, path, "-o", "csv")
	if lines, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(lines) < 30 {
		t.Errorf("CSV: %v, %d lines", err, len(lines))
	}
}

func TestSimulateDrawsTheSameChart(t *testing.T) {
	path, dir := scenarioFile(t, smallScenario), t.TempDir()
	var charts [2][]byte
	for i, name := range []string{"one.svg", "two.SVG"} {
		file := filepath.Join(dir, name)
		simulated(t, cli.ExitOK, path, "--plot", file)
		var err error
		if charts[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(charts[0], charts[1]) || !bytes.Contains(charts[0], []byte("<svg")) {
		t.Error("the charts are different, or no SVG")
	}
	if _, stderr := simulated(t, cli.ExitUsage, path, "--plot", "chart.gif"); !strings.Contains(stderr, ".svg or .png") {
		t.Errorf("stderr %q", stderr)
	}
}

// A scenario of agents that pull has a report and a chart of its own kind.
func TestSimulatePulling(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pulling.svg")
	table, _ := simulated(t, cli.ExitOK, "pulling", "--seeds", "2", "--plot", file)
	for _, want := range []string{"mean of 2 seeds", "CONTROLLER", "equal drain", "agent-3, 4 items/s", "dead",
		"possible: 25.2 items/s"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not say %q:\n%s", want, table)
		}
	}
	chart, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(chart, []byte("<svg")) || !bytes.Contains(chart, []byte("drain time, s")) {
		t.Errorf("the chart: %v, %.100s", err, chart)
	}
	var report struct {
		Loads []struct {
			Load        string
			Controllers []struct{ Label string }
		}
	}
	out, _ := simulated(t, cli.ExitOK, "pulling", "--seeds", "1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Loads) != 3 ||
		len(report.Loads[0].Controllers) != 5 {
		t.Errorf("JSON: %v, %+v", err, report)
	}
	out, _ = simulated(t, cli.ExitOK, "pulling", "--seeds", "1", "-o", "csv")
	// 3 loads × 5 controllers × (4 values and 3 of each of 3 agents), and the header.
	if lines, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(lines) != 3*5*13+1 {
		t.Errorf("CSV: %v, %d lines", err, len(lines))
	}
	if _, stderr := simulated(t, cli.ExitUsage, "pulling", "--timing"); !strings.Contains(stderr,
		"--timing is for scenarios with strategies") {
		t.Errorf("stderr %q", stderr)
	}
}

func TestSimulateListAndShow(t *testing.T) {
	list, _ := simulated(t, cli.ExitOK, "--list")
	for _, name := range []string{"adr-018", "azure", "balancing", "drift", "herding", "newcomer", "priorities", "pulling",
		"sharing", "sharing-azure", "sinkhole", "ten-thousand"} {
		if !strings.Contains(list, "\n"+name+" ") {
			t.Errorf("%s is not listed:\n%s", name, list)
		}
	}
	var asJSON []struct{ Scenario, About string }
	out, _ := simulated(t, cli.ExitOK, "--list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &asJSON); err != nil || len(asJSON) != strings.Count(list, "\n")-1 ||
		asJSON[0].Scenario != "adr-018" || asJSON[0].About == "" {
		t.Errorf("list as JSON: %v\n%s", err, out)
	}
	// What is shown can be played as a file of one's own.
	text, _ := simulated(t, cli.ExitOK, "newcomer", "--show")
	if table, _ := simulated(t, cli.ExitOK, scenarioFile(t, text), "--seeds", "1"); !strings.Contains(table,
		"newcomer ×2") {
		t.Errorf("the table of the copy:\n%s", table)
	}
}

func TestSimulateRefusals(t *testing.T) {
	bad := scenarioFile(t, strings.Replace(strings.Replace(smallScenario, "slots:", "slotz:", 1), "random", "randm", 1))
	formula := scenarioFile(t, strings.Replace(smallScenario, "success_rate /", "succes_rate /", 1))
	elsewhere := scenarioFile(t, strings.Replace(smallScenario, "success_rate /", "elsewhere /", 1))
	// 0.4/s for 2.5e6 s are 1e6 tasks, and 20 agents with a heartbeat every 10 s send 1e7
	// in 5e6 s. With 3 strategies that is 3.3e7, which is allowed; a thousand seeds of it
	// are 3.3e10.
	large := scenarioFile(t, strings.NewReplacer("duration_seconds: 200",
		"duration_seconds: 2500000\ndrain_seconds: 2500000", "count: 2", "count: 20").Replace(smallScenario))
	tests := []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"no scenario", nil, cli.ExitUsage, []string{"name a scenario", "herding"}},
		{"two", []string{"herding", "drift"}, cli.ExitUsage, []string{"one scenario at a time"}},
		{"unknown", []string{"hearding"}, cli.ExitFailed, []string{"did you mean herding?"}},
		{"no such file", []string{"none.yaml"}, cli.ExitFailed, []string{"none.yaml", "--list"}},
		{"unknown form", []string{"herding", "-o", "xml"}, cli.ExitUsage, []string{"table, json or csv"}},
		{"negative seeds", []string{"herding", "--seeds", "-1"}, cli.ExitUsage,
			[]string{"--seeds must be from 1 to 1000, not -1"}},
		{"no seeds", []string{"herding", "--seeds", "0"}, cli.ExitUsage, []string{"--seeds must be from 1 to 1000, not 0"}},
		{"too many seeds", []string{"herding", "--seeds", "1001"}, cli.ExitUsage,
			[]string{"--seeds must be from 1 to 1000, not 1001"}},
		{"a chart without a name", []string{"herding", "--plot", ""}, cli.ExitUsage, []string{`.svg or .png, not ""`}},
		{"a list as CSV", []string{"--list", "-o", "csv"}, cli.ExitUsage, []string{"table or json with --list"}},
		{"all seeds of what is large", []string{large, "--seeds", "1000"}, cli.ExitFailed,
			[]string{"3000 runs (seeds × strategies) of about 1e+06 tasks, up to 1e+07 heartbeats",
				"3.3e+10 moments, and 1e+10 are the most", "have fewer seeds"}},
		{"endless file", []string{"/dev/zero"}, cli.ExitFailed, []string{"larger than 1048576 bytes"}},
		{"absent trace", []string{"azure", "--traces", t.TempDir()}, cli.ExitFailed,
			[]string{"AzureLLMInferenceTrace_code.csv", "--traces names the folder"}},
		{"faults", []string{bad}, cli.ExitFailed, []string{"mine.yaml:4:25: fleet[0].slotz: unknown key; did you mean slots?",
			"mine.yaml:7:14: strategies[0]: no strategy is called", "the scenario has 2 faults"}},
		{"formula", []string{formula}, cli.ExitFailed, []string{
			"mine.yaml:7:64: strategies[2].formula: column 1: there is no term succes_rate; did you mean success_rate?",
			"the scenario has 1 fault"}},
		{"formula with a name like no other", []string{elsewhere}, cli.ExitFailed, []string{
			"mine.yaml:7:64: strategies[2].formula: column 1: there is no term elsewhere; known are affinity, agent_cost, " +
				"agent_id,"}},
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

// A chart that cannot be written is refused before anything is simulated: this
// scenario would take hours.
func TestSimulateRefusesAChartAtOnce(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder.svg")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "none", "chart.svg"): "there is no folder " + filepath.Join(dir, "none") + "; create it",
		folder:                                  "is a folder; name a file",
	} {
		if _, stderr := simulated(t, cli.ExitFailed, "ten-thousand", "--seeds", "1000", "--plot",
			file); !strings.Contains(stderr,
			want) {
			t.Errorf("stderr does not say %q:\n%s", want, stderr)
		}
	}
}

// The chart of before stays as it is when the simulation is interrupted, and nothing
// is left beside it; when it is not, the new one takes its place, behind a link too.
func TestSimulateReplacesTheChartAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	chart, link := filepath.Join(dir, "chart.svg"), filepath.Join(dir, "link.svg")
	if err := os.WriteFile(chart, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("chart.svg", link); err != nil {
		t.Fatal(err)
	}
	content := func() string {
		t.Helper()
		text, err := os.ReadFile(chart)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 {
			t.Errorf("%v beside the chart: %v", entries, err)
		}
		return string(text)
	}
	r := newRig()
	r.Signals <- syscall.SIGINT
	if code := r.Run(t, "simulate", "ten-thousand", "--seeds", "1000", "--plot", link); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, cli.ExitInterrupted)
	}
	if text := content(); text != "old" {
		t.Errorf("after an interruption the chart is %.40q", text)
	}
	simulated(t, cli.ExitOK, scenarioFile(t, smallScenario), "--plot", link)
	if text := content(); !strings.Contains(text, "<svg") {
		t.Errorf("the new chart is %.40q", text)
	}
	info, err := os.Lstat(chart)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("the chart's mode is %v, want that of the old one: %v", info.Mode(), err)
	}
}

// A trace is a file of limited size; a pipe without a writer would be waited for for ever.
func TestReadTraceRefusals(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe.csv"), filepath.Join(dir, "large.csv")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxTraceBytes+1); err != nil { // it takes no room on the disk
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe:        "is a pipe or a device",
		"/dev/zero": "is a pipe or a device",
		dir:         "is a folder",
		large:       "has 256 MiB, and 256 are the most",
	} {
		if _, err := readTrace(path, maxTraceBytes); err == nil || !strings.Contains(err.Error(), path+" "+want) {
			t.Errorf("%s: error %v, want one that says %q", path, err, want)
		}
	}
}

// Ctrl-C ends a long simulation, with the code that shells expect.
func TestSimulateInterrupted(t *testing.T) {
	r := newRig()
	r.Signals <- syscall.SIGINT
	if code := r.Run(t, "simulate", "ten-thousand", "--seeds", "1000"); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d\n%s", code, cli.ExitInterrupted, r.Err.String())
	}
	if out := r.Out.String(); out != "" {
		t.Errorf("half a result is printed: %q", out)
	}
}

package sim

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/replay"
	"taskbus/tests/support/clitest"
)

// recordedFleet is the configuration of the recorded term. Its sink fails all it is given.
const recordedFleet = `
agents:
  good: {capabilities: [work], max_concurrent_tasks: 4, health_check_interval: 5}
  sink: {capabilities: [work], max_concurrent_tasks: 4, health_check_interval: 5}
task_routing:
  job: {required_capabilities: [work]}
assignment_strategies:
  round_robin: {default: true}   # the operator's password is hunter2
circuit_breaker: {enabled: false}
`

// exportedTerm writes the export of a term in which 200 tasks came, one a second: the
// good agent takes two seconds for each, the sink fails at once.
func exportedTerm(t *testing.T, text string) string {
	t.Helper()
	c, err := config.Parse([]byte(text), "recorded.yaml")
	if err != nil {
		t.Fatal(err)
	}
	h := journal.Header{Epoch: 3, First: 1, At: clitest.Noon, ResultOffset: -1}
	messages := [][]byte{
		journal.AppendEpoch(nil, h, journal.Epoch{Nonce: "n"}),
		journal.AppendSnapshot(nil, h, journal.Chunk{Snapshot: "s-1", Last: true}, nil),
	}
	e, recorder, next := engine.New(), journal.NewRecorder("s-1", 1<<20), uint64(1)
	first := coordinator.PolicyChanged{Policy: c.Policy()}
	recorder.Add(clitest.Noon, first)
	e.Follow()
	e.Apply(clitest.Noon, first, nil)
	e.Lead(clitest.Noon)
	e.Record(true)
	apply := func(at time.Time, ev coordinator.Event) []coordinator.Effect {
		recorder.Add(at, ev)
		effects := e.Apply(at, ev, nil)
		if records := e.Records(nil); len(records) > 0 {
			h.First, h.At = next, at
			messages = append(messages, journal.AppendBatch(nil, h, records))
			next += uint64(len(records))
		}
		return effects
	}
	beat := func(at time.Time) {
		for _, id := range []coordinator.AgentID{"good", "sink"} {
			apply(at, coordinator.AgentReported{Live: true,
				Report: coordinator.AgentReport{Agent: id, Status: coordinator.StatusReady, Available: 4, Timestamp: at}})
		}
	}
	apply(clitest.Noon, coordinator.SessionOpened{})
	type ended struct {
		at     time.Time
		result coordinator.Result
	}
	var due []ended
	for i := range 200 {
		at := clitest.Noon.Add(time.Duration(i) * time.Second)
		for len(due) > 0 && due[0].at.Before(at) {
			apply(due[0].at, coordinator.ResultReported{Result: due[0].result, Live: true})
			due = due[1:]
		}
		if i%5 == 0 {
			beat(at)
		}
		task := &coordinator.Task{ID: coordinator.TaskID(fmt.Sprint("job-", i)), Type: "job",
			Carried: coordinator.Carried{CorrelationID: "x"}, AcceptedAt: at}
		for _, f := range apply(at, coordinator.TaskReceived{Handle: coordinator.Handle(i + 1), Task: task}) {
			d, ok := f.(*coordinator.Dispatch)
			if !ok {
				continue
			}
			apply(at, coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishConfirmed})
			r := ended{at.Add(1900 * time.Millisecond),
				coordinator.Result{Task: task.ID, Agent: d.Agent, DispatchID: d.DispatchID, Duration: 1900 * time.Millisecond}}
			if d.Agent == "sink" {
				r.at, r.result.Duration, r.result.Outcome = at.Add(10*time.Millisecond), 10*time.Millisecond,
					coordinator.OutcomeFailed
			}
			due = append(due, r)
			slices.SortStableFunc(due, func(a, b ended) int { return a.at.Compare(b.at) })
		}
	}
	inputs, _ := recorder.Take(nil, h, true)
	messages = append(messages, inputs)

	path := filepath.Join(t.TempDir(), "term.tbj")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = journal.WriteExport(file, func(yield func(journal.Exported, error) bool) {
		for i, m := range messages {
			if !yield(journal.Exported{Offset: int64(i), Body: m}, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// replayed runs the command and gives what it wrote.
func replayed(t *testing.T, wantCode int, args ...string) (out, err string) {
	t.Helper()
	r := newRig()
	if code := r.Run(t, append([]string{"replay"}, args...)...); code != wantCode {
		t.Fatalf("replay %v: exit code %d, want %d\n%s%s", args, code, wantCode, r.Out.String(), r.Err.String())
	}
	return r.Out.String(), r.Err.String()
}

func TestReplayIsIdentical(t *testing.T) {
	path := exportedTerm(t, recordedFleet)
	out, stderr := replayed(t, cli.ExitOK, path)
	if !strings.Contains(out, "identical: 200 decisions") || strings.Contains(out, "note:") || stderr != "" {
		t.Errorf("output %q, %q", out, stderr)
	}
	out, _ = replayed(t, cli.ExitOK, path, "-o", "json")
	var reports []replay.Report
	if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) != 1 || !reports[0].Identical ||
		reports[0].Decisions != 200 {
		t.Errorf("JSON %v: %s", err, out)
	}
	export, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(export), "hunter2") {
		t.Error("a comment of agents.yaml has got into the recording")
	}
}

func TestReplayFindsWhatHasChanged(t *testing.T) {
	path := exportedTerm(t, recordedFleet)
	export, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	export[len(export)/2] ^= 1
	damaged := filepath.Join(t.TempDir(), "damaged.tbj")
	if err := os.WriteFile(damaged, export, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, stderr := replayed(t, cli.ExitFailed, damaged); !strings.Contains(stderr, "damaged") || out != "" {
		t.Errorf("a changed byte: %q, %q", out, stderr)
	}
}

// rewritten is an export made of what change gives for each message of another; false: none.
func rewritten(t *testing.T, path string, change func(journal.Exported) (journal.Exported, bool)) string {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	changed := filepath.Join(t.TempDir(), "changed.tbj")
	out, err := os.Create(changed)
	if err != nil {
		t.Fatal(err)
	}
	_, err = journal.WriteExport(out, func(yield func(journal.Exported, error) bool) {
		for m, err := range journal.ReadExport(in) {
			if err != nil {
				yield(m, err)
				return
			}
			if m, there := change(m); there && !yield(m, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return changed
}

// What is missing at the end is told by a number and an exit code of its own.
func TestReplayOfAnExportThatEndsEarly(t *testing.T) {
	path := exportedTerm(t, recordedFleet)
	without := func(from int) string {
		batches := 0
		return rewritten(t, path, func(m journal.Exported) (journal.Exported, bool) {
			if h, err := journal.DecodeHeader(m.Body); err != nil || h.Kind != journal.KindBatch {
				return m, true
			}
			batches++
			return m, batches <= from
		})
	}
	if text, _ := replayed(t, cli.ExitPartly, without(100)); !strings.Contains(text, "identical: ") ||
		!strings.Contains(text, " records not compared\n") {
		t.Errorf("without the end:\n%s", text)
	}
	if text, _ := replayed(t, cli.ExitPartly, without(0)); !strings.Contains(text,
		"nothing compared: 0 decisions (0 records of ") {
		t.Errorf("without any record:\n%s", text)
	}
}

// One that decides otherwise than the journal says ends with exit code 1, and says
// which decision it was.
func TestReplayShowsTheDifference(t *testing.T) {
	path := exportedTerm(t, recordedFleet)
	assigned := 0
	changed := rewritten(t, path, func(m journal.Exported) (journal.Exported, bool) {
		if message, err := journal.Decode(m.Body); err == nil && message.Kind == journal.KindBatch {
			for _, r := range message.Records {
				if a, ok := r.(*coordinator.Assigned); ok {
					if assigned++; assigned == 150 {
						a.Agent = "nobody"
					}
				}
			}
			m.Body = journal.AppendBatch(nil, message.Header, message.Records)
		}
		return m, true
	})
	text, _ := replayed(t, cli.ExitFailed, changed)
	for _, want := range []string{"different after 149 decisions", "Assigned of job-149.", ".1 to nobody",
		"Agent was nobody, is ", "the replayed choice: "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if _, stderr := replayed(t, cli.ExitFailed, changed, "--strategy", "least_loaded"); !strings.Contains(stderr,
		"does not replay as it was") {
		t.Errorf("what if of it: %q", stderr)
	}
}

func TestReplayWhatIf(t *testing.T) {
	path := exportedTerm(t, recordedFleet)
	table, _ := replayed(t, cli.ExitOK, path, "--strategy", "load_balanced")
	for _, want := range []string{"before: round_robin", "after:  load_balanced", "recorded", "sink", "What is modelled"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in:\n%s", want, table)
		}
	}
	out, _ := replayed(t, cli.ExitOK, path, "--strategy", "load_balanced", "-o", "json")
	var list []replay.Comparison
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 {
		t.Fatalf("JSON %v: %s", err, out)
	}
	if before, after := list[0].All.Before, list[0].All.After; before.Failed != 99 || after.Failed >= 50 ||
		before.Tasks != 200 {
		t.Errorf("before %+v, after %+v; round robin gives every other task to the sink, and the last two are open", before,
			after)
	}
	out, _ = replayed(t, cli.ExitOK, path, "--strategy", "load_balanced", "-o", "csv")
	if rows, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(rows) < 30 {
		t.Errorf("CSV: %d rows, %v", len(rows), err)
	}

	alone := filepath.Join(t.TempDir(), "alone.yaml")
	if err := os.WriteFile(alone, []byte(
		"agents:\n  good: {capabilities: [work], max_concurrent_tasks: 4}\n  new: {capabilities: [work], "+
			"max_concurrent_tasks: 4}\ntask_routing:\n  job: {required_capabilities: [work]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table, _ = replayed(t, cli.ExitOK, path, "--config", alone)
	if !strings.Contains(table, "never reported in the recording, and so gets no task: new") {
		t.Errorf("with another file:\n%s", table)
	}
}

func TestReplayErrors(t *testing.T) {
	path := exportedTerm(t, recordedFleet)
	empty, text := filepath.Join(t.TempDir(), "empty.tbj"), filepath.Join(t.TempDir(), "text.tbj")
	file, err := os.Create(empty)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := journal.WriteExport(file, func(func(journal.Exported, error) bool) {}); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	faulty := filepath.Join(t.TempDir(), "faulty.yaml")
	if err := os.WriteFile(faulty, []byte("agents: {a: {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		code       int
		args       []string
	}{
		{"no file named", "name one export", cli.ExitUsage, nil},
		{"no such file", "no such file", cli.ExitFailed, []string{filepath.Join(t.TempDir(), "none.tbj")}},
		{"no export", "no export of a journal", cli.ExitFailed, []string{text}},
		{"nothing recorded", "journal.record_inputs", cli.ExitFailed, []string{empty}},
		{"no such strategy", "no strategy is called", cli.ExitUsage, []string{path, "--strategy", "nonsense"}},
		{"a strategy that needs options", "formula", cli.ExitFailed, []string{path, "--strategy", "expression"}},
		{"CSV of a verification", "add --strategy", cli.ExitUsage, []string{path, "-o", "csv"}},
		{"no such form", "-o must be", cli.ExitUsage, []string{path, "-o", "xml"}},
		{"a faulty file", "max_concurrent_tasks", cli.ExitConfig, []string{path, "--config", faulty}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, stderr := replayed(t, c.code, c.args...); !strings.Contains(stderr, c.want) {
				t.Errorf("it says %q, want %q in it", stderr, c.want)
			}
		})
	}
}

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskbus/coordinator/replay"
	"taskbus/coordinator/view"
)

// taskbus runs a command beside the coordinator and gives its exit code and output.
func (r *rig) taskbus(args ...string) (code int, out string) {
	r.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"RABBITMQ_URL=" + r.broker.URL, "PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir(), raceOptions}
	text, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		r.t.Fatalf("run taskbus %s: %v", strings.Join(args, " "), err)
	}
	if strings.Contains(string(text), passwordOf(r.broker.URL)) {
		r.t.Errorf("taskbus %s prints the password: %s", strings.Join(args, " "), text)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// listed is one line of `taskbus journal ls -o json`.
type listed struct {
	Epoch  uint64
	Kind   string
	TaskID string `json:"task_id"`
	Agent  string `json:"agent_id"`
}

// TestJournalForPeople reads the journal of two terms on a real broker, as a person
// would: while the second lasts, and then out of an export.
func TestJournalForPeople(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet+"journal: {record_inputs: true}\n")
	term := func(tasks ...string) *process {
		c := r.start()
		a2 := r.hand("a2", 1) // first: in the second term it is known to consume
		r.online(c, "a1", "a2")
		c.awaitEligible("a2")
		for i, id := range tasks {
			r.assign(task(id, "train")) // a2 alone has a GPU
			a2.complete(a2.take())
			c.awaitStatus(id+" has ended", func(s view.Status) bool { return s.Counters.Results["succeeded"] == uint64(i+1) })
		}
		_ = a2.work.Close()
		return c
	}
	r.finish(term("t-1", "t-2", "t-3"))
	c := term("t-4")

	code, out := r.taskbus("journal", "ls", "--since", "1h", "--limit", "10000", "-o", "json")
	var list struct{ Lines []listed }
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 {
		t.Fatalf("journal ls: exit code %d, %v: %s", code, err, out)
	}
	for id, epoch := range map[string]uint64{"t-1": 1, "t-2": 1, "t-3": 1, "t-4": 2} {
		if !slices.Contains(list.Lines, listed{epoch, "assigned", id, "a2"}) {
			t.Errorf("journal ls has no line that %s was assigned to a2 in epoch %d: %+v", id, epoch, list.Lines)
		}
	}
	if code, out := r.taskbus("journal", "ls", "--task", "t-2"); code != 0 || !strings.Contains(out, "t-2") ||
		strings.Contains(out, "t-1") {
		t.Errorf("journal ls --task t-2: exit code %d: %s", code, out)
	}
	if code, out := r.taskbus("journal", "show", "t-2"); code != 0 || !strings.Contains(out, "a2") ||
		!strings.Contains(out, "trace-t-2") || strings.Contains(out, "trace-t-1") {
		t.Errorf("journal show t-2: exit code %d: %s", code, out)
	}
	r.finish(c) // with the rest of what was recorded

	file := filepath.Join(t.TempDir(), "terms.tbj")
	if code, out := r.taskbus("journal", "export", "--all", file); code != 0 {
		t.Fatalf("journal export: exit code %d: %s", code, out)
	}
	if code, out := r.taskbus("journal", "export", "--all", file); code == 0 || !strings.Contains(out, "--force") {
		t.Errorf("journal export over a file: exit code %d: %s", code, out)
	}
	code, out = r.taskbus("replay", file, "-o", "json")
	var reports []replay.Report
	if err := json.Unmarshal([]byte(out), &reports); err != nil || code != 0 {
		t.Fatalf("replay: exit code %d, %v: %s", code, err, out)
	}
	var decisions []string
	for _, report := range reports {
		decisions = append(decisions, fmt.Sprintf("%d identical=%t", report.Decisions, report.Identical))
	}
	if want := []string{"3 identical=true", "1 identical=true"}; !slices.Equal(decisions, want) {
		t.Errorf("replay: decisions %q, want %q: %s", decisions, want, out)
	}
	if code, out := r.taskbus("replay", file, "--strategy", "round_robin"); code != 0 || !strings.Contains(out, "train") {
		t.Errorf("replay with another strategy: exit code %d: %s", code, out)
	}
}

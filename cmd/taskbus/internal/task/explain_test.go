package task

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
	"taskbus/tests/support/fields"
)

// explained is what `explain` prints of e.
func explained(t *testing.T, e view.TaskExplanation) string {
	t.Helper()
	return clitest.Written(t, func(p *cli.Page) { printTaskExplanation(p, e) })
}

// Cells are cut for a terminal alone: what goes to a file or another program is whole.
func TestTasksAreCutForATerminalAlone(t *testing.T) {
	recent := view.TaskList{Tasks: clitest.LookedAt.Known, Limit: 50}
	clitest.Golden(t, "tasks.txt", clitest.Written(t, func(p *cli.Page) { printTasks(p, recent, false) }))

	long := view.Task{ID: strings.Repeat("x", 128), State: "pending", AcceptedAt: clitest.Noon,
		Reason: "0 of 9 agents eligible: 1 lack `gpu`, " +
			"2 cordoned or draining, 3 ejected after failures, 3 with a minute of work or more; nearest: gpu-1 (full)"}
	failed := view.Task{ID: "task-1", State: "failed", AcceptedAt: clitest.Noon,
		Error: "no dictionary for Klingon on this machine"}
	r := newRig()
	r.StartCoordinator(t, clitest.FixedSource{Known: []view.Task{long, failed}})
	if code := r.Run(t, "tasks"); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, r.Err.String())
	}
	for _, whole := range []string{long.ID, failed.Error,
		"  1 lack gpu, 2 cordoned or draining, 3 ejected after failures, 3 with a minute of work or more  "} {
		if !strings.Contains(r.Out.String(), whole) {
			t.Errorf("%q is cut in\n%s", whole, r.Out.String())
		}
	}
}

// A decision of a coordinator that led before, of which a snapshot tells that it was made: the journal has it.
func TestExplainNamesTheJournal(t *testing.T) {
	e := view.TaskExplanation{ID: "t-1", Type: "build", State: "succeeded", Agent: "a1",
		Attempts: []view.Attempt{{Number: 1, Agent: "a1"}}}
	if text := explained(t, e); !strings.Contains(text, "`taskbus journal show t-1` has it") {
		t.Errorf("%s", text)
	}
}

// Of a task that may go to several models it is said why one was chosen, and why not the others.
func TestExplainSaysWhyAModelWasChosen(t *testing.T) {
	x := clitest.RoutedAnswer()
	e := view.TaskExplanation{ID: "t-1", Type: "build", State: "dispatched", Agent: "a1",
		Explanation: &view.Explanation{Routes: x.Routes, Routing: x.Routing}}
	text := explained(t, e)
	for _, want := range []string{
		"\nlab                  0.80       1.00   0.80     0.90     0.90\n",
		"\nlab: chosen\n  the best score of the 2 that have quota now\n",
		"\nopenai@main/gpt-4o: passed over\n  it has no quota: the rate of openai@main in requests is used up; back at " +
			"2026-03-01T12:00:20Z\n",
		": remaining 1, price 2, latency 1, success 1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestWhatIf(t *testing.T) {
	const task = `{"task_id": "t-1", "task_type": "x", "payload": {}}`
	nobody := view.Prospect{
		ID: "t-1", Type: "x", ReasonCode: "no_eligible_agents", Reason: "0 of 2 agents eligible: 2 lack `gpu`",
		SuggestedAction: "add an agent",
		Explanation: &view.Explanation{Text: "0 of 2 agents eligible: 2 lack `gpu`",
			Refused: map[string]int{"lacks_capability": 2}, Missing: map[string]int{"gpu": 2}},
	}
	lacking := func(offered int) view.Prospect {
		return view.Prospect{ID: "t-1", Type: "x", Agent: "a1", OfferedTo: offered, ReasonCode: "quota_exhausted",
			SuggestedAction: "wait",
			Reason:          "the budget of pool/x in requests is used up; back at 2030-01-02T00:00:00Z",
			Explanation:     &view.Explanation{Quota: &view.QuotaLack{Node: "pool/x"}}}
	}
	for _, tc := range []struct {
		name     string
		source   clitest.FixedSource
		args     string
		in       string
		code     int
		out, err string
	}{
		{"from standard input, as it is", clitest.FixedSource{Prospect: view.Prospect{ID: "t-1", Type: "x", Agent: "a1"}},
			"whatif -", task, cli.ExitOK, "t-1 (x): a1 would get it\na1\n", ""},
		{"agents would be asked", clitest.FixedSource{Prospect: view.Prospect{ID: "t-1", Type: "x", Agent: "a1",
			OfferedTo: 3}},
			"whatif -", task, cli.ExitOK,
			"t-1 (x): bids would be asked for (of 3); without any a1 would get it\na1\n", ""},
		{"it would have to be claimed",
			clitest.FixedSource{Prospect: view.Prospect{ID: "t-1", Type: "x", ReasonCode: "not_claimed",
				Reason: "0 of 1 agents eligible"}}, "whatif -", task, cli.ExitFailed,
			"t-1 (x): it would wait until an agent claims it\nnot_claimed: 0 of 1 agents eligible\n", ""},
		{"it would wait for quota", clitest.FixedSource{Prospect: lacking(0)}, "whatif -", task, cli.ExitFailed,
			"t-1 (x): a1 would get it once its quota allows\nquota_exhausted: the budget of pool/x in requests is used up; " +
				"back at 2030-01-02T00:00:00Z\nwhat to do: wait\n", ""},
		{"agents would be asked when there is quota", clitest.FixedSource{Prospect: lacking(3)}, "whatif -", task,
			cli.ExitFailed,
			"t-1 (x): bids would be asked for (of 3) once its quota allows\nquota_exhausted: the budget of pool/x in " +
				"requests is used up; back at 2030-01-02T00:00:00Z\nwhat to do: wait\n", ""},
		{"no agent would", clitest.FixedSource{Prospect: nobody}, "whatif -", task, cli.ExitFailed,
			"t-1 (x): no agent would get it\nno_eligible_agents: 0 of 2 agents eligible: 2 lack `gpu`\nwhat to do: add an " +
				"agent\n", ""},
		{"what is no task", clitest.FixedSource{ProspectErr: &httpapi.BadTask{Text: "/task_id: missing"}}, "whatif -", "{}",
			cli.ExitFailed, "", "Not a task: The body must be a task.assign"},
		{"not known", clitest.FixedSource{ProspectErr: errors.New("the coordinator has stopped")}, "whatif -", task,
			cli.ExitFailed, "",
			"the coordinator has stopped"},
		{"one that stands by", clitest.FixedSource{
			ProspectErr: errors.New(
				"this coordinator stands by and does not know the fleet; ask the one that leads, whose /readyz answers 200")},
			"whatif -", task, cli.ExitFailed, "",
			"this coordinator stands by and does not know the fleet; ask the one that leads, whose /readyz answers 200"},
		{"no such file", clitest.FixedSource{}, "whatif testdata/nowhere.json", "", cli.ExitFailed, "", "nowhere.json"},
		{"a file beyond all bounds", clitest.FixedSource{}, "whatif -", strings.Repeat(" ", maxLine+1), cli.ExitFailed, "",
			"longer than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, asked := newRig(), ""
			tc.source.Asked = &asked
			r.StartCoordinator(t, tc.source)
			r.In = strings.NewReader(tc.in)
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if r.Out.String() != tc.out || !strings.Contains(r.Err.String(), tc.err) ||
				(r.Err.String() == "") != (tc.err == "") {
				t.Errorf("stdout %q, stderr %q; want %q, %q", r.Out.String(), r.Err.String(), tc.out, tc.err)
			}
			if tc.code == cli.ExitOK && asked != tc.in {
				t.Errorf("asked about %q", asked)
			}
		})
	}
}

// What explain says of a task it says once: the state that is also the reason, and the reason of a decision that would
// be the same now.
func TestExplainSaysThingsOnce(t *testing.T) {
	const none = "0 of 1 agents eligible: 1 lack `gpu`"
	refused := view.Explanation{Text: none}
	for _, tc := range []struct {
		of   view.TaskExplanation
		want string
	}{
		{view.TaskExplanation{ID: "t", Type: "x", State: "cancelled", ReasonCode: "cancelled",
			Reason: "cancelled by its producer"},
			"t (x): cancelled\ncancelled by its producer\nno decision was made for it\n"},
		{view.TaskExplanation{ID: "t", Type: "x", State: "failed", ReasonCode: "no_eligible_agents", Reason: none,
			Explanation: &refused,
			Now:         &view.Prospect{ReasonCode: "no_eligible_agents", Reason: none}},
			"t (x): failed, no_eligible_agents\n" + none + "\n\ndecided now: no_eligible_agents, for the same reason\n"},
		{view.TaskExplanation{ID: "t", Type: "x", State: "failed", ReasonCode: "retries_exhausted",
			Reason: none + "; its agent says: \"no\"", Explanation: &refused},
			"t (x): failed, retries_exhausted\n" + none + "; its agent says: \"no\"\n"},
	} {
		if text := explained(t, tc.of); text != tc.want {
			t.Errorf("got\n%swant\n%s", text, tc.want)
		}
	}
}

// What a task carries is shown, each field by its key in words.
func TestExplainShowsWhatIsCarried(t *testing.T) {
	e := view.TaskExplanation{ID: "t-1", Type: "build", State: "pending"}
	fields.Fill(&e.Carried)
	text := explained(t, e)
	carried := reflect.ValueOf(e.Carried)
	for i := range carried.NumField() {
		if value := carried.Field(i).String(); !strings.Contains(text, " "+value+"\n") {
			t.Errorf("Carried.%s: explain does not show %q:\n%s", carried.Type().Field(i).Name, value, text)
		}
	}
}

// A task that waits says where it stands.
func TestExplainOfATaskInTheQueue(t *testing.T) {
	r := newRig()
	r.StartCoordinator(t, clitest.FixedSource{Explained: map[string]view.TaskExplanation{"t-1": {
		ID: "t-1", Type: "build", Carried: coordinator.Carried{CorrelationID: "trace"}, State: "pending",
		Reason: "waits for quota: the budget of pool/alpha in total_tokens is used up",
		Queued: &view.Queued{Text: "1 of 2 tasks of group alpha with priority normal go before it", Start: "within 30 s"},
	}}})
	if code := r.Run(t, "explain", "t-1"); code != cli.ExitOK ||
		!strings.Contains(r.Out.String(),
			"\nin the queue: 1 of 2 tasks of group alpha with priority normal go before it\nit starts: within 30 s\n") {
		t.Errorf("exit code %d: %s", code, r.Out.String())
	}
}

func TestLooking(t *testing.T) {
	for _, tc := range []struct {
		golden string
		args   string
		code   int
	}{
		{"tasks-failed.json", "tasks --state failed -o json", cli.ExitOK},
		{"tasks-none.txt", "tasks --agent nobody", cli.ExitOK},
		{"tasks-limit.txt", "tasks --limit 2", cli.ExitOK},
		{"explain-dispatched.txt", "explain task-4", cli.ExitOK},
		{"explain-pending.txt", "explain task-3", cli.ExitOK},
		{"explain-failed.txt", "explain task-2", cli.ExitOK},
		{"explain-failed.json", "explain task-2 -o json", cli.ExitOK},
		{"explain-failed-at-agent.txt", "explain task-1", cli.ExitOK},
		{"explain-attempts.txt", "explain task-5", cli.ExitOK},
		{"explain-many.txt", "explain task-10", cli.ExitOK},
		{"explain-attempts.json", "explain task-5 -o json", cli.ExitOK},
		{"explain-again.txt", "explain task-6", cli.ExitOK},
		{"explain-batch.txt", "explain task-3b", cli.ExitOK},
		{"explain-standby.txt", "explain task-7", cli.ExitOK},
		{"explain-overdue.txt", "explain task-8", cli.ExitOK},
		{"tasks-pending.txt", "tasks --state pending", cli.ExitOK},
		{"explain-unknown.txt", "explain task-9", cli.ExitFailed},
		{"whatif.txt", "whatif testdata/task.json", cli.ExitOK},
		{"whatif.json", "whatif testdata/task.json -o json", cli.ExitOK},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			r.StartCoordinator(t, clitest.LookedAt)
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, r.Err.String())
			}
			if tc.code != cli.ExitOK {
				// What the coordinator says against it, in one line on standard error.
				if text := r.Err.String(); r.Out.String() != "" || !strings.Contains(text, "task-9") ||
					strings.Count(text, "\n") != 1 {
					t.Errorf("stdout %q, stderr %q", r.Out.String(), text)
				}
				return
			}
			clitest.Golden(t, tc.golden, r.Out.String())
		})
	}
}

// Very many candidates do not fill the screen.
func TestManyCandidates(t *testing.T) {
	crowd := view.Explanation{Text: "a1 by x", Fleet: 500, Eligible: 400, Candidates: make([]view.Candidate, 200)}
	for i := range crowd.Candidates {
		crowd.Candidates[i].Agent = fmt.Sprint("a", i+1)
	}
	r := newRig()
	r.StartCoordinator(t, clitest.FixedSource{Prospect: view.Prospect{ID: "t", Type: "x", Agent: "a1",
		Explanation: &crowd}})
	code := r.Run(t, "whatif", "testdata/task.json")
	// 2 + 1 + 1 + 20 + 1
	if text := r.Out.String(); code != cli.ExitOK || strings.Count(text, "\n") != 25 ||
		!strings.Contains(text, "… and 380 more eligible\n") {
		t.Errorf("exit code %d, %d lines, want 25:\n%s", code, strings.Count(text, "\n"), text)
	}
}

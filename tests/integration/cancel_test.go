package integration

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// adminToken allows changes over HTTP.
const adminToken = "an-admin-token-for-tests-0123456789"

// withToken is the coordinator's environment with it.
const withToken = "TASKBUS_ADMIN_TOKEN=" + adminToken

// command runs a command that asks the coordinator, with a token or without (""),
// and tells its exit code.
func (c *process) command(token string, args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	cmd := c.commandOf(token, args...)
	out := newLogBook()
	cmd.Stderr = out
	text, err := cmd.Output()
	return string(text), out.String(), brokertest.ExitCode(err)
}

// commandOf is such a command, not yet begun.
func (c *process) commandOf(token string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"TASKBUS_HTTP_URL=" + c.base, "TASKBUS_ADMIN_TOKEN=" + token, "PATH=" + os.Getenv("PATH"),
		raceOptions}
	return cmd
}

// change sends a request that changes something and decodes the answer, if it is
// wanted.
func (c *process) change(method, path, token string, into any) (status int) {
	c.t.Helper()
	request, err := http.NewRequest(method, c.base+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := httpClient.Do(request)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	if into != nil {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			c.t.Fatalf("%s %s: decode the answer: %v", method, path, err)
		}
	}
	return resp.StatusCode
}

// withdrawer is one of the ways to withdraw a task. An empty answer means that the
// way has none.
type withdrawer func(r *rig, c *process, id string) (answer view.Cancellation)

var withdrawers = map[string]withdrawer{
	"by command": func(r *rig, c *process, id string) (answer view.Cancellation) {
		out, errors, code := c.command(adminToken, "tasks", "cancel", id, "--reason", "a test", "-o", "json")
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			r.t.Fatalf("tasks cancel %s said %q, %q", id, out, errors)
		}
		// 0: no agent is known that will still do it.
		done := answer.State == view.Cancelled || answer.State == view.CancelNoted ||
			answer.Outcome == view.Cancelled
		if want := map[bool]int{true: 0, false: 1}[done]; code != want {
			r.t.Errorf("tasks cancel %s: exit code %d for %+v, want %d", id, code, answer, want)
		}
		return answer
	},
	"by HTTP": func(r *rig, c *process, id string) (answer view.Cancellation) {
		status := c.change(http.MethodDelete, "/tasks/"+id+"?reason=a+test", adminToken, &answer)
		want := http.StatusOK
		if answer.State == view.CancelRequested {
			want = http.StatusAccepted
		}
		if status != want {
			r.t.Errorf("DELETE /tasks/%s: status %d for %+v, want %d", id, status, answer, want)
		}
		return answer
	},
	"by message": func(r *rig, c *process, id string) (answer view.Cancellation) {
		before := c.status().Counters.CancelRequests
		r.publish(bus.QueueRequest, amqp.Publishing{Body: []byte(`{"message_type":"task.cancel","task_id":"` + id +
			`","reason":"a test"}`)})
		c.awaitStatus("the request is taken", func(s view.Status) bool { return s.Counters.CancelRequests == before+1 })
		r.empty(bus.QueueRequest)
		return answer
	},
}

// cancelFleet: a1 has the SDK, a2 only heartbeats, a3 reports and consumes nothing,
// and the one in French never gets out.
const cancelFleet = `
agents:
  a1: {capabilities: [sdk], max_concurrent_tasks: 2, health_check_interval: 1}
  a2: {capabilities: [plain], max_concurrent_tasks: 2, health_check_interval: 1}
  a3: {capabilities: [idle], max_concurrent_tasks: 2, health_check_interval: 1, accept_timeout_seconds: 2}
  a4: {capabilities: [french], max_concurrent_tasks: 2, health_check_interval: 1}
task_routing:
  sdk: {required_capabilities: [sdk]}
  plain: {required_capabilities: [plain]}
  idle: {required_capabilities: [idle]}
  french: {required_capabilities: [french]}
global_settings:
  assignment_timeout_seconds: 60
  stale_agent_threshold_seconds: 60
`

// A task can be withdrawn in whatever state it is, by whatever way, and ends once.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, withdraw := range withdrawers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, cancelFleet)
			b := r.open()
			c := r.start(withToken)
			a1 := r.agents(c, b, 2, "a1")["a1"]
			r.reported(c, beat("a2", 0, 2))
			r.reported(c, tracked("a3", 2))
			a2 := r.hand("a2", 2)
			answers := name != "by message"
			answered := func(got view.Cancellation, state, outcome, agent string) {
				t.Helper()
				if answers && (got.State != state || got.Outcome != outcome || got.Agent != agent) {
					t.Errorf("answered %+v, want %s, outcome %q, agent %q", got, state, outcome, agent)
				}
			}

			t.Log("while it waits for an agent")
			b.offer(r.client, task("t-wait", "french"))
			c.awaitStatus("it waits", func(s view.Status) bool { return s.Pending.Total == 1 })
			answered(withdraw(r, c, "t-wait"), view.Cancelled, "cancelled", "")
			if e := b.end(t, "t-wait"); e.ByAgent || e.What != "cancelled" || e.Attempts != 0 {
				t.Errorf("%+v", e)
			}
			answered(withdraw(r, c, "t-wait"), view.Cancelled, "cancelled", "") // twice does no harm

			t.Log("while an agent works on it")
			b.offer(r.client, task("t-run", "sdk").doing(deedHold))
			b.runs(t, "t-run", 1)
			answered(withdraw(r, c, "t-run"), view.Cancelled, "cancelled", "a1")
			if e := b.end(t, "t-run"); !e.ByAgent || e.What != "cancelled" || e.Agent != "a1" {
				t.Errorf("%+v", e)
			}
			c.awaitAgent("a1", "has its slot back", func(a view.Agent) bool { return a.FreeSlots == 2 && a.Leased == 0 })

			t.Log("while an agent has it that cannot be told")
			b.offer(r.client, task("t-plain", "plain"))
			d := a2.take()
			b.enter(d)
			answered(withdraw(r, c, "t-plain"), view.CancelRequested, "", "a2")
			eventually(t, patience, "that is announced", func() (bool, string) {
				return b.heard("task.cancel_requested.a2") == 1, ""
			})
			a2.complete(d) // and it does the work all the same
			if e := b.end(t, "t-plain"); e.What != "succeeded" || e.Agent != "a2" {
				t.Errorf("%+v", e)
			}
			answered(withdraw(r, c, "t-plain"), view.CancelTooLate, "succeeded", "a2")

			t.Log("while it waits in an agent's queue")
			b.offer(r.client, task("t-queued", "idle"))
			r.holds("agent.a3", 1)
			answered(withdraw(r, c, "t-queued"), view.CancelRequested, "", "a3")
			// It is not taken: it comes back, and that is its end.
			if e := b.end(t, "t-queued"); e.What != "cancelled" || e.ByAgent {
				t.Errorf("%+v", e)
			}
			r.empty("agent.a3")

			t.Log("before it comes")
			answered(withdraw(r, c, "t-later"), view.CancelNoted, "", "")
			b.offer(r.client, task("t-later", "sdk"))
			if e := b.end(t, "t-later"); e.What != "cancelled" || e.ByAgent {
				t.Errorf("%+v", e)
			}

			a1.retire()
			r.close(c, b, map[string]string{"t-wait": "cancelled", "t-run": "cancelled", "t-queued": "cancelled",
				"t-later": "cancelled"})
			if by := b.begunBy("t-later"); len(by) != 0 {
				t.Errorf("t-later was withdrawn before it came, and begun by %v", by)
			}
			if n := b.heard("task.cancel_requested."); n != 2 {
				t.Errorf("%d times task.cancel_requested, want 2: a2 and a3 could not be told", n)
			}
		})
	}
}

// A request without a token changes nothing; a coordinator without one changes nothing for
// any request.
func TestChangesNeedTheToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, fleet, "assignment_timeout_seconds: 1", "assignment_timeout_seconds: 60"))
	b := r.open()
	c := r.start()
	r.online(c, "a1")
	b.offer(r.client, task("t-1", "train")) // no agent online has a GPU
	c.awaitStatus("it waits", func(s view.Status) bool { return s.Pending.Total == 1 })
	paths := map[string]string{
		"/tasks/t-1": http.MethodDelete, "/agents/a1/cordon": http.MethodPost,
		"/agents/a1/drain": http.MethodPost, "/agents/a1/uncordon": http.MethodPost,
	}
	unchanged := func() {
		t.Helper()
		s := c.status()
		if a := c.agent("a1"); s.Pending.Total != 1 || a.Cordoned || a.Draining || !a.Eligible {
			t.Errorf("something changed: pending %+v, %+v", s.Pending, a)
		}
	}
	for path, method := range paths {
		if status := c.change(method, path, adminToken, nil); status != http.StatusForbidden {
			t.Errorf("%s %s of a coordinator without a token: %d, want 403", method, path, status)
		}
	}
	for _, args := range [][]string{{"agents", "drain", "a1"}, {"tasks", "cancel", "t-1"}} {
		if out, errors, code := c.command(adminToken, args...); code != 1 || out != "" || errors == "" {
			t.Errorf("taskbus %v of a coordinator without a token: exit code %d, %q, %q", args, code, out, errors)
		}
	}
	unchanged()
	c.stop()

	c = r.start(withToken)
	r.online(c, "a1")
	c.awaitStatus("it waits again", func(s view.Status) bool { return s.Pending.Total == 1 })
	for _, token := range []string{"", adminToken + "x"} {
		for path, method := range paths {
			if status := c.change(method, path, token, nil); status != http.StatusUnauthorized {
				t.Errorf("%s %s with the token %q: %d, want 401", method, path, token, status)
			}
		}
	}
	if _, _, code := c.command("another-token-of-enough-characters", "agents", "cordon", "a1"); code != 1 {
		t.Errorf("cordon with another token: exit code %d, want 1", code)
	}
	unchanged()
	if status := c.change(http.MethodDelete, "/tasks/t-1", adminToken, nil); status != http.StatusOK {
		t.Errorf("with the token: %d", status)
	}
	b.end(t, "t-1")
	r.close(c, b, map[string]string{"t-1": "cancelled"})
}

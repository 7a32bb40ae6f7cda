package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

// plainQueues are what a fleet that knows nothing of Taskbus declares itself.
var plainQueues = []string{bus.QueueAssign, bus.StreamStatus, bus.QueueFailed, "agent.a1"}

// A plainClient is a fleet that declares plain durable queues.
type plainClient interface {
	// declare tells for every queue whether the broker took the declaration; what
	// it refused, it refused with 406.
	declare(t *testing.T, r *rig) map[string]bool
	// work reports a1, asks for two tasks that it can do and one that no agent can,
	// and gives what came back, by task id.
	work(t *testing.T, r *rig) map[string]map[string]any
}

// Both orders of arrival, both profiles, with the client in Python that everybody
// has, and in Go.
func TestPlainDurableClients(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]plainClient{"pika": pika{}, "amqp091-go": gopher{}} {
		for _, profile := range []string{"quorum", "classic"} {
			config := "queues: " + profile + replaced(t, fleet, "assignment_timeout_seconds: 1",
				"assignment_timeout_seconds: 15")
			t.Run(name+" first, then "+profile, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, config)
				for queue, ok := range client.declare(t, r) {
					if !ok {
						t.Fatalf("%s could not be declared in an empty virtual host", queue)
					}
				}
				c := r.start()
				// Every queue that should be of another kind is a finding; in the classic
				// profile none should be.
				want := plainQueues
				if profile == "classic" {
					want = nil
				}
				checkFindings(t, c, want)
				checkWork(t, client.work(t, r))
				r.finish(c)
			})
			t.Run(profile+" first, then "+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, config)
				c := r.start()
				checkFindings(t, c, nil)
				for queue, ok := range client.declare(t, r) {
					if want := profile == "classic"; ok != want {
						t.Errorf("declaring %s as plain and durable: taken %t, want %t", queue, ok, want)
					}
				}
				// A client that does not insist on declaring works under either profile.
				checkWork(t, client.work(t, r))
				r.finish(c)
			})
		}
	}
}

// checkFindings: what is used as it was found is told in /status and, once, in the log.
func checkFindings(t *testing.T, c *process, want []string) {
	t.Helper()
	var got []string
	for _, f := range c.status().Broker.Findings {
		got = append(got, f.Object)
		if !strings.Contains(f.Text, "plain durable queue") || !strings.Contains(f.Text, "used as it is") {
			t.Errorf("the finding of %s: %s", f.Object, f.Text)
		}
		if n := strings.Count(c.log.String(), `"object":"`+f.Object+`"`); n != 1 {
			t.Errorf("%d log lines about %s, want 1", n, f.Object)
		}
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("findings about %v, want %v", got, want)
	}
}

// checkWork: COORDINATOR's messages, out and back.
func checkWork(t *testing.T, got map[string]map[string]any) {
	t.Helper()
	for _, n := range []string{"1", "2"} {
		m := got["task_"+n]
		if m["message_type"] != "task.dispatch" || m["assigned_agent"] != "a1" || m["correlation_id"] != "trace_"+n ||
			m["queue"] != "agent.a1" ||
			fmt.Sprint(m["payload"]) != "map[number:"+n+"]" {
			t.Errorf("task_%s: %v", n, m)
		}
	}
	if m := got["task_3"]; m["message_type"] != "assignment.failed" || m["correlation_id"] != "trace_3" ||
		m["retry_possible"] != false || m["reason_code"] != "no_eligible_agents" {
		t.Errorf("task_3: %v", m)
	}
}

// pika is testdata/fleet.py.
type pika struct{}

func (pika) run(t *testing.T, r *rig, verb string) (lines []map[string]any) {
	t.Helper()
	brokertest.NeedsPika(t)
	cmd := exec.Command(brokertest.Python, "testdata/fleet.py", verb)
	cmd.Env = append(os.Environ(), "RABBITMQ_URL="+r.broker.URL)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("fleet.py %s: %v\n%s%s", verb, err, out, stderr.String())
	}
	for line := range strings.Lines(string(out)) {
		var said map[string]any
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatalf("fleet.py said %q: %v", line, err)
		}
		lines = append(lines, said)
	}
	return lines
}

func (p pika) declare(t *testing.T, r *rig) map[string]bool {
	taken := map[string]bool{}
	for _, said := range p.run(t, r, "declare") {
		taken[said["queue"].(string)] = said["declared"] == true
		if code, refused := said["code"]; refused && code != 406.0 {
			t.Errorf("%s was refused with %v, want 406", said["queue"], code)
		}
	}
	return taken
}

func (p pika) work(t *testing.T, r *rig) map[string]map[string]any {
	got := map[string]map[string]any{}
	for _, said := range p.run(t, r, "work") {
		m := said["message"].(map[string]any)
		got[m["task_id"].(string)] = m
	}
	return got
}

// gopher does the same with amqp091-go.
type gopher struct{}

func (gopher) declare(t *testing.T, r *rig) map[string]bool {
	taken := map[string]bool{}
	for _, queue := range plainQueues {
		channel, err := r.conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		_, err = channel.QueueDeclare(queue, true, false, false, false, nil)
		var refusal *amqp.Error
		if err != nil && (!errors.As(err, &refusal) || refusal.Code != amqp.PreconditionFailed) {
			t.Errorf("%s was refused with %v, want 406", queue, err)
		}
		taken[queue] = err == nil
		if err == nil {
			_ = channel.Close() // the connection's end would close it as well
		}
	}
	return taken
}

func (gopher) work(t *testing.T, r *rig) map[string]map[string]any {
	r.publish(bus.StreamStatus, amqp.Publishing{Body: []byte(
		`{"message_type":"agent.status","agent_id":"a1","status":"ready","current_load":0.0,"active_tasks":0,` +
			`"available_capacity":2,"timestamp":"2025-08-07T10:30:45.123456"}`)})
	for _, n := range []string{"1", "2"} {
		r.publish(bus.QueueAssign, amqp.Publishing{Body: []byte(
			`{"message_type":"task.assign","task_id":"task_` + n + `","task_type":"build","payload":{"number":` + n +
				`},"priority":2,"correlation_id":"trace_` + n + `","timeout_seconds":300}`)})
	}
	r.publish(bus.QueueAssign, amqp.Publishing{Body: []byte(
		`{"message_type":"task.assign","task_id":"task_3","task_type":"translate","payload":{},"priority":0,` +
			`"correlation_id":"trace_3","timeout_seconds":300}`)})
	got := map[string]map[string]any{}
	for _, d := range append(r.broker.Get(t, "agent.a1", 2), r.broker.Get(t, bus.QueueFailed, 1)...) {
		var m map[string]any
		if err := json.Unmarshal(d.Body, &m); err != nil {
			t.Fatal(err)
		}
		got[m["task_id"].(string)] = m
	}
	return got
}

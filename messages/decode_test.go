package messages

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/tests/support/jsonkeys"
)

func TestTaskAssignCorpus(t *testing.T) {
	d := newDecoder(t)
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			m, refusal := d.DecodeTaskAssign([]byte(c.body))
			checkVerdict(t, refusal, c.path, c.keyword)
			if (m == nil) == (refusal == nil) {
				t.Fatalf("exactly one of message and refusal is expected, got %v and %v", m, refusal)
			}
			checkTaskAssign(t, d, []byte(c.body))
		})
	}
}

func TestAgentStatusCorpus(t *testing.T) {
	d := newDecoder(t)
	for _, c := range statuses {
		t.Run(c.name, func(t *testing.T) {
			var m AgentStatus
			checkVerdict(t, d.DecodeAgentStatus([]byte(c.body), &m), c.path, c.keyword)
			checkAgentStatus(t, d, []byte(c.body))
		})
	}
}

// A refusal names the agent as far as it can be read, whatever is wrong with the rest:
// an operator must find the agent that sends it.
func TestRefusalNamesTheAgent(t *testing.T) {
	d := newDecoder(t)
	for _, c := range []struct{ name, body, want string }{
		{"another field is wrong", status(`"relayed":1`), "a-1"},
		{"the clock is wrong", strings.Replace(status(), "T23", "T25", 1), "a-1"},
		{"cut off behind it", `{"message_type":"agent.status","agent_id":"a-1","sta`, "a-1"},
		{"escaped", strings.Replace(status(`"relayed":1`), "a-1", `\u0061-1`, 1), "a-1"},
		{"no valid id", strings.Replace(status(), "a-1", `gpu\n\u202e1`, 1), "gpu  1"},
		// 128 bytes, 3 of them the ellipsis
		{"endless", strings.Replace(status(), "a-1", strings.Repeat("x", 1000), 1), strings.Repeat("x", 125) + "…"},
		{"cut off before it", `{"message_type":"agent.status","agent_`, ""},
		{"given twice", status(`"agent_id":"a-2"`), ""},
		{"a number", strings.Replace(status(), `"a-1"`, "7", 1), ""},
		{"no JSON", "hello", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusal := d.DecodeAgentStatus([]byte(c.body), new(AgentStatus))
			if refusal == nil {
				t.Fatal("accepted")
			}
			requireSound(t, refusal)
			if refusal.AgentID != c.want {
				t.Errorf("agent %q, want %q", refusal.AgentID, c.want)
			}
		})
	}
}

func checkVerdict(t *testing.T, refusal *Refusal, path, keyword string) {
	t.Helper()
	switch {
	case refusal == nil && keyword != "":
		t.Fatalf("accepted; expected a refusal by %s at %q", keyword, path)
	case refusal == nil:
		return
	}
	requireSound(t, refusal)
	if refusal.Keyword != keyword || refusal.Path != path {
		t.Fatalf("refused by %q at %q (%s); expected %q at %q", refusal.Keyword, refusal.Path, refusal.Text, keyword, path)
	}
}

// The fast path is worth its code only if ordinary messages take it.
func TestOrdinaryMessagesTakeTheFastPath(t *testing.T) {
	d := newDecoder(t)
	for _, c := range hostile {
		switch c.name {
		case "smallest", "white space", "unknown fields", "type beyond ASCII", "everything", "version 1",
			"fraction of a second", "Python's isoformat":
			if _, ok := d.fastTaskAssign([]byte(c.body)); !ok {
				t.Errorf("task.assign %q is valid and plain, but not for the fast path", c.name)
			}
		}
	}
	for _, c := range statuses {
		switch c.name {
		case "COORDINATOR's fields", "every field", "full load", "Python's isoformat", "offset", "unknown field", "version 1":
			if !d.fastAgentStatus([]byte(c.body), new(AgentStatus)) {
				t.Errorf("agent.status %q is valid and plain, but not for the fast path", c.name)
			}
		}
	}
	for name, body := range map[string]string{
		"what Taskbus sends":   dispatched(),
		"every optional field": withField(dispatched(), "deadline", `"2030-01-01T00:00:00Z"`),
		"type beyond ASCII":    withField(dispatched(), "task_type", `"Speicher räumen"`),
	} {
		if _, ok := d.fastTaskDispatch([]byte(body)); !ok {
			t.Errorf("task.dispatch, %s: valid and plain, but not for the fast path", name)
		}
	}
	for _, c := range results {
		switch c.name {
		case "smallest", "every field", "every field of usage", "white space", "unknown field", "version 1",
			"given back after it had begun", "error beyond ASCII", "fraction of a millisecond":
			if !d.fastTaskResult([]byte(c.body), new(TaskResult)) {
				t.Errorf("task.result %q is valid and plain, but not for the fast path", c.name)
			}
		}
	}
}

func FuzzTaskAssign(f *testing.F) {
	d := newDecoder(f)
	for _, c := range hostile {
		if len(c.body) < 10_000 {
			f.Add([]byte(c.body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkTaskAssign(t, d, body) })
}

func FuzzAgentStatus(f *testing.F) {
	d := newDecoder(f)
	for _, c := range statuses {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkAgentStatus(t, d, body) })
}

// checkTaskAssign: what the fast path accepts the slow path accepts with an
// equal value, and what that accepts is JSON without duplicate keys.
func checkTaskAssign(t tester, d *Decoder, body []byte) {
	t.Helper()
	original := bytes.Clone(body)
	fast, ok := d.fastTaskAssign(body)
	slow, refusal := d.slowTaskAssign(body)
	if !bytes.Equal(original, body) {
		t.Fatal("decoding has changed the body")
	}
	if requireAgreement(t, body, fast, ok, slow, refusal); refusal != nil {
		return
	}
	if !json.Valid(body) || jsonkeys.Twice(body) {
		t.Fatalf("accepted, but it is not JSON or has a duplicate key\n%s", body)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(fields["payload"], slow.Payload) {
		t.Fatalf("payload %s, want the producer's bytes %s", slow.Payload, fields["payload"])
	}
	task := slow.Task(Arrival{Now: time.Unix(1, 0)})
	if said := slow.TimeoutSeconds > 0; task.Timeout < 0 || task.Timeout > 0 != said || !ValidTraceID(task.CorrelationID) {
		t.Fatalf("the task has timeout %v (of %v s) and trace id %q", task.Timeout, slow.TimeoutSeconds, task.CorrelationID)
	}
}

func checkAgentStatus(t tester, d *Decoder, body []byte) {
	t.Helper()
	// A used value must make no difference.
	fast, slow := AgentStatus{AgentID: "a-1", Queue: "old", CapacityItemsPerSecond: 7, HasCapacity: true, PendingItems: 7,
		HasPending: true, Relayed: true}, AgentStatus{}
	ok := d.fastAgentStatus(body, &fast)
	refusal := d.slowAgentStatus(body, &slow)
	requireAgreement(t, body, fast, ok, slow, refusal)
}

func TestTaskAssignValue(t *testing.T) {
	payload := `{ "big": 12345678901234567890, "again":[1.0 ,2e0] }`
	body := strings.Replace(assign(`"priority":3,"correlation_id":"trace_123","timeout_seconds":1.5`,
		`"required_capabilities":["gpu","go","gpu"],"preferred_agents":["b","a"],"excluded_agents":["d","c"]`,
		`"group":"research","deadline":"2030-01-01T01:00:00+02:00","strategy":"least_loaded"`,
		`"estimated_usage":{"requests":2,"cost_usd":0.5,"model":"m"},"labels":{"team":"x"},"allow_borrowing":false,`+
			`"widen_after_seconds":2.5`), "{}", payload, 1)
	m, refusal := newDecoder(t).DecodeTaskAssign([]byte(body))
	if refusal != nil {
		t.Fatal(refusal.Text)
	}
	if string(m.Payload) != payload {
		t.Errorf("payload %s, want the producer's bytes %s", m.Payload, payload)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	got := m.Task(Arrival{Now: now, ContentHash: 7, CorrelationID: "not used", ReplyTo: "replies",
		TraceParent: "00-a-b-01", TraceState: "k=v"})
	want := &coordinator.Task{
		ID: "t-1", Type: "optimize_memory", Priority: coordinator.PriorityCritical,
		Carried:  Carried{CorrelationID: "trace_123"},
		Timeout:  1500 * time.Millisecond,                        // 1.5 s
		Deadline: time.Date(2029, 12, 31, 23, 0, 0, 0, time.UTC), // 01:00 − 2 h
		Required: []string{"go", "gpu"},                          // sorted, once each
		// Preferred agents keep the order of the producer.
		Preferred: []coordinator.AgentID{"b", "a"}, WidenAfter: 2500 * time.Millisecond,
		Excluded: []coordinator.AgentID{"c", "d"},
		Strategy: "least_loaded", Group: "research", Labels: map[string]string{"team": "x"},
		EstimatedUsage: &coordinator.Usage{Requests: 2, CostUSD: 0.5, Model: "m"}, NoBorrowing: true,
		ReplyTo: "replies", TraceParent: "00-a-b-01", TraceState: "k=v", AcceptedAt: now, ContentHash: 7,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("task\n%+v, want\n%+v", got, want)
	}
}

func TestTaskDefaults(t *testing.T) {
	d := newDecoder(t)
	task := func(body string, a Arrival) *coordinator.Task {
		m, refusal := d.DecodeTaskAssign([]byte(body))
		if refusal != nil {
			t.Fatal(refusal.Text)
		}
		return m.Task(a)
	}
	generate := func() string { return "generated" }
	for _, c := range []struct {
		name, body string
		arrival    Arrival
		want       string
	}{
		{"the body's", assign(`"correlation_id":"body"`), Arrival{CorrelationID: "property", NewTraceID: generate}, "body"},
		{"the property's", assign(), Arrival{CorrelationID: "property", NewTraceID: generate}, "property"},
		{"an invalid property is passed over", assign(), Arrival{CorrelationID: "a\nb", NewTraceID: generate}, "generated"},
		{"generated", assign(), Arrival{NewTraceID: generate}, "generated"},
		{"the task id", assign(), Arrival{}, "t-1"},
	} {
		if got := task(c.body, c.arrival).CorrelationID; got != c.want {
			t.Errorf("trace id, %s: got %q, want %q", c.name, got, c.want)
		}
	}
	plain := task(assign(), Arrival{ReplyTo: "a\x00", TraceParent: "ü", TraceState: strings.Repeat("x", 513)})
	if plain.Priority != coordinator.PriorityNormal || plain.Timeout != 0 {
		t.Errorf("priority %v and timeout %v, want normal and none", plain.Priority, plain.Timeout)
	}
	if plain.ReplyTo+plain.TraceParent+plain.TraceState != "" {
		t.Errorf("unprintable or long properties were kept: %q %q %q", plain.ReplyTo, plain.TraceParent, plain.TraceState)
	}
	if got := task(assign(`"timeout_seconds":1e-9`), Arrival{}).Timeout; got != time.Millisecond {
		t.Errorf("a timeout of a nanosecond became %v, want 1 ms", got)
	}
}

func TestAgentStatusReport(t *testing.T) {
	var m AgentStatus
	body :=
		status(
			`"max_concurrent_tasks":4,"capabilities":["go"],"queue":"work.a-1","active_task_ids":["t-1"],"labels":{"zone":"b"}`)
	if refusal := newDecoder(t).DecodeAgentStatus([]byte(body), &m); refusal != nil {
		t.Fatal(refusal.Text)
	}
	want := coordinator.AgentReport{
		Agent: "a-1", Status: coordinator.StatusReady, Load: 0.25, Active: 1, Available: 3, MaxConcurrent: 4,
		ActiveTasks: []coordinator.TaskID{"t-1"}, Capabilities: []string{"go"}, Queue: "work.a-1",
		Labels:    map[string]string{"zone": "b"},
		Timestamp: time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC), UserID: "a-1",
	}
	if got := m.Report("a-1"); !reflect.DeepEqual(got, want) {
		t.Errorf("report %+v, want %+v", got, want)
	}
}

// "Runs nothing" and "does not say" must not be mistaken for each other, on either
// path and in either direction: by the former an agent is held to its leases.
func TestActiveTaskIDsAbsentOrEmpty(t *testing.T) {
	d := newDecoder(t)
	for _, c := range []struct {
		name, member string
		want         []coordinator.TaskID
	}{
		{"absent", `"x":1`, nil},
		{"empty", `"active_task_ids":[]`, []coordinator.TaskID{}},
		{"empty, with a space", `"active_task_ids":[ ]`, []coordinator.TaskID{}},
		{"one", `"active_task_ids":["t-1"]`, []coordinator.TaskID{"t-1"}},
	} {
		body := []byte(status(c.member))
		var fast, slow AgentStatus
		if !d.fastAgentStatus(body, &fast) {
			t.Errorf("%s: not for the fast path", c.name)
		}
		if refusal := d.slowAgentStatus(body, &slow); refusal != nil {
			t.Fatalf("%s: %s", c.name, refusal.Text)
		}
		for path, got := range map[string][]coordinator.TaskID{"fast": fast.ActiveTaskIDs, "slow": slow.ActiveTaskIDs,
			"report": slow.Report("").ActiveTasks} {
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s, %s: %#v, want %#v", c.name, path, got, c.want)
			}
		}
		again, err := json.Marshal(slow)
		if err != nil {
			t.Fatal(err)
		}
		if sent := strings.Contains(string(again), "active_task_ids"); sent != (c.want != nil) {
			t.Errorf("%s: sent on as %s", c.name, again)
		}
	}
}

// A refusal names the task whenever the envelope can be read so far, and only
// if it is clear which task is meant.
func TestRefusalSaysWhichTask(t *testing.T) {
	d := newDecoder(t)
	trace := `"correlation_id":"trace_1"`
	for _, c := range []struct{ name, body, task, trace string }{
		{"schema", assign(trace, `"priority":9`), "t-1", "trace_1"},
		{"calendar", assign(trace, `"deadline":"2026-02-30T00:00:00Z"`), "t-1", "trace_1"},
		{"fault after the ids", assign(trace, `"x":{"a":1,"a":2}`), "t-1", "trace_1"},
		{"fault before the trace id", assign(`"x":{"a":1,"a":2}`, trace), "t-1", ""},
		{"beyond float64", assign(trace, `"x":9e308`), "t-1", "trace_1"},
		{"escaped id", strings.Replace(assign(`"priority":9`), "t-1", `t\u002d1`, 1), "t-1", ""},
		{"duplicate id", assign(`"task_id":"t-2"`), "", ""},
		{"invalid id", strings.Replace(assign(trace), "t-1", "t 1", 1), "", "trace_1"},
		{"id is a number", strings.Replace(assign(trace), `"t-1"`, "1", 1), "", "trace_1"},
		{"invalid trace id", assign(`"correlation_id":"a\nb"`), "t-1", ""},
		{"not JSON", "hello", "", ""},
	} {
		_, r := d.DecodeTaskAssign([]byte(c.body))
		if r == nil {
			t.Fatalf("%s: accepted", c.name)
		}
		if string(r.TaskID) != c.task || r.CorrelationID != c.trace {
			t.Errorf("%s: task %q, trace %q; want %q, %q", c.name, r.TaskID, r.CorrelationID, c.task, c.trace)
		}
	}
}

func TestRefusalsNeverQuoteThePayload(t *testing.T) {
	d := newDecoder(t)
	const canary = "hunter2"
	for _, payload := range []string{
		`"hunter2"`, `["hunter2"]`, `{"hunter2":1,"hunter2":2}`, `{"a":"hunter2`, `{"a":hunter2}`,
		`{"a":"hunter2","b":"\ud800"}`, `{"a":"hunter2","b":"` + "\xff" + `"}`, `{"hunter2":9e308}`,
		`{"hunter2":` + nested(70) + `}`, `{"hunter2":1e9999}`,
	} {
		_, r := d.DecodeTaskAssign([]byte(strings.Replace(assign(), "{}", payload, 1)))
		if r == nil {
			t.Fatalf("accepted: %s", payload)
		}
		if strings.Contains(r.Text+r.Path, canary) {
			t.Errorf("the refusal quotes the payload: %q at %q", r.Text, r.Path)
		}
	}
}

func TestLimits(t *testing.T) {
	set := compiled(t)
	body := []byte(assign())
	// The smallest message has 1 object, 4 keys and 4 values, the payload being
	// one of them: 9 tokens and 2 levels.
	for _, c := range []struct {
		name    string
		limits  Limits
		keyword string
	}{
		{"just the size", Limits{MaxBytes: len(body)}, ""},
		{"a byte too many", Limits{MaxBytes: len(body) - 1}, "size"},
		{"just the tokens", Limits{MaxTokens: 9}, ""},
		{"a token too many", Limits{MaxTokens: 8}, "tokens"},
		{"just the depth", Limits{MaxDepth: 2}, ""},
		{"a level too many", Limits{MaxDepth: 1}, "depth"},
	} {
		d := NewDecoder(set, c.limits)
		_, fast := d.fastTaskAssign(body)
		_, r := d.DecodeTaskAssign(body)
		if got := keywordOf(r); got != c.keyword || fast != (c.keyword == "") {
			t.Errorf("%s: refused by %q, fast path %v; want %q", c.name, got, fast, c.keyword)
		}
	}
	if d := NewDecoder(set, Limits{}); d.limits != DefaultLimits() {
		t.Errorf("limits %+v, want the defaults", d.limits)
	}
}

func keywordOf(r *Refusal) string {
	if r == nil {
		return ""
	}
	return r.Keyword
}

package messages

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/schemas"
)

var at = time.Date(2026, 1, 31, 23, 59, 59, 123456789, time.UTC)

func sampleTask() *coordinator.Task {
	return &coordinator.Task{
		ID: "task_456", Type: "optimize_memory", Priority: coordinator.PriorityHigh,
		Carried: Carried{CorrelationID: "trace_123"},
		Timeout: 300 * time.Second, AcceptedAt: at, ContentHash: 0x00ab,
	}
}

func sampleDispatch() *coordinator.Dispatch {
	return &coordinator.Dispatch{
		Task: sampleTask(), Agent: "agent_789", Queue: "agent.agent_789", DispatchID: "task_456.1",
		Attempt: 1, Timeout: 300 * time.Second, At: at,
	}
}

func TestAppendDispatch(t *testing.T) {
	withDeadline := sampleDispatch()
	withDeadline.Task.Deadline = at
	withDeadline.Timeout = 1500 * time.Millisecond
	ofABatch := sampleDispatch()
	ofABatch.BatchID, ofABatch.BatchSize = "task_455.1", 10
	for _, c := range []struct {
		name     string
		dispatch *coordinator.Dispatch
		payload  string
		want     string
	}{
		{"plain", sampleDispatch(), `{ "n": 12345678901234567890 }`,
			`{"message_type":"task.dispatch","task_id":"task_456","assigned_agent":"agent_789","correlation_id":"trace_123",` +
				`"assignment_time":"2026-01-31T23:59:59.123456Z","queue":"agent.agent_789","task_type":"optimize_memory",` +
				`"priority":2,"timeout_seconds":300,"dispatch_id":"task_456.1","attempt":1,"payload":{ "n": ` +
				`12345678901234567890 }}`},
		{"one of a batch of ten", ofABatch, `{}`,
			`{"message_type":"task.dispatch","task_id":"task_456","assigned_agent":"agent_789","correlation_id":"trace_123",` +
				`"assignment_time":"2026-01-31T23:59:59.123456Z","queue":"agent.agent_789","task_type":"optimize_memory",` +
				`"priority":2,"timeout_seconds":300,"dispatch_id":"task_456.1","attempt":1,"batch_id":"task_455.1",` +
				`"batch_size":10,"payload":{}}`},
		{"deadline, fraction, no payload", withDeadline, "",
			`{"message_type":"task.dispatch","task_id":"task_456","assigned_agent":"agent_789","correlation_id":"trace_123",` +
				`"assignment_time":"2026-01-31T23:59:59.123456Z","queue":"agent.agent_789","task_type":"optimize_memory",` +
				`"priority":2,"timeout_seconds":1.5,"deadline":"2026-01-31T23:59:59.123456Z","dispatch_id":"task_456.1",` +
				`"attempt":1,"payload":{}}`},
	} {
		got := AppendDispatch([]byte("kept"), c.dispatch, []byte(c.payload))
		if string(got) != "kept"+c.want {
			t.Errorf("%s:\ngot  %s\nwant kept%s", c.name, got, c.want)
		}
		requireFits(t, compiled(t), schemas.TaskDispatch, got[len("kept"):])
	}
}

func TestAppendAssignmentFailed(t *testing.T) {
	decision := &coordinator.Decision{
		Fleet:   12,
		Missing: []coordinator.MissingCapability{{Capability: `g"pu`, Agents: 7}, {Capability: "go", Agents: 2}},
		Nearest: &coordinator.Refusal{Agent: "agent-7", Why: coordinator.Full,
			FreeIn: 40*time.Second + 250*time.Millisecond + 400*time.Microsecond},
	}
	decision.Refused[coordinator.LacksCapability] = 7
	decision.Refused[coordinator.Full] = 5
	got := AppendAssignmentFailed(nil, &coordinator.Fail{
		Task:     sampleTask(),
		Decision: decision,
		Failure: coordinator.Failure{Reason: coordinator.ReasonAllAgentsAtCapacity, Text: "0 of 12 agents\neligible",
			Attempts: 2, FailedAt: at},
	})
	want :=
		`{"message_type":"assignment.failed","task_id":"task_456","reason":"0 of 12 agents eligible",` +
			`"correlation_id":"trace_123",` +
			`"retry_possible":true,"suggested_action":"publish the task again later, or add agents or slots",` +
			`"reason_code":"all_agents_at_capacity","attempts":2,"candidates":{"fleet":12,"refused":{"lacks_capability":7,` +
			`"full":5},` +
			`"missing_capabilities":{"g\"pu":7,"go":2},"nearest":{"agent_id":"agent-7","why":"full",` +
			`"free_in_seconds":40.25}},"failed_at":"2026-01-31T23:59:59.123456Z"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	requireFits(t, compiled(t), schemas.AssignmentFailed, got)

	m, refusal := newDecoder(t).DecodeAssignmentFailed(got)
	if refusal != nil {
		t.Fatal(refusal.Text)
	}
	wantValue := &AssignmentFailed{
		TaskID: "task_456", Reason: "0 of 12 agents eligible", Carried: Carried{CorrelationID: "trace_123"},
		RetryPossible:   true,
		SuggestedAction: "publish the task again later, or add agents or slots", ReasonCode: "all_agents_at_capacity",
		Attempts: 2,
		Candidates: &Candidates{
			Fleet: 12, Refused: map[string]int{"lacks_capability": 7, "full": 5},
			MissingCapabilities: map[string]int{`g"pu`: 7, "go": 2},
			Nearest:             &Nearest{AgentID: "agent-7", Why: "full", FreeInSeconds: 40.25},
		},
		FailedAt: at.Truncate(time.Microsecond),
	}
	if !reflect.DeepEqual(m, wantValue) {
		t.Errorf("decoded %+v, want %+v", m, wantValue)
	}
}

// When the task may succeed is told where it is known.
func TestRetryAt(t *testing.T) {
	body := AppendAssignmentFailed(nil, &coordinator.Fail{
		Task: sampleTask(),
		Failure: coordinator.Failure{Reason: coordinator.ReasonQuotaExhausted, Text: "used up", FailedAt: at,
			RetryAt: at.Add(time.Hour)},
	})
	requireFits(t, compiled(t), schemas.AssignmentFailed, body)
	if m, refusal := newDecoder(t).DecodeAssignmentFailed(body); refusal != nil ||
		!m.RetryAt.Equal(at.Add(time.Hour).Truncate(time.Microsecond)) || m.ReasonCode != "quota_exhausted" {
		t.Errorf("%+v, %+v", m, refusal)
	}
}

// Every reason code that exists is one the schema knows, and its texts fit.
func TestEveryReasonFits(t *testing.T) {
	set := compiled(t)
	for _, reason := range coordinator.Reasons() {
		body := AppendAssignmentFailed(nil, &coordinator.Fail{
			Task:    sampleTask(),
			Failure: coordinator.Failure{Reason: reason, Text: strings.Repeat("ä", MaxText), FailedAt: at},
		})
		requireFits(t, set, schemas.AssignmentFailed, body)
	}
}

// A refused message of which the task id can be read becomes an assignment.failed.
func TestRefusalFails(t *testing.T) {
	d := newDecoder(t)
	for _, c := range []struct{ body, trace string }{
		{assign(`"priority":9`), "generated"},
		{assign(`"priority":9`, `"correlation_id":"trace_123"`), "trace_123"},
	} {
		_, refusal := d.DecodeTaskAssign([]byte(c.body))
		body := AppendAssignmentFailed(nil, refusal.Fail("generated", at))
		requireFits(t, d.set, schemas.AssignmentFailed, body)
		m, r := d.DecodeAssignmentFailed(body)
		if r != nil {
			t.Fatal(r.Text)
		}
		const want = "/priority: must be <= 3 but found 9; expected 0 low, 1 normal, 2 high, 3 critical: a whole number " +
			"from 0 to 3"
		if m.TaskID != "t-1" || m.CorrelationID != c.trace || m.ReasonCode != "invalid_message" || m.RetryPossible ||
			m.Reason != want {
			t.Errorf("failed %+v; want the reason %q under trace %s", m, want, c.trace)
		}
	}
}

func TestEventsFit(t *testing.T) {
	set := compiled(t)
	requireFits(t, set, schemas.TaskDuplicate, AppendTaskDuplicate(nil, &coordinator.Duplicate{Task: sampleTask()}, at))
	dispatch := sampleDispatch()
	dispatch.Decision = &coordinator.Decision{Strategy: "least_loaded"}
	requireFits(t, set, schemas.TaskDispatched, AppendTaskDispatched(nil, dispatch, at))
	for d, want := range map[coordinator.Dimension]string{ // dollars for micro-USD, and whole numbers
		coordinator.DimTotalTokens: `"used":4000001,"limit":5000000,`,
		coordinator.DimCost:        `"used":4.000001,"limit":5,`,
	} {
		got := AppendQuotaReached(nil, &coordinator.QuotaReached{Node: "pool/team-a", Dimension: d, Percent: 80,
			Used: 4_000_001, Cap: 5_000_000, Ends: at}, at)
		requireFits(t, set, schemas.QuotaReached, got)
		if !strings.Contains(string(got), want) {
			t.Errorf("%s: %s lacks %s", d, got, want)
		}
	}
	for dimension, want := range map[string]string{ // dollars to the millionth, and whole numbers
		"total_tokens": `"used":4000001,"limit":5000000,"expected":5333336,`,
		"cost_usd":     `"used":4000001,"limit":5000000,"expected":5333335.51,`,
	} {
		q := &QuotaOverrun{
			Node: "pool/team-a", Kind: "group", Dimension: dimension, Period: "2026-11", From: at, Until: at, Used: 4_000_001,
			Cap:      5_000_000,
			Expected: 5_333_335.5100004, Basis: "pace of the period", At: at,
		}
		got := AppendQuotaOverrun(nil, q, at)
		requireFits(t, set, schemas.QuotaOverrun, got)
		if !strings.Contains(string(got), want) {
			t.Errorf("%s: %s lacks %s", dimension, got, want)
		}
	}
	for state, want := range map[coordinator.AgentState]string{
		coordinator.AgentOnline:    schemas.AgentOnline,
		coordinator.AgentOffline:   schemas.AgentOffline,
		coordinator.AgentStale:     schemas.AgentOffline,
		coordinator.AgentGone:      schemas.AgentOffline,
		coordinator.AgentNeverSeen: schemas.AgentOffline,
	} {
		for _, heard := range []time.Time{{}, at} {
			c := &coordinator.AgentChanged{Agent: "a-1", State: state, LastHeartbeat: heard}
			if got := AgentEvent(c); got != want {
				t.Errorf("an agent that is %s is announced by %s, want %s", state, got, want)
			}
			requireFits(t, set, want, AppendAgentChanged(nil, c, at))
		}
	}
}

func TestAppendTaskCompleted(t *testing.T) {
	d := newDecoder(t)
	result := coordinator.Result{
		Task: "task_456", Agent: "agent_789", DispatchID: "task_456.2", Outcome: coordinator.OutcomeFailed,
		TraceID:  "the agent's",
		Duration: 1_500_250 * time.Microsecond, Error: "exit 1\n", Usage: &coordinator.Usage{Requests: 2, Model: "m"},
	}
	least := coordinator.Result{Task: "task_456", Agent: "agent_789", Outcome: coordinator.OutcomeSucceeded}
	const head = `{"message_type":"task.completed","task_id":"task_456",`
	for _, c := range []struct {
		name      string
		completed coordinator.Completed
		want      string
		decoded   TaskCompleted
	}{
		{"everything", coordinator.Completed{Result: result, Task: sampleTask(), Attempt: 2, Late: true, At: at},
			head +
				`"task_type":"optimize_memory","correlation_id":"trace_123","agent_id":"agent_789","outcome":"failed",` +
				`"attempt":2,` +
				`"dispatch_id":"task_456.2","duration_ms":1500.25,"error":"exit 1 ","usage":{"requests":2,"model":"m"},` +
				`"late":true,"timestamp":"2026-01-31T23:59:59.123456Z"}`,
			TaskCompleted{TaskID: "task_456", TaskType: "optimize_memory", Carried: Carried{CorrelationID: "trace_123"},
				AgentID: "agent_789",
				Outcome: Failed, Attempt: 2,
				DispatchID: "task_456.2", DurationMS: 1500.25, Error: "exit 1 ", Usage: &Usage{Requests: 2, Model: "m"}, Late: true,
				Timestamp: at.Truncate(time.Microsecond)}},
		{"a task of which only the id is known", coordinator.Completed{Result: result, Attempt: 2, At: at},
			head + `"correlation_id":"the agent's","agent_id":"agent_789","outcome":"failed","attempt":2,` +
				`"dispatch_id":"task_456.2","duration_ms":1500.25,"error":"exit 1 ","usage":{"requests":2,"model":"m"},` +
				`"timestamp":"2026-01-31T23:59:59.123456Z"}`,
			TaskCompleted{TaskID: "task_456", Carried: Carried{CorrelationID: "the agent's"}, AgentID: "agent_789",
				Outcome: Failed, Attempt: 2,
				DispatchID: "task_456.2", DurationMS: 1500.25, Error: "exit 1 ", Usage: &Usage{Requests: 2, Model: "m"},
				Timestamp: at.Truncate(time.Microsecond)}},
		{"the least", coordinator.Completed{Result: least, Attempt: 1, At: at},
			head +
				`"correlation_id":"task_456","agent_id":"agent_789","outcome":"succeeded","attempt":1,` +
				`"timestamp":"2026-01-31T23:59:59.123456Z"}`,
			TaskCompleted{TaskID: "task_456", Carried: Carried{CorrelationID: "task_456"}, AgentID: "agent_789",
				Outcome: Succeeded, Attempt: 1,
				Timestamp: at.Truncate(time.Microsecond)}},
	} {
		got := AppendTaskCompleted([]byte("kept"), &c.completed)
		if string(got) != "kept"+c.want {
			t.Errorf("%s:\ngot  %s\nwant kept%s", c.name, got, c.want)
		}
		body := got[len("kept"):]
		requireFits(t, d.set, schemas.TaskCompleted, body)
		if m, refusal := d.DecodeTaskCompleted(body); refusal != nil || !reflect.DeepEqual(*m, c.decoded) {
			t.Errorf("%s: decoded %+v %+v, want %+v", c.name, m, refusal, c.decoded)
		}
	}
	whole := result
	whole.Duration = 90 * time.Second
	if got := string(AppendTaskCompleted(nil,
		&coordinator.Completed{Result: whole, Attempt: 1, At: at})); !strings.Contains(got, `"duration_ms":90000,`) {
		t.Errorf("whole milliseconds have a fraction: %s", got)
	}
}

// The same withdrawal as the agent is told of it, and as the world is when the
// agent cannot be.
func TestAppendWithdraw(t *testing.T) {
	d := newDecoder(t)
	full := &coordinator.Withdraw{Agent: "agent_789", Task: "task_456", DispatchID: "task_456.1", TraceID: "trace_123",
		Reason: "not\nneeded " + strings.Repeat("ä", MaxText)}
	least := &coordinator.Withdraw{Agent: "agent_789", Task: "task_456"}
	// 11 bytes of words, 1,017 characters of two bytes and an ellipsis of three: 2,048.
	reason := "not needed " + strings.Repeat("ä", 1017) + "…"
	for _, c := range []struct {
		withdraw       *coordinator.Withdraw
		cancel, event  string
		decodedCancel  TaskCancel
		decodedRequest TaskCancelRequested
	}{
		{full,
			`{"message_type":"task.cancel","task_id":"task_456","reason":"` + reason +
				`","dispatch_id":"task_456.1","correlation_id":"trace_123"}`,
			`{"message_type":"task.cancel_requested","task_id":"task_456","correlation_id":"trace_123",` +
				`"agent_id":"agent_789","reason":"` + reason + `","timestamp":"2026-01-31T23:59:59.123456Z"}`,
			TaskCancel{TaskID: "task_456", Reason: reason, DispatchID: "task_456.1", CorrelationID: "trace_123"},
			TaskCancelRequested{TaskID: "task_456", CorrelationID: "trace_123", AgentID: "agent_789", Reason: reason,
				Timestamp: at.Truncate(time.Microsecond)}},
		{least,
			`{"message_type":"task.cancel","task_id":"task_456"}`,
			`{"message_type":"task.cancel_requested","task_id":"task_456","correlation_id":"task_456","agent_id":"agent_789",` +
				`"timestamp":"2026-01-31T23:59:59.123456Z"}`,
			TaskCancel{TaskID: "task_456"},
			TaskCancelRequested{TaskID: "task_456", CorrelationID: "task_456", AgentID: "agent_789",
				Timestamp: at.Truncate(time.Microsecond)}},
	} {
		cancel, event := AppendTaskCancel(nil, c.withdraw), AppendTaskCancelRequested(nil, c.withdraw, at)
		if string(cancel) != c.cancel {
			t.Errorf("got  %s\nwant %s", cancel, c.cancel)
		}
		if string(event) != c.event {
			t.Errorf("got  %s\nwant %s", event, c.event)
		}
		requireFits(t, d.set, schemas.TaskCancel, cancel)
		requireFits(t, d.set, schemas.TaskCancelRequested, event)
		if m, refusal := d.DecodeTaskCancel(cancel); refusal != nil || !reflect.DeepEqual(*m, c.decodedCancel) {
			t.Errorf("task.cancel reads as %+v %+v", m, refusal)
		}
		if m, refusal := d.DecodeTaskCancelRequested(event); refusal != nil || *m != c.decodedRequest {
			t.Errorf("task.cancel_requested reads as %+v %+v", m, refusal)
		}
	}
}

// What the SDK and the command line send can be read back as it was.
func TestMarshalled(t *testing.T) {
	d := newDecoder(t)
	assign := TaskAssign{
		TaskID: "t-1", TaskType: "build", Payload: json.RawMessage(`{"a":1}`), Priority: coordinator.PriorityNormal,
		Carried:        Carried{CorrelationID: "trace"},
		TimeoutSeconds: 1.5, RequiredCapabilities: []string{"go"}, PreferredAgents: []coordinator.AgentID{"a"},
		ExcludedAgents: []coordinator.AgentID{"b"},
		Group:          "g", Deadline: at, Strategy: "round_robin",
		EstimatedUsage: &EstimatedUsage{Usage: Usage{Requests: 1, InputTokens: 2, OutputTokens: 3, CostUSD: 0.5,
			Provider: "p", Model: "m"}},
		Labels: map[string]string{"k": "v"}, Description: "two\nlines",
	}
	body, err := json.Marshal(assign)
	if err != nil {
		t.Fatal(err)
	}
	if m, r := d.DecodeTaskAssign(body); r != nil || !reflect.DeepEqual(*m, assign) {
		t.Errorf("task.assign: %+v %+v\n%s", m, r, body)
	}

	smallest, err := json.Marshal(&TaskAssign{TaskID: "t-1", TaskType: "build"})
	if err != nil {
		t.Fatal(err)
	}
	requireFits(t, d.set, schemas.TaskAssign, smallest)

	status := AgentStatus{
		AgentID: "a-1", Status: coordinator.StatusBusy, CurrentLoad: 0.5, ActiveTasks: 2, AvailableCapacity: 2, Timestamp: at,
		Capabilities: []string{"go"},
		Queue:        "agent.a-1", MaxConcurrentTasks: 4, ActiveTaskIDs: []coordinator.TaskID{"t-1"},
		CapacityItemsPerSecond: 16,
		HasCapacity:            true, PendingItems: 28, HasPending: true,
		Labels: map[string]string{"k": "v"}, Relayed: true,
	}
	if body, err = json.Marshal(status); err != nil {
		t.Fatal(err)
	}
	var gotStatus AgentStatus
	if r := d.DecodeAgentStatus(body, &gotStatus); r != nil || !reflect.DeepEqual(gotStatus, status) {
		t.Errorf("agent.status: %+v %+v\n%s", gotStatus, r, body)
	}

	result := TaskResult{
		TaskID: "t-1", AgentID: "a-1", Outcome: Rejected, Attempted: true, CorrelationID: "trace", Timestamp: at,
		DispatchID: "t-1.2", Attempt: 2, DurationMS: 12.5,
		Error: "exit 1", Usage: &Usage{Requests: 1},
	}
	if body, err = json.Marshal(result); err != nil {
		t.Fatal(err)
	}
	var gotResult TaskResult
	if r := d.DecodeTaskResult(body, &gotResult); r != nil || !reflect.DeepEqual(gotResult, result) {
		t.Errorf("task.result: %+v %+v\n%s", gotResult, r, body)
	}

	cancel := TaskCancel{TaskID: "t-1", Reason: "not needed", DispatchID: "t-1.2", CorrelationID: "trace"}
	if body, err = json.Marshal(cancel); err != nil {
		t.Fatal(err)
	}
	if m, r := d.DecodeTaskCancel(body); r != nil || !reflect.DeepEqual(*m, cancel) {
		t.Errorf("task.cancel: %+v %+v\n%s", m, r, body)
	}
}

// Any valid task, dispatched with any payload: the message fits its schema, the
// agent reads what was decided, and the payload is the producer's to the byte.
func TestDispatchRoundTrip(t *testing.T) {
	d := newDecoder(t)
	rapid.Check(t, func(t *rapid.T) {
		task := genTask(t)
		payload, err := json.Marshal(rapid.MapOfN(rapid.String(), rapid.String(), 0, 4).Draw(t, "payload"))
		if err != nil {
			t.Fatal(err)
		}
		dispatch := &coordinator.Dispatch{
			Task: task, Agent: genAgentID(t), Queue: "agent.x", Attempt: rapid.IntRange(1, 99).Draw(t, "attempt"),
			Timeout: max(task.Timeout, time.Second), At: task.AcceptedAt,
		}
		if rapid.Bool().Draw(t, "it had a choice of models") {
			dispatch.Service.Provider = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._:-]{0,12}(@[a-z0-9]{1,4})?`).
				Draw(t, "provider")
			dispatch.Service.Model = rapid.StringMatching(`([A-Za-z0-9][A-Za-z0-9._:@/+-]{0,12})?`).Draw(t, "model")
		}
		dispatch.DispatchID = coordinator.DispatchID(task, dispatch.Attempt)
		m, refusal := d.DecodeTaskDispatch(AppendDispatch(nil, dispatch, payload))
		if refusal != nil {
			t.Fatal(refusal.Text)
		}
		want := &TaskDispatch{
			TaskID: task.ID, AssignedAgent: dispatch.Agent, Carried: Carried{CorrelationID: task.CorrelationID},
			AssignmentTime: dispatch.At.Truncate(time.Microsecond),
			Queue:          "agent.x", TaskType: task.Type, Description: task.Description, Payload: payload,
			Priority:       task.Priority,
			TimeoutSeconds: dispatch.Timeout.Seconds(),
			Deadline:       task.Deadline.Truncate(time.Microsecond), DispatchID: dispatch.DispatchID, Attempt: dispatch.Attempt,
			Provider: dispatch.Service.Provider, Model: dispatch.Service.Model,
		}
		if !reflect.DeepEqual(m, want) {
			t.Fatalf("got  %+v\nwant %+v", m, want)
		}
	})
}

// appendString gives what encoding/json reads back, for any bytes.
func TestAppendString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).
			Draw(t, "in")
		var out string
		encoded := appendString(nil, in)
		if err := json.Unmarshal(encoded, &out); err != nil {
			t.Fatalf("%q became %s: %v", in, encoded, err)
		}
		if want := strings.ToValidUTF8(in, "\ufffd"); strings.ToValidUTF8(in, "") == in && out != want {
			t.Fatalf("%q came back as %q", in, out)
		}
	})
}

func genID(t *rapid.T) string {
	return rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._:-]{0,12}`).Draw(t, "id")
}

func genAgentID(t *rapid.T) coordinator.AgentID {
	return coordinator.AgentID(rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._:-]{0,6}`).Filter(ValidAgentID).
		Draw(t, "agent"))
}

// genTask draws a task as it comes out of a task.assign, without trace context.
func genTask(t *rapid.T) *coordinator.Task {
	name := rapid.StringMatching(`[a-zA-Z0-9 "\\äöü😀/-]{1,20}`)
	instant := rapid.Map(rapid.Int64Range(0, 4_000_000_000_000_000_000),
		func(n int64) time.Time { return time.Unix(0, n).UTC() })
	task := &coordinator.Task{
		ID: coordinator.TaskID(genID(t)), Type: name.Draw(t, "type"),
		Priority: coordinator.Priority(rapid.IntRange(0, 3).Draw(t, "priority")),
		Carried:  Carried{CorrelationID: rapid.StringMatching(`[ -~]{1,40}`).Draw(t, "trace")},
		Timeout: time.Duration(rapid.Int64Range(int64(time.Millisecond), maxTimeout*int64(time.Second)).
			Draw(t, "timeout")),
		AcceptedAt: instant.Draw(t, "accepted"), ContentHash: rapid.Uint64().Draw(t, "hash"),
	}
	if rapid.Bool().Draw(t, "without a timeout") {
		task.Timeout = 0
	}
	if rapid.Bool().Draw(t, "rich") {
		task.Deadline = instant.Draw(t, "deadline")
		task.Required = coordinator.SortedUnique(rapid.SliceOfN(name, 1, 5).Draw(t, "required"))
		task.Preferred = []coordinator.AgentID{"b", "a"}
		task.Excluded = []coordinator.AgentID{coordinator.AgentID(genID(t))}
		task.Strategy, task.Group, task.ReplyTo = "least_loaded", name.Draw(t, "group"), rapid.StringMatching(`[ -~]{1,40}`).
			Draw(t, "reply to")
		task.Labels = rapid.MapOfN(name, name, 1, 4).Draw(t, "labels")
		task.Description = rapid.String().Draw(t, "description")
		task.EstimatedUsage = &coordinator.Usage{Requests: 1, CostUSD: rapid.Float64Range(0, 1e9).Draw(t, "cost"),
			Model: name.Draw(t, "model")}
	}
	return task
}

// What an agent says of its work reaches the coordinator: 0 pending items and a
// capacity of 0 are answers, none given is not.
func TestAgentReportOfWork(t *testing.T) {
	d := newDecoder(t)
	for _, c := range []struct {
		name, body string
		capacity   float64
		known      bool // whether it says anything of its capacity
		pending    int
		given      bool
		relayed    bool
	}{
		{"nothing said", status(), 0, false, 0, false, false},
		{"takes a capacity back", status(`"capacity_items_per_second":0`), 0, true, 0, false, false},
		{"and the slow way", status(`"\u0063apacity_items_per_second":0.0`), 0, true, 0, false, false},
		{"the slowest", status(`"capacity_items_per_second":1e-9`), 1e-9, true, 0, false, false},
		{"BALANCING's body", status(`"capacity_items_per_second":8.5,"pending_items":12,"health":"BUSY"`), 8.5, true, 12,
			true, false},
		{"nothing pending", status(`"pending_items":0`), 0, false, 0, true, false},
		{"through a coordinator", status(`"capacity_items_per_second":4,"relayed":true`), 4, true, 0, false, true},
		{"the slow way", status(`"\u0070ending_items":0,"\u0072elayed":true`), 0, false, 0, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m AgentStatus
			if refusal := d.DecodeAgentStatus([]byte(c.body), &m); refusal != nil {
				t.Fatal(refusal.Text)
			}
			r := m.Report("")
			if r.Capacity != c.capacity || r.HasCapacity != c.known || r.Pending != c.pending || r.HasPending != c.given ||
				r.Relayed != c.relayed {
				t.Errorf("%+v", r)
			}
			// Written again it says the same: 0 pending items do not get lost.
			body, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			requireFits(t, d.set, schemas.AgentStatus, body)
			m.Unknown = nil // BALANCING's body has fields of its own
			var again AgentStatus
			if refusal := d.DecodeAgentStatus(body, &again); refusal != nil || !reflect.DeepEqual(again, m) {
				t.Errorf("written and read again: %+v, want %+v", again, m)
			}
		})
	}
}

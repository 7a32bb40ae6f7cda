package messages

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// A sketch has what can be read, however wrong the rest is.
func TestSketch(t *testing.T) {
	d := newDecoder(t)
	large := `{"task_id":"t-1","payload":{"x":"` + strings.Repeat("x", 2*DefaultLimits().MaxBytes) +
		`"},"task_type":"build"}`
	for name, tc := range map[string]struct {
		body string
		want Sketch
	}{
		"a valid message": {
			`{"message_type":"task.assign","task_id":"t-1","task_type":"build","payload":{},"correlation_id":"c"}`,
			Sketch{MessageType: "task.assign", TaskID: "t-1", TaskType: "build", CorrelationID: "c"}},
		"an id that is none": {`{"task_id":"my task\n"}`, Sketch{TaskID: "my task "}},
		"a number for an id": {`{"task_id":7,"task_type":"build"}`, Sketch{TaskType: "build"}},
		"an id twice":        {`{"task_type":"build","task_id":"a","task_id":"b"}`, Sketch{TaskType: "build"}},
		"cut short":          {`{"task_id":"t-1","payload":{"x":`, Sketch{TaskID: "t-1"}},
		"no JSON":            {`task_id=t-1`, Sketch{}},
		"nothing":            {``, Sketch{}},
		"twice the size":     {large, Sketch{TaskID: "t-1", TaskType: "build"}},
		"more than is looked into": {strings.Replace(large, `"},"`, strings.Repeat("x", 3*DefaultLimits().MaxBytes)+`"},"`,
			1), Sketch{TaskID: "t-1"}},
		"a long id": {`{"task_id":"` + strings.Repeat("x", 500) + `"}`,
			Sketch{TaskID: strings.Repeat("x", maxID-len("…")) + "…"}},
	} {
		if got := d.Sketch([]byte(tc.body)); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// A task asks for the same when it is written as its producer would have, and read again: every field counts.
func TestAppendTaskAssign(t *testing.T) {
	d := newDecoder(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	want := &coordinator.Task{
		ID: "t-1", Type: "build", Priority: coordinator.PriorityHigh, TraceID: "trace-1", Timeout: 90 * time.Second,
		Deadline: now.Add(time.Hour), Required: []string{"go", "gpu"}, Preferred: []coordinator.AgentID{"b", "a"},
		Excluded:   []coordinator.AgentID{"x"},
		WidenAfter: 20 * time.Second, MaxWait: 90 * time.Minute,
		Strategy: "least_loaded", Group: "team-a", Labels: map[string]string{"k": "v"}, Description: "what\nit is",
		NoBorrowing:    true,
		EstimatedUsage: &coordinator.Usage{Requests: 1, CostUSD: 0.5}, NoTokens: true,
		Alternatives: []coordinator.Service{{Provider: "openai", Model: "gpt-4o"}},
	}
	m, refusal := d.DecodeTaskAssign(AppendTaskAssign(nil, want, []byte(`{"x": "<1>"}`)))
	if refusal != nil {
		t.Fatal(refusal.Text)
	}
	if string(m.Payload) != `{"x": "<1>"}` {
		t.Errorf("the payload is %s", m.Payload)
	}
	got := m.Task(Arrival{})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
	// What the message cannot say comes by other ways; the rest must all be set above, so that a new field is
	// not forgotten.
	for i, v := 0, reflect.ValueOf(*want); i < v.NumField(); i++ {
		switch name := v.Type().Field(i).Name; name {
		case "ReplyTo", "TraceParent", "TraceState", "AcceptedAt", "ContentHash":
		default:
			if v.Field(i).IsZero() {
				t.Errorf("%s is not in this test", name)
			}
		}
	}
	if m, refusal = d.DecodeTaskAssign(AppendTaskAssign(nil, &coordinator.Task{ID: "t-1", Type: "build"},
		nil)); refusal != nil || string(m.Payload) != "{}" {
		t.Errorf("a task that has nothing: %+v, %+v", m, refusal)
	}
}

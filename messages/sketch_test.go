package messages

import (
	"strings"
	"testing"

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

// What it appends beside the task's fields, of which TestEveryFieldArrives has all.
func TestAppendTaskAssign(t *testing.T) {
	d := newDecoder(t)
	task := &coordinator.Task{ID: "t-1", Type: "build"}
	for payload, want := range map[string]string{`{"x": "<1>"}`: `{"x": "<1>"}`, "": "{}"} {
		m, refusal := d.DecodeTaskAssign(AppendTaskAssign(nil, task, []byte(payload)))
		if refusal != nil || string(m.Payload) != want {
			t.Errorf("with the payload %q it is %+v, %+v", payload, m, refusal)
		}
	}
}

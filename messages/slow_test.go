package messages

import (
	"reflect"
	"testing"

	"taskbus/schemas"
)

// TestSlowPathReadsWhatTheSchemaKnows: what a schema does not know somewhere has no effect there, whatever its type,
// though a field of the struct is called so.
func TestSlowPathReadsWhatTheSchemaKnows(t *testing.T) {
	d := newDecoder(t)
	for _, odd := range []string{`5`, `"x"`, `true`, `[1]`, `["x"]`, `{"x":1}`, `null`} {
		e, refusal := d.decodeHeader(schemas.TaskHeader, `{"accepted_at":1,"content_hash":"0123456789abcdef","group":"g",`+
			`"deadline":`+odd+`,"max_wait_seconds":`+odd+`,"payload":`+odd+`,"-":`+odd+`,"":`+odd+`}`)
		if refusal != nil {
			t.Fatalf("%s: %s", odd, refusal.Text)
		}
		var task TaskAssign
		if refusal := e.into(&task); refusal != nil {
			t.Fatalf("%s: %s", odd, refusal.Text)
		}
		if task.Unknown = nil; !reflect.DeepEqual(task, TaskAssign{Group: "g"}) {
			t.Errorf("%s in the header: %+v", odd, task)
		}
		m, refusal := d.slowTaskBids([]byte(`{"message_type":"task.bids","agent_id":"a","bids":[{"task_id":"t","fitness":1,` +
			`"active_tasks":0,"estimated_duration_seconds":2,"agent_id":` + odd + `,"-":` + odd + `,"":` + odd + `}]}`))
		if refusal != nil {
			t.Fatalf("%s: %s", odd, refusal.Text)
		}
		if want := (TaskBid{TaskID: "t", AgentID: "a", Fitness: 1, EstimatedDurationSeconds: 2}); !reflect.DeepEqual(m.Bids,
			[]TaskBid{want}) {
			t.Errorf("%s in a bid: %+v", odd, m.Bids)
		}
	}
}

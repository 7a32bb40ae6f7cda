package messages

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// fill gives every field below v a value: texts are the name of their field.
func fill(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	switch name = strings.ToLower(name); {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(at.Truncate(time.Microsecond)))
	case v.Type() == reflect.TypeFor[*coordinator.Decision]():
		v.Set(reflect.ValueOf(&coordinator.Decision{Strategy: "round_robin", Agent: "agent", Fleet: 3,
			Missing: []coordinator.MissingCapability{{Capability: "gpu", Agents: 2}},
			Nearest: &coordinator.Refusal{Agent: "agent", Why: coordinator.Eligible + 1, FreeIn: time.Second}}))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), name)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), name)
	case v.Kind() == reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"key": name}))
	case v.Kind() == reflect.String:
		v.SetString(name)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.Set(reflect.ValueOf(90 * time.Second))
	case v.CanInt() || v.CanUint() || v.CanFloat():
		v.Set(reflect.ValueOf(2).Convert(v.Type()))
	default:
		t.Fatalf("%s: no value for a %s", name, v.Type())
	}
}

// requireWhole: a message has all fields of its schema, and each field of what is read of it is set.
func requireWhole(t *testing.T, d *Decoder, name string, body []byte, m any, refusal *Refusal, unset ...string) {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(body, &members); err != nil || refusal != nil {
		t.Fatalf("%s: %v %+v\n%s", name, err, refusal, body)
	}
	for _, field := range d.set.Fields(name) {
		if _, has := members[field]; !has && field != "message_version" {
			t.Errorf("%s: nothing writes %s", name, field)
		}
	}
	requireFits(t, d.set, name, body)
	for i, v := 0, reflect.ValueOf(m).Elem(); i < v.NumField(); i++ {
		if field := v.Type().Field(i).Name; v.Field(i).IsZero() && !slices.Contains(unset, field) {
			t.Errorf("%s: %s is not read", name, field)
		}
	}
}

// A field that a task has arrives wherever it is to: what its producer writes, what its agent reads, what comes back
// with a dispatch, and what is told of its end.
func TestEveryFieldArrives(t *testing.T) {
	d, task, payload := newDecoder(t), new(coordinator.Task), []byte(`{"a":1}`)
	fill(t, reflect.ValueOf(task).Elem(), "")
	task.EstimatedUsage = &coordinator.Usage{Requests: 2, CostUSD: 2} // the others are said by NoTokens and Alternatives
	arrival := Arrival{Now: task.AcceptedAt, ContentHash: task.ContentHash, ReplyTo: task.ReplyTo,
		TraceParent: task.TraceParent, TraceState: task.TraceState}
	same := func(where string, got *coordinator.Task) {
		t.Helper()
		if !reflect.DeepEqual(got, task) {
			t.Errorf("%s is read as\n%+v\nwant\n%+v", where, got, task)
		}
	}

	body := AppendTaskAssign(nil, task, payload)
	assign, refusal := d.slowTaskAssign(body)
	requireWhole(t, d, schemas.TaskAssign, body, assign, refusal, "Unknown")
	fast, ok := d.fastTaskAssign(body)
	if !ok || !reflect.DeepEqual(fast, assign) {
		t.Errorf("the fast path reads (%t) %+v, want %+v", ok, fast, assign)
	}
	marshalled, err := json.Marshal(assign)
	if again, refusal := d.DecodeTaskAssign(marshalled); err != nil || !reflect.DeepEqual(again, assign) {
		t.Errorf("marshalled it is %s %v %+v", marshalled, err, refusal)
	}
	same("task.assign", assign.Task(arrival))

	dispatch := new(coordinator.Dispatch)
	fill(t, reflect.ValueOf(dispatch).Elem(), "")
	dispatch.Task, dispatch.Timeout = task, task.Timeout
	body = AppendExplainedDispatch(nil, dispatch, payload)
	dispatched, refusal := d.slowTaskDispatch(body)
	requireWhole(t, d, schemas.TaskDispatch, body, dispatched, refusal)
	if fast, ok := d.fastTaskDispatch(body); !ok || !reflect.DeepEqual(fast, dispatched) {
		t.Errorf("the fast path reads (%t) %+v, want %+v", ok, fast, dispatched)
	}
	returned, refusal := d.DecodeReturned(body, EncodeTaskHeader(task), EncodeTriedHeader(dispatch))
	if refusal != nil {
		t.Fatal(refusal.Text)
	}
	back := returned.Task
	back.TraceParent, back.TraceState = task.TraceParent, task.TraceState // have headers of their own
	back.MaxWait = task.MaxWait                                           // ends with the first agent
	same("a dispatch that comes back", back)

	completed, failed := new(coordinator.Completed), new(coordinator.Fail)
	fill(t, reflect.ValueOf(completed).Elem(), "")
	fill(t, reflect.ValueOf(failed).Elem(), "")
	completed.Result.Outcome, failed.Failure.Reason = coordinator.OutcomeSucceeded, coordinator.ReasonBacklogFull
	body = AppendTaskCompleted(nil, completed)
	ended, refusal := d.DecodeTaskCompleted(body)
	requireWhole(t, d, schemas.TaskCompleted, body, ended, refusal)
	body = AppendAssignmentFailed(nil, failed)
	gone, refusal := d.DecodeAssignmentFailed(body)
	requireWhole(t, d, schemas.AssignmentFailed, body, gone, refusal)
}

package messages

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/schemas"
	"taskbus/tests/support/fields"
)

type taskPlace struct{ assign, dispatch, header, completed, failed string }

// taskPlaces is where each field of a task belongs: its key in task.assign, in task.dispatch, in the header by which
// a dispatch is decided again, and in the events of its end; "": it is not there. What is carried is in all of them,
// but for the header.
var taskPlaces = map[string]taskPlace{
	"ID":             {"task_id", "task_id", "", "", "task_id"}, // in task.completed it is the result's
	"Type":           {"task_type", "task_type", "", "task_type", ""},
	"Priority":       {"priority", "priority", "", "", ""},
	"Timeout":        {"timeout_seconds", "", "timeout_seconds", "", ""}, // the dispatch has Dispatch.Timeout
	"Deadline":       {"deadline", "deadline", "", "", ""},
	"MaxWait":        {"max_wait_seconds", "", "", "", ""}, // ends with the first agent
	"Required":       {"required_capabilities", "", "required_capabilities", "", ""},
	"Preferred":      {"preferred_agents", "", "preferred_agents", "", ""},
	"WidenAfter":     {"widen_after_seconds", "", "widen_after_seconds", "", ""},
	"Excluded":       {"excluded_agents", "", "excluded_agents", "", ""},
	"Strategy":       {"strategy", "", "strategy", "", ""},
	"Group":          {"group", "", "group", "", ""},
	"Labels":         {"labels", "", "labels", "", ""},
	"Description":    {"description", "description", "", "", ""},
	"NoBorrowing":    {"allow_borrowing", "", "allow_borrowing", "", ""},
	"EstimatedUsage": {"estimated_usage", "", "estimated_usage", "", ""},
	"NoTokens":       {"estimated_usage", "", "estimated_usage", "", ""},
	"Alternatives":   {"estimated_usage", "", "estimated_usage", "", ""},
	"ReplyTo":        {"", "", "reply_to", "", ""},
	"TraceParent":    {}, // has a header of its own, as has TraceState
	"TraceState":     {},
	"AcceptedAt":     {"", "", "accepted_at", "", ""},
	"ContentHash":    {"", "", "content_hash", "", ""},
}

// membersOf is what a message says by key, as JSON in which objects are in order.
func membersOf(t *testing.T, body []byte) map[string]string {
	t.Helper()
	var values map[string]any
	if err := json.Unmarshal(body, &values); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	members := make(map[string]string, len(values))
	for key, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		members[key] = string(text)
	}
	return members
}

// requireMembers: two messages say the same under each key but for these.
func requireMembers(t *testing.T, where string, got, want map[string]string, but ...string) {
	t.Helper()
	all := maps.Clone(got)
	maps.Copy(all, want)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if got[key] != want[key] && !slices.Contains(but, key) {
			t.Errorf("%s: %s is %.100q, want %.100q", where, key, got[key], want[key])
		}
	}
}

// requireSame names the fields in which two values differ.
func requireSame(t *testing.T, where string, got, want any) {
	t.Helper()
	for _, difference := range fields.Differences(got, want) {
		t.Errorf("%s: %s", where, difference)
	}
}

// filledTask has every field set: its tokens are said to be none, and it has alternatives.
func filledTask() *coordinator.Task {
	task := new(coordinator.Task)
	fields.Fill(task)
	task.EstimatedUsage = &coordinator.Usage{Requests: 2, CostUSD: 2} // the others are said by NoTokens and Alternatives
	return task
}

// filledDispatch is a dispatch of the task with every field set.
func filledDispatch(task *coordinator.Task) *coordinator.Dispatch {
	d := new(coordinator.Dispatch)
	fields.Fill(d)
	d.Task, d.Timeout = task, task.Timeout
	return d
}

// filledCompleted and filledFailed are ends of the task with every field set.
func filledCompleted(task *coordinator.Task) *coordinator.Completed {
	c := new(coordinator.Completed)
	fields.Fill(c)
	c.Task, c.Result.Outcome = task, coordinator.OutcomeSucceeded
	c.Result.Output.Value, c.Result.Output.Ref.SHA256 = []byte(`{"answer":42}`), strings.Repeat("0f", 32)
	return c
}

func filledFailed(task *coordinator.Task) *coordinator.Fail {
	f := new(coordinator.Fail)
	fields.Fill(f)
	f.Task, f.Failure.Reason = task, coordinator.ReasonBacklogFull
	return f
}

// What a field of a task says stands wherever taskPlaces has it, the same everywhere and under a key that the schema
// knows, and nowhere else.
func TestEveryFieldHasItsPlaces(t *testing.T) {
	set, task := compiled(t), filledTask()
	filled := filledDispatch(task)
	for _, field := range fields.Of(reflect.TypeFor[coordinator.Task]()) {
		keys, known := taskPlaces[field.Name]
		if key, carried := keysOfCarried()[field.Name]; carried {
			keys, known = taskPlace{key, key, "", key, key}, true
		}
		if !known {
			t.Errorf("Task.%s: taskPlaces does not say in which messages it belongs", field.Name)
			continue
		}
		other := *task
		fields.Vary(&other, field.Name)
		for _, place := range []struct {
			name, key string
			write     func(*coordinator.Task) []byte
		}{
			{schemas.TaskAssign, keys.assign, func(t *coordinator.Task) []byte { return AppendTaskAssign(nil, t, nil) }},
			{schemas.TaskDispatch, keys.dispatch, func(t *coordinator.Task) []byte {
				d := *filled
				d.Task = t
				return AppendDispatch(nil, &d, nil)
			}},
			{schemas.TaskHeader, keys.header, func(t *coordinator.Task) []byte { return []byte(EncodeTaskHeader(t)) }},
			{schemas.TaskCompleted, keys.completed, func(t *coordinator.Task) []byte {
				return AppendTaskCompleted(nil, filledCompleted(t))
			}},
			{schemas.AssignmentFailed, keys.failed, func(t *coordinator.Task) []byte {
				return AppendAssignmentFailed(nil, filledFailed(t))
			}},
		} {
			where := "Task." + field.Name + ", " + place.name
			says, without := membersOf(t, place.write(task)), membersOf(t, place.write(&other))
			requireMembers(t, where, without, says, place.key)
			if place.key == "" {
				continue
			}
			if says[place.key] == without[place.key] {
				t.Errorf("%s: it is not written as %s", where, place.key)
			}
			if assigned := membersOf(t, AppendTaskAssign(nil, task, nil)); keys.assign != "" {
				if got, want := says[place.key], assigned[keys.assign]; got != want {
					t.Errorf("%s: it is %.100q, and %.100q in %s", where, got, want, schemas.TaskAssign)
				}
			}
			if !slices.Contains(set.Fields(place.name), place.key) {
				t.Errorf("%s: schemas/%s.json has no %s", where, place.name, place.key)
			}
		}
	}
}

// requireWhole: a message has all fields of its schema, and each field of what is read of it is set.
func requireWhole(t *testing.T, d *Decoder, name string, body []byte, m any, refusal *Refusal, unset ...string) {
	t.Helper()
	if refusal != nil {
		t.Fatalf("%s: %s\n%s", name, refusal.Text, body)
	}
	members := membersOf(t, body)
	for key := range members {
		if !slices.Contains(d.set.Fields(name), key) {
			t.Errorf("%s: schemas/%s.json has no %s", name, name, key)
		}
	}
	for _, field := range d.set.Fields(name) {
		if _, has := members[field]; !has && field != "message_version" {
			t.Errorf("%s: nothing writes %s", name, field)
		}
	}
	requireFits(t, d.set, name, body)
	v := reflect.ValueOf(m).Elem()
	for _, field := range fields.Of(v.Type()) {
		if v.FieldByIndex(field.Index).IsZero() && !slices.Contains(unset, field.Name) {
			t.Errorf("%s: %s is not read", name, field.Name)
		}
	}
}

// A field that a task has arrives wherever it is to: what its producer writes, what its agent reads, what comes back
// with a dispatch, and what is told of its end.
func TestEveryFieldArrives(t *testing.T) {
	task, named := filledTask(), filledTask()
	fields.Vary(named, "EstimatedUsage")
	named.NoTokens, named.Alternatives = false, nil
	for _, task := range []*coordinator.Task{task, named} {
		everyFieldArrives(t, newDecoder(t), task, []byte(`{"a":1}`))
	}
}

func everyFieldArrives(t *testing.T, d *Decoder, task *coordinator.Task, payload []byte) {
	arrival := Arrival{Now: task.AcceptedAt, ContentHash: task.ContentHash, ReplyTo: task.ReplyTo,
		TraceParent: task.TraceParent, TraceState: task.TraceState}
	body := AppendTaskAssign(nil, task, payload)
	assign, refusal := d.slowTaskAssign(body)
	requireWhole(t, d, schemas.TaskAssign, body, assign, refusal, "Unknown")
	fast, ok := d.fastTaskAssign(body)
	if !ok {
		t.Errorf("the fast path does not read %s", body)
	}
	requireSame(t, "task.assign, by the fast path", fast, assign)
	marshalled, err := json.Marshal(assign)
	if err != nil {
		t.Fatal(err)
	}
	requireMembers(t, "task.assign, marshalled", membersOf(t, marshalled), membersOf(t, body))
	requireSame(t, "the task of a task.assign", assign.Task(arrival), task)

	dispatch := filledDispatch(task)
	body = AppendExplainedDispatch(nil, dispatch, payload)
	dispatched, refusal := d.slowTaskDispatch(body)
	requireWhole(t, d, schemas.TaskDispatch, body, dispatched, refusal)
	fastDispatched, ok := d.fastTaskDispatch(body)
	if !ok {
		t.Errorf("the fast path does not read %s", body)
	}
	requireSame(t, "task.dispatch, by the fast path", fastDispatched, dispatched)
	if marshalled, err = json.Marshal(dispatched); err != nil {
		t.Fatal(err)
	}
	requireMembers(t, "task.dispatch, marshalled", membersOf(t, marshalled), membersOf(t, body), "message_type")
	returned, refusal := d.DecodeReturned(body, EncodeTaskHeader(task), EncodeTriedHeader(dispatch))
	if refusal != nil {
		t.Fatal(refusal.Text)
	}
	back := returned.Task
	back.TraceParent, back.TraceState = task.TraceParent, task.TraceState // have headers of their own
	back.MaxWait = task.MaxWait                                           // ends with the first agent
	requireSame(t, "the task of a dispatch that comes back", back, task)

	completed := filledCompleted(task)
	body = AppendAnswer(nil, AppendTaskCompleted(nil, completed), completed.Result.Output)
	ended, refusal := d.DecodeTaskCompleted(body)
	requireWhole(t, d, schemas.TaskCompleted, body, ended, refusal)
	body = AppendAssignmentFailed(nil, filledFailed(task))
	gone, refusal := d.DecodeAssignmentFailed(body)
	requireWhole(t, d, schemas.AssignmentFailed, body, gone, refusal)
}

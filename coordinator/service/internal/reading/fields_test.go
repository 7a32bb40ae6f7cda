package reading

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/recent"
	"taskbus/coordinator/view"
	"taskbus/tests/support/fields"
)

type taskView struct{ task, explain, prospect string }

// taskViews is under which keys each field of a task is shown: by /tasks and /tasks/{id}, by /tasks/{id}/explain, and
// by how it would be decided now; "": it is not shown there. What is carried is shown by the first two, under its key.
var taskViews = map[string]taskView{
	"ID":         {"task_id", "task_id", "task_id"},
	"Type":       {"task_type", "task_type", "task_type"},
	"Priority":   {"priority", "", ""},
	"AcceptedAt": {"accepted_at", "", ""},
	// What decided is in the decision; what the producer gave beside is its own.
	"Timeout": {}, "Deadline": {}, "MaxWait": {}, "Required": {}, "Preferred": {}, "WidenAfter": {}, "Excluded": {},
	"Strategy": {}, "Group": {}, "Labels": {}, "Description": {}, "NoBorrowing": {}, "EstimatedUsage": {}, "NoTokens": {},
	"Alternatives": {}, "ReplyTo": {}, "TraceParent": {}, "TraceState": {}, "ContentHash": {},
}

// What a field of a task says is shown wherever taskViews has it, and nowhere else.
func TestEveryFieldIsShown(t *testing.T) {
	task := new(coordinator.Task)
	fields.Fill(task)
	shown := func(t *coordinator.Task) view.Task {
		return taskStatus(&recent.Record{Task: t, State: recent.Dispatched}, t.AcceptedAt)
	}
	for _, field := range fields.Of(reflect.TypeFor[coordinator.Task]()) {
		keys, known := taskViews[field.Name]
		if f, carried := reflect.TypeFor[coordinator.Carried]().FieldByName(field.Name); carried {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			keys, known = taskView{key, key, ""}, true
		}
		if !known {
			t.Errorf("Task.%s: taskViews does not say where it is shown", field.Name)
			continue
		}
		other := *task
		fields.Vary(&other, field.Name)
		for _, place := range []struct {
			name, key string
			show      func(*coordinator.Task) any
		}{
			{"view.Task", keys.task, func(t *coordinator.Task) any { return shown(t) }},
			{"view.TaskExplanation", keys.explain, func(t *coordinator.Task) any {
				s := shown(t)
				return explanation(&s, nil, nil, "")
			}},
			{"view.Prospect", keys.prospect, func(t *coordinator.Task) any {
				return prospect(t, &judgement{decision: new(coordinator.Decision)})
			}},
		} {
			says, without := shownBy(t, place.show(task)), shownBy(t, place.show(&other))
			all := maps.Clone(says)
			maps.Copy(all, without)
			for _, key := range slices.Sorted(maps.Keys(all)) {
				if changes := says[key] != without[key]; changes != (key == place.key) {
					t.Errorf("Task.%s, %s: it is shown as %s: %t", field.Name, place.name, key, changes)
				}
			}
			if place.key != "" && says[place.key] == "" {
				t.Errorf("Task.%s, %s: it is not shown as %s", field.Name, place.name, place.key)
			}
		}
	}
}

// TestExplanationHasWhatIsShown: what an explained task has under a name that a shown one has, too, is the same.
func TestExplanationHasWhatIsShown(t *testing.T) {
	s := new(view.Task)
	fields.Fill(s)
	explained, shown := reflect.ValueOf(explanation(s, nil, nil, "")), reflect.ValueOf(s).Elem()
	for i := range explained.NumField() {
		name := explained.Type().Field(i).Name
		want := shown.FieldByName(name)
		if want.IsValid() && !reflect.DeepEqual(explained.Field(i).Interface(), want.Interface()) {
			t.Errorf("view.TaskExplanation.%s is not that of view.Task", name)
		}
	}
}

// shownBy is what an answer says by key.
func shownBy(t *testing.T, answer any) map[string]string {
	t.Helper()
	var raw map[string]json.RawMessage
	body, err := json.Marshal(answer)
	if err == nil {
		err = json.Unmarshal(body, &raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	members := make(map[string]string, len(raw))
	for key, value := range raw {
		members[key] = string(value)
	}
	return members
}

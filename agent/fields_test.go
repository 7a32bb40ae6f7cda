package agent

import (
	"reflect"
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/tests/support/fields"
)

// handlerFields is what a handler is told as of each field of a dispatch: the name of Task's; "": it is not told.
// What is carried has its own name.
var handlerFields = map[string]string{
	"TaskID": "ID", "TaskType": "Type", "Payload": "Payload", "Priority": "Priority",
	"DispatchID": "DispatchID", "Attempt": "Attempt", "AssignmentTime": "AssignedAt", "TimeoutSeconds": "Timeout",
	"Deadline": "Deadline", "BatchID": "BatchID", "BatchSize": "BatchSize", "Explanation": "Explanation",
	"Provider": "Provider", "Model": "Model",
	"AssignedAgent": "", "Queue": "", // name the agent itself
	"Description": "", // is for bidders
}

// A handler is told what the dispatch says.
func TestHandlerIsToldEveryField(t *testing.T) {
	m := new(messages.TaskDispatch)
	fields.Fill(m)
	told := reflect.ValueOf(newTask(m, bus.Delivery{})).Elem()
	for _, field := range fields.Of(reflect.TypeFor[messages.TaskDispatch]()) {
		name, known := handlerFields[field.Name]
		if _, carried := reflect.TypeFor[messages.Carried]().FieldByName(field.Name); carried {
			name, known = field.Name, true
		}
		if !known {
			t.Errorf("TaskDispatch.%s: handlerFields does not say as what a handler is told of it", field.Name)
			continue
		}
		other := *m
		fields.Vary(&other, field.Name)
		varied := reflect.ValueOf(newTask(&other, bus.Delivery{})).Elem()
		for _, of := range fields.Of(told.Type()) {
			if !of.IsExported() {
				continue // how the handler speaks, which says nothing
			}
			own, before, after := of.Name, told.FieldByIndex(of.Index), varied.FieldByIndex(of.Index)
			changes := !reflect.DeepEqual(before.Interface(), after.Interface())
			if changes != (own == name) {
				t.Errorf("TaskDispatch.%s: agent.Task.%s comes of it: %t, want %t", field.Name, own, changes, own == name)
			}
		}
		if got := told.FieldByName(name); name != "" && name != "Timeout" { // which is no number of seconds
			want := reflect.ValueOf(*m).FieldByName(field.Name).Convert(got.Type())
			if !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("TaskDispatch.%s: agent.Task.%s is %v, want %v", field.Name, name, got, want)
			}
		}
	}
}

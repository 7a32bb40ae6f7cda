package agent

import (
	"reflect"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// A handler is told what the dispatch says, but for what names its agent, and what bidders are told instead.
func TestHandlerIsToldEveryField(t *testing.T) {
	kept := map[string]bool{"AssignedAgent": true, "Queue": true, "Description": true}
	nothing := newTask(new(messages.TaskDispatch), bus.Delivery{})
	for i, field := range reflect.VisibleFields(reflect.TypeFor[messages.TaskDispatch]()) {
		m := new(messages.TaskDispatch)
		for _, value := range []any{1, "x", time.Unix(1, 0)} {
			if v := reflect.ValueOf(value); v.CanConvert(field.Type) {
				reflect.ValueOf(m).Elem().Field(i).Set(v.Convert(field.Type))
			}
		}
		if told := !reflect.DeepEqual(newTask(m, bus.Delivery{}), nothing); told == kept[field.Name] {
			t.Errorf("%s: the handler is told of it: %t", field.Name, told)
		}
	}
}

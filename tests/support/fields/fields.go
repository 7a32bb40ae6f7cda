// Package fields gives the fields of a struct distinct values and tells in which two structs differ, for tests
// that no field is forgotten on its way.
//
// It answers "which field?", and never prints more of a value than a line.
package fields

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
)

// start is the first of the times, to the microsecond, which all messages keep.
var start = time.Date(2026, 1, 31, 23, 59, 59, 123456000, time.UTC)

// Of are the fields of a struct, with those of [coordinator.Carried] in the place where it is embedded: a way to one of
// these has more than one step.
func Of(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		return f.Type == carried || len(f.Index) > 1 && t.Field(f.Index[0]).Type != carried
	})
}

var carried = reflect.TypeFor[coordinator.Carried]()

// Fill sets every field below the struct at p, each to a value of its own as far as its type has so many. Texts
// begin with the name of their field in lower case.
func Fill(p any) {
	n := 0
	fill(reflect.ValueOf(p).Elem(), "", &n)
}

// Vary sets one field of the struct at p, which Fill has set, to another value.
func Vary(p any, field string) {
	v := reflect.ValueOf(p).Elem().FieldByName(field)
	before := v.Interface()
	for n := 100; reflect.DeepEqual(v.Interface(), before); {
		fill(v, field, &n)
	}
}

func fill(v reflect.Value, name string, n *int) {
	*n++
	text := strings.ToLower(name) + strconv.Itoa(*n)
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(start.Add(time.Duration(*n) * time.Minute)))
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(time.Duration(*n) * time.Second))
	case v.Type() == reflect.TypeFor[*coordinator.Decision]():
		v.Set(reflect.ValueOf(&coordinator.Decision{Strategy: text, Agent: "agent", Fleet: 3,
			Missing: []coordinator.MissingCapability{{Capability: "gpu", Agents: 2}},
			Nearest: &coordinator.Refusal{Agent: "agent", Why: coordinator.Eligible + 1, FreeIn: time.Second}}))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, n)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name, n)
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		v.SetBytes([]byte(`{"` + text + `":1}`))
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), name+"a", n)
		fill(v.Index(1), name+"b", n)
	case v.Kind() == reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, name+"key", n)
		fill(value, name, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.Uint8: // one of few: a priority, a reason
		v.SetUint(uint64(2 + *n%2))
	default: // what is no number panics
		v.Set(reflect.ValueOf(*n + 1).Convert(v.Type()))
	}
}

// Differences names the fields in which two values of one type differ, with what they are.
func Differences(got, want any) []string {
	return differences("", reflect.ValueOf(got), reflect.ValueOf(want))
}

func differences(path string, got, want reflect.Value) (all []string) {
	switch {
	case got.Kind() == reflect.Pointer && !got.IsNil() && !want.IsNil():
		return differences(path, got.Elem(), want.Elem())
	case got.Kind() == reflect.Struct && got.Type() != reflect.TypeFor[time.Time]():
		for i := range got.NumField() {
			name := got.Type().Field(i).Name
			switch {
			case got.Field(i).Type() == carried:
				name = path
			case path != "":
				name = path + "." + name
			}
			all = append(all, differences(name, got.Field(i), want.Field(i))...)
		}
	case !reflect.DeepEqual(got.Interface(), want.Interface()):
		all = append(all, fmt.Sprintf("%s is %s, want %s", path, short(got), short(want)))
	}
	return all
}

func short(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return fmt.Sprintf("%.100s", fmt.Sprintf("%+v", v.Interface()))
}

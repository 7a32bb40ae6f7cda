package messages

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
)

// The readers of the slow path. The schema has seen the values, so an absent
// field gives the zero value and a present one has its type.

func field[T any](e *envelope, name string) T {
	v, _ := e.fields[name].(T)
	return v
}

func number(e *envelope, name string) float64 { return field[float64](e, name) }

// integer: the schemas bound integers far below 2^53.
func integer(e *envelope, name string) int { return int(number(e, name)) }

// inner is an object within the message.
func (e *envelope) inner(name string) (*envelope, bool) {
	object, given := e.fields[name].(map[string]any)
	return &envelope{fields: object}, given
}

func list[S ~string](e *envelope, name string) []S {
	items := field[[]any](e, name)
	if len(items) == 0 {
		return nil
	}
	list := make([]S, 0, len(items))
	for _, item := range items {
		s, _ := item.(string)
		list = append(list, S(s))
	}
	return list
}

func usage(e *envelope, name string) *coordinator.Usage {
	inner, given := e.inner(name)
	if !given {
		return nil
	}
	e.within(name, inner.fields, allOfUsage(name)...)
	return &coordinator.Usage{
		Requests:     number(inner, "requests"),
		InputTokens:  number(inner, "input_tokens"),
		OutputTokens: number(inner, "output_tokens"),
		CostUSD:      number(inner, "cost_usd"),
		Provider:     field[string](inner, "provider"),
		Model:        field[string](inner, "model"),
	}
}

// estimatedUsage is usage of a task, which may have alternatives.
func estimatedUsage(e *envelope) *EstimatedUsage {
	stated := usage(e, "estimated_usage")
	if stated == nil {
		return nil
	}
	u := &EstimatedUsage{Usage: Usage(*stated)}
	inner, _ := e.inner("estimated_usage")
	_, input := inner.fields["input_tokens"]
	_, output := inner.fields["output_tokens"]
	u.NoTokens = input && output && stated.InputTokens == 0 && stated.OutputTokens == 0
	for _, item := range field[[]any](inner, "alternatives") {
		object, _ := item.(map[string]any)
		one := &envelope{fields: object}
		e.within("estimated_usage.alternatives", object, fieldsOfService...)
		u.Alternatives = append(u.Alternatives, coordinator.Service{Provider: field[string](one, "provider"),
			Model: field[string](one, "model")})
	}
	return u
}

// slow reads a message of a type that has no fast path.
func slow[T any](d *Decoder, name string, body []byte) (*T, *Refusal) {
	return slowWithin[T](d, d.limits, name, body)
}

// slowWithin is slow with limits of its own.
func slowWithin[T any](d *Decoder, l Limits, name string, body []byte) (*T, *Refusal) {
	e, refusal := d.decodeWithin(l, name, body)
	if refusal != nil {
		return nil, refusal
	}
	m := new(T)
	if refusal = e.into(m); refusal != nil {
		return nil, refusal
	}
	return m, nil
}

// into fills a struct in: each field by its name on the bus, which its tag says. Of what is not given the field
// stays as it is.
func (e *envelope) into(m any) *Refusal {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		if carried, is := v.Field(i).Addr().Interface().(*Carried); is {
			if refusal := e.into(carried); refusal != nil {
				return refusal
			}
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if given, is := e.fields[name]; is && name != "" && name != "-" {
			if refusal := e.set(v.Field(i), name, given); refusal != nil {
				return refusal
			}
		}
	}
	if unknown := v.FieldByName("Unknown"); unknown.IsValid() {
		unknown.Set(reflect.ValueOf(e.unknown)) // those of usage among them
	}
	return nil
}

// set sets what is called name, or a part of it, to a value. Of an empty list or object, and of what the schema does
// not know there and has another type, it is left alone. A payload is not read, and an output or data is, as it came.
func (e *envelope) set(to reflect.Value, name string, given any) *Refusal {
	switch to.Interface().(type) {
	case *Usage:
		to.Set(reflect.ValueOf((*Usage)(usage(e, name))))
		return nil
	case *EstimatedUsage:
		to.Set(reflect.ValueOf(estimatedUsage(e)))
		return nil
	case json.RawMessage:
		switch name {
		case "output":
			to.SetBytes(e.output)
		case "data":
			to.SetBytes(e.data)
		}
		return nil
	}
	switch given := given.(type) {
	case string:
		if to.Kind() == reflect.String {
			to.SetString(given)
		} else if _, is := to.Interface().(time.Time); is {
			at, ok := jsontext.ParseTime(given)
			if !ok {
				return e.refuse("/"+name, "calendar", "no such time between the years 1970 and 9999")
			}
			to.Set(reflect.ValueOf(at))
		}
	case bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(given)
		} else if to.Type() == reflect.TypeFor[*bool]() {
			to.Set(reflect.ValueOf(&given))
		}
	case float64: // the schemas bound integers far below 2^53
		if to.CanInt() || to.CanUint() || to.CanFloat() {
			to.Set(reflect.ValueOf(given).Convert(to.Type()))
		} else if to.Type() == reflect.TypeFor[*float64]() {
			to.Set(reflect.ValueOf(&given))
		}
	case []any:
		if to.Kind() != reflect.Slice || len(given) == 0 {
			break
		}
		to.Set(reflect.MakeSlice(to.Type(), len(given), len(given)))
		for i := range given {
			if refusal := e.set(to.Index(i), name, given[i]); refusal != nil {
				return refusal
			}
		}
	case map[string]any:
		return (&envelope{fields: given}).object(to)
	}
	return nil
}

// object sets to an object.
func (e *envelope) object(to reflect.Value) *Refusal {
	switch {
	case to.Kind() == reflect.Struct:
		return e.into(to.Addr().Interface())
	case to.Kind() == reflect.Pointer && to.Type().Elem().Kind() == reflect.Struct:
		to.Set(reflect.New(to.Type().Elem()))
		return e.into(to.Interface())
	case to.Kind() == reflect.Map && len(e.fields) > 0:
		to.Set(reflect.MakeMap(to.Type()))
		for key, value := range e.fields {
			one := reflect.New(to.Type().Elem()).Elem()
			if refusal := e.set(one, key, value); refusal != nil {
				return refusal
			}
			to.SetMapIndex(reflect.ValueOf(key), one)
		}
	}
	return nil
}

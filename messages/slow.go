package messages

import (
	"time"

	"taskbus/coordinator"
)

// The readers of the slow path. The schema has seen the values, so an absent
// field gives the zero value and a present one has its type.

func field[T any](e *envelope, name string) T {
	v, _ := e.fields[name].(T)
	return v
}

// optional gives nil for an absent field.
func optional[T any](e *envelope, name string) *T {
	if v, given := e.fields[name].(T); given {
		return &v
	}
	return nil
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

func labels(e *envelope) map[string]string {
	object := field[map[string]any](e, "labels")
	if len(object) == 0 {
		return nil
	}
	labels := make(map[string]string, len(object))
	for key, value := range object {
		labels[key], _ = value.(string)
	}
	return labels
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

func counts(e *envelope, name string) map[string]int {
	object := field[map[string]any](e, name)
	if len(object) == 0 {
		return nil
	}
	counts := make(map[string]int, len(object))
	for key := range object {
		counts[key] = integer(&envelope{fields: object}, key)
	}
	return counts
}

// timestamp gives the zero time when the field is absent.
func timestamp(e *envelope, name string) (time.Time, *Refusal) {
	s, present := e.fields[name].(string)
	if !present {
		return time.Time{}, nil
	}
	t, ok := parseTime(s)
	if !ok {
		return time.Time{}, e.refuse("/"+name, "calendar", "no such time between the years 1970 and 9999")
	}
	return t, nil
}

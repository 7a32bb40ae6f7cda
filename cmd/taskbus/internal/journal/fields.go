package journal

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"taskbus/coordinator"
)

// recordField is one field of a record in words: "task.trace_id", "trace-1".
type recordField struct{ name, value string }

// fieldsOf are all fields of a record that are set, in their order.
func fieldsOf(record any) []recordField {
	var fields []recordField
	collectFields(&fields, "", reflect.ValueOf(record))
	return fields
}

func collectFields(into *[]recordField, name string, v reflect.Value) {
	if v.IsZero() {
		return
	}
	switch value := v.Interface().(type) {
	case time.Time:
		*into = append(*into, recordField{name, value.UTC().Format(time.RFC3339Nano)})
		return
	case coordinator.TaskKey:
		*into = append(*into, recordField{name, keyText(value)})
		return
	}
	switch {
	case v.Kind() == reflect.Pointer:
		collectFields(into, name, v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case f.Anonymous: // its fields are those of the struct
				collectFields(into, name, v.Field(i))
			case f.IsExported():
				collectFields(into, below(name, snakeCase(cmp.Or(f.Tag.Get("name"), f.Name))), v.Field(i))
			}
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			collectFields(into, fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	case v.Kind() == reflect.Slice:
		words := make([]string, v.Len())
		for i := range words {
			words[i] = fmt.Sprint(v.Index(i).Interface())
		}
		*into = append(*into, recordField{name, strings.Join(words, " ")})
	case v.Kind() == reflect.Map:
		labels, _ := v.Interface().(map[string]string)
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			*into = append(*into, recordField{below(name, key), labels[key]})
		}
	default:
		*into = append(*into, recordField{name, fmt.Sprint(v.Interface())})
	}
}

func below(name, field string) string {
	if name == "" {
		return field
	}
	return name + "." + field
}

// snakeCase turns a Go name into one of JSON: "TraceID" into "trace_id".
func snakeCase(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		begins := unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) &&
			unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

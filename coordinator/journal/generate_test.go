package journal

import (
	"math"
	"reflect"
	"strings"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// Values of every field, by their types: whatever a record may hold, and more.

var someTexts = []string{"", "a", "agent-7", "gpu", "load_balanced",
	"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	"ünï\x00code\xff", strings.Repeat("long ", 60)}

var someTimes = []time.Time{{}, time.Unix(0, 0).UTC(), time.Unix(0, -1).UTC(), time.Unix(1e9, 123).UTC(),
	time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
	time.Unix(0, math.MaxInt64).UTC(), time.Unix(0, math.MinInt64).UTC(), time.Unix(math.MaxInt64/int64(time.Second)-1, 0).
		UTC()}

func anyTime(t *rapid.T) time.Time {
	if rapid.Bool().Draw(t, "plain time") {
		return time.Unix(0, rapid.Int64().Draw(t, "nanoseconds")).UTC()
	}
	return rapid.SampledFrom(someTimes).Draw(t, "time")
}

// mostOf is the highest value of a field, as "BreakerChanged.State", that its tag names; 0: none.
func mostOf(field string) uint8 {
	name, field, _ := strings.Cut(field, ".")
	for _, r := range recordTypes[1:] {
		if t := reflect.TypeOf(r).Elem(); t.Name() == name {
			f, _ := t.FieldByName(field)
			_, o, _ := parseTag(f.Tag.Get("rec"))
			return o.max
		}
	}
	return 0
}

// fill gives v, which can be set, any value; empty lists stay nil.
func fill(t *rapid.T, v reflect.Value, field string) {
	most, closed := closedSets[v.Type()]
	if n := mostOf(field); n > 0 {
		most, closed = n+1, true
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(anyTime(t)))
	case closed:
		v.SetUint(uint64(rapid.Uint8Max(most-1).Draw(t, field)))
	default:
		fillKind(t, v, field)
	}
}

func fillKind(t *rapid.T, v reflect.Value, field string) {
	switch v.Kind() {
	case reflect.Pointer:
		set := v.Type() == reflect.TypeFor[*coordinator.Task]() || v.Type() == reflect.TypeFor[*coordinator.Progress]()
		if !set && rapid.Bool().Draw(t, field+" nil") {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), field)
	case reflect.Struct:
		for _, f := range fieldsIn(v.Type()) {
			if tag := f.Tag.Get("rec"); tag == "" || tag == "-" {
				continue
			}
			fill(t, v.FieldByIndex(f.Index), v.Type().Name()+"."+f.Name)
		}
	case reflect.Slice:
		if n := rapid.IntRange(0, 4).Draw(t, field+" length"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			fillAll(t, v, field)
		}
	case reflect.Array:
		fillAll(t, v, field)
	case reflect.Map:
		for range rapid.IntRange(0, 3).Draw(t, field+" length") {
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key, field)
			fill(t, value, field)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		if rapid.IntRange(0, 200).Draw(t, field+" giant") == 0 {
			v.SetString(strings.Repeat("x", 1<<14))
			return
		}
		v.SetString(rapid.OneOf(rapid.SampledFrom(someTexts), rapid.String()).Draw(t, field))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, field))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, field))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64Max(math.MaxUint64>>(64-v.Type().Bits())).Draw(t, field))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, field))
	default:
		t.Fatalf("%s: no values for a %s", field, v.Kind())
	}
}

func fillAll(t *rapid.T, v reflect.Value, field string) {
	for i := range v.Len() {
		fill(t, v.Index(i), field)
	}
}

// anyRecord is one of any type with anything in it.
func anyRecord(t *rapid.T) coordinator.Record {
	kind := reflect.TypeOf(rapid.SampledFrom(recordTypes[1:]).Draw(t, "type")).Elem()
	v := reflect.New(kind)
	fill(t, v.Elem(), kind.Name())
	return v.Interface().(coordinator.Record)
}

func anyHeader(t *rapid.T) Header {
	return Header{
		Epoch:          rapid.Uint64().Draw(t, "epoch"),
		First:          rapid.Uint64Max(math.MaxUint64-1000).Draw(t, "first"),
		At:             anyTime(t),
		ResultOffset:   rapid.Int64Min(-1).Draw(t, "result offset"),
		SnapshotOffset: rapid.Int64Min(-1).Draw(t, "snapshot offset"),
	}
}

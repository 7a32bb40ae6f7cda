package journal

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// roots are the structs that messages are made of.
func roots() (types []reflect.Type) {
	for _, k := range slices.Concat(records.numbered[1:], events.numbered[1:]) {
		types = append(types, k.fields.typ)
	}
	types = append(types, reflect.TypeFor[Header]())
	for _, l := range specials {
		if l != nil {
			types = append(types, l.typ)
		}
	}
	return types
}

// eachField calls visit for every field of these structs and of those in them, once.
func eachField(types []reflect.Type, visit func(of reflect.Type, f reflect.StructField)) {
	seen := map[reflect.Type]bool{reflect.TypeFor[time.Time](): true}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for _, f := range fieldsIn(t) {
			if visit(t, f); f.Tag.Get("rec") != "" && f.Tag.Get("rec") != "-" {
				walk(f.Type)
			}
		}
	}
	for _, t := range types {
		walk(t)
	}
}

// TestEveryFieldHasANumber: it fails for a field without one. Of a policy there is only what it can be
// read from again.
func TestEveryFieldHasANumber(t *testing.T) {
	next := map[reflect.Type]int{}
	eachField(roots(), func(of reflect.Type, f reflect.StructField) {
		number, _, _ := parseTag(f.Tag.Get("rec"))
		next[of] = max(next[of], number)
	})
	eachField(roots(), func(of reflect.Type, f reflect.StructField) {
		if f.Tag.Get("rec") == "" && of != reflect.TypeFor[coordinator.Policy]() {
			t.Errorf("%s.%s is not journalled: it needs the tag `rec:\"%d\"`, or `rec:\"-\"` if that is meant (see schema.go)",
				of, f.Name, next[of]+1)
		}
		_, closed := closedSets[f.Type]
		if f.Type.Kind() == reflect.Uint8 && f.Type.Name() != "uint8" && f.Tag.Get("rec") != "-" && !closed {
			t.Errorf("%s.%s: which values of %s there may be is for closedSets to say", of, f.Name, f.Type)
		}
	})
}

// TestNumbersNeverChange holds the fields against testdata/fields.txt, which -update adds new ones to: a number has
// one meaning for ever, also that of a field which is gone.
func TestNumbersNeverChange(t *testing.T) {
	const file = "testdata/fields.txt"
	type place struct {
		of     string
		number int
	}
	known := map[place]string{} // name, type and wire type
	text, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var p place
		var name, typ string
		var wire int
		if _, err := fmt.Sscanf(line, "%s %d %s %s %d", &p.of, &p.number, &name, &typ, &wire); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		known[p] = fmt.Sprintf("%s %s %d", name, typ, wire)
	}
	there := map[place]bool{}
	eachField(roots(), func(of reflect.Type, f reflect.StructField) {
		number, o, err := parseTag(f.Tag.Get("rec"))
		if err != nil {
			return
		}
		wire, _ := fieldOf(f.Type, o)
		p, now := place{of.String(), number}, fmt.Sprintf("%s %s %d", cmp.Or(f.Tag.Get("name"), f.Name), f.Type, wire)
		switch before, is := known[p]; {
		case is && before != now:
			t.Errorf("number %d of %s was %q and is %q now: give the new field a number that none has had", number, of,
				before, now)
		case !is && !*update:
			t.Errorf("%s, number %d of %s, is new: write it into %s with go test ./coordinator/journal "+
				"-run TestNumbersNeverChange -update", f.Name, number, of, file)
		}
		known[p], there[p] = now, true
	})
	if !*update || t.Failed() {
		return
	}
	places := make([]place, 0, len(known))
	for p := range known {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.of, b.of), a.number-b.number) })
	var b strings.Builder
	for _, p := range places {
		fmt.Fprintf(&b, "%s %d %s\n", p.of, p.number, known[p])
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestEveryFieldComesBack fills every field of every record with something, writes and reads it, and names what is
// lost.
func TestEveryFieldComesBack(t *testing.T) {
	for _, r := range recordTypes[1:] {
		want := reflect.New(reflect.TypeOf(r).Elem())
		n := uint64(0)
		something(t, want.Elem(), &n)
		m, err := Decode(AppendBatch(nil, Header{At: goldenAt}, []coordinator.Record{want.Interface().(coordinator.Record)}))
		if err != nil {
			t.Fatalf("%T: %v", r, err)
		}
		equal(t, fmt.Sprintf("%T", r), reflect.ValueOf(m.Records[0]).Elem(), want.Elem())
	}
}

// something fills a value with one that is not zero, and other than those before, as far as its type has any.
func something(t *testing.T, v reflect.Value, n *uint64) {
	*n++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(goldenAt.Add(time.Duration(*n))))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(*n)
	case reflect.Float64:
		v.SetFloat(float64(*n) / 3)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		something(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		something(t, v.Index(0), n)
		something(t, v.Index(1), n)
	case reflect.Array:
		for i := range v.Len() {
			something(t, v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{fmt.Sprint("key ", *n): "value"}))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("rec") != "-" {
				something(t, v.Field(i), n)
			}
		}
	default:
		t.Fatalf("nothing to fill a %s with", v.Type())
	}
}

// equal names the field in which two values differ.
func equal(t *testing.T, path string, got, want reflect.Value) {
	if want.Kind() == reflect.Pointer && !got.IsNil() {
		got, want = got.Elem(), want.Elem()
	}
	if want.Kind() == reflect.Struct && want.Type() != reflect.TypeFor[time.Time]() {
		for i := range want.NumField() {
			equal(t, path+"."+want.Type().Field(i).Name, got.Field(i), want.Field(i))
		}
		return
	}
	if !reflect.DeepEqual(got.Interface(), want.Interface()) {
		t.Errorf("%s: read %v, written %v", path, got, want)
	}
}

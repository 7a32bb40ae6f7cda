package jsontext

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/tests/support/jsonkeys"
)

// scanAll runs the scanner over one value of any kind.
func scanAll(text string) (Fault, bool) {
	var s Scanner
	s.Reset([]byte(text), 64, 100_000)
	if _, ok := s.Value(); ok {
		s.End()
	}
	return s.Fault, s.overflow
}

func TestScannerNumbers(t *testing.T) {
	for _, c := range []struct {
		text     string
		fault    Fault
		overflow bool
	}{
		{"0", None, false},
		{"-0", None, false},
		{"10.25", None, false},
		{"1E+2", None, false},
		{"1e-308", None, false},
		{"1e307", None, false}, // 1 digit + 307 = 308: below 1e308
		{"1e308", None, true},  // 1 digit + 308 = 309: perhaps, encoding/json decides
		{"12e307", None, true}, // 2 digits + 307 = 309
		{"1e309", Number, false},
		{"1e-309", Number, false},
		{strings.Repeat("1", 64), None, false},
		{strings.Repeat("1", 65), Number, false},
		{"01", Syntax, false},
		{"-", Syntax, false},
		{"1.", Syntax, false},
		{".5", Syntax, false},
		{"1e", Syntax, false},
		{"+1", Syntax, false},
		{"0x1", Trailing, false},
		{"Infinity", Syntax, false},
	} {
		got, overflow := scanAll(c.text)
		if got != c.fault || got == None && overflow != c.overflow {
			t.Errorf("%s: fault %d, overflow %v; want %d, %v", c.text, got, overflow, c.fault, c.overflow)
		}
	}
}

// Whatever the scanner accepts is JSON without duplicate keys; whatever is JSON
// without duplicate keys and within the limits it accepts. The text is drawn
// from fragments that make and break JSON.
func TestScannerAgreesWithEncodingJSON(t *testing.T) {
	fragments := []string{
		"{", "}", "[", "]", ",", ":", `"`, `""`, `"a"`, `"b":`, `"a":1`, `"\u0061":`, "1", "-", "0", "01", "1.5", "1e5", ".",
		"true", "false", "null", "nul", " ", "\t", "\n", `\`, `"\n"`, `"\x"`, `"\u00"`, `"\ud83d\ude00"`, "ä", "\x01", "{}",
		"[]", "[1,2]", `{"a":{"a":[]}}`,
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 12).Draw(t, "fragments"), "")
		got, _ := scanAll(text)
		if got == Number {
			if !beyondLimits.MatchString(text) {
				t.Fatalf("%q: a number is refused, and none is beyond the limits", text)
			}
			return
		}
		want := json.Valid([]byte(text)) && !jsonkeys.Twice([]byte(text))
		if (got == None) != want {
			t.Fatalf("%q: fault %d; valid without duplicates: %v", text, got, want)
		}
	})
}

// beyondLimits finds numbers that are refused on purpose: exponents of three digits, as
// far as fragments make them (1e501), or more than 64 digits.
var beyondLimits = regexp.MustCompile(`[eE][+-]?[0-9]{3}|[0-9]{65}`)

// Any value that Go can encode is accepted, however it is nested.
func TestScannerAcceptsWhatGoEncodes(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.Float64Range(-1e300, 1e300), func(f float64) any {
				if math.Abs(f) < 1e-300 {
					return 0.0 // exponents below −308 are refused on purpose
				}
				return f
			}),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		)
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.String(), value(depth-1), 0, 40), func(m map[string]any) any { return m }),
		)
	}
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(value(2).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := scanAll(string(text)); got != None {
			t.Fatalf("fault %d in %s", got, text)
		}
	})
}

func TestParseTime(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"2026-01-31T23:59:59Z", "2026-01-31T23:59:59Z"},
		{"2026-01-31t23:59:59z", "2026-01-31T23:59:59Z"},
		{"2026-01-31 23:59:59", "2026-01-31T23:59:59Z"},               // no zone: UTC
		{"2026-01-31T23:59:59.123456", "2026-01-31T23:59:59.123456Z"}, // Python
		{"2026-01-31T23:59:59.1234567899Z", "2026-01-31T23:59:59.123456789Z"},
		{"2026-01-31T23:59:59+05:30", "2026-01-31T18:29:59Z"}, // 23:59 − 5:30
		{"2026-01-31T23:59:59-00:01", "2026-02-01T00:00:59Z"},
		{"2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"2026-02-29T00:00:00Z", ""}, // no leap year
		{"2026-04-31T00:00:00Z", ""},
		{"2026-00-01T00:00:00Z", ""},
		{"2026-13-01T00:00:00Z", ""},
		{"2026-01-00T00:00:00Z", ""},
		{"2026-01-31T24:00:00Z", ""},
		{"2026-01-31T23:60:00Z", ""},
		{"2016-12-31T23:59:60Z", ""}, // a leap second
		{"2026-01-31T23:59:59+24:00", ""},
		{"2026-01-31T23:59:59+00:60", ""},
		{"1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"},
		{"1970-01-01T00:00:00+00:01", ""}, // a minute before 1970
		{"9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"},
		{"9999-12-31T23:59:59-00:01", ""}, // the year 10000
		{"2026-01-31T23:59:59.", ""},
		{"2026-01-31T23:59:59+0530", ""},
		{"2026-01-31", ""},
		{"", ""},
	} {
		got, ok := ParseTime(c.text)
		if text := got.Format(time.RFC3339Nano); ok != (c.want != "") || ok && text != c.want {
			t.Errorf("%s: got %s, %v; want %q", c.text, text, ok, c.want)
		}
	}
}

// time.Parse is the oracle for every RFC 3339 time since 1970.
func TestParseTimeAgreesWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		two := func(label string, limit int) string {
			n := rapid.IntRange(0, limit).Draw(t, label)
			return string([]byte{byte('0' + n/10), byte('0' + n%10)})
		}
		text := rapid.SampledFrom([]string{"19", "20", "99"}).Draw(t, "century") + two("year", 99) +
			"-" + two("month", 14) + "-" + two("day", 33) +
			"T" + two("hour", 25) + ":" + two("minute", 61) + ":" + two("second", 61) +
			rapid.SampledFrom([]string{"", ".5", ".123456", ".123456789"}).Draw(t, "fraction")
		if rapid.Bool().Draw(t, "utc") {
			text += "Z"
		} else {
			text += rapid.SampledFrom([]string{"+", "-"}).Draw(t, "sign") + two("zone hours", 23) + ":" + two("zone minutes", 59)
		}
		want, err := time.Parse(time.RFC3339Nano, text)
		valid := err == nil && want.Unix() >= 0 && want.UTC().Year() <= 9999
		got, ok := ParseTime(text)
		if ok != valid || ok && !got.Equal(want) {
			t.Fatalf("%s: got %v, %v; time.Parse gives %v, %v", text, got, ok, want, err)
		}
	})
}

// However many keys an object has, a new one is compared with at most manyKeys
// others, one by one; beyond that they are looked up.
func TestManyKeysAreNotQuadratic(t *testing.T) {
	for _, n := range []int{manyKeys - 1, manyKeys, manyKeys + 1, 40_000} {
		var s Scanner
		s.Reset(fmt.Appendf(nil, "{%s}", many(n)), 64, 100_000)
		var o Object
		s.OpenObject(&o)
		compared := 0
		for {
			if _, more := s.NextKey(&o); !more {
				break
			}
			compared = max(compared, len(s.keys))
			s.Value()
		}
		if s.Fault != None || compared > manyKeys {
			t.Errorf("%d keys: fault %d, compared with up to %d, want %d at most", n, s.Fault, compared, manyKeys)
		}
	}
}

// many are n members of an object.
func many(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	return strings.Join(all, ",")
}

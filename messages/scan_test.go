package messages

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// scanAll runs the scanner over one value of any kind.
func scanAll(text string) (fault, bool) {
	var s scanner
	s.reset([]byte(text), DefaultLimits())
	if _, ok := s.value(); ok {
		s.end()
	}
	return s.fault, s.overflow
}

func TestScannerNumbers(t *testing.T) {
	for _, c := range []struct {
		text     string
		fault    fault
		overflow bool
	}{
		{"0", faultNone, false},
		{"-0", faultNone, false},
		{"10.25", faultNone, false},
		{"1E+2", faultNone, false},
		{"1e-308", faultNone, false},
		{"1e307", faultNone, false}, // 1 digit + 307 = 308: below 1e308
		{"1e308", faultNone, true},  // 1 digit + 308 = 309: perhaps, encoding/json decides
		{"12e307", faultNone, true}, // 2 digits + 307 = 309
		{"1e309", faultNumber, false},
		{"1e-309", faultNumber, false},
		{strings.Repeat("1", 64), faultNone, false},
		{strings.Repeat("1", 65), faultNumber, false},
		{"01", faultSyntax, false},
		{"-", faultSyntax, false},
		{"1.", faultSyntax, false},
		{".5", faultSyntax, false},
		{"1e", faultSyntax, false},
		{"+1", faultSyntax, false},
		{"0x1", faultTrailing, false},
		{"Infinity", faultSyntax, false},
	} {
		got, overflow := scanAll(c.text)
		if got != c.fault || got == faultNone && overflow != c.overflow {
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
		if got == faultNumber {
			if !beyondLimits.MatchString(text) {
				t.Fatalf("%q: a number is refused, and none is beyond the limits", text)
			}
			return
		}
		want := json.Valid([]byte(text)) && !duplicateKey([]byte(text))
		if (got == faultNone) != want {
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
		if got, _ := scanAll(string(text)); got != faultNone {
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
		got, ok := parseTime(c.text)
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
		got, ok := parseTime(text)
		if ok != valid || ok && !got.Equal(want) {
			t.Fatalf("%s: got %v, %v; time.Parse gives %v, %v", text, got, ok, want, err)
		}
	})
}

func TestClean(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"plain", 10, "plain"},
		{"a\nb\x00c\x7fd\u0085e\u2028f\u202eg", 40, "a b c d e f g"},
		{"äöü", 6, "äöü"},    // 6 bytes fit exactly
		{"äöüß", 7, "äö…"},   // 8 bytes: 4 and the ellipsis' 3 fit in 7
		{"abcdef", 5, "ab…"}, // 2 + 3
		{"a\xffb", 10, "a\ufffdb"},
		{"\xff\xff\xff", 5, "…"}, // 9 bytes once cleaned, of which 2 would fit
	} {
		if got := Clean(c.in, c.limit); got != c.want {
			t.Errorf("Clean(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "in"))
		limit := rapid.IntRange(3, 40).Draw(t, "limit")
		out := Clean(in, limit)
		if len(out) > limit || Clean(out, limit) != out {
			t.Fatalf("Clean(%q, %d) = %q", in, limit, out)
		}
	})
}

package yamlconf

import (
	"testing"

	"pgregory.net/rapid"
)

func TestScaled(t *testing.T) {
	for _, c := range []struct {
		text   string
		places int
		want   int64 // -1: refused
	}{
		{"0.15", 6, 150_000},   // int(0.15·10⁶) in floating point is 150000 only by luck:
		{"0.29", 2, 29},        // 0.29·100 is 28.999999999999996
		{"1.1", 6, 1_100_000},  // 1.1·10⁶ is 1100000.0000000001
		{"2.5", 3, 2500},       //
		{"7", 0, 7},            //
		{"0.1000000000", 1, 1}, // zeros at the end say nothing
		{"0.0000001", 6, -1},   // finer than can be kept
		{"9223372036854.775807", 6, 1<<63 - 1},
		{"9223372036854.775808", 6, -1}, // 2⁶³
		{"1e3", 6, -1}, {"-1", 6, -1}, {"+1", 6, -1}, {".5", 6, -1}, {"5.", 6, -1}, {"05", 6, -1}, {"1_000", 6, -1},
		{"0x1", 6, -1}, {"", 6, -1}, {".inf", 6, -1},
	} {
		got, ok := scaled(c.text, c.places)
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%s with %d places: %d, want %d", c.text, c.places, got, c.want)
		}
	}
}

// InFull writes what scaled reads.
func TestInFullIsReadAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, places := rapid.Int64Range(0, 1<<62).Draw(rt, "n"), rapid.IntRange(0, 9).Draw(rt, "places")
		if got, ok := scaled(InFull(n, places), places); !ok || got != n {
			rt.Fatalf("%d with %d places is written %s and read %d", n, places, InFull(n, places), got)
		}
	})
}

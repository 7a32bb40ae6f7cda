package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// clock is a time like any other.
var clock = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestAgo(t *testing.T) {
	for _, tc := range []struct {
		before time.Duration
		want   string
	}{
		{-time.Minute, "now"}, // the other clock is ahead
		{0, "now"},
		{999 * time.Millisecond, "now"},
		{time.Second, "1s ago"},
		{59*time.Second + 999*time.Millisecond, "59s ago"},
		{time.Minute, "1m ago"},
		{59*time.Minute + 59*time.Second, "59m ago"},
		{time.Hour, "1h ago"},
		{47*time.Hour + 59*time.Minute, "47h ago"},
		{48 * time.Hour, "2d ago"},
	} {
		if got := Ago(clock, clock.Add(-tc.before)); got != tc.want {
			t.Errorf("%v before: %q, want %q", tc.before, got, tc.want)
		}
	}
	if got := Ago(clock, time.Time{}); got != "" {
		t.Errorf("never: %q, want nothing", got)
	}
}

func TestMilliseconds(t *testing.T) {
	for ms, want := range map[float64]string{-1: "", 0: "", 0.04: "0.0 ms", 7.44: "7.4 ms", 12.3: "12 ms", 9999: "9999 ms",
		10_500: "10.5 s"} {
		if got := Milliseconds(ms); got != want {
			t.Errorf("%v: %q, want %q", ms, got, want)
		}
	}
}

func TestPriorityWords(t *testing.T) {
	for p, want := range map[int]string{0: "low", 1: "normal", 2: "high", 3: "critical", 4: "4", -1: ""} {
		if got := Priority(p); got != want {
			t.Errorf("%d: %q, want %q", p, got, want)
		}
	}
}

func TestList(t *testing.T) {
	words := []string{"a", "b", "c"}
	for most, want := range map[int]string{0: " +3", 1: "a +2", 2: "a b +1", 3: "a b c", 9: "a b c"} {
		if got := List(words, most); got != want {
			t.Errorf("at most %d: %q, want %q", most, got, want)
		}
	}
}

// What a server sends cannot steer the terminal or break the columns.
func TestTableIsCleaned(t *testing.T) {
	table := NewTable("A", "B")
	table.Row("x\x1b[2J\ty\nz", strings.Repeat("long", 100))
	table.Row("", 7)
	var out strings.Builder
	if err := (&App{Out: &out, Now: time.Now}).Text(func(p *Page) { p.Table(table) }); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 3 || strings.ContainsAny(out.String(), "\x1b\t") {
		t.Fatalf("%q", out.String())
	}
	if at := strings.Index(lines[0], "B"); at != strings.Index(lines[1], "long") || at != strings.Index(lines[2], "7") {
		t.Errorf("columns are not aligned:\n%s", out.String())
	}
	if !strings.HasPrefix(lines[2], "- ") {
		t.Errorf("an empty cell is not shown: %q", lines[2])
	}
	if n := len(lines[1]); n > 100 {
		t.Errorf("a line of %d bytes", n)
	}
}

func TestProgress(t *testing.T) {
	for _, rewrite := range []bool{false, true} {
		var out strings.Builder
		p := Progress{W: &out, Doing: "submit", Rewrite: rewrite}
		n := 0
		text := func() string { n++; return fmt.Sprint("step ", n) }
		for ms := range 2600 { // a report every millisecond for 2.6 s: lines at 1 s and 2 s
			p.Report(clock.Add(time.Duration(ms)*time.Millisecond), text)
		}
		p.End()
		want := "submit: step 1\nsubmit: step 2\n"
		if rewrite {
			want = "\r\x1b[Ksubmit: step 1\r\x1b[Ksubmit: step 2\r\x1b[K"
		}
		if out.String() != want {
			t.Errorf("terminal %v: %q, want %q", rewrite, out.String(), want)
		}
	}
}

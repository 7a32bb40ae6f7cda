package stalls

import (
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestStallCountsWhatWasSeen: a process that was stopped for an hour has not looked meanwhile.
func TestStallCountsWhatWasSeen(t *testing.T) {
	var w Watch
	waits := Count{Answers: true, Open: 1, Confirmed: 7}
	w.Look(start, waits)
	w.Look(start.Add(Period), waits)
	w.Look(start.Add(time.Hour), waits)
	if w.lasted != 3*Period || w.what == "" {
		t.Errorf("%s for %s", w.what, w.lasted)
	}
	w.Look(start.Add(time.Hour+Period), Count{Answers: true, Open: 1, Confirmed: 8})
	if w.lasted != 0 || w.what != "" {
		t.Errorf("%s for %s, and it goes on", w.what, w.lasted)
	}
	w.Look(start.Add(time.Hour+2*Period), Count{})
	if w.lasted == 0 || !strings.Contains(w.what, "loop") {
		t.Errorf("%q for %s, and the loop does not answer", w.what, w.lasted)
	}
}

// A stall is said after a while, and ends the session after a longer one, whatever it is that does not go on; what
// waits one after the other does not add up.
func TestStallIsSaidAndEnds(t *testing.T) {
	for name, c := range map[string]struct {
		first, then Count
		says        string
	}{
		"the journal":    {Count{Answers: true, Open: 1}, Count{Answers: true, Open: 2}, "confirmed nothing"},
		"publications":   {Count{Answers: true, Waiting: 1}, Count{Answers: true, Waiting: 1}, "has left"},
		"the loop":       {Count{Answers: true}, Count{}, "has not answered"},
		"it goes on":     {Count{Answers: true, Open: 1}, Count{Answers: true, Open: 1, Confirmed: 1}, ""},
		"nothing waited": {Count{Answers: true}, Count{Answers: true, Open: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var w Watch
			w.Look(start, c.first)
			for d := Period; d <= Ends; d += Period {
				w.Look(start.Add(d), c.then)
				detail, err := w.Stalled()
				if (detail != "") != (c.says != "" && d >= Said) || !strings.Contains(detail, c.says) && detail != "" ||
					err != nil {
					t.Fatalf("after %s: %q, %v", d, detail, err)
				}
				if c.says == "" {
					c.then.Confirmed++
				}
			}
			w.Look(start.Add(Ends+Period), c.then)
			if _, err := w.Stalled(); (err != nil) != (c.says != "") {
				t.Errorf("at the end: %v", err)
			}
		})
	}
	var w Watch
	for d := time.Duration(0); d < 4*Ends; d += Period {
		c := Count{Answers: true, Open: 1, Confirmed: 1}
		if d/Period%4 >= 2 {
			c = Count{Answers: true, Waiting: 1}
		}
		w.Look(start.Add(d), c)
		if detail, err := w.Stalled(); detail != "" || err != nil {
			t.Fatalf("after %s, of two things in turn: %q, %v", d, detail, err)
		}
	}
}

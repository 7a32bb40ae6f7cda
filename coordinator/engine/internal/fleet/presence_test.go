package fleet

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// An agent says goodbye a second after it has come, time and again: its first two departures cost it nothing, the third
// 1 s without work, each further one twice as long: 2, 4, 8, 16 s. Then 32 s would follow: at most 30.
func TestFlapping(t *testing.T) {
	w := newWorld(t, 1, coordinator.Settings{})
	a, seconds := w.Agents[0], 100.0
	for i, hold := range []float64{0, 0, 1, 2, 4, 8, 16, 30, 30} {
		came := w.at(seconds).reports(0, coordinator.StatusReady)
		went := w.at(seconds+1).reports(0, coordinator.StatusOffline)
		// Silence is watched for an hour, the default of these tests. The third departure is the last thing that is
		// announced for a while, and what waits in its queue is for others from then on.
		watched, steady := fmt.Sprintf("silence at %g", seconds+3600), fmt.Sprintf("steady at %g", seconds+1+hold)
		wantCame, wantWent := "on, a000 is online, leave q.a000, "+watched,
			"off, no silence, off market, a000 is offline, take q.a000"
		switch {
		case i == 0:
			wantCame = "on, a000 is online, " + watched
		case i == 2:
			wantWent = "off, no silence, a000 is offline, " + steady + ", off market, take q.a000"
		case i > 2:
			wantCame, wantWent = "on, "+watched, "off, no silence, "+steady+", off market"
		}
		same(t, fmt.Sprintf("it comes for the %d. time", i+1), came, wantCame)
		same(t, fmt.Sprintf("it goes for the %d. time", i+1), went, wantWent)
		if a.unsteady != (hold > 0) {
			t.Errorf("after departure %d it is unsteady: %v", i+1, a.unsteady)
		}
		seconds += 2
	}

	// It comes back and stays: 30 s after the last departure it may have work, and that is announced.
	w.at(seconds).reports(0, coordinator.StatusReady)
	if w.Ready.Has(0) {
		t.Error("it is ready before it is steady")
	}
	same(t, "it is steady", w.text(w.at(seconds-1+30).Due(w.now, a, Steady)), "a000 is online, leave q.a000")
	if !w.Ready.Has(0) {
		t.Error("it is steady, and not ready")
	}
	// 31 s after the departure before the next is the first again.
	same(t, "it goes later", w.at(seconds-1+31).reports(0, coordinator.StatusOffline),
		"off, no silence, off market, a000 is offline, take q.a000")
}

// Reports are due every 10 s. After two intervals without one an agent is suspect, after 30 s stale: the timer is set
// to the first of these, and then to the second.
func TestSilence(t *testing.T) {
	w := newWorld(t, 1, coordinator.Settings{StaleAfter: 30 * time.Second, SuspectIntervals: 2})
	w.OpenedAt = time.Time{} // else it is new
	w.tellBy = start
	a := w.Agents[0]
	same(t, "a report", w.at(0).reports(0, coordinator.StatusReady), "on, a000 is online, silence at 20")
	same(t, "another: the timer is left", w.at(5).reports(0, coordinator.StatusReady), "")
	same(t, "not silent for 20 s, but 15", w.text(w.at(20).Due(w.now, a, Silence)), "silence at 25")
	same(t, "20 s", w.text(w.at(25).Due(w.now, a, Silence)), "silence at 35")
	if !a.Suspect || w.Ready.Has(0) {
		t.Errorf("it is suspect %v, and ready %v", a.Suspect, w.Ready.Has(0))
	}
	same(t, "30 s", w.text(w.at(35).Due(w.now, a, Silence)), "off, off market, a000 is stale, take q.a000")
}

// The slots of an agent that is new: max(1, ⌊slots · max(0.1, age/window)⌋).
func TestSlowStart(t *testing.T) {
	const window = 60 * time.Second
	for _, tt := range []struct {
		name        string
		slots       int
		age, window time.Duration
		want        int
	}{
		{"new: a tenth, 10·0.1", 10, 0, window, 1},
		{"a tenth of 40", 40, 0, window, 4},
		{"half the window, 10·0.5", 10, 30 * time.Second, window, 5},
		{"rounded down, 10·59/60 = 9.83", 10, 59 * time.Second, window, 9},
		{"the whole window", 10, window, window, 10},
		{"beyond it", 10, time.Hour, window, 10},
		{"a whole number but for the last bits, 100·0.29", 100, 29 * time.Second, 100 * time.Second, 29},
		{"one slot stays", 1, 0, window, 1},
		{"two begin with one", 2, 0, window, 1},
		{"off", 10, 0, 0, 10},
		{"an agent without slots gets none", 0, 0, window, 0},
		{"a clock that went back", 10, -time.Hour, window, 1},
	} {
		if got := rampSlots(tt.slots, tt.age, tt.window); got != tt.want {
			t.Errorf("%s: %d slots, want %d", tt.name, got, tt.want)
		}
	}
	// Within 1 and the slots, and never fewer later.
	for slots := 1; slots <= 50; slots++ {
		for age, last := time.Duration(0), 1; age <= 2*window; age += 700 * time.Millisecond {
			n := rampSlots(slots, age, window)
			if n < last || n > slots {
				t.Fatalf("%d of %d slots after %v, %d before", n, slots, age, last)
			}
			last = n
		}
	}
}

// With a window of a minute a newcomer is asked every 60/12 = 5 s whether it may have more of its 4 slots: from 15 s on
// 4·0.25 = 1, from 30 s on 2, from 45 s on 3.
func TestSlowStartGoesOn(t *testing.T) {
	w := newWorld(t, 1, coordinator.Settings{SlowStart: time.Minute})
	a := w.Agents[0]
	same(t, "it comes", w.at(100).reports(0, coordinator.StatusReady),
		"slow start at 105, on, a000 is online, silence at 3700")
	for _, step := range []struct{ after, slots, free int }{{5, 1, 1}, {25, 1, 1}, {30, 2, 2}, {45, 3, 3}, {60, 0, 4}} {
		next := fmt.Sprintf("slow start at %d", min(100+step.after+5, 160))
		if step.after == 60 {
			next = ""
		}
		same(t, "later", w.text(w.at(100+float64(step.after)).Due(w.now, a, SlowStart)), next)
		if a.Slots != step.slots || a.Free() != step.free {
			t.Errorf("after %d s: %d slots, %d free, want %d and %d", step.after, a.Slots, a.Free(), step.slots, step.free)
		}
	}
}

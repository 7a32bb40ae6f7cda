package coalesce

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
)

func report(agent, task, message string) *coordinator.Progress {
	return &coordinator.Progress{
		Agent: coordinator.AgentID(agent), Task: coordinator.TaskID(task), Message: message,
	}
}

// Of a thousand reports of a task, one each 0.999 ms, five go on: a window begins with the first report after the one
// before it, so that they end 200, 400.8, 601.6, 802.4 and 1003.2 ms after the first of all, and the latest by then are
// 200 / 0.999 = 200, 401, 602, 803, and the last. A report of another task goes with the window at hand.
func TestLatestOfEachWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, done := New(), make(chan struct{})
		var passed []string
		begun := time.Now()
		go l.Each(done, func(latest []*coordinator.Progress) {
			for _, p := range latest {
				passed = append(passed, fmt.Sprint(time.Since(begun).Milliseconds(), " ", p.Task, " ", p.Message))
			}
		})
		for i := range 1000 {
			if !l.Add(report("a", "t", fmt.Sprint(i))) {
				t.Fatal("no room")
			}
			if i == 500 {
				l.Add(report("b", "u", "once"))
			}
			time.Sleep(999 * time.Microsecond)
		}
		time.Sleep(time.Minute)
		close(done)
		synctest.Wait()
		want := []string{"200 t 200", "400 t 401", "601 t 602", "601 u once", "802 t 803", "1003 t 999"}
		if !slices.Equal(passed, want) {
			t.Errorf("went on: %q, want %q", passed, want)
		}
	})
}

// One agent that names tasks without end has room for 1,024 of them; the next agent has as much.
func TestRoomOfOneAgent(t *testing.T) {
	l := New()
	taken := 0
	for i := range 10_000 {
		if l.Add(report("mad", fmt.Sprint("t-", i), "")) {
			taken++
		}
	}
	if taken != PerAgent {
		t.Errorf("%d were taken, want %d", taken, PerAgent)
	}
	if !l.Add(report("mad", "t-0", "later")) {
		t.Error("a task of which there is a report has no newer one")
	}
	if !l.Add(report("a", "t-0", "")) {
		t.Error("another agent has no room")
	}
}

// All reports take 32 MiB at most: of 4,608 bytes each, with the 512 around them, 33,554,432 / 4,608 = 7,281.
func TestRoomOfAll(t *testing.T) {
	l := New()
	taken := 0
	for i := range 10_000 {
		p := report(fmt.Sprint("a-", i%100), fmt.Sprint("t-", i), "")
		p.Data = make([]byte, 4096)
		if l.Add(p) {
			taken++
		}
	}
	if taken != 7281 {
		t.Errorf("%d were taken", taken)
	}
	if l.bytes > MostBytes {
		t.Errorf("they take %d bytes", l.bytes)
	}
	small := report("a-0", "t-0", "")
	if !l.Add(small) || !l.Add(report("a-0", "x", "")) {
		t.Error("a smaller one in the place of a larger gives no room")
	}
}

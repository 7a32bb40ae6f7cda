package fleet

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// The broker holds up publishers from 100 s to 130 s: reports are awaited for an interval of 10 s from then on, and for
// LeastToTell, which is as long. An agent that was heard at 95 s and may be silent for 30 s is stale at 140 s.
func TestPublishersHeldUp(t *testing.T) {
	w := newWorld(t, 1, coordinator.Settings{StaleAfter: 30 * time.Second})
	a := w.Agents[0]
	w.at(95).reports(0, coordinator.StatusReady)
	if _, over := w.at(100).PublishingHeld(w.now, true); over || !w.Deaf() {
		t.Errorf("over %v, deaf %v", over, w.Deaf())
	}
	same(t, "silent while they are held up: look again in 1 s", w.text(w.at(125).Due(w.now, a, Silence)),
		"silence at 126")
	d, over := w.at(130).PublishingHeld(w.now, false)
	want := Deafness{From: start.Add(100 * time.Second), Until: w.now, Awaited: start.Add(140 * time.Second)}
	if !over || d != want || w.Deaf() {
		t.Errorf("over %v, deaf %v: %v, want %v", over, w.Deaf(), d, want)
	}
	w.Awaited(w.now, a)
	same(t, "awaited until", w.text(w.at(135).Due(w.now, a, Silence)), "silence at 140")
	same(t, "still silent", w.text(w.at(140).Due(w.now, a, Silence)), "off, off market, a000 is stale, take q.a000")
}

// A session is lost at 50 s, the next opens at 70 s. A fleet that saw that knows it; one that did not hears it from the
// shell, which lost its connection at 40 s and has been connected since 65 s.
func TestNoSession(t *testing.T) {
	w := newWorld(t, 1, coordinator.Settings{})
	w.at(50).SessionLost(w.now)
	ev := &coordinator.SessionOpened{Lost: start.Add(40 * time.Second), Connected: start.Add(65 * time.Second)}
	_, d := w.at(70).SessionOpened(w.now, ev)
	if d.From != start.Add(50*time.Second) || d.Until != w.now || d.Awaited != start.Add(80*time.Second) {
		t.Errorf("it saw the end: %v", d)
	}
	if w.GraceEnd != start.Add(80*time.Second) || w.missesFrom != start.Add(75*time.Second) {
		t.Errorf("grace until %v, consumers are missed from %v", w.GraceEnd, w.missesFrom)
	}
	if _, d = newWorld(t, 1, coordinator.Settings{}).SessionOpened(w.now, ev); d.From != ev.Lost ||
		d.Until != ev.Connected {
		t.Errorf("it hears of it: %v", d)
	}
}

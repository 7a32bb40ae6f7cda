package service

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/views"
)

// What people read of a task in its lane: of eight tasks one is with its agent, three wait, and the
// last four are in the lane, of which t5 is the second: at most 3 + 4 - 1 go before it.
func TestQueuedInALane(t *testing.T) {
	for name, c := range map[string]struct{ quotas, whom, start string }{
		// nothing was dispatched since tasks wait
		"without groups": {"", "that wait for the same agents", "there is no estimate"},
		"by turns":       {"groups: [{id: research}, {id: other-team}]", "of group research with priority normal", "within "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, laned)
				if c.quotas != "" {
					r.under(c.quotas)
				}
				r.start()
				defer r.close()
				w := r.worker("a1", false)
				r.floods(8)
				if n := len(r.broker.Messages("task.lane.research")); n != 4 {
					t.Fatalf("%d tasks in the lane, want 4", n)
				}
				x := r.explained("t5")
				text := "it is in lane research, which holds 4 tasks: at most 6 tasks " + c.whom + " go before it"
				if q := x.Queued; q == nil || q.Lane != "research" || q.Ahead != 6 || q.AheadAtLeast || q.Text != text ||
					!strings.HasPrefix(q.Start, c.start) {
					t.Errorf("t5: %+v, want %q", q, text)
				}
				if q := r.explained("t1").Queued; q == nil || q.Lane != "" || q.Ahead != 0 || strings.Contains(q.Text, "lane") {
					t.Errorf("t1: %+v", q)
				}
				if done := w.worksOff(); len(done) != 8 {
					t.Errorf("done: %v", done)
				}
				if q := r.explained("t5").Queued; q != nil {
					t.Errorf("t5 is done: %+v", q)
				}
			})
		})
	}
}

// One task is one task; one that is on its way into its lane is all that this holds.
func TestQueuedInALaneWords(t *testing.T) {
	for _, c := range []struct {
		place engine.Place
		want  string
	}{
		{engine.Place{Lane: "team"},
			"it is in lane team, which holds 1 task: at most 0 tasks that wait for the same agents go before it"},
		{engine.Place{Lane: "team~2", InLane: 9, Ahead: 12, Others: 1, Higher: 2, Lower: 3, Part: 0.188, Quotas: true,
			Group: "team"},
			"it is in lane team~2, which holds 9 tasks: at most 12 tasks of group team with priority low go before it" +
				"; by weight it takes turns with 1 task of other groups; priority low has 19 % of the dispatches while 2 of " +
				"higher and 3 of lower priority wait"},
	} {
		if got := views.Queued(&c.place); got.Text != c.want || got.Lane != c.place.Lane || got.Ahead != c.place.Ahead {
			t.Errorf("%s\ngot %s", c.want, fmt.Sprint(got))
		}
	}
}

// One task waits, several wait.
func TestPlaceOfTheOnlyTask(t *testing.T) {
	for want, p := range map[string]engine.Place{
		"it is the only task that waits for the same agents":       {Waiting: 1},
		"it is the first of 2 tasks that wait for the same agents": {Waiting: 2},
		"it is the only task of group red with priority normal": {Waiting: 1, Quotas: true, Group: "red",
			Priority: coordinator.PriorityNormal},
		"1 of 2 tasks that wait for the same agents go before it": {Waiting: 2, Ahead: 1},
	} {
		if got := views.PlaceText(&p); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

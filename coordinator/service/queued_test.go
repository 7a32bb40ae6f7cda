package service

import (
	"strings"
	"testing"
	"testing/synctest"
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

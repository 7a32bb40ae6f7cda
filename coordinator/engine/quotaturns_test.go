package engine

import (
	"fmt"
	"slices"
	"testing"

	"taskbus/coordinator"
)

// TestQuotaTurnsOutlastATakeOver: of 40 dispatches 4 are of low priority, 10 %, and the same ones,
// whenever the leader dies: what is owed to the low ones is neither forgotten nor paid twice. (The
// first dispatch is of who came first, when nobody else waited.)
func TestQuotaTurnsOutlastATakeOver(t *testing.T) {
	const all = 41
	// A take-over after so many dispatches; which of all were of low priority.
	play := func(after int, how string) (low []int) {
		r := fairRig(t, quotasOf().group("team", 1, nil), nil)
		r.Record(true)
		waiting := make(map[coordinator.TaskID]*taskBuilder)
		for i := range 2 * all {
			b := job(coordinator.TaskID(fmt.Sprint(i))).of("team").prio(coordinator.PriorityHigh).tokens(10, 10)
			if i > all {
				b.prio(coordinator.PriorityLow)
			}
			waiting[b.ID] = b
			r.assign(b)
		}
		for i := range all {
			d := r.latest()
			if delete(waiting, d.Task.ID); d.Task.Priority == coordinator.PriorityLow {
				low = append(low, i)
			}
			r.confirm(d.Handle)
			if i == after {
				r = heirs(r)[how]
				r.dispatches = append(r.dispatches, d)
				for id := range 2 * all {
					if b := waiting[coordinator.TaskID(fmt.Sprint(id))]; b != nil {
						r.redeliver(b)
					}
				}
			}
			r.tell(says(d.Agent, d.Task.ID).of(d.DispatchID).used(10, 10))
		}
		return low
	}
	want := play(all, "")
	if !slices.Equal(want, []int{10, 20, 30, 40}) {
		t.Fatalf("without a take-over dispatches %v were low", want)
	}
	for after := range 14 {
		for _, how := range []string{"by its records", "by a snapshot"} {
			if low := play(after, how); !slices.Equal(low, want) {
				t.Errorf("taken over %s after dispatch %d, %v were low, want %v", how, after, low, want)
			}
		}
	}
}

package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestQuotaTurnsOutlastATakeOver: of 40 dispatches 4 are of low priority, 10 %, and the same ones,
// whenever the leader dies: what is owed to the low ones is neither forgotten nor paid twice. (The
// first dispatch is of the one that came first, when no other waited.)
func TestQuotaTurnsOutlastATakeOver(t *testing.T) {
	const all = 44
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
	if !slices.Equal(want, []int{9, 26, 43}) { // 1 of 17, by the weights 16 : 1
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

// Of 60 tokens a second each of two groups may have all: together they are kept to them by the pool. A task that
// needs 60 at once has them after a second, though a task of the other group comes every tenth of a
// second that needs the 6 that are there by then.
func TestQuotaCapIsNotOvertaken(t *testing.T) {
	sixty := func(n *coordinator.QuotaNode) {
		n.Rates[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: 60, Per: time.Second, Burst: 60}
		n.Borrowing.Rule = coordinator.BorrowNever
	}
	r := lendingRig(t, quotasOf().pool(sixty).group("much", 1, sixty).group("little", 1, sixty))
	r.give(job("first").of("little").tokens(30, 30))
	big := job("big").of("much").tokens(30, 30)
	want(t, r.assign(big))
	for i := range 9 {
		if got := r.goesOut(100 * time.Millisecond); len(got) > 0 {
			t.Fatalf("after %d00 ms: %v", i+1, got)
		}
		r.assign(job(coordinator.TaskID(fmt.Sprint("small", i))).of("little").tokens(3, 3))
	}
	if got := r.goesOut(100 * time.Millisecond); got["much"] != 1 || got["little"] != 0 {
		t.Errorf("after a second: %v", got)
	}
}

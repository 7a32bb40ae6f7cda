package admission

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Of those that wait for one rate all try when the first of them may, and the one that goes before the
// others stays their head: one that waits just behind it, and may try sooner at an agent with quota of its
// own, does not take its place.
func TestQueueKeepsItsHead(t *testing.T) {
	h := newHarness(t, nil, "x", "y", "z")
	var critical *Wait
	for _, step := range []struct {
		group   string
		level   coordinator.Priority
		seconds int
		head    coordinator.Priority // that is the head then
		opens   int                  // seconds from the beginning
	}{
		{"x", coordinator.PriorityLow, 9, coordinator.PriorityLow, 9},
		{"y", coordinator.PriorityCritical, 3, coordinator.PriorityCritical, 3},
		{"z", coordinator.PriorityHigh, 2, coordinator.PriorityCritical, 2},
		{"x", coordinator.PriorityCritical, 1, coordinator.PriorityCritical, 1},
		{"y", coordinator.PriorityLow, 5, coordinator.PriorityCritical, 1},
	} {
		at := epoch.Add(time.Duration(step.seconds) * time.Second)
		w := &Wait{
			Class: &testClass{}, Leaf: h.shares.Leaf(step.group), Level: int(step.level),
			Lacks: fairshare.Verdict{Behind: "pool", Limit: fairshare.LimitRate, RetryAt: at},
		}
		h.enqueue(w)
		if critical == nil && step.level == coordinator.PriorityCritical {
			critical = w
		}
		if k := w.queue; k.head.Level != int(step.head) || !k.at.Equal(epoch.Add(time.Duration(step.opens)*time.Second)) {
			t.Errorf("%+v: the head is of level %d, and the queue opens at %v", step, k.head.Level, k.at)
		}
	}
	if critical.queue.head != critical {
		t.Error("another critical one has taken the place of the head")
	}
}

package engine

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Of those who wait for one rate all try when the first of them may, and the one that goes before the
// others stays the one that they wait behind: whoever waits just behind him, and may try sooner at an
// agent with quota of its own, does not take his place.
func TestQuotaQueueKeepsItsFirst(t *testing.T) {
	r := New()
	q := &r.quotas.waits
	wait := func(group string, p coordinator.Priority, seconds int) *quotaWait {
		w := &quotaWait{
			class: &class{}, leaf: r.quotas.shares.Leaf(group), task: &openTask{level: int(p)},
			lacks: fairshare.Verdict{Behind: "pool", Limit: fairshare.LimitRate, RetryAt: epoch.Add(time.Duration(seconds) * time.Second)},
		}
		q.enqueue(w)
		return w
	}
	var critical *quotaWait
	for _, step := range []struct {
		group   string
		level   coordinator.Priority
		seconds int
		first   coordinator.Priority // that is first then
		opens   int                  // seconds from the beginning
	}{
		{"x", coordinator.PriorityLow, 9, coordinator.PriorityLow, 9},
		{"y", coordinator.PriorityCritical, 3, coordinator.PriorityCritical, 3},
		{"z", coordinator.PriorityHigh, 2, coordinator.PriorityCritical, 2},
		{"x", coordinator.PriorityCritical, 1, coordinator.PriorityCritical, 1},
		{"y", coordinator.PriorityLow, 5, coordinator.PriorityCritical, 1},
	} {
		w := wait(step.group, step.level, step.seconds)
		if critical == nil && step.level == coordinator.PriorityCritical {
			critical = w
		}
		if k := w.queue; k.first.task.level != int(step.first) || !k.at.Equal(epoch.Add(time.Duration(step.opens)*time.Second)) {
			t.Errorf("%+v: first is one of level %d, and the queue opens at %v", step, k.first.task.level, k.at)
		}
	}
	if critical.queue.first != critical {
		t.Error("another critical one has taken the place of the first")
	}
}

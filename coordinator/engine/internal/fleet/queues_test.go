package fleet

import (
	"fmt"
	"testing"

	"taskbus/coordinator"
)

// A queue without a consumer is looked at twice, within MissedFor = 10 s, until its agent is gone.
func TestMissedConsumer(t *testing.T) {
	w := newWorld(t, 1, coordinator.Settings{})
	w.at(20).reports(0, coordinator.StatusReady)
	same(t, "none was ever there", w.at(21).seen(0, 0, 0)+w.at(22).seen(0, 0, 0), "")
	same(t, "one", w.at(23).seen(0, 1, 0), "Consumed")
	same(t, "none", w.at(30).seen(0, 0, 0), "")
	same(t, "none 10.1 s later: as the first time", w.at(40.1).seen(0, 0, 0), "")
	same(t, "one again", w.at(41).seen(0, 1, 0), "")
	same(t, "none", w.at(42).seen(0, 0, 3), "")
	same(t, "none 10 s later", w.at(52).seen(0, 0, 3), "off, no silence, off market, a000 is gone, take q.a000")
	same(t, "a report does not help", w.at(53).reports(0, coordinator.StatusReady), "")
	same(t, "but with a consumer", w.at(54).seen(0, 1, 0), "on, a000 is online, leave q.a000, silence at 3653")
}

// A consumer that was there before the session is awaited for an interval of 10 s. Until then its agent gets nothing,
// and is there; afterwards it is gone.
func TestUnattended(t *testing.T) {
	w := newWorld(t, 1, coordinator.Settings{})
	w.Agents[0].HadConsumer = true
	w.at(1).reports(0, coordinator.StatusReady)
	same(t, "none", w.at(2).seen(0, 0, 0), "off market")
	same(t, "none again, within the grace", w.at(9).seen(0, 0, 0), "")
	if a := w.Agents[0]; !a.Unattended || a.State != coordinator.AgentOnline || w.Ready.Has(0) {
		t.Errorf("unattended %v, %s, ready %v", a.Unattended, a.State, w.Ready.Has(0))
	}
	same(t, "after it", w.at(10).seen(0, 0, 1), "off, no silence, off market, a000 is gone, take q.a000")
}

// A dispatch comes back because its agent's queue is missing: the shell is asked for it every QueueRecheck = 5 s, and
// where it is there and dispatches come back all the same, not more often.
func TestMissingQueue(t *testing.T) {
	w := newWorld(t, 1, coordinator.Settings{})
	a := w.Agents[0]
	w.at(20).reports(0, coordinator.StatusReady)
	same(t, "missing", w.text(w.Undelivered(w.now, a, true)), "EnsureQueue, recheck at 25")
	same(t, "once more", w.text(w.at(21).Undelivered(w.now, a, true)), "")
	same(t, "no answer", w.text(w.at(25).Due(w.now, a, Recheck)), "EnsureQueue, recheck at 30")
	exists := coordinator.QueueChecked{Agent: "a000"}
	same(t, "it does not exist", w.text(w.at(26).QueueChecked(exists)), "")
	exists.Exists = true
	same(t, "it exists", w.text(w.at(27).QueueChecked(exists)), "no recheck")
	if !w.Ready.Has(0) {
		t.Error("its queue is there, and it is not ready")
	}
	same(t, "missing 3 s after it was asked for", w.text(w.at(28).Undelivered(w.now, a, true)), "recheck at 30")
	w.at(30).QueueChecked(exists)
	same(t, "missing 6 s after", w.text(w.at(31).Undelivered(w.now, a, true)), "EnsureQueue, recheck at 36")
	same(t, "full: left alone for 1 s", w.text(w.at(40).Undelivered(w.now, a, false)), "cool at 41")
	if w.Due(w.now, a, Cool); a.QueueFull {
		t.Error("it has cooled, and is full")
	}
	same(t, "it refuses once more", w.text(w.at(50).Undelivered(w.now, a, false)), "cool at 51")
	same(t, "it has been declared", w.text(w.QueueChecked(exists)), "no recheck, no cool")
	if a.QueueFull || !w.Ready.Has(0) {
		t.Errorf("full %v, ready %v; want a queue that takes tasks", a.QueueFull, w.Ready.Has(0))
	}
	same(t, "that its queue exists is no news", w.text(w.QueueChecked(exists)), "")
}

// 258 agents are gone, with tasks in their queues: 256 queues are taken back at once. One that is empty is left, and
// the next look at another takes that; while all places are taken, also one of an agent that has a task.
func TestTakeBackIsFull(t *testing.T) {
	w := newWorld(t, MaxTakeBacks+2, coordinator.Settings{})
	for i, a := range w.Agents {
		w.at(20).reports(i, coordinator.StatusReady)
		w.Take(a, &job{id: coordinator.TaskID(fmt.Sprint(i))}, false)
		want := fmt.Sprintf("off, no silence, off market, %s is offline, take %s", a.Spec.ID, a.Spec.Queue)
		if i >= MaxTakeBacks {
			want = fmt.Sprintf("off, no silence, off market, %s is offline", a.Spec.ID)
		}
		same(t, "it goes", w.at(21).reports(i, coordinator.StatusOffline), want)
	}
	same(t, "no place for it", w.at(22).seen(MaxTakeBacks, 0, 1), "")
	same(t, "empty, and others need the place", w.seen(7, 0, 0), "leave q.a007")
	same(t, "a place for it", w.seen(MaxTakeBacks, 0, 1), "take q.a256")
	same(t, "none is left", w.seen(MaxTakeBacks+1, 0, 1), "")
	w.TakeBackEnded(w.Agents[8])
	same(t, "empty, but its task has not ended, and there is a place", w.seen(9, 0, 0), "")
	w.Agents[9].Give(w.Agents[9].Open[0])
	same(t, "empty, and nothing to come", w.seen(9, 0, 0), "leave q.a009")
	if w.Disconnect(); w.TakeBacks != 0 || !w.Agents[10].HeldByUs || w.Agents[9].HeldByUs {
		t.Errorf("%d are taken back without a session", w.TakeBacks)
	}
}

// An operator drains an agent: others get what waits for it, until it is empty.
func TestDrain(t *testing.T) {
	w := newWorld(t, 1, coordinator.Settings{})
	w.at(20).reports(0, coordinator.StatusReady)
	order := coordinator.AgentOrdered{Agent: "a000", Order: coordinator.OrderDrain, Token: 7}
	same(t, "drain", w.text(w.Ordered(order)), "OrderStands, Ordered, off market, take q.a000")
	w.seen(0, 1, 2)
	if w.Agents[0].Drained {
		t.Error("it is drained with 2 tasks in its queue")
	}
	same(t, "empty", w.seen(0, 1, 0), "leave q.a000")
	if !w.Agents[0].Drained || w.Ready.Has(0) {
		t.Errorf("drained %v, ready %v", w.Agents[0].Drained, w.Ready.Has(0))
	}
	order.Order, order.Token = coordinator.OrderUncordon, 0
	same(t, "uncordon", w.text(w.Ordered(order)), "Ordered")
	if !w.Ready.Has(0) {
		t.Error("the order is taken back, and it is not ready")
	}
}

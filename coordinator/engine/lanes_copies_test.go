package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// inALane is a task that has waited and is in its lane now; the agent is free again.
func inALane(t *testing.T) *rig {
	t.Helper()
	r := busy(t, 0)
	r.Record(true)
	r.Records(nil)
	r.assign(job("t"))
	want(t, r.beats(engine.HeldLong), "move t to ~held")
	want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2", "read ~held: 2000")
	want(t, r.tell(says("a", "first")), "completed first.1 a succeeded")
	return r
}

// TestComesOutOfItsLane: it goes on as the same task, and whatever else comes under its id
// is a copy.
func TestComesOutOfItsLane(t *testing.T) {
	t.Run("first of all", func(t *testing.T) {
		r := inALane(t)
		want(t, r.comes(coordinator.LaneHeld, job("t"), false), "dispatch t.1 a")
		want(t, r.comes(coordinator.LaneHeld, job("t"), true), "ack 4")
		want(t, r.redeliver(job("t")), "ack 5", "duplicate t")
		want(t, r.confirm(3), "ack 3")
		want(t, r.comes(coordinator.LaneHeld, job("t"), true), "ack 6")
		want(t, r.tell(says("a", "t")), "completed t.1 a succeeded")
		want(t, r.comes(coordinator.LaneHeld, job("t"), true), "ack 7")
	})
	t.Run("while it is there", func(t *testing.T) {
		r := inALane(t)
		want(t, r.assign(job("t")), "ack 3", "duplicate t")
		want(t, r.redeliver(job("t")), "ack 4") // its own message of before, whose acknowledgement was lost
		want(t, r.assign(job("t").content(2)), "fail t duplicate_task")
	})
	t.Run("after the window of the duplicate check", func(t *testing.T) {
		r := inALane(t)
		r.pass(r.Policy().Settings.DedupeWindow)
		r.hear(beat("a").running())
		want(t, r.comes(coordinator.LaneHeld, job("t"), false), "dispatch t.1 a")
	})
	t.Run("and an agent may have had it", func(t *testing.T) { // so says its message
		r := inALane(t)
		r.last++
		task := job("u").Task
		task.AcceptedAt = epoch
		want(t, r.apply(coordinator.TaskReceived{Handle: r.last, Task: &task, Lane: coordinator.LaneHeld,
			MaybeDuplicate: true}), "dispatch u.1 a again?")
	})
	t.Run("a session later", func(t *testing.T) {
		r := inALane(t)
		r.hear(beat("a").running().available(0))
		want(t, r.comes(coordinator.LaneHeld, job("t"), false))
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		want(t, r.redeliver(job("t")), "ack 4") // from task.assign: the lane has it
		r.pass(1)
		r.hear(beat("a").running())
		want(t, r.comes(coordinator.LaneHeld, job("t"), true), "dispatch t.1 a again?")
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("its dispatch was never answered", func(t *testing.T) {
		r := inALane(t)
		want(t, r.comes(coordinator.LaneHeld, job("t"), false), "dispatch t.1 a")
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		want(t, r.comes(coordinator.LaneHeld, job("t"), true), "dispatch t.1 a again?")
		engine.CheckIndexes(t, r.Engine)
	})
}

// TestCopiesInALane: a leader that ends between the broker's confirm and the journal leaves
// a task in two queues. Whichever comes first counts.
func TestCopiesInALane(t *testing.T) {
	tests := []struct {
		name  string
		story func(*rig) // what becomes of the other copy
		again bool       // it was held out of the lane before
		want  string
	}{
		{name: "done", story: func(r *rig) { r.give(job("t")); r.tell(says("a", "t")) }, want: "ack 3"},
		{name: "given up by its agent",
			story: func(r *rig) { r.give(job("t")); r.tell(says("a", "t").but(coordinator.OutcomeFailed)) }, want: "ack 3"},
		{name: "with its agent", story: func(r *rig) { r.give(job("t")) }, want: "ack 3"},
		{name: "on its way", story: func(r *rig) { r.assign(job("t")) }, want: "ack 3"},
		{name: "failed", story: func(r *rig) { r.assign(job("t").kind("none")) }, want: "ack 3"},
		{name: "failed, or not told", story: func(r *rig) { r.assign(job("t").kind("none")) }, again: true,
			want: "dispatch t.1 a again?"},
		{name: "cancelled", story: func(r *rig) { r.withdraw("t"); r.assign(job("t")) }, want: "ack 3"},
		{name: "cancelled before either came", story: func(r *rig) { r.withdraw("t"); r.last++ }, want: "fail t cancelled"},
		{name: "other content was done", story: func(r *rig) { r.give(job("t").content(2)); r.tell(says("a", "t")) },
			want: "fail t duplicate_task"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := busy(t, 0)
			r.tell(says("a", "first"))
			tt.story(r)
			want(t, r.comes("other", job("t"), tt.again), tt.want)
			engine.CheckIndexes(t, r.Engine)
		})
	}
}

// TestCancelInALane: a task that is withdrawn in its lane, or on the way there, ends when it
// comes out, or is not taken.
func TestCancelInALane(t *testing.T) {
	moving := func(t *testing.T) *rig {
		r := busy(t, 0)
		r.assign(job("t"))
		want(t, r.beats(engine.HeldLong), "move t to ~held")
		want(t, r.withdraw("t"), "cancel t: done")
		return r
	}
	t.Run("in its lane", func(t *testing.T) {
		r := inALane(t)
		want(t, r.withdraw("t"), "cancel t: done")
		want(t, r.withdraw("t"), "cancel t: done")
		want(t, r.assign(job("t")), "ack 3", "duplicate t")
		want(t, r.comes(coordinator.LaneHeld, job("t"), false), "fail t cancelled")
		want(t, r.comes(coordinator.LaneHeld, job("t"), false), "ack 5")
		if why := r.failures[0].Failure.Text; why != "not wanted" {
			t.Errorf("it fails as %q", why)
		}
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("on its way", func(t *testing.T) {
		r := moving(t)
		want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2", "read ~held: 2000")
		want(t, r.comes(coordinator.LaneHeld, job("t"), false), "fail t cancelled")
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("on its way, and not taken", func(t *testing.T) {
		want(t, moving(t).moved(2, coordinator.PublishRejected), "fail t cancelled")
	})
	t.Run("on its way when the session ends", func(t *testing.T) {
		r := moving(t)
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		want(t, r.redeliver(job("t")), "fail t cancelled")
		want(t, r.comes(coordinator.LaneHeld, job("t"), false), "ack 4")
		engine.CheckIndexes(t, r.Engine)
	})
}

// TestMoveCutShort: a task that was on its way when the session ended may be in both queues,
// and is given to an agent once.
func TestMoveCutShort(t *testing.T) {
	r := busy(t, 0)
	r.assign(job("t"))
	want(t, r.beats(engine.HeldLong), "move t to ~held")
	r.apply(coordinator.SessionLost{})
	engine.CheckIndexes(t, r.Engine)
	r.apply(coordinator.SessionOpened{})
	want(t, r.moved(2, coordinator.PublishConfirmed)) // too late
	r.tell(says("a", "first"))
	want(t, r.comes(coordinator.LaneHeld, job("t"), false), "dispatch t.1 a")
	want(t, r.redeliver(job("t")), "ack 4", "duplicate t")
	engine.CheckIndexes(t, r.Engine)
}

// TestMoveCutShortAndFailed: what came out of the lane has failed when the message of before is
// handed out again. That is no new submission; what its producer sends anew is.
func TestMoveCutShortAndFailed(t *testing.T) {
	r := busy(t, 0)
	r.assign(job("t"))
	want(t, r.beats(engine.HeldLong), "move t to ~held")
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	r.tell(says("a", "first"))
	want(t, r.comes(coordinator.LaneHeld, job("t"), false), "dispatch t.1 a")
	r.confirm(r.last)
	want(t, r.tell(says("a", "t").but(coordinator.OutcomeFailed)), "completed t.1 a failed")
	want(t, r.redeliver(job("t")), "ack 4")
	want(t, r.assign(job("t")), "dispatch t.2 a")
}

// TestLaneCopyIsNotTheOneInDoubt: the message whose acknowledgement was lost when the task had been moved
// is known when it comes, however often the lane has handed out what it has before.
func TestLaneCopyIsNotTheOneInDoubt(t *testing.T) {
	r := busy(t, 0)
	r.assign(job("t"))
	want(t, r.beats(engine.HeldLong), "move t to ~held")
	want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2", "read ~held: 2000")
	r.apply(coordinator.SessionLost{}) // takes the acknowledgement with it
	r.apply(coordinator.SessionOpened{})
	r.tell(says("a", "first"))
	want(t, r.comes(coordinator.LaneHeld, job("t"), true), "dispatch t.1 a again?")
	r.confirm(r.last)
	want(t, r.tell(says("a", "t").but(coordinator.OutcomeFailed)), "completed t.1 a failed")
	want(t, r.redeliver(job("t")), "ack 4")
}

// TestMovesEndBeforeADrain: what is on its way when a drain begins is seen to its end.
func TestMovesEndBeforeADrain(t *testing.T) {
	r := busy(t, 0)
	r.assign(job("t"))
	r.assign(job("u"))
	r.beats(engine.HeldLong)
	r.apply(coordinator.DrainBegan{})
	if n := r.Dispatching(); n != 2 {
		t.Fatalf("%d are waited for, want both", n)
	}
	want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2")
	want(t, r.moved(3, coordinator.PublishRejected))
	if n := r.Dispatching(); n != 0 || len(r.HeldTasks()) != 0 {
		t.Fatalf("%d are waited for, %d held", n, len(r.HeldTasks()))
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestLanesSurviveATakeOver: the next leader knows which lanes may hold something, which
// tasks are in one, and which of those are withdrawn.
func TestLanesSurviveATakeOver(t *testing.T) {
	r := leader(t)
	p := policyOf(worker("a").slots(2), worker("b").slots(2)).lanes(1, "g").
		set(func(s *coordinator.Settings) { s.AssignmentTimeout = time.Hour })
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	for _, id := range []coordinator.TaskID{"1", "2", "3", "4"} {
		r.give(job(id))
	}
	move := func(id coordinator.TaskID) {
		want(t, r.assign(job(id)), "move "+string(id)+" to other")
		r.moved(r.last, coordinator.PublishConfirmed)
	}
	want(t, r.assign(job("waits")))
	move("laned")
	move("cancelled")
	r.withdraw("cancelled")
	move("held")
	want(t, r.withdraw("waits"), "read other: 1", "fail waits cancelled", "cancel waits: done")
	want(t, r.comes("other", job("held"), false)) // out of the lane: it has it still
	want(t, r.assign(job("moving")), "move moving to other")
	want(t, r.withdraw("moving"), "cancel moving: done")
	r.pass(2 * engine.AckDoubt)
	for how, heir := range heirs(r) {
		t.Run(how, func(t *testing.T) {
			if l := heir.Lane("other"); l == nil || !l.Known {
				t.Error("it does not know that the lane may hold something")
			}
			heir.last = 99
			want(t, heir.redeliver(job("laned")), "ack 100")
			want(t, heir.assign(job("held")), "ack 101", "duplicate held")
			want(t, heir.comes("other", job("cancelled"), false), "fail cancelled cancelled")
			want(t, heir.redeliver(job("moving")), "fail moving cancelled")
			want(t, heir.comes("other", job("moving"), false), "ack 104")
			heir.tell(says("a", "1"))
			heir.tell(says("b", "2"))
			want(t, heir.comes("other", job("laned"), false), "dispatch laned.1 a")
			want(t, heir.comes("other", job("held"), true), "dispatch held.1 b again?")
		})
	}
}

// TestComesOutOfItsLaneBeforeTheConfirm: what a lane that is being read hands out at once is
// the task, and no copy; it goes on when the confirm of its move is heard.
func TestComesOutOfItsLaneBeforeTheConfirm(t *testing.T) {
	moving := func(t *testing.T) *rig {
		r := busy(t, 0)
		r.Record(true)
		r.Records(nil)
		r.assign(job("t"))
		want(t, r.beats(engine.HeldLong), "move t to ~held")
		want(t, r.tell(says("a", "first")), "completed first.1 a succeeded")
		want(t, r.comes(coordinator.LaneHeld, job("t"), false)) // 3
		return r
	}
	t.Run("confirmed", func(t *testing.T) {
		r := moving(t)
		want(t, r.comes(coordinator.LaneHeld, job("t"), true), "ack 4") // a copy of before
		want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2", "dispatch t.1 a")
		want(t, r.confirm(3), "ack 3")
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("refused", func(t *testing.T) { // then it was an older message that came
		r := moving(t)
		want(t, r.moved(2, coordinator.PublishRejected), "ack 3", "dispatch t.1 a")
		want(t, r.confirm(2), "ack 2")
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("confirmed when nothing new is begun any more", func(t *testing.T) {
		r := moving(t)
		r.apply(coordinator.DrainBegan{}) // what came out of the lane goes back to it
		want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2")
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("cancelled meanwhile", func(t *testing.T) {
		r := moving(t)
		r.withdraw("t")
		want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2", "fail t cancelled")
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("the session ends", func(t *testing.T) {
		r := moving(t)
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		r.hear(beat("a").running())
		if r.redeliver(job("t")); r.latest().Task.ID != "t" {
			t.Error("it is not dispatched in the next session")
		}
		engine.CheckIndexes(t, r.Engine)
	})
}

// TestOverdueOutOfItsLaneForWantOfQuota: it was not tried any more, and still says what it
// waited for.
func TestOverdueOutOfItsLaneForWantOfQuota(t *testing.T) {
	r := inALane(t)
	p := policyOf(worker("a")).quotas(quotasOf().group("team", 1, daily(100)))
	p.Settings, p.Lanes, p.LaneRoom = r.Policy().Settings, r.Policy().Lanes, r.Policy().LaneRoom
	p.Settings.CountsWaiting = true
	r.install(p)
	r.give(job("u").of("team").tokens(90, 10))
	r.tell(says("a", "u").used(90, 10))
	late := job("late").of("team").tokens(9, 1)
	late.AcceptedAt = r.now.Add(-r.Policy().Settings.AssignmentTimeout)
	want(t, r.comes(coordinator.LaneHeld, late, false), "fail late quota_exhausted")
	if at := r.failures[len(r.failures)-1].Failure.RetryAt; at.IsZero() {
		t.Error("it does not say from when on to try again")
	}
}

// TestLaneCopyAfterTheWindow: a copy that a leader's death leaves in a lane comes out when its id
// is forgotten. It is not known then whether the task has run, and its dispatch says so; it has a
// name of its own. A task that this leader has accepted and moved is in one queue only.
func TestLaneCopyAfterTheWindow(t *testing.T) {
	r := crashedMoves[0].begin(t)
	for how, heir := range heirs(r) {
		heir.tell(says("a", "1"))
		heir.tell(says("a", "2"))
		task := job("t").Task
		task.AcceptedAt = heir.now.Add(-time.Minute)
		heir.last++
		heir.apply(coordinator.TaskReceived{Handle: heir.last, Task: &task, Redelivered: true})
		first := heir.latest()
		heir.confirm(first.Handle)
		heir.tell(says(first.Agent, "t"))
		for range 70 { // the lane is longer than the window
			heir.pass(time.Minute)
			heir.hear(beat("a").running())
			heir.hear(beat("b").running("3", "4"))
		}
		out := func(id coordinator.TaskID, accepted time.Time) coordinator.Dispatch {
			copied := job(id).Task
			copied.AcceptedAt = accepted
			heir.last++
			heir.apply(coordinator.TaskReceived{Handle: heir.last, Task: &copied, Lane: "other"})
			return heir.latest()
		}
		if d := out("t", task.AcceptedAt.Add(-time.Second)); d.Task.ID != "t" || !d.MaybeDuplicate ||
			d.DispatchID == first.DispatchID {
			t.Errorf("%s: %s goes to %s, marked %v, after %s", how, d.DispatchID, d.Agent, d.MaybeDuplicate, first.DispatchID)
		}
		if d := out("u", heir.now.Add(-65*time.Minute)); d.Task.ID != "u" || d.MaybeDuplicate {
			t.Errorf("%s: %s goes to %s, marked %v", how, d.DispatchID, d.Agent, d.MaybeDuplicate)
		}
	}
}

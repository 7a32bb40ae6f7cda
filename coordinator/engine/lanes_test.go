package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// lanes gives these groups lanes of their own, and room for so many waiting tasks (0: for
// any number).
func (b *policyBuilder) lanes(room int, keys ...string) *policyBuilder {
	b.LaneRoom, b.Lanes = room, append([]string{}, keys...)
	return b
}

func (b *taskBuilder) group(g string) *taskBuilder { b.Group = g; return b }

// moved is the broker's answer to a move.
func (r *rig) moved(h coordinator.Handle, o coordinator.PublishOutcome) []string {
	return r.apply(coordinator.LaneMoved{Handle: h, Outcome: o})
}

// comes delivers a task out of a lane, under the next handle.
func (r *rig) comes(lane string, b *taskBuilder, again bool) []string {
	task := b.Task
	if task.AcceptedAt.IsZero() {
		task.AcceptedAt = epoch
	}
	r.last++
	return r.apply(coordinator.TaskReceived{Handle: r.last, Task: &task, Lane: lane, Redelivered: again})
}

func (r *rig) laneHas(lane string, n int) []string {
	return r.apply(coordinator.LaneSeen{Lane: lane, Ready: n})
}

// busy is a fleet of one agent with one slot, which is taken by the task "first" (handle 1).
func busy(t *testing.T, room int, keys ...string) *rig {
	t.Helper()
	a := worker("a")
	a.Timeout = 240 * time.Hour
	r := ready(t, policyOf(a).lanes(room, keys...).set(func(s *coordinator.Settings) {
		s.AssignmentTimeout, s.DedupeWindow, s.MaxQueueSize = 24*time.Hour, 240*time.Hour, 10_000
	}))
	r.hear(beat("a").running())
	r.give(job("first"))
	return r
}

// beats lets time go by with a report of the agent each interval, so that it stays online
// and busy with "first".
func (r *rig) beats(d time.Duration) (lines []string) {
	for ; d > 0; d -= interval {
		lines = append(lines, r.hear(beat("a").running("first"))...)
		lines = append(lines, r.pass(min(d, interval))...)
	}
	return lines
}

// TestHeldForLong: a task that has waited for 60 s is moved, acknowledged when the lane of those
// that are held has it, and read back at once. Then it stays until the broker's patience with its
// consumer is at stake.
func TestHeldForLong(t *testing.T) {
	r := busy(t, 0)
	want(t, r.assign(job("t")))
	want(t, r.beats(engine.HeldLong-time.Second))
	want(t, r.beats(time.Second), "move t to ~held")
	want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2", "read ~held: 2000")
	engine.CheckIndexes(t, r.Engine)
	want(t, r.comes(coordinator.LaneHeld, job("t"), false))
	want(t, r.beats(engine.HeldMost-time.Second))
	want(t, r.beats(time.Second), "move t to ~held")
	want(t, r.moved(3, coordinator.PublishConfirmed), "ack 3")
	want(t, r.comes(coordinator.LaneHeld, job("t"), false))
	want(t, r.tell(says("a", "first")), "completed first.1 a succeeded", "dispatch t.1 a")
	want(t, r.confirm(4), "ack 4")
	engine.CheckIndexes(t, r.Engine)
}

// TestAllThatHaveRoomAreHeld: where as many keep their place as have room, each of them does so once
// more: it is one of them.
func TestAllThatHaveRoomAreHeld(t *testing.T) {
	r := busy(t, 2)
	r.assign(job("t1"))
	r.assign(job("t2"))
	want(t, r.beats(engine.HeldLong), "move t1 to ~held", "move t2 to ~held")
	want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2", "read ~held: 2")
	want(t, r.moved(3, coordinator.PublishConfirmed), "ack 3")
	want(t, r.comes(coordinator.LaneHeld, job("t1"), false))
	want(t, r.comes(coordinator.LaneHeld, job("t2"), false))
	want(t, r.beats(engine.HeldMost), "move t1 to ~held", "move t2 to ~held")
	engine.CheckIndexes(t, r.Engine)
}

// TestWithoutLanes: nothing is moved where the policy has no lanes.
func TestWithoutLanes(t *testing.T) {
	r := busy(t, 1)
	p := *r.Policy()
	p.Lanes = nil
	r.apply(coordinator.PolicyChanged{Policy: &p})
	for i := range 10 {
		want(t, r.assign(job(coordinator.TaskID(fmt.Sprint("t", i)))))
	}
	want(t, r.beats(2*engine.HeldLong))
}

// TestHeldNoLongerThanTheBrokerAllows: what cannot be moved to a lane does not wait for so
// long that the broker would close the channel on which it came.
func TestHeldNoLongerThanTheBrokerAllows(t *testing.T) {
	r := busy(t, 0)
	p := *r.Policy()
	p.Settings.MaxTimeout = 28 * time.Minute
	r.apply(coordinator.PolicyChanged{Policy: &p})
	d := r.dispatches[0]
	d.Agent, d.Task = "gone", &coordinator.Task{ID: "back", Type: "any", ContentHash: 1, AcceptedAt: r.now}
	want(t, r.returns(d, coordinator.ReturnTakenBack, false))
	want(t, r.assign(job("laned")))
	want(t, r.beats(27*time.Minute+59*time.Second), "move laned to ~held")
	want(t, r.beats(time.Second), "fail back all_agents_at_capacity")
	want(t, r.moved(3, coordinator.PublishNotSent), "fail laned all_agents_at_capacity") // nor can this one, held as long
	if text := r.failures[1].Failure.Text; !strings.Contains(text,
		"held for 28m0s (broker_consumer_timeout_seconds less 120)") {
		t.Error(text)
	}
}

// TestAgeInALane: where the timeout counts all waiting, it counts from when a task was accepted.
func TestAgeInALane(t *testing.T) {
	r := busy(t, 0)
	p := *r.Policy()
	p.Settings.AssignmentTimeout, p.Settings.CountsWaiting = 90*time.Second, true
	r.apply(coordinator.PolicyChanged{Policy: &p})
	accepted := r.now
	late := job("late")
	late.AcceptedAt = accepted.Add(-90 * time.Second)
	want(t, r.comes("other", late, false), "fail late all_agents_at_capacity")
	in := job("in")
	in.AcceptedAt = accepted.Add(-60 * time.Second) // it has 30 s left
	want(t, r.comes("other", in, false))
	want(t, r.beats(30*time.Second-1))
	want(t, r.beats(1), "fail in all_agents_at_capacity")
}

// TestCrowding: beyond the room, tasks of the lane in which most wait are moved, and of
// these the one that would go last.
func TestCrowding(t *testing.T) {
	tests := []struct {
		name  string
		tasks []*taskBuilder
		want  []string // what is moved, in order
	}{
		{"room for four", []*taskBuilder{job("t1"), job("t2"), job("t3"), job("t4")}, nil},
		{"the latest", []*taskBuilder{job("t1"), job("t2"), job("t3"), job("t4"), job("t5"), job("t6")},
			[]string{"move t5 to other", "move t6 to other"}},
		{"the lowest, not the latest", []*taskBuilder{job("t1"), job("low").prio(coordinator.PriorityLow), job("t3"),
			job("t4"), job("t5").prio(coordinator.PriorityCritical)},
			[]string{"move low to other"}},
		{"of the group with most", []*taskBuilder{job("a1").group("a"), job("a2").group("a"), job("a3").group("a"),
			job("b1").group("b"), job("b2").group("b")},
			[]string{"move a3 to a"}},
		{"its highest priority does not help a group that floods", []*taskBuilder{
			job("a1").group("a").prio(3), job("a2").group("a").prio(3), job("a3").group("a").prio(3),
			job("b1").group("b").prio(0), job("b2").group("b").prio(0)},
			[]string{"move a3 to a"}},
		{"groups without a lane share one", []*taskBuilder{job("x").group("x"), job("y1").group("y"), job("y2").group("y"),
			job("a1").group("a"), job("a2").group("a")},
			[]string{"move y2 to other"}},
		{"of the group with most of those that share a lane", []*taskBuilder{
			job("f1").group("flood"), job("f2").group("flood"), job("f3").group("flood"), job("f4").group("flood"),
			job("v").group("victim").prio(0)},
			[]string{"move f4 to other"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := busy(t, 4, "a", "b")
			var got []string
			for _, task := range tt.tasks {
				got = append(got, r.assign(task)...)
				engine.CheckIndexes(t, r.Engine)
			}
			want(t, got, tt.want...)
		})
	}
}

// TestBurstWithLanes: what is more than max_queue_size, but may be moved, makes room instead
// of failing, even while nothing is moved: 10 may wait, so the room is 5, and the broker
// answers none of the moves.
func TestBurstWithLanes(t *testing.T) {
	r := busy(t, 100)
	p := *r.Policy()
	p.Settings.MaxQueueSize = 10
	r.apply(coordinator.PolicyChanged{Policy: &p})
	for i := range engine.MaxMoving + 20 {
		got := r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))))
		if i < 5 || i >= 5+engine.MaxMoving {
			want(t, got)
		} else {
			want(t, got, fmt.Sprintf("move t%d to other", i))
		}
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestLaneOfTheGroupAbove: a group without a lane uses that of the nearest group above it.
func TestLaneOfTheGroupAbove(t *testing.T) {
	r := busy(t, 1, "org")
	p := *r.Policy()
	p.LanesAbove = map[string]string{"team": "org"}
	r.apply(coordinator.PolicyChanged{Policy: &p})
	r.assign(job("t1").group("team"))
	want(t, r.assign(job("t2").group("team")), "move t2 to org")
}

// TestNarrowIntake: with large tasks the shell holds fewer than the window, and half of that
// is all the room there is.
func TestNarrowIntake(t *testing.T) {
	r := busy(t, 100)
	r.apply(coordinator.IntakeChanged{Window: 4})
	want(t, r.assign(job("t1")))
	want(t, r.assign(job("t2")))
	want(t, r.assign(job("t3")), "move t3 to other")
}

// TestMovesAreBounded: much at once is moved in steps, so that no event takes long, and
// never so many at a time that dispatches wait for them.
func TestMovesAreBounded(t *testing.T) {
	r := busy(t, 0)
	for i := range 1000 {
		want(t, r.assign(job(coordinator.TaskID(fmt.Sprint("t", i)))))
	}
	p := *r.Policy()
	p.LaneRoom = 10
	if got := r.apply(coordinator.PolicyChanged{Policy: &p}); len(got) != engine.MovesPerEvent {
		t.Fatalf("%d moves in one event, want %d", len(got), engine.MovesPerEvent)
	}
	if got := len(r.beats(time.Second)); got != engine.MaxMoving-engine.MovesPerEvent {
		t.Fatalf("%d more, want %d in all", got, engine.MaxMoving)
	}
	engine.CheckIndexes(t, r.Engine)
	for h := coordinator.Handle(2); h < 1002; h++ {
		if o := r.HeldTask(h); o.State() == engine.StateMoving {
			r.moved(h, coordinator.PublishConfirmed)
		}
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestMoveRefused: a task whose lane does not take it waits on as before, and its lane is
// left alone for a while. One that cannot be published stays for good.
func TestMoveRefused(t *testing.T) {
	for _, o := range []coordinator.PublishOutcome{coordinator.PublishRejected, coordinator.PublishUnroutable} {
		t.Run(o.String(), func(t *testing.T) {
			r := busy(t, 0)
			r.assign(job("t"))
			want(t, r.beats(engine.HeldLong), "move t to ~held")
			want(t, r.moved(2, o))
			engine.CheckIndexes(t, r.Engine)
			want(t, r.beats(engine.LaneRest-1))
			want(t, r.beats(1), "move t to ~held")
			want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2", "read ~held: 2000")
		})
	}
	t.Run("not sent", func(t *testing.T) {
		r := busy(t, 0)
		r.assign(job("t"))
		want(t, r.beats(engine.HeldLong), "move t to ~held")
		want(t, r.moved(2, coordinator.PublishNotSent))
		want(t, r.beats(10*engine.HeldLong))
		want(t, r.tell(says("a", "first")), "completed first.1 a succeeded", "dispatch t.1 a")
	})
	t.Run("somebody is free by then", func(t *testing.T) {
		r := busy(t, 0)
		r.assign(job("t"))
		want(t, r.beats(engine.HeldLong), "move t to ~held")
		want(t, r.tell(says("a", "first")), "completed first.1 a succeeded")
		want(t, r.moved(2, coordinator.PublishRejected), "dispatch t.1 a")
	})
	t.Run("overdue by then", func(t *testing.T) {
		r := busy(t, 0)
		task := job("t")
		task.Deadline = r.now.Add(engine.HeldLong + time.Second)
		r.assign(task)
		want(t, r.beats(engine.HeldLong), "move t to ~held")
		want(t, r.beats(2*time.Second))
		want(t, r.moved(2, coordinator.PublishRejected), "fail t deadline_exceeded")
	})
}

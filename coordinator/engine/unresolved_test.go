package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestLostAcknowledgement: a task fails, and then its own message comes again,
// because the session took our acknowledgement with it. That is no new submission.
// One that was acknowledged long before is: its producer sends it again.
func TestLostAcknowledgement(t *testing.T) {
	failed := says("a", "t").but(coordinator.OutcomeFailed)
	newSession := func(r *rig) {
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
	}
	tests := []struct {
		name  string
		story func(*rig)
		want  string
	}{
		{"lost before the confirm", func(r *rig) {
			r.assign(job("t"))
			newSession(r)
			r.tell(failed)
		}, "ack 2"},
		{"lost before the confirm, and the result was there already", func(r *rig) {
			r.assign(job("t"))
			r.tell(failed)
			newSession(r)
		}, "ack 2"},
		{"lost after the confirm, then failed", func(r *rig) {
			r.give(job("t"))
			newSession(r)
			r.tell(failed)
		}, "ack 2"},
		{"failed, then lost", func(r *rig) {
			r.give(job("t"))
			r.tell(failed)
			newSession(r)
		}, "ack 2"},
		{"overdue, then lost", func(r *rig) {
			task := job("t")
			task.Timeout = time.Nanosecond
			r.give(task)
			want(r.t, r.pass(engine.LeaseMargin+1), "fail t task_timeout", "withdraw t.1 a")
			newSession(r)
		}, "ack 2"},
		{"sent anew with other content", func(r *rig) {
			r.assign(job("t").content(2))
			newSession(r)
			r.tell(failed)
		}, "dispatch t.2 a again?"},
		{"came in the session after, and again in the one after that", func(r *rig) {
			r.assign(job("t"))
			newSession(r)
			r.tell(failed)
			r.last = 2
			want(r.t, r.redeliver(job("t")), "ack 3")
			newSession(r)
		}, "ack 2"},
		{"in doubt, but that was a long session ago", func(r *rig) {
			r.assign(job("t"))
			newSession(r)
			r.tell(failed)
			r.pass(engine.ShortSession)
			newSession(r)
			r.hear(beat("a").running().available(2))
		}, "dispatch t.2 a again?"},
		{"acknowledged long before", func(r *rig) {
			r.give(job("t"))
			r.tell(failed)
			r.pass(engine.AckDoubt)
			newSession(r)
		}, "dispatch t.2 a again?"},
		{"sent anew in between, and that one was given up", func(r *rig) {
			r.give(job("t"))
			r.tell(failed)
			newSession(r)
			r.hear(beat("a").running().available(0))
			r.assign(job("t"))
			newSession(r)
			r.pass(1)
			r.hear(beat("a").running())
		}, "dispatch t.2 a again?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tracking(t, policyOf(worker("a").slots(2)))
			tt.story(r)
			r.last = 1
			want(t, r.redeliver(job("t")), tt.want)
			engine.CheckIndexes(t, r.Engine)
		})
	}
}

// TestAdopt: results of tasks that a coordinator before this one assigned count, and
// the task's own message, if it comes once more, is known to be done with.
func TestAdopt(t *testing.T) {
	p := policyOf(worker("a").slots(2)) // 5 minutes for a task
	done := func() *resultBuilder { return says("a", "t").of("t.1") }
	t.Run("as it comes", func(t *testing.T) {
		r := tracking(t, p)
		want(t, r.tell(done()), "completed t.1 a succeeded")
		want(t, r.tell(done()), "result of t by a: duplicate")
		want(t, r.redeliver(job("t")), "ack 1")
		want(t, r.redeliver(job("t")), "ack 2")
		want(t, r.assign(job("t")), "ack 3", "duplicate t")
	})
	t.Run("failed", func(t *testing.T) {
		r := tracking(t, p)
		want(t, r.tell(done().but(coordinator.OutcomeFailed)), "completed t.1 a failed")
		// Its own message, or one sent anew that the coordinator before had only prefetched:
		// rather twice than never.
		want(t, r.redeliver(job("t")), "dispatch t.2 a again?")
	})
	t.Run("failed, and tried again by the coordinator before", func(t *testing.T) {
		r := tracking(t, p)
		r.apply(coordinator.ResultReported{Result: done().but(coordinator.OutcomeFailed).stamped(r.now).Result})
		want(t, r.tell(says("a", "t").of("t.2")), "completed t.2 a succeeded")
		want(t, r.tell(says("a", "t").of("t.3")), "result of t by a: wrong_agent")
	})
	t.Run("failed, and the next attempt comes back", func(t *testing.T) {
		r := tracking(t, p)
		r.tell(done().but(coordinator.OutcomeFailed))
		d := coordinator.Dispatch{Task: &job("t").Task, Agent: "b", Attempt: 1}
		want(t, r.returns(d, coordinator.ReturnTakenBack, false), "ack 1")
		d.Attempt = 2
		want(t, r.returns(d, coordinator.ReturnTakenBack, false), "dispatch t.3 a again?")
	})
	t.Run("out of the past", func(t *testing.T) { // a leader that read it as news has told of it
		r := tracking(t, p)
		want(t, r.apply(coordinator.ResultReported{Result: done().stamped(r.now).Result}))
		want(t, r.redeliver(job("t")), "ack 1")
	})
	t.Run("out of the past, and untold", func(t *testing.T) {
		r := tracking(t, p)
		want(t, r.apply(coordinator.ResultReported{Result: done().stamped(r.now.Add(-time.Hour)).Result, Untold: true}),
			"completed t.1 a succeeded")
	})
	t.Run("sent anew", func(t *testing.T) { // its content is not known: it cannot be called a duplicate
		r := tracking(t, p)
		r.tell(done())
		want(t, r.assign(job("t")), "dispatch t.2 a")
	})
	t.Run("come back from its agent", func(t *testing.T) {
		r := tracking(t, p)
		r.tell(done())
		d := coordinator.Dispatch{Task: &job("t").Task, Agent: "a", Attempt: 1}
		want(t, r.returns(d, coordinator.ReturnExpired, false), "ack 1")
	})
	for name, b := range map[string]*resultBuilder{
		"given back": done().gaveUp(), "a stranger's": says("x", "t").of("t.1"), "without a dispatch": says("a", "t"),
		"of long ago": done().stamped(epoch.Add(interval - 5*time.Minute - engine.LeaseMargin)),
	} {
		t.Run(name, func(t *testing.T) {
			want(t, tracking(t, p).tell(b), "result of t by "+string(b.Agent)+": unknown")
		})
	}
	t.Run("too late to be", func(t *testing.T) {
		r := tracking(t, p)
		r.pass(5*time.Minute + engine.LeaseMargin - interval) // since the session opened
		want(t, r.tell(done()), "result of t by a: unknown")
		r.hear(beat("a").running("t2"))
		want(t, r.tell(says("a", "t2").of("t2.7")), "completed t2.7 a succeeded") // its agent said that it runs it
	})
}

// TestAdoptFromAnEmptyJournal: an empty journal says that no task was assigned. A result of one
// ends nothing, from any agent and at any time, unless its agent has listed the task.
func TestAdoptFromAnEmptyJournal(t *testing.T) {
	p := policyOf(worker("a").slots(2))
	r := &rig{Engine: engine.New(), t: t, now: epoch}
	r.Follow()
	r.Record(true)
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	r.hear(beat("a").running("known"))
	past := says("a", "t").of("t.1").stamped(r.now).Result
	want(t, r.apply(coordinator.ResultReported{Result: past, Untold: true}))
	r.Lead(r.now)
	want(t, r.apply(coordinator.ResultReported{Result: past, Untold: true}))
	r.apply(coordinator.SessionOpened{})
	r.now = r.now.Add(interval)
	r.hear(beat("a").running("known"))
	want(t, r.tell(says("a", "t").of("t.1")), "result of t by a: unknown")
	want(t, r.tell(says("a", "known").of("known.1")), "completed known.1 a succeeded")
	want(t, r.assign(job("t")), "dispatch t.1 a")
}

// TestAnotherProgram: an agent that stops telling exactly what it runs is not expected
// to send results any more.
func TestAnotherProgram(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	r.pass(time.Second)
	r.hear(beat("a"))
	r.give(job("t"))
	for range 20 {
		r.pass(interval)
		want(t, r.hear(beat("a")))
	}
	r.slots("a", 0, 1)
}

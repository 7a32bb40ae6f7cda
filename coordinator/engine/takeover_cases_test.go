package engine_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// heirs are the two that may take over from a leader that dies at this moment: one has
// folded its records, the other a snapshot. Both have just opened their first session,
// and know every agent as idle.
func heirs(r *rig) map[string]*rig {
	r.t.Helper()
	all := make(map[string]*rig)
	for name, journal := range map[string][]coordinator.Record{"by its records": r.Records(nil),
		"by a snapshot": r.imaged()} {
		all[name] = r.heirOf(r.now, journal)
	}
	return all
}

// imaged is a snapshot of what it knows.
func (r *rig) imaged() (snapshot []coordinator.Record) {
	r.Image(r.now).Records(func(rec coordinator.Record) bool { snapshot = append(snapshot, copied(rec)); return true })
	return snapshot
}

// heirOf is an engine that knows these records of r's, and takes over when its own clock says now. Between are
// the terms, after r's own, of those that have recorded nothing.
func (r *rig) heirOf(now time.Time, journal []coordinator.Record, between ...time.Duration) *rig {
	r.t.Helper()
	heir := r.follower(now, journal, between...)
	heir.Lead(heir.now)
	heir.opened = heir.apply(coordinator.SessionOpened{})
	return heir
}

// follower is the same before it takes over.
func (r *rig) follower(now time.Time, journal []coordinator.Record, between ...time.Duration) *rig {
	r.t.Helper()
	heir := &rig{Engine: engine.New(), t: r.t, now: now, last: r.last}
	heir.apply(coordinator.PolicyChanged{Policy: r.Policy()})
	heir.Follow()
	for _, rec := range journal {
		heir.Fold(r.now, rec)
	}
	for _, a := range r.Policy().Agents {
		heir.hear(beat(a.ID).running())
	}
	heir.Succeed(r.now, time.Second)
	ended := r.now
	for _, term := range between {
		ended = ended.Add(term)
		heir.Succeed(ended, term)
	}
	return heir
}

// leader is a rig that records, with two agents that say exactly what they run.
func leader(t *testing.T) *rig {
	t.Helper()
	r := &rig{Engine: engine.New(), t: t, now: epoch, auctions: make(map[coordinator.TaskID]string)}
	r.Record(true)
	p := policyOf(worker("a").slots(2), worker("b").slots(2))
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	r.apply(coordinator.SessionOpened{})
	for _, a := range p.Agents {
		r.hear(beat(a.ID).running())
	}
	return r
}

// TestMessageInDoubtAtATakeOver: the message of a task that has failed comes again,
// because its acknowledgement died with the leader or was never sent. That is no new
// submission, whichever took over, and however.
func TestMessageInDoubtAtATakeOver(t *testing.T) {
	failed := func(agent coordinator.AgentID, dispatch string) *resultBuilder {
		return says(agent, "t").of(dispatch).but(coordinator.OutcomeFailed)
	}
	rejected := func() *resultBuilder { return says("a", "t").of("t.1").but(coordinator.OutcomeRejected) }
	tests := []struct {
		name  string
		story func(*rig)
		then  func(heir *rig) // before the message comes again
	}{
		{name: "confirmed, then failed", story: func(r *rig) {
			r.give(job("t"))
			r.tell(failed("a", "t.1"))
		}},
		{name: "failed before the confirm, which then came", story: func(r *rig) {
			r.assign(job("t"))
			r.tell(failed("a", "t.1"))
			r.confirm(1)
		}},
		{name: "failed before the confirm, which never came", story: func(r *rig) {
			r.assign(job("t"))
			r.tell(failed("a", "t.1"))
		}},
		{name: "never confirmed, and failed afterwards", story: func(r *rig) {
			r.assign(job("t"))
		}, then: func(heir *rig) { heir.tell(failed("a", "t.1")) }},
		{name: "never confirmed, heard of, and failed afterwards", story: func(r *rig) {
			r.assign(job("t"))
			r.tell(rejected())
		}, then: func(heir *rig) { heir.tell(failed("a", "t.1")) }},
		{name: "came back before its confirm, and failed elsewhere", story: func(r *rig) {
			r.assign(job("t"))
			r.returns(r.latest(), coordinator.ReturnTakenBack, false)
			r.confirm(2)
			r.pass(engine.AckDoubt) // what is in doubt is the producer's message
			r.tell(failed("b", "t.2"))
		}},
		{name: "came back before its confirm, and failed elsewhere afterwards", story: func(r *rig) {
			r.assign(job("t"))
			r.returns(r.latest(), coordinator.ReturnTakenBack, false)
			r.confirm(2)
			r.pass(engine.AckDoubt)
		}, then: func(heir *rig) { heir.tell(failed("b", "t.2")) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := leader(t)
			tt.story(r)
			for how, heir := range heirs(r) {
				if tt.then != nil {
					tt.then(heir)
				}
				heir.last = 99
				if got := heir.redeliver(job("t")); len(got) != 1 || got[0] != "ack 100" {
					t.Errorf("%s: %v, want its own message acknowledged", how, got)
				}
			}
		})
	}
}

// TestMessageOfAnUnansweredDispatchStaysInDoubt: as long as it is not known whether a dispatch has arrived its
// message may come again, also after a term in which everything else that was in doubt would have come. A
// leader may have had it and held it until it died, as it does while the agent cannot be reached.
func TestMessageOfAnUnansweredDispatchStaysInDoubt(t *testing.T) {
	r := leader(t)
	r.assign(job("t"))
	for how, journal := range map[string][]coordinator.Record{"by its records": r.Records(nil),
		"by a snapshot": r.imaged()} {
		heir := r.heirOf(r.now.Add(3*engine.ShortSession), journal, engine.ShortSession, 2*engine.ShortSession)
		want(t, heir.tell(says("a", "t").of("t.1").but(coordinator.OutcomeFailed)), "completed t.1 a failed")
		if got := heir.redeliver(job("t")); len(got) != 1 || !strings.HasPrefix(got[0], "ack ") {
			t.Errorf("%s: %v, want its own message acknowledged", how, got)
		}
	}
}

// TestMessageOfAReturnedDispatchStaysInDoubt: the dispatch came back before it was answered, and the task waited
// when its leader died. Its own message may come as late: a leader in between may have held it, and waited, too.
func TestMessageOfAReturnedDispatchStaysInDoubt(t *testing.T) {
	r := leader(t)
	r.assign(job("t"))
	first := r.latest()
	r.giveBack(first)
	for how, journal := range map[string][]coordinator.Record{"by its records": r.Records(nil),
		"by a snapshot": r.imaged()} {
		heir := r.heirOf(r.now.Add(3*engine.ShortSession), journal, engine.ShortSession, 2*engine.ShortSession)
		heir.returns(first, coordinator.ReturnRejected, true)
		heir.pass(time.Minute) // its back-off
		second := heir.latest()
		heir.confirm(second.Handle)
		want(t, heir.tell(says("b", "t").of("t.2").but(coordinator.OutcomeFailed)), "completed t.2 b failed")
		if got := heir.redeliver(job("t")); len(got) != 1 || !strings.HasPrefix(got[0], "ack ") {
			t.Errorf("%s: %v, want its own message acknowledged", how, got)
		}
	}
}

// TestNewSubmissionAfterATakeOver: what was acknowledged long before is done with. A
// message that comes under its id then is sent anew, also where the broker marks it as
// delivered before: to the leader that died.
func TestNewSubmissionAfterATakeOver(t *testing.T) {
	r := leader(t)
	r.give(job("t"))
	r.pass(engine.AckDoubt)
	for how, heir := range heirs(r) {
		want(t, heir.tell(says("a", "t").but(coordinator.OutcomeFailed)), "completed t.1 a failed")
		if got := heir.redeliver(job("t")); len(got) != 1 || got[0] != "dispatch t.2 b again?" {
			t.Errorf("%s: %v, want it given to b", how, got)
		}
	}
}

// TestAttemptsSurviveATakeOver: a dispatch id never stands for two dispatches, even if
// the first came back before the broker had confirmed it.
func TestAttemptsSurviveATakeOver(t *testing.T) {
	r := leader(t)
	r.assign(job("t"))
	r.giveBack(r.latest()) // it waits for its back-off
	for how, heir := range heirs(r) {
		if got := heir.redeliver(job("t")); len(got) != 1 || got[0] != "dispatch t.2 b again?" {
			t.Errorf("%s: %v, want another attempt", how, got)
		}
	}
}

// TestRefusalIsKnownBeforeItComes: a task came back from a, and its own message is delivered again before the
// one that came back. a does not get it again although it is preferred: not in the next session, and not by
// whichever takes over. What was taken out of a's queue a has not had, and does get.
func TestRefusalIsKnownBeforeItComes(t *testing.T) {
	for _, tt := range []struct {
		cause coordinator.ReturnCause
		want  string
	}{
		{cause: coordinator.ReturnRejected, want: "dispatch t.2 b again?"},
		{cause: coordinator.ReturnExpired, want: "dispatch t.2 b again?"},
		{cause: coordinator.ReturnTakenBack, want: "dispatch t.2 a again?"},
	} {
		t.Run(tt.cause.String(), func(t *testing.T) {
			r := leader(t)
			task := func() *taskBuilder { return job("t").prefers("a") }
			want(t, r.assign(task()), "dispatch t.1 a")
			first := r.latest()
			r.hear(beat("a").running().available(0))
			r.hear(beat("b").running().available(0)) // it waits wherever it may go
			r.returns(first, tt.cause, false)
			all := heirs(r)
			r.apply(coordinator.SessionLost{})
			r.apply(coordinator.SessionOpened{})
			r.hear(beat("a").running())
			r.hear(beat("b").running())
			all["in the next session"] = r
			for how, r := range all {
				if got := r.redeliver(task()); len(got) != 1 || got[0] != tt.want {
					t.Errorf("%s: %v, want %s", how, got, tt.want)
				}
				want(t, r.returns(first, tt.cause, true), fmt.Sprintf("ack %d", r.last)) // a copy by now
			}
		})
	}
}

// TestReturnOfARetiredDispatchSurvivesATakeOver: the agent of a dispatch that was never
// answered may not have its task again, which waits for another. Then the dispatch comes
// back after all, and nothing follows from that, but that its id is used up.
func TestReturnOfARetiredDispatchSurvivesATakeOver(t *testing.T) {
	r := leader(t)
	want(t, r.assign(job("t")), "dispatch t.1 a")
	r.apply(coordinator.DispatchSettled{Handle: r.latest().Handle, Outcome: coordinator.PublishUnknown})
	first := r.latest()
	for _, other := range []coordinator.TaskID{"u", "v", "w"} { // both are full
		r.give(job(other))
	}
	r.order("a", coordinator.OrderDrain)
	want(t, r.redeliver(job("t")))
	want(t, r.giveBack(first), "ack 6")
	for how, heir := range heirs(r) {
		heir.order("a", coordinator.OrderUncordon)
		if got := heir.redeliver(job("t")); len(got) != 1 || got[0] != "dispatch t.2 a again?" {
			t.Errorf("%s: %v, want another attempt", how, got)
		}
	}
}

// TestRecordsAreInOrder: when a task that has waited becomes due, what happens to it in
// the same moment is recorded behind its dispatch, not before.
func TestRecordsAreInOrder(t *testing.T) {
	again := func(t *testing.T) *rig { // t came back from a, and is due again with the next event
		r := leader(t)
		r.giveBack(r.give(job("t")))
		at, _ := r.NextDeadline()
		r.now = coordinator.Later(at, r.now.Add(time.Second))
		return r
	}
	t.Run("the agent before has done it", func(t *testing.T) {
		r := again(t)
		want(t, r.tell(says("a", "t").of("t.1")), "dispatch t.2 b", "completed t.1 a succeeded late")
		for how, heir := range heirs(r) {
			if fate, known := heir.RememberedFate(heir.now, "t"); !known || fate != coordinator.FateSucceeded {
				t.Errorf("%s: t is %v, known %v, want it succeeded", how, fate, known)
			}
		}
	})
	t.Run("it is withdrawn", func(t *testing.T) {
		r := again(t)
		want(t, r.withdraw("t"), "dispatch t.2 b", "cancel t: asked")
		for how, heir := range heirs(r) {
			if o := heir.OpenTask("t"); o == nil || !o.Withdrawn() || brief("t", o.DispatchID()) != "t.2" {
				t.Errorf("%s: t is %+v, want t.2 withdrawn", how, o)
			}
		}
	})
}

// TestAssignmentsAreCountedOnce: what an agent was given, also what it has at that
// moment, is the same for the next leader.
func TestAssignmentsAreCountedOnce(t *testing.T) {
	r := leader(t)
	r.give(job("t1"))
	r.tell(says(r.give(job("t2")).Agent, "t2"))
	r.give(job("t3"))
	for how, heir := range heirs(r) {
		for _, id := range []coordinator.AgentID{"a", "b"} {
			if got, want := heir.seen(id).Assigned, r.seen(id).Assigned; got != want {
				t.Errorf("%s: %d assignments of %s, want %d", how, got, id, want)
			}
		}
	}
}

// TestAnswerToAnEarlierCopy: a dispatch comes back before the broker has answered, and is
// on its way again under its id. The answer to the first copy is none to the second.
func TestAnswerToAnEarlierCopy(t *testing.T) {
	r := leader(t)
	want(t, r.assign(job("t")), "dispatch t.1 a")
	r.hear(beat("a").running("t"))
	want(t, r.returns(r.latest(), coordinator.ReturnExpired, false), "dispatch t.1 a again?")
	want(t, r.confirm(1), "ack 1")
	for how, heir := range heirs(r) {
		if o := heir.OpenTask("t"); o == nil || !o.Unanswered() {
			t.Errorf("%s: t is %+v, want the answer to t.1 awaited", how, o)
		}
	}
}

// TestBidsAreJudgedAfterATakeOver: what an agent's word in the market has been worth is
// known to the next leader.
func TestBidsAreJudgedAfterATakeOver(t *testing.T) {
	r := leader(t)
	p := policyOf(worker("a").slots(2), worker("b").slots(2)).market(everybodyAppraised)
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	r.assign(job("t"))
	r.bid(bid("b", "t").lasts(time.Hour))
	r.bid(bid("a", "t").lasts(time.Second)) // it promises success within 1 s
	r.confirm(r.latest().Handle)
	r.tell(says("a", "t").took(3 * time.Second))
	known := r.seen("a").Bidding
	// The claim of 1 was right, as one of 10+1 outcomes: a score of 0.25 − 0.25/11.
	if known.Outcomes != 1 || known.Ratio != 3 || math.Abs(known.Brier-0.25*10/11) > 1e-9 {
		t.Errorf("the leader believes %+v", known)
	}
	for how, heir := range heirs(r) {
		if got := heir.seen("a").Bidding; got != known {
			t.Errorf("%s: %+v, want %+v", how, got, known)
		}
	}
}

// TestLateEndIsAnnouncedAfterATakeOver: the end that a former agent told is in the
// journal, and the leader dies before it is announced. Its result is read again.
func TestLateEndIsAnnouncedAfterATakeOver(t *testing.T) {
	r := leader(t)
	r.giveBack(r.give(job("t")))
	r.pass(10 * time.Second)
	want(t, r.confirm(r.latest().Handle), "ack 2")
	done := says("a", "t").of("t.1")
	want(t, r.tell(done), "completed t.1 a succeeded late", "withdraw t.2 b")
	for how, heir := range heirs(r) {
		got := heir.apply(coordinator.ResultReported{Result: done.Result, Untold: true})
		if len(got) != 1 || got[0] != "completed t.1 a succeeded late" {
			t.Errorf("%s: %v, want it announced again", how, got)
		}
	}
}

// TestEndToldAgainIsWhole: the end of a task that its leader has recorded and perhaps not
// announced is announced by the next with what the task was accepted with, also by one that
// knows the former by a snapshot alone, and also when the task had come back meanwhile.
func TestEndToldAgainIsWhole(t *testing.T) {
	task := job("t")
	task.CorrelationID = "the producer's"
	for name, play := range map[string]func(r *rig){
		"as it comes": func(r *rig) { r.tell(says("a", "t")) },
		"late, of the one before": func(r *rig) {
			r.returns(r.latest(), coordinator.ReturnTakenBack, true)
			r.tell(says("a", "t").of("t.1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := leader(t)
			if d := r.give(task); d.Agent != "a" {
				t.Fatalf("%s has it", d.Agent)
			}
			play(r)
			result := says("a", "t").of("t.1").stamped(r.now).Result
			result.TraceID = "the agent's"
			for how, heir := range heirs(r) {
				told := 0
				for _, f := range heir.Apply(heir.now, coordinator.ResultReported{Result: result, Untold: true}, nil) {
					if c, is := f.(*coordinator.Completed); is {
						if told++; c.Task == nil || c.Task.Type != "any" || c.Task.CorrelationID != "the producer's" {
							t.Errorf("%s: told again of %+v", how, c.Task)
						}
					}
				}
				if told != 1 {
					t.Errorf("%s: told %d times", how, told)
				}
			}
		})
	}
}

// TestEndLongAfterItWasLetGoIsWhole: a snapshot is without the task of a dispatch of which nothing was expected any
// more, or which has come back and waits for another agent. When its agent tells the end all the same, the next leader
// tells it as whole.
func TestEndLongAfterItWasLetGoIsWhole(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *rig)
		told   []string
	}{
		"let go": {func(r *rig) {
			r.give(job("t"))
			r.pass(time.Second)
			r.hear(beat("a").active(1))
		}, []string{"completed t.1 a succeeded"}},
		"waits for another agent": {func(r *rig) {
			want(r.t, r.returns(r.give(job("t")), coordinator.ReturnExpired, false))
		}, []string{"completed t.1 a succeeded late", "ack 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := policyOf(worker("a"), worker("full"))
			p.Settings.AssignmentTimeout = time.Hour
			r := &rig{Engine: engine.New(), t: t, now: epoch, auctions: make(map[coordinator.TaskID]string)}
			r.Record(true)
			r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
			r.apply(coordinator.SessionOpened{})
			r.hear(beat("a"))
			r.hear(beat("full").available(0))
			c.before(r)
			r.pass(2 * engine.EndsTold)
			r.Records(nil)
			journal := r.imaged()
			want(t, r.tell(says("a", "t").of("t.1")), c.told...)
			journal = append(journal, r.Records(nil)...)
			heir := &rig{Engine: engine.New(), t: t, now: r.now}
			heir.Follow()
			heir.apply(coordinator.PolicyChanged{Policy: r.Policy()})
			for _, rec := range journal {
				heir.Fold(r.now, rec)
			}
			heir.Succeed(r.now, time.Second)
			heir.Lead(heir.now)
			told := 0
			for _, f := range heir.Apply(heir.now, coordinator.ResultReported{Result: says("a", "t").of("t.1").Result,
				Untold: true}, nil) {
				if c, is := f.(*coordinator.Completed); is {
					if told++; c.Task == nil || c.Task.Type != "any" {
						t.Errorf("told again of %+v", c.Task)
					}
				}
			}
			if told != 1 {
				t.Errorf("told %d times", told)
			}
		})
	}
}

// TestLateEndOfAnOldDispatchIsWhole: a dispatch came back, its task failed, and a snapshot later has forgotten what
// that was accepted with. Then the task's own message comes again, and the dispatch does once more. The leader
// next may be told how it ended at its agent after all, and announces that with what the task was accepted with.
func TestLateEndOfAnOldDispatchIsWhole(t *testing.T) {
	task := func() *taskBuilder { return job("t").not("b") }
	r := leader(t)
	r.install(policyOf(worker("a").slots(2), worker("b").slots(2)).
		set(func(s *coordinator.Settings) { s.MaxRetryAttempts = 1 }))
	r.give(task())
	first := r.latest()
	want(t, r.returns(first, coordinator.ReturnExpired, false), "fail t retries_exhausted")
	r.pass(time.Minute)
	r.pass(2 * engine.EndsTold)
	snapshot := r.imaged()
	heir := r.heirOf(r.now, snapshot)
	heir.Record(true)
	heir.hear(beat("a").running().available(0))
	heir.redeliver(task())
	want(t, heir.returns(first, coordinator.ReturnExpired, true), fmt.Sprintf("ack %d", heir.last))
	next := heir.heirOf(heir.now, append(snapshot, heir.Records(nil)...))
	result := says("a", "t").of("t.1").but(coordinator.OutcomeFailed).Result
	for _, f := range next.Apply(next.now, coordinator.ResultReported{Result: result, Untold: true}, nil) {
		if c, ok := f.(*coordinator.Completed); ok && c.Task != nil && c.Task.Type == "any" {
			return
		}
	}
	t.Error("its end is not announced, or without what it was accepted with")
}

// TestOverdueCancelIsToldOnce: a task that was withdrawn has failed as cancelled, because its agent had not told in
// time that it stopped. When it does tell that, it is too late, also for one that reads the result once more.
func TestOverdueCancelIsToldOnce(t *testing.T) {
	r := leader(t)
	r.give(lasting("t", 10*time.Second))
	want(t, r.withdraw("t"), "withdraw t.1 a", "cancel t: asked")
	want(t, r.pass(11*time.Second), "fail t cancelled")
	r.apply(coordinator.FailureTold{Task: "t"})
	stopped := says("a", "t").of("t.1").but(coordinator.OutcomeCancelled)
	if got := r.tell(stopped); len(got) != 1 || got[0] != "result of t by a: late" {
		t.Errorf("%v, want its result refused as late", got)
	}
	for how, heir := range heirs(r) {
		if got := heir.apply(coordinator.ResultReported{Result: stopped.Result, Untold: true}); len(got) != 0 {
			t.Errorf("%s: %v, want nothing: its end was told", how, got)
		}
		want(t, heir.withdraw("t"), "cancel t: too late")
		want(t, heir.redeliver(lasting("t", 10*time.Second)), "ack 2")
	}
}

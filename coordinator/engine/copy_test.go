package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestCopyOfAnEndedTaskAsks: a copy that names a queue for the answer gets the end that an agent has reported; one that
// names none is dropped as before. Handle 1 is the task's own, 2 and 3 are the copies'. A task that has failed is tried
// anew by a copy.
func TestCopyOfAnEndedTaskAsks(t *testing.T) {
	for _, outcome := range []coordinator.Outcome{coordinator.OutcomeSucceeded, coordinator.OutcomeCancelled} {
		r := ready(t, policyOf(worker("a")))
		r.give(job("t"))
		want(t, r.tell(says("a", "t").but(outcome)), "completed t.1 a "+outcome.String())
		want(t, r.assign(job("t").answers("q")), "asked 2 t.1 a "+outcome.String()+" to q", "duplicate t")
		want(t, r.assign(job("t")), "ack 3", "duplicate t")
	}
}

// TestOwnMessageAsksNothing: the broker has lost an acknowledgement and delivers the message of the task once more. The
// end has been told where that says; a copy that is delivered once more says another queue.
func TestOwnMessageAsksNothing(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.give(job("t").answers("q"))
	r.tell(says("a", "t"))
	want(t, r.redeliver(job("t").answers("q")), "ack 2")
	want(t, r.redeliver(job("t").answers("other")), "asked 3 t.1 a succeeded to other")
	want(t, r.assign(job("t").answers("q")), "asked 4 t.1 a succeeded to q", "duplicate t")
}

// TestCopyOfAnotherTaskAsksNothing: the id alone is not enough.
func TestCopyOfAnotherTaskAsksNothing(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.give(job("t"))
	r.tell(says("a", "t"))
	want(t, r.assign(job("t").content(2).answers("q")), "fail t duplicate_task")
}

// TestCopyReaddressesAnOpenTask: whether the task waits or an agent has it, its end goes where the latest copy that
// names a queue says; to a standby, and after the dispatch has come back, too.
func TestCopyReaddressesAnOpenTask(t *testing.T) {
	ends := func(r *rig, agent coordinator.AgentID) string {
		for _, f := range r.Apply(r.now, coordinator.ResultReported{Live: true, Result: says(agent, "t").Result}, nil) {
			if c, is := f.(*coordinator.Completed); is {
				return c.Task.ReplyTo
			}
		}
		return "nowhere"
	}
	t.Run("with its agent", func(t *testing.T) {
		r := leads(t, policyOf(worker("a")))
		r.give(job("t").answers("first"))
		want(t, r.assign(job("t").answers("second")), "ack 2", "duplicate t")
		want(t, r.assign(job("t")), "ack 3", "duplicate t")
		standby := r.follower(r.now, r.Records(nil))
		if got := standby.OpenTask("t").Task().ReplyTo; got != "second" {
			t.Errorf("a standby has %q", got)
		}
		if got := ends(r, "a"); got != "second" {
			t.Errorf("its end goes to %q", got)
		}
	})
	t.Run("waiting", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")))
		d := r.give(job("busy"))
		r.assign(job("t").answers("first"))
		want(t, r.assign(job("t").answers("second")), "ack 3", "duplicate t")
		want(t, r.tell(says("a", d.Task.ID)), "completed busy.1 a succeeded", "dispatch t.1 a")
		if got := r.latest().Task.ReplyTo; got != "second" {
			t.Errorf("the dispatch says %q", got)
		}
		if got := ends(r, "a"); got != "second" {
			t.Errorf("its end goes to %q", got)
		}
	})
	t.Run("back again", func(t *testing.T) {
		r := ready(t, policyOf(worker("a"), worker("b")))
		d := r.give(job("t").answers("first").prefers("a"))
		r.assign(job("t").answers("second").prefers("a"))
		r.returns(d, coordinator.ReturnRejected, false)
		r.pass(time.Minute) // the back-off
		if got := r.latest(); got.Agent != "b" || got.Task.ReplyTo != "second" {
			t.Errorf("the next dispatch goes to %s and says %q", got.Agent, got.Task.ReplyTo)
		}
	})
}

package engine_test

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestAttemptsThatCannotBeToldApart: a record has 16 bits for the attempt, and dispatch ids that
// results name are read with as many. The 65,535th dispatch under an id is the last: the one after
// it would have an id that no result can name, and the one after that the id of the first.
func TestAttemptsThatCannotBeToldApart(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")))
	came := func(task coordinator.TaskID, attempt int) []string {
		return append(r.giveBack(coordinator.Dispatch{Task: &job(task).Task, Agent: "z", Attempt: attempt}),
			r.pass(time.Second)...)
	}
	want(t, came("t", 65534), "dispatch t.65535 a again?")
	d := r.latest()
	r.confirm(d.Handle)
	want(t, r.tell(says("a", "t").of("t.65535")), "completed t.65535 a succeeded")

	want(t, came("u", 65534), "dispatch u.65535 b again?") // it was assigned less recently
	r.confirm(r.latest().Handle)
	want(t, append(r.giveBack(r.latest()), r.pass(time.Second)...), "fail u retries_exhausted")
	if text := r.failures[0].Failure.Text; !strings.Contains(text, "65535 dispatches") ||
		!strings.Contains(text, "submit it under another") {
		t.Errorf("%q says neither what is at its end nor what to do", text)
	}
	want(t, r.assign(job("u")), "fail u retries_exhausted") // u.1 has been given already
	engine.CheckIndexes(t, r.Engine)

	// An agent's queue may hold anything: this one was never dispatched. (The schema lets a
	// million through, of which 16 bits are 16,960.)
	want(t, came("v", 1_000_000), "fail v retries_exhausted")
	if attempt := r.RememberedAttempt(r.now, "v"); attempt != 65535 {
		t.Errorf("attempt %d is remembered, want all that there are", attempt)
	}
}

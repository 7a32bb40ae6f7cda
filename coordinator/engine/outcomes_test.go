package engine_test

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestUnroutable: another agent gets the task; when there is none it waits until
// the queue is back, looked for every queueRecheck.
func TestUnroutable(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")))
	want(t, r.assign(job("t1")), "dispatch t1.1 a")
	// same attempt: the first is nowhere
	want(t, r.settle(1, coordinator.PublishUnroutable), "ensure agent.a", "dispatch t1.1 b")
	want(t, r.settle(1, coordinator.PublishUnroutable), "ensure agent.b") // none left: waits
	if got := r.whyNot("a"); got != coordinator.QueueMissing {
		t.Errorf("%v, want queue missing", got)
	}
	want(t, r.apply(coordinator.QueueChecked{Agent: "a", Exists: false}))
	want(t, r.pass(engine.QueueRecheck-1))
	want(t, r.pass(1), "ensure agent.a", "ensure agent.b") // b's question was not answered at all
	want(t, r.apply(coordinator.QueueChecked{Agent: "a", Exists: true}), "dispatch t1.1 a")
	want(t, r.apply(coordinator.QueueChecked{Agent: "a", Exists: true})) // said twice: no harm
	want(t, r.confirm(1), "ack 1")
}

func TestAgentQueueMissing(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.assign(job("t1"))
	r.settle(1, coordinator.PublishUnroutable)
	asked := slices.Repeat([]string{"ensure agent.a"}, 5) // after 5, 10, … 25 s
	want(t, r.pass(30*time.Second), append(asked, "fail t1 agent_queue_missing", "ensure agent.a")...)
	want(t, r.assign(job("t2")))
	r.apply(coordinator.QueueChecked{Agent: "a", Exists: true})
	if r.latest().Task.ID != "t2" {
		t.Error("t2 was not dispatched")
	}
}

// TestLostQuestionIsAskedAgain: the session may end before the shell has looked
// for the queue; the agent must not stay out for ever.
func TestLostQuestionIsAskedAgain(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.assign(job("t1"))
	want(t, r.settle(1, coordinator.PublishUnroutable), "ensure agent.a")
	r.apply(coordinator.SessionLost{})
	want(t, r.apply(coordinator.SessionOpened{}), "ensure agent.a")
}

// TestQueueThatIsSaidToExistButDoesNot: where it cannot be seen that a queue is
// missing, its agent is tried every queueRecheck and not at every round trip.
func TestQueueThatIsSaidToExistButDoesNot(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.assign(job("t1"))
	want(t, r.settle(1, coordinator.PublishUnroutable), "ensure agent.a")
	want(t, r.apply(coordinator.QueueChecked{Agent: "a", Exists: true}), "dispatch t1.1 a")
	want(t, r.settle(1, coordinator.PublishUnroutable)) // asked a moment ago
	want(t, r.pass(engine.QueueRecheck-1))
	want(t, r.pass(1), "ensure agent.a")
}

// TestNacked: a full queue is left alone for queueCool.
func TestNacked(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.assign(job("t1"))
	want(t, r.settle(1, coordinator.PublishRejected))
	if got := r.whyNot("a"); got != coordinator.QueueFull {
		t.Errorf("%v, want queue full", got)
	}
	want(t, r.hear(beat("a"))) // a heartbeat says nothing of the queue
	want(t, r.pass(engine.QueueCool-1))
	want(t, r.pass(1), "dispatch t1.1 a")
}

// TestNackedWhileDeclared: a quorum queue rejects what comes while it is being declared; once it exists, the task goes.
func TestNackedWhileDeclared(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.assign(job("t1"))
	want(t, r.settle(1, coordinator.PublishRejected))
	want(t, r.pass(engine.QueueCool/8)) // 125 ms of 1 s
	want(t, r.apply(coordinator.QueueChecked{Agent: "a"}))
	want(t, r.apply(coordinator.QueueChecked{Agent: "a", Exists: true}), "dispatch t1.1 a")
	want(t, r.pass(engine.QueueCool))
}

func TestNotSent(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.assign(job("t1"))
	r.assign(job("t2")) // waits for the slot
	want(t, r.settle(1, coordinator.PublishNotSent), "fail t1 invalid_message", "dispatch t2.1 a")
}

// TestTimeoutOfADispatch: the task's, else the agent's.
func TestTimeoutOfADispatch(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2)))
	r.assign(job("t1"))
	if got := r.latest().Timeout; got != 5*time.Minute {
		t.Errorf("timeout %v, want the agent's 5m", got)
	}
	task := job("t2")
	task.Timeout = time.Second
	r.assign(task)
	if d := r.latest(); d.Timeout != time.Second || d.AcceptTimeout != time.Minute || d.Queue != "agent.a" ||
		!d.At.Equal(r.now) {
		t.Errorf("dispatch %+v", d)
	}
}

// TestReturned: attempt + 1, never to an agent that had it, up to
// max_retry_attempts (3) dispatches.
func TestReturned(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b"), worker("c"), worker("d")))
	r.assign(job("t1"))
	for i, agent := range []string{"a", "b", "c"} {
		d := r.latest()
		if string(d.Agent) != agent || d.Attempt != i+1 || len(d.Tried) != i || d.MaybeDuplicate {
			t.Fatalf("dispatch %d: %+v", i, d)
		}
		r.confirm(d.Handle)
		if got := r.giveBack(d); i == 2 {
			want(t, got, "fail t1 retries_exhausted")
			break
		}
		if got := r.Snapshot(r.now).Agents[i].Free; got != 1 {
			t.Errorf("%s has %d free slots, want its one back", agent, got)
		}
		r.pass(engine.BackoffMax)
	}
	if f := r.failures[0].Failure; f.Attempts != 3 {
		t.Errorf("attempts %d, want 3", f.Attempts)
	}
}

func TestReturnedAndNobodyElse(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b").can("x")))
	r.assign(job("t1").not("b"))
	r.confirm(1)
	r.giveBack(r.latest())
	want(t, r.pass(time.Second-1))
	want(t, r.pass(time.Second+1), "dispatch t1.2 a") // a had it, b is excluded
}

// TestRetriesWaitForTheBudget: with the burst spent, retries go out one after the
// other as the budget earns them, the first back first.
func TestRetriesWaitForTheBudget(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(3), worker("b").slots(3)))
	for _, id := range []coordinator.TaskID{"t1", "t2", "t3"} {
		r.assign(job(id).prefers("a"))
		r.confirm(r.last)
	}
	r.NoRetryBudget(r.now.Add(time.Second)) // nothing at hand, and nothing earned for a second
	for _, d := range slices.Clone(r.dispatches) {
		r.giveBack(d)
		r.pass(250 * time.Millisecond) // the longest back-off: they are due in this order
	}
	// 0.75 s have passed. At 1 s the budget begins to earn 10 a second: one at 1.1,
	// 1.2 and 1.3 s.
	want(t, r.pass(349*time.Millisecond))
	want(t, r.pass(time.Millisecond), "dispatch t1.2 b")
	want(t, r.pass(100*time.Millisecond), "dispatch t2.2 b")
	want(t, r.pass(100*time.Millisecond), "dispatch t3.2 b")
}

// TestWhatExpiredCostsNoBudget: what a dead agent leaves behind is not a refusal.
func TestWhatExpiredCostsNoBudget(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")))
	r.assign(job("t1"))
	r.confirm(1)
	r.NoRetryBudget(r.now.Add(time.Hour))
	d := r.latest()
	r.last++
	r.apply(coordinator.TaskReturned{
		Handle: r.last, Task: d.Task, Agent: d.Agent, Attempt: d.Attempt, Cause: coordinator.ReturnExpired,
	})
	want(t, r.pass(250*time.Millisecond), "dispatch t1.2 b again?") // the longest back-off
}

// TestReturnedTaskDoesNotWaitForEver: without any budget it fails once it has
// waited its back-off and then as long as any task may.
func TestReturnedTaskDoesNotWaitForEver(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")))
	r.assign(job("t1"))
	r.confirm(1)
	r.giveBack(r.latest())
	r.NoRetryBudget(r.now.Add(time.Hour))
	r.hear(beat("b"))
	// The back-off is 1 to 2 s, for a might have it again; the assignment timeout 30 s.
	want(t, r.pass(31*time.Second-1))
	want(t, r.pass(time.Second+1), "fail t1 retries_exhausted")
}

// TestDeadlineEndsBackoff: a task does not sit out its back-off, or the want of
// budget, beyond its deadline.
func TestDeadlineEndsBackoff(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")))
	task := job("t1")
	task.Deadline = r.now.Add(100 * time.Millisecond) // the back-off is at least 125 ms
	r.assign(task)
	r.confirm(1)
	r.giveBack(r.latest())
	r.NoRetryBudget(r.now.Add(time.Hour))
	want(t, r.pass(100*time.Millisecond-1))
	want(t, r.pass(1), "fail t1 deadline_exceeded")
}

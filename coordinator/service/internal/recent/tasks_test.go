package recent_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/recent"
)

func taskNamed(id coordinator.TaskID, accepted time.Time) *coordinator.Task {
	return &coordinator.Task{ID: id, Type: "build", AcceptedAt: accepted}
}

func dispatchOf(t *coordinator.Task, agent coordinator.AgentID, attempt int, at time.Time) *coordinator.Dispatch {
	return &coordinator.Dispatch{Task: t, Agent: agent, Attempt: attempt, DispatchID: coordinator.DispatchID(t, attempt),
		At: at}
}

func timeoutOf(t *coordinator.Task, at time.Time) *coordinator.Fail {
	return &coordinator.Fail{Task: t, Failure: coordinator.Failure{Reason: coordinator.ReasonTaskTimeout, Text: "overdue",
		FailedAt: at}}
}

// completedBy is a success; of the task t-9 if nothing else is known.
func completedBy(t *coordinator.Task, agent coordinator.AgentID, at time.Time) *coordinator.Completed {
	c := &coordinator.Completed{
		Result: coordinator.Result{Task: "t-9", Agent: agent, Duration: time.Second}, Task: t, Attempt: 1, At: at,
	}
	if t != nil {
		c.Result.Task = t.ID
	}
	return c
}

// The agent's word is the last, even when it comes after the time-out.
func TestResultAfterTheTimeout(t *testing.T) {
	h := recent.New(4)
	at := time.Unix(1000, 0)
	task := taskNamed("t-1", at)
	h.Accepted(task, true)
	h.Dispatching(dispatchOf(task, "a1", 1, at))
	h.Settled(dispatchOf(task, "a1", 1, at), coordinator.PublishConfirmed, at)
	h.Failed(timeoutOf(task, at.Add(6*time.Second)))
	if r, _ := h.Find("t-1"); r.State != recent.Failed || r.Agent != "a1" {
		t.Fatalf("after the time-out: %+v", r)
	}
	h.Completed(completedBy(task, "a1", at.Add(8*time.Second)))
	// Its confirm comes after the result, and so does the dispatch itself.
	h.Failed(timeoutOf(task, at.Add(6*time.Second)))
	h.Returned(&coordinator.TaskReturned{Task: task, Agent: "a1", Attempt: 1, Cause: coordinator.ReturnExpired}, at)
	if r, _ := h.Find("t-1"); r.State != recent.Succeeded || r.Failure.Text != "" || h.Outcome("t-1") != "succeeded" {
		t.Errorf("after the late result: %+v", r)
	}
}

// The states of a task as people see them.
func TestHistoryFollowsTheTask(t *testing.T) {
	h := recent.New(4)
	at := time.Unix(1000, 0)
	task := taskNamed("t-1", at)
	state := func(want string) {
		t.Helper()
		if r, _ := h.Find("t-1"); r.State != want {
			t.Errorf("state %q, want %q", r.State, want)
		}
	}
	h.Accepted(task, true)
	state(recent.Pending)
	h.Dispatching(dispatchOf(task, "a1", 1, at))
	state(recent.Dispatching)
	h.Settled(dispatchOf(task, "a1", 1, at), coordinator.PublishConfirmed, at)
	state(recent.Dispatched)
	h.Returned(&coordinator.TaskReturned{Task: task, Agent: "a1", Attempt: 1, Cause: coordinator.ReturnExpired}, at)
	state(recent.Pending)
	h.Dispatching(dispatchOf(task, "a2", 2, at))
	h.Completed(completedBy(task, "a2", at.Add(time.Second)))
	h.Settled(dispatchOf(task, "a2", 2, at), coordinator.PublishConfirmed, at) // the agent was faster than the confirm
	state(recent.Succeeded)
	h.Accepted(task, false) // it was decided at once, and its result was faster than this
	state(recent.Succeeded)
	h.Dispatching(dispatchOf(task, "a1", 1, at.Add(time.Hour))) // its id was forgotten and used again
	state(recent.Dispatching)
	if r, _ := h.Find("t-1"); !r.CompletedAt.IsZero() || r.Work != 0 {
		t.Errorf("the new task has the old one's result: %+v", r)
	}
	if h.Completed(completedBy(nil, "a1", at)); h.Outcome("t-9") != "" {
		t.Error("a result of a task of which nothing is known made a record")
	}
}

// What was carried out after a snapshot was taken is told by the snapshot itself, which has no more than the fate.
func TestSnapshotKnowsEndsThatWereOnTheirWay(t *testing.T) {
	h, at := recent.New(4), time.Unix(1000, 0)
	task := taskNamed("t-1", at)
	h.Follow(at.Add(9*time.Second), []coordinator.Record{
		&coordinator.TaskBefore{Task: task, State: recent.Dispatched,
			Attempts: []coordinator.AttemptBefore{{Agent: "a1", Number: 1, At: at}}},
		&coordinator.Remembered{Key: coordinator.KeyOf("t-1"), Fate: coordinator.FateSucceeded, Agent: "a1", Attempt: 1},
	})
	if r, _ := h.Find("t-1"); r.State != recent.Succeeded || r.Past.Outcome != "succeeded" {
		t.Errorf("%+v", r)
	}
}

// TestDecisionOutlivesExhaustion: a task that fails because it came back too often keeps the decision of its latest
// dispatch; one that fails for what the fleet is like has that decision.
func TestDecisionOutlivesExhaustion(t *testing.T) {
	h, at := recent.New(4), time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	task, choice := taskNamed("t-1", at), &coordinator.Decision{Agent: "a1", Eligible: 1, Fleet: 2}
	d := dispatchOf(task, "a1", 1, at)
	d.Decision = choice
	h.Dispatching(d)
	failure := coordinator.Failure{Reason: coordinator.ReasonRetriesExhausted, FailedAt: at.Add(time.Second)}
	h.Failed(&coordinator.Fail{Handle: 1, Task: task, Failure: failure})
	if r, _ := h.Find("t-1"); r.Decision != choice || !r.DecidedAt.Equal(at) || r.State != recent.Failed {
		t.Errorf("%s, decided %v: %+v", r.State, r.DecidedAt, r.Decision)
	}
}

package service

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// Builders for tests of what is remembered.

func taskNamed(id coordinator.TaskID, accepted time.Time) *coordinator.Task {
	return &coordinator.Task{ID: id, Type: "build", Carried: coordinator.Carried{CorrelationID: "trace"},
		AcceptedAt: accepted}
}

func dispatchOf(t *coordinator.Task, agent coordinator.AgentID, attempt int, at time.Time) *coordinator.Dispatch {
	return &coordinator.Dispatch{Task: t, Agent: agent, Attempt: attempt, DispatchID: coordinator.DispatchID(t, attempt),
		At: at}
}

// attemptID is a dispatch id without when its task was accepted: the task id and the attempt.
func attemptID(id string) string {
	parts := strings.Split(id, ".")
	if len(parts) < 3 {
		return id
	}
	return strings.Join(slices.Delete(parts, len(parts)-2, len(parts)-1), ".")
}

func TestTaskViewTellsTheStory(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "build", "")
		r.task("t-2", "build", "")
		done, ok := r.service.Task(context.Background(), "t-1")
		if !ok || done.State != "dispatched" || done.Agent != "a1" || done.Strategy != "capability_match" ||
			attemptID(done.DispatchID) != "t-1.1" {
			t.Errorf("t-1: %+v", done)
		}
		if x := done.Explanation; x == nil || x.Eligible != 1 || x.Fleet != 2 || x.Candidates[0].Terms[0].Name != "load" {
			t.Errorf("why t-1 went to a1: %+v", x)
		}
		waiting, ok := r.service.Task(context.Background(), "t-2")
		if !ok || waiting.State != "pending" || waiting.Explanation == nil || waiting.Explanation.Refused["full"] != 1 {
			t.Errorf("t-2: %+v, %+v", waiting, waiting.Explanation)
		}
		if _, ok := r.service.Task(context.Background(), "t-3"); ok {
			t.Error("a task that never was is known")
		}
		list := r.service.Tasks(context.Background(), view.TaskFilter{State: "pending"})
		if len(list) != 1 || list[0].ID != "t-2" {
			t.Errorf("pending tasks: %+v", list)
		}
	})
}

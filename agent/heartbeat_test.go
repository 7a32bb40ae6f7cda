package agent_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/messages"
)

func TestHeartbeatSaysEverything(t *testing.T) {
	inRig(t, func(r *rig) {
		c := r.config()
		c.Slots, c.Capabilities, c.Labels = 4, []string{"gpu", "cuda"}, map[string]string{"zone": "a"}
		r.runWith(c, work(8*time.Second))
		r.give("t")
		r.pass(5 * time.Second)
		got := r.statuses()[len(r.statuses())-1]
		want := messages.AgentStatus{
			AgentID: "a1", Status: messages.Ready,
			CurrentLoad: 0.25, ActiveTasks: 1, AvailableCapacity: 3, MaxConcurrentTasks: 4, // 1 of 4 slots
			ActiveTaskIDs: []messages.TaskID{"t"},
			PendingItems:  1, HasPending: true, // the capacity is a guess yet, and not told
			Capabilities: []string{"gpu", "cuda"}, Queue: "agent.a1", Labels: map[string]string{"zone": "a"},
			Timestamp: time.Now().UTC(), InstanceID: r.statuses()[0].InstanceID,
		}
		if want.InstanceID == "" {
			t.Error("it does not say which process it is")
		}
		if !reflect.DeepEqual(got.AgentStatus, want) {
			t.Errorf("got  %+v\nwant %+v", got.AgentStatus, want)
		}
		if p := got.Properties; p.UserID != "a1" || p.Type != "agent.status" || p.Timestamp.IsZero() {
			t.Errorf("properties %+v", p)
		}
	})
}

// longAndShort works 50 ms on tasks that are called short, and 4 s on others.
func longAndShort(ctx context.Context, task *agent.Task) (agent.Result, error) {
	if strings.HasPrefix(task.ID, "short") {
		return work(50*time.Millisecond)(ctx, task)
	}
	return work(4*time.Second)(ctx, task)
}

// When heartbeats go out: at connect, every interval (5 s), and when something
// would else stay unknown for too long. Not for each task: results free slots.
func TestWhenHeartbeatsGoOut(t *testing.T) {
	for _, tt := range []struct {
		name  string
		slots int
		took  agent.Handler
		play  func(r *rig)
		for_  time.Duration // from the connect on
		want  int
		last  string
	}{
		{"idle: at 0, 5 and 10 s", 1, work(0), func(*rig) {}, 10 * time.Second, 3, "ready []"},
		{"short tasks are told of by their results", 5, work(900 * time.Millisecond), func(r *rig) {
			for range 4 {
				r.give(time.Now().Format("t05.000"))
				r.pass(500 * time.Millisecond)
			}
		}, 4 * time.Second, 1, "ready []"},
		{"one that runs for 1 s is listed then", 1, work(3 * time.Second), func(r *rig) { r.give("t") },
			time.Second, 2, "ready [t]"},
		{"a nanosecond before it is not", 1, work(3 * time.Second), func(r *rig) { r.give("t") },
			time.Second - time.Nanosecond, 1, "ready []"},
		{"its end needs no heartbeat", 1, work(3 * time.Second), func(r *rig) { r.give("t") },
			4 * time.Second, 2, "ready [t]"},
		// t at 0, u at 0.6 s: the heartbeat at 1 s lists both, and u needs none of its own.
		{"two that overlap share one", 2, work(3 * time.Second), func(r *rig) {
			r.give("t")
			r.pass(600 * time.Millisecond)
			r.give("u")
		}, 2 * time.Second, 2, "ready [t u]"},
		// A short one begins at 1.5 s: t is listed already, and it will not be.
		{"a listed one is not listed again for the sake of a short one", 2, longAndShort, func(r *rig) {
			r.give("t")
			r.pass(1500 * time.Millisecond)
			r.give("short")
		}, 4 * time.Second, 2, "ready [t]"},
		// Every 100 ms another begins; t is listed at 1 s all the same.
		{"nor is it put off by them", 2, longAndShort, func(r *rig) {
			r.give("t")
			r.pass(30 * time.Millisecond)
			for i := range 11 {
				r.give(fmt.Sprint("short", i))
				r.pass(100 * time.Millisecond)
			}
		}, 1200 * time.Millisecond, 2, "ready [t]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				begun := time.Now()
				r.run(tt.slots, tt.took)
				tt.play(r)
				r.pass(tt.for_ - time.Since(begun))
				if n := len(r.statuses()); n != tt.want {
					t.Errorf("%d heartbeats within %s, want %d", n, tt.for_, tt.want)
				}
				r.expectActive(tt.last)
			})
		})
	}
}

// However often slots change hands behind hung handlers, heartbeats that are asked
// for are 250 ms apart: at most 5 in the first second, and the one at connect.
func TestHeartbeatsAreNeverAFlood(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(50, stubborn(11*time.Second)) // each outlives its 10 s by half a second and more
		for i := range 50 {
			r.give("t" + time.Duration(i).String())
			r.pass(20 * time.Millisecond)
		}
		r.pass(9*time.Second + 500*time.Millisecond - time.Nanosecond)
		before := len(r.statuses())
		r.pass(time.Second) // in which 50 results go out without their handlers
		if n := len(r.statuses()) - before; n < 2 || n > 6 {
			t.Errorf("%d heartbeats in this second, want 2 to 6", n)
		}
	})
}

// A heartbeat lists a task if and only if it is older than the task's result: the
// coordinator tells by the timestamps which of the two to believe.
func TestHeartbeatAndResultAgree(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(3, work(5*time.Second)) // ends in the moment of the next heartbeat
		r.give("a", "b", "c")
		r.pass(20 * time.Second)
		ended := map[messages.TaskID]time.Time{}
		for _, m := range r.results() {
			ended[m.TaskID] = m.TaskResult.Timestamp
		}
		if len(ended) != 3 {
			t.Fatalf("%d results, want 3", len(ended))
		}
		for _, s := range r.statuses() {
			for _, id := range s.ActiveTaskIDs {
				if s.AgentStatus.Timestamp.After(ended[id]) {
					t.Errorf("the heartbeat of %v lists %s, which ended at %v", s.AgentStatus.Timestamp, id, ended[id])
				}
			}
		}
	})
}

package engine

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

const (
	low      = coordinator.PriorityLow
	normal   = coordinator.PriorityNormal
	high     = coordinator.PriorityHigh
	critical = coordinator.PriorityCritical
)

// full is a rig whose only agent is a, with one slot, taken.
func full(t *testing.T, set func(*coordinator.Settings)) *rig {
	t.Helper()
	r := boot(t, policyOf(worker("a")).set(set))
	r.hear(beat("a").active(1))
	return r
}

// serve frees a's slot n times and collects who got it.
func (r *rig) serve(n int) []string {
	var got []string
	for range n {
		got = append(got, r.hear(beat("a"))...)
		r.confirm(r.latest().Handle)
		r.now = r.now.Add(time.Millisecond)
	}
	return got
}

func TestAssignmentTimeout(t *testing.T) {
	t.Run("0 fails at once", func(t *testing.T) {
		r := full(t, func(s *coordinator.Settings) { s.AssignmentTimeout = 0 })
		want(t, r.assign(job("t1")), "fail t1 all_agents_at_capacity")
	})
	t.Run("30 waits for 30 s exactly", func(t *testing.T) {
		r := full(t, func(*coordinator.Settings) {})
		want(t, r.assign(job("t1")))
		want(t, r.pass(30*time.Second-1))
		want(t, r.pass(1), "fail t1 all_agents_at_capacity")
	})
	t.Run("the deadline if it is earlier", func(t *testing.T) {
		r := full(t, func(*coordinator.Settings) {})
		task := job("t1")
		task.Deadline = r.now.Add(10 * time.Second)
		want(t, r.assign(task))
		want(t, r.pass(10*time.Second-1))
		want(t, r.pass(1), "fail t1 deadline_exceeded")
	})
	t.Run("counts from the first wait, not from the last", func(t *testing.T) {
		r := full(t, func(*coordinator.Settings) {})
		want(t, r.assign(job("t1")))
		r.pass(20 * time.Second)
		want(t, r.hear(beat("a")), "dispatch t1.1 a")
		want(t, r.settle(1, coordinator.PublishRejected)) // waits again
		r.hear(beat("a").active(1))
		want(t, r.pass(10*time.Second-1))
		want(t, r.pass(1), "fail t1 all_agents_at_capacity") // 20 + 10 = 30 s
	})
}

func TestBacklogFull(t *testing.T) {
	r := full(t, func(s *coordinator.Settings) { s.MaxQueueSize = 2 })
	want(t, r.assign(job("t1")))
	want(t, r.assign(job("t2").prio(critical)))
	want(t, r.assign(job("t3").prio(critical)), "fail t3 backlog_full")
	if got := r.Snapshot(r.now).Pending; got != [4]int{0, 1, 0, 1} {
		t.Errorf("pending %v", got)
	}
	want(t, r.hear(beat("a")), "dispatch t2.1 a")
	want(t, r.assign(job("t3"))) // there is room again
}

// TestPendingOrder: higher priority first, within one the older, then arrival.
func TestPendingOrder(t *testing.T) {
	r := full(t, func(*coordinator.Settings) {})
	for i, p := range []coordinator.Priority{low, normal, critical, high, critical, normal} {
		r.now = r.now.Add(time.Millisecond)
		want(t, r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).prio(p)))
	}
	want(t, r.assign(job("t6").prio(normal))) // accepted with t5: it arrived later
	want(t, r.serve(7), "dispatch t2.1 a", "dispatch t4.1 a", "dispatch t3.1 a",
		"dispatch t1.1 a", "dispatch t5.1 a", "dispatch t6.1 a", "dispatch t0.1 a")
}

// TestOrderAcrossClasses: tasks of different requirements compete by the same order.
func TestOrderAcrossClasses(t *testing.T) {
	r := boot(t, policyOf(worker("a").can("x", "y")))
	r.hear(beat("a").active(1))
	r.assign(job("t1").needs("x").prio(low))
	r.assign(job("t2").needs("y").prio(high))
	r.assign(job("t3").needs("x").prio(critical))
	r.assign(job("t4").prio(normal))
	want(t, r.serve(4), "dispatch t3.1 a", "dispatch t2.1 a", "dispatch t4.1 a", "dispatch t1.1 a")
}

// TestAgeing: a task is overtaken only by one accepted less than steps × ageing
// after it. Ageing is 60 s: low waits for critical accepted up to 3 × 60 s later.
func TestAgeing(t *testing.T) {
	tests := []struct {
		name  string
		later coordinator.Priority
		after time.Duration
		first string
	}{
		{"critical, 1 ns within 3 × 60 s", critical, 180*time.Second - 1, "late"},
		{"critical, at 3 × 60 s", critical, 180 * time.Second, "old"}, // ranks tie: arrival decides
		{"high, 1 ns within 2 × 60 s", high, 120*time.Second - 1, "late"},
		{"high, at 2 × 60 s", high, 120 * time.Second, "old"},
		{"normal, 1 ns within 60 s", normal, 60*time.Second - 1, "late"},
		{"normal, at 60 s", normal, 60 * time.Second, "old"},
		{"low, ever", low, 1, "old"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := full(t, func(s *coordinator.Settings) { s.AssignmentTimeout, s.StaleAfter = time.Hour, time.Hour })
			r.assign(job("old").prio(low))
			r.pass(tt.after)
			r.assign(job("late").prio(tt.later))
			want(t, r.serve(1), "dispatch "+tt.first+".1 a")
		})
	}
}

// TestWaitingOthersAreNotInTheWay: who waits for a slot of one agent does not
// keep others from theirs.
func TestWaitingOthersAreNotInTheWay(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("x"), worker("b").can("y")))
	want(t, r.assign(job("t1").needs("x")), "dispatch t1.1 a")
	want(t, r.assign(job("t2").needs("x").prio(critical)))
	want(t, r.assign(job("t3").needs("y").prio(low)), "dispatch t3.1 b")
	if got := r.Snapshot(r.now); got.PendingReasons[coordinator.ReasonAllAgentsAtCapacity] != 1 || got.Dispatching != 2 {
		t.Errorf("snapshot %+v", got)
	}
}

// TestIdleClassesAreBounded: inventing requirements costs no memory beyond the bound.
func TestIdleClassesAreBounded(t *testing.T) {
	r := full(t, func(*coordinator.Settings) {})
	r.assign(job("waits")) // its class is in use and must stay
	for i := range 3 * maxIdleClasses {
		id := coordinator.TaskID(fmt.Sprint("t", i))
		r.assign(job(id).needs(string(id)))
	}
	if n := len(r.pending.classes); n > maxIdleClasses+1 {
		t.Errorf("%d classes are kept, want at most %d", n, maxIdleClasses+1)
	}
	checkIndexes(t, r.Engine)
	want(t, r.hear(beat("a")), "dispatch waits.1 a")
}

// TestManyClassesInUse: thousands of tasks wait, of which no two could be given to the same agents. Each has its
// turn, and when they have gone no more classes are kept than otherwise.
func TestManyClassesInUse(t *testing.T) {
	const tasks = 3 * maxIdleClasses
	ids, capabilities := make([]coordinator.TaskID, tasks), make([]string, tasks)
	for i := range tasks {
		ids[i], capabilities[i] = coordinator.TaskID(fmt.Sprint("t", i)), fmt.Sprint("c", i)
	}
	r := ready(t, policyOf(worker("a").can(capabilities...)).set(func(s *coordinator.Settings) {
		s.AssignmentTimeout, s.MaxQueueSize, s.DedupeMaxIDs = time.Hour, 2*tasks, 2*tasks
	}))
	for i, id := range ids {
		r.assign(job(id).needs(capabilities[i]))
		r.pass(time.Millisecond)
	}
	if n := len(r.pending.classes); n < tasks || len(r.pending.active) != tasks-1 {
		t.Fatalf("%d classes, %d in use", n, len(r.pending.active))
	}
	for i, id := range ids {
		d := r.latest()
		if d.Task.ID != id {
			t.Fatalf("%s goes as number %d", d.Task.ID, i)
		}
		r.confirm(d.Handle)
		r.tell(says("a", id))
	}
	for i := range 3 {
		r.give(job(numbered(tasks + i)).not(coordinator.AgentID(fmt.Sprint("x", i))))
		r.tell(says("a", numbered(tasks+i)))
	}
	if n := len(r.pending.classes); n > maxIdleClasses+1 {
		t.Errorf("%d classes are kept, want at most %d", n, maxIdleClasses+1)
	}
	checkIndexes(t, r.Engine)
}

// TestClassesOfManyRoutes: the classes of routes stay, and however many they are, as many others are
// remembered beside them: not looked for anew, with a pass over all of them, for each task.
func TestClassesOfManyRoutes(t *testing.T) {
	p := policyOf(worker("a").slots(10))
	for i := range 2 * maxIdleClasses {
		p.route(fmt.Sprint("type", i), fmt.Sprint("c", i))
	}
	r := ready(t, p)
	for i := range 2 * maxIdleClasses {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).kind(fmt.Sprint("type", i)))
	}
	known := func() (n int) {
		for _, c := range r.pending.classes {
			if !c.routed && c.active < 0 {
				n++
			}
		}
		return n
	}
	forgotten := 0
	for i := range 2 * maxIdleClasses {
		before := known()
		r.assign(job(numbered(10_000 + i)).needs(fmt.Sprint("x", i)))
		if known() <= before {
			forgotten++
		}
		if before > maxIdleClasses {
			t.Fatalf("%d others are known, want at most %d", before, maxIdleClasses)
		}
	}
	if forgotten > 2 {
		t.Errorf("with %d others they were forgotten %d times, want twice at most", 2*maxIdleClasses, forgotten)
	}
	checkIndexes(t, r.Engine)
}

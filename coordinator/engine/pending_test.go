package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/fairshare/fairqueue"
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

// serve frees a's slot n times and collects the tasks that got it.
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

// TestUrgentBehindABacklog: 4,000 normal tasks have waited for 15 s when a critical one comes: it is next,
// whatever they have waited for. A low one waits for its turn, 1 in 5 of those of low and normal tasks.
func TestUrgentBehindABacklog(t *testing.T) {
	r := full(t, func(s *coordinator.Settings) {
		s.MaxQueueSize, s.AssignmentTimeout, s.StaleAfter = 10_000, time.Hour, time.Hour
	})
	for i := range 4000 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("n", i))))
	}
	r.pass(15 * time.Second)
	r.assign(job("urgent").prio(critical))
	r.assign(job("low").prio(low))
	// The two have turns beside critical, too; low has earned 1/69 of that dispatch, and then 1/5 of each:
	// at the third that is more than normal has, 4/69 + 3·4/5 - 2.
	want(t, r.serve(5), "dispatch urgent.1 a", "dispatch n0.1 a", "dispatch n1.1 a", "dispatch low.1 a", "dispatch n2.1 a")
}

// TestDueFirst: within a priority the one with the earliest deadline goes first, and one without counts
// as due an hour after it was accepted: so no deadline keeps it waiting for longer than that.
func TestDueFirst(t *testing.T) {
	r := full(t, func(s *coordinator.Settings) { s.AssignmentTimeout, s.StaleAfter = 3*time.Hour, 3*time.Hour })
	in := func(id coordinator.TaskID, d time.Duration) *taskBuilder {
		b := job(id)
		b.Deadline = r.now.Add(d)
		return b
	}
	r.assign(job("old"))
	r.assign(in("tomorrow", 24*time.Hour)) // counts as none
	r.pass(30 * time.Minute)
	r.assign(job("new"))
	r.assign(in("soon", 31*time.Minute)) // after old, which is due in 30, and before new, due in 60
	r.assign(in("sooner", 10*time.Minute))
	r.assign(in("high", 50*time.Minute).prio(high))
	want(t, r.serve(6), "dispatch high.1 a", "dispatch sooner.1 a", "dispatch old.1 a", "dispatch tomorrow.1 a",
		"dispatch soon.1 a", "dispatch new.1 a")
}

// TestPrioritiesInAnyBacklog: whatever waits, of several kinds and for several agents, every task of a
// priority starts after no more dispatches of others for which it competes than the weights say
// (fairqueue.Shares.Within), and a critical one after the critical ones before it, a third as many and 4.
// An agent that can do nothing of a priority neither favours it nor passes it over.
func TestPrioritiesInAnyBacklog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		agents := []string{"x", "y", "xy"} // what each can do
		order := drawPriorities(rt)
		order.Strict = false
		p := policyOf(worker("x").can("x"), worker("y").can("y"), worker("xy").can("x", "y")).
			set(func(s *coordinator.Settings) {
				s.AssignmentTimeout, s.StaleAfter, s.Priorities = 20*time.Hour, 20*time.Hour, order
			})
		r := boot(t, p)
		for _, a := range agents {
			r.hear(beat(coordinator.AgentID(a)).active(1))
		}
		weights := order.Weighted()
		waiting := map[string][fairqueue.Levels]int{} // by what they need
		n := 0
		add := func() {
			needs, level := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "needs"), rapid.IntRange(0, 3).Draw(rt, "priority")
			want(t, r.assign(job(numbered(n)).needs(needs).prio(coordinator.Priority(level))))
			w := waiting[needs]
			w[level]++
			waiting[needs] = w
			n++
		}
		for range rapid.IntRange(1, 60).Draw(rt, "at first") {
			add()
		}
		// What each has earned less what it has had, in dispatches: its highest and lowest so far are never
		// more than 3 apart.
		var lag, least, most [fairqueue.Levels]float64
		for range 200 {
			if rapid.IntRange(0, 3).Draw(rt, "more at 0") == 0 {
				add()
			}
			a := rapid.SampledFrom(agents).Draw(rt, "agent")
			var competes [fairqueue.Levels]bool
			sum, levels := int64(0), 0
			for needs, w := range waiting {
				for l := range w {
					if w[l] > 0 && strings.Contains(a, needs) && !competes[l] {
						competes[l], sum, levels = true, sum+weights[l], levels+1
					}
				}
			}
			got := r.hear(beat(coordinator.AgentID(a)))
			if len(got) != min(levels, 1) {
				rt.Fatalf("%s gets %v, and %d priorities wait for it", a, got, levels)
			}
			if levels == 0 {
				r.hear(beat(coordinator.AgentID(a)).active(1))
				continue
			}
			d := r.latest()
			r.confirm(d.Handle)
			r.now = r.now.Add(time.Millisecond)
			r.hear(beat(coordinator.AgentID(a)).active(1))
			needs, level := d.Task.Required[0], int(d.Task.Priority)
			w := waiting[needs]
			w[level]--
			waiting[needs] = w
			for l := range lag {
				if !competes[l] || levels == 1 {
					continue
				}
				if lag[l] += float64(weights[l]) / float64(sum); l == level {
					lag[l]--
				}
				least[l], most[l] = min(least[l], lag[l]), max(most[l], lag[l])
				if most[l]-least[l] > 3.0001 {
					rt.Fatalf("priority %d is %v dispatches behind what it was, and %v ahead", l, most[l], least[l])
				}
			}
		}
	})
}

// TestWaitingOthersAreNotInTheWay: a task that waits for a slot of one agent does not
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
	for i := range 3 * engine.MaxIdleClasses {
		id := coordinator.TaskID(fmt.Sprint("t", i))
		r.assign(job(id).needs(string(id)))
	}
	if n := r.PendingClasses(); n > engine.MaxIdleClasses+1 {
		t.Errorf("%d classes are kept, want at most %d", n, engine.MaxIdleClasses+1)
	}
	engine.CheckIndexes(t, r.Engine)
	want(t, r.hear(beat("a")), "dispatch waits.1 a")
}

// TestManyClassesInUse: thousands of tasks wait, of which no two could be given to the same agents. Each has its
// turn, and when they have gone no more classes are kept than otherwise.
func TestManyClassesInUse(t *testing.T) {
	const tasks = 3 * engine.MaxIdleClasses
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
	if n := r.PendingClasses(); n < tasks || r.ActiveClasses() != tasks-1 {
		t.Fatalf("%d classes, %d in use", n, r.ActiveClasses())
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
	if n := r.PendingClasses(); n > engine.MaxIdleClasses+1 {
		t.Errorf("%d classes are kept, want at most %d", n, engine.MaxIdleClasses+1)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestClassesOfManyRoutes: the classes of routes stay, and however many they are, as many others are
// remembered beside them: not looked for anew, with a pass over all of them, for each task.
func TestClassesOfManyRoutes(t *testing.T) {
	p := policyOf(worker("a").slots(10))
	for i := range 2 * engine.MaxIdleClasses {
		p.route(fmt.Sprint("type", i), fmt.Sprint("c", i))
	}
	r := ready(t, p)
	for i := range 2 * engine.MaxIdleClasses {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).kind(fmt.Sprint("type", i)))
	}
	known := r.IdleClasses
	forgotten := 0
	for i := range 2 * engine.MaxIdleClasses {
		before := known()
		r.assign(job(numbered(10_000 + i)).needs(fmt.Sprint("x", i)))
		if known() <= before {
			forgotten++
		}
		if before > engine.MaxIdleClasses {
			t.Fatalf("%d others are known, want at most %d", before, engine.MaxIdleClasses)
		}
	}
	if forgotten > 2 {
		t.Errorf("with %d others they were forgotten %d times, want twice at most", 2*engine.MaxIdleClasses, forgotten)
	}
	engine.CheckIndexes(t, r.Engine)
}

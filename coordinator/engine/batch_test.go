package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

const batchWait = 50 * time.Millisecond

// batched makes the task type one of which up to so many are given out together.
func (b *policyBuilder) batched(taskType string, most int) *policyBuilder {
	route := b.Routes[taskType]
	route.Batch = coordinator.Batch{MaxSize: most, MaxWait: batchWait}
	b.Routes[taskType] = route
	return b
}

// together renders the dispatches made since the first so many: "t1 a (t1.1/2)" for
// one of a batch of two, "t3 b" for one that goes alone.
func (r *rig) together(after int) (list []string) {
	for _, d := range r.dispatches[after:] {
		s := fmt.Sprintf("%s %s", d.Task.ID, d.Agent)
		if d.BatchID != "" || d.BatchSize != 0 {
			s += fmt.Sprintf(" (%s/%d)", briefBatch(d), d.BatchSize)
		}
		list = append(list, s)
	}
	return list
}

// assignAll delivers tasks that must all wait.
func (r *rig) assignAll(jobs ...*taskBuilder) {
	r.t.Helper()
	for _, j := range jobs {
		want(r.t, r.assign(j))
	}
	engine.CheckIndexes(r.t, r.Engine)
}

func jobs(ids ...coordinator.TaskID) (list []*taskBuilder) {
	for _, id := range ids {
		list = append(list, job(id))
	}
	return list
}

// TestBatchGoesToOneAgent: in a fleet where single tasks would be spread, five that
// arrive within the wait go to one agent, each as a dispatch of its own.
func TestBatchGoesToOneAgent(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(8), worker("b").slots(8)).batched("any", 10))
	r.assignAll(jobs("t1", "t2")...)
	r.pass(30 * time.Millisecond)
	r.assignAll(jobs("t3", "t4", "t5")...)
	want(t, r.pass(20*time.Millisecond-1))
	// 30 + 20 = 50 ms after t1
	want(t, r.pass(1), "dispatch t1.1 a", "dispatch t2.1 a", "dispatch t3.1 a", "dispatch t4.1 a", "dispatch t5.1 a")
	want(t, r.together(0), "t1 a (t1.1/5)", "t2 a (t1.1/5)", "t3 a (t1.1/5)", "t4 a (t1.1/5)", "t5 a (t1.1/5)")
	for _, d := range r.dispatches {
		if d.Decision.Eligible != 2 || d.Decision.Agent != "a" || d.Attempt != 1 ||
			d.DispatchID != coordinator.DispatchID(d.Task, 1) {
			t.Errorf("%s: %+v", d.DispatchID, d.Decision)
		}
	}
	r.slots("a", 5, 3)
	r.slots("b", 0, 8)
	if _, scheduled := r.batchTimer(); scheduled {
		t.Error("a timer is left")
	}
}

// What may have been with an agent before goes alone, also when it comes out of a lane in which it
// was meanwhile: as a new message, that says so.
func TestBatchTakesNothingThatMayBeACopy(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(8)).batched("any", 10))
	r.assignAll(jobs("t1", "t2")...)
	r.last++
	old := job("old").Task
	old.AcceptedAt = epoch
	want(t, r.apply(coordinator.TaskReceived{Handle: r.last, Task: &old, Lane: "other", MaybeDuplicate: true}),
		"dispatch old.1 a again?")
	r.pass(batchWait)
	want(t, r.together(0), "old a", "t1 a (t1.1/2)", "t2 a (t1.1/2)")
}

// batchTimer is when the next batch closes.
func (r *rig) batchTimer() (at time.Time, scheduled bool) {
	return r.BatchCloses()
}

func TestBatchIsFull(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(8)).batched("any", 3))
	r.assignAll(jobs("t1", "t2")...)
	want(t, r.assign(job("t3")), "dispatch t1.1 a", "dispatch t2.1 a", "dispatch t3.1 a") // the third of three
	want(t, r.assign(job("t4")))                                                          // opens the next
	want(t, r.pass(batchWait), "dispatch t4.1 a")
	want(t, r.together(0), "t1 a (t1.1/3)", "t2 a (t1.1/3)", "t3 a (t1.1/3)", "t4 a")
}

// TestBatchIsSplit: what the agent has no slot for begins the next batch; what no agent
// has a slot for waits.
func TestBatchIsSplit(t *testing.T) {
	tests := []struct {
		name   string
		agents []*specBuilder
		want   []string
		waits  int
	}{
		{"2 of 5 fit the best, 3 the next", []*specBuilder{worker("a").slots(2), worker("b").slots(4)},
			[]string{"t1 a (t1.1/2)", "t2 a (t1.1/2)", "t3 b (t3.1/3)", "t4 b (t3.1/3)", "t5 b (t3.1/3)"}, 0},
		{"one that is left goes alone", []*specBuilder{worker("a").slots(4), worker("b").slots(4)},
			[]string{"t1 a (t1.1/4)", "t2 a (t1.1/4)", "t3 a (t1.1/4)", "t4 a (t1.1/4)", "t5 b"}, 0},
		{"agents with one slot get single tasks", []*specBuilder{worker("a"), worker("b"), worker("c"), worker("d"),
			worker("e")},
			[]string{"t1 a", "t2 b", "t3 c", "t4 d", "t5 e"}, 0},
		{"3 of 5 fit anybody", []*specBuilder{worker("a").slots(2), worker("b")},
			[]string{"t1 a (t1.1/2)", "t2 a (t1.1/2)", "t3 b"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, policyOf(tt.agents...).batched("any", 10))
			r.assignAll(jobs("t1", "t2", "t3", "t4", "t5")...)
			r.pass(batchWait)
			want(t, r.together(0), tt.want...)
			if n := r.PendingTotal(); n != tt.waits {
				t.Errorf("%d wait, want %d", n, tt.waits)
			}
			engine.CheckIndexes(t, r.Engine)
		})
	}
}

// TestBatchOfOneKind: only what is decided alike is decided together.
func TestBatchOfOneKind(t *testing.T) {
	p := policyOf(worker("a").slots(9).can("x"), worker("b").slots(9)).batched("any", 10).route("other").
		batched("other", 10)
	tests := []struct {
		name  string
		third *taskBuilder
		with  bool
	}{
		{"the same", job("t3"), true},
		{"another priority", job("t3").prio(low), true},
		{"the default strategy by its name", job("t3").by("capability_match"), true},
		{"another type", job("t3").kind("other"), false},
		{"another capability", job("t3").needs("x"), false},
		{"an agent is excluded", job("t3").not("b"), false},
		{"an agent is preferred", job("t3").prefers("a"), false},
		{"another strategy", job("t3").by("least_loaded"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, p)
			r.assignAll(job("t1"), job("t2"), tt.third)
			r.pass(batchWait)
			size := 2
			if tt.with {
				size = 3
			}
			for _, d := range r.dispatches {
				n := size
				if d.Task.ID == "t3" && !tt.with {
					n = 0
				}
				if d.BatchSize != n {
					t.Errorf("%s is in a batch of %d, want %d", d.Task.ID, d.BatchSize, n)
				}
			}
		})
	}
}

// TestPriorityWithinABatch: the highest goes first, so it decides the place of all and
// gives the batch its name; the one that does not fit is the lowest.
func TestPriorityWithinABatch(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2)).batched("any", 10))
	r.assignAll(job("t1").prio(low), job("t2").prio(normal), job("t3").prio(critical))
	want(t, r.pass(batchWait), "dispatch t3.1 a", "dispatch t2.1 a")
	want(t, r.together(0), "t3 a (t3.1/2)", "t2 a (t3.1/2)")
}

// TestWhoDoesNotWaitForABatch: a wait of 50 ms is too long for a deadline less than
// 100 ms away, and for an assignment timeout of 0; a shorter timeout shortens it.
func TestWhoDoesNotWaitForABatch(t *testing.T) {
	tests := []struct {
		name     string
		timeout  time.Duration // for assignment
		deadline time.Duration // 0: none
		wait     time.Duration // 0: none
	}{
		{"an ordinary task", 30 * time.Second, 0, batchWait},
		{"a deadline in 2 × 50 ms", 30 * time.Second, 100 * time.Millisecond, batchWait},
		{"a deadline 1 ns before that", 30 * time.Second, 100*time.Millisecond - 1, 0},
		{"a shorter assignment timeout", 20 * time.Millisecond, 0, 20 * time.Millisecond},
		{"none at all", 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(2)).batched("any", 10).
				set(func(s *coordinator.Settings) { s.AssignmentTimeout = tt.timeout }))
			task := job("t1")
			if tt.deadline > 0 {
				task.Deadline = r.now.Add(tt.deadline)
			}
			got := r.assign(task)
			if tt.wait > 0 {
				want(t, got)
				want(t, r.pass(tt.wait-1))
				got = r.pass(1)
			}
			want(t, got, "dispatch t1.1 a")
		})
	}
	t.Run("nor does one that joins late wait for longer than the first", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").slots(2)).batched("any", 10))
		r.assignAll(job("t1"))
		r.pass(40 * time.Millisecond)
		task := job("t2")
		task.Deadline = r.now.Add(20 * time.Millisecond) // 2 × the 10 ms that are left
		r.assignAll(task)
		want(t, r.pass(10*time.Millisecond), "dispatch t2.1 a", "dispatch t1.1 a") // it is due first
	})
}

// TestBatchThatNobodyTakesInTime: the wait for others counts as waiting.
func TestBatchThatNobodyTakesInTime(t *testing.T) {
	r := full(t, func(s *coordinator.Settings) {})
	r.Policy().Routes["any"] = coordinator.Route{Batch: coordinator.Batch{MaxSize: 10, MaxWait: batchWait}}
	r.apply(coordinator.PolicyChanged{Policy: r.Policy()})
	r.assignAll(jobs("t1", "t2")...)
	want(t, r.pass(30*time.Second-1))
	want(t, r.pass(1), "fail t1 all_agents_at_capacity", "fail t2 all_agents_at_capacity") // 30 s after they came
}

// TestWaitingTasksShareABatch: tasks that wait for slots get them in their order as
// ever, and those of one kind that get them together share a batch.
func TestWaitingTasksShareABatch(t *testing.T) {
	r := boot(t, policyOf(worker("a").slots(4)).batched("any", 3).route("single"))
	r.hear(beat("a").active(4))
	for i, j := range []*taskBuilder{job("t1"), job("s1").kind("single"), job("t2"), job("t3"), job("t4")} {
		r.now = r.now.Add(time.Millisecond)
		r.assign(j)
		if i == 0 {
			r.pass(batchWait) // from here on a task of its class waits behind it
		}
	}
	r.pass(time.Second)
	want(t, r.together(0))
	want(t, r.hear(beat("a").active(2)), "dispatch t1.1 a", "dispatch s1.1 a") // two slots: none is overtaken
	want(t, r.together(0), "t1 a", "s1 a")
	r.confirm(1)
	r.confirm(2)
	r.now = r.now.Add(time.Millisecond)
	want(t, r.hear(beat("a")), "dispatch t2.1 a", "dispatch t3.1 a", "dispatch t4.1 a")
	want(t, r.together(2), "t2 a (t2.1/3)", "t3 a (t2.1/3)", "t4 a (t2.1/3)")
}

// TestMoreWaitThanABatchHolds: eight slots for eight tasks in batches of three.
func TestMoreWaitThanABatchHolds(t *testing.T) {
	r := boot(t, policyOf(worker("a").slots(8)).batched("any", 3))
	for i := range 8 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))))
	}
	r.pass(batchWait)
	r.hear(beat("a"))
	want(t, r.together(0), "t0 a (t0.1/3)", "t1 a (t0.1/3)", "t2 a (t0.1/3)",
		"t3 a (t3.1/3)", "t4 a (t3.1/3)", "t5 a (t3.1/3)", "t6 a (t6.1/2)", "t7 a (t6.1/2)") // 3 + 3 + 2 = 8
}

// TestNeverBatchedAgain: what has been here before goes at once, and alone.
func TestNeverBatchedAgain(t *testing.T) {
	two := func(t *testing.T) *rig {
		return ready(t, policyOf(worker("a").slots(4), worker("b").slots(4)).batched("any", 2))
	}
	batch := func(t *testing.T) *rig {
		r := two(t)
		r.assignAll(job("t1"))
		r.assign(job("t2"))
		want(t, r.together(0), "t1 a (t1.1/2)", "t2 a (t1.1/2)")
		return r
	}
	t.Run("redelivered", func(t *testing.T) {
		r := two(t)
		want(t, r.redeliver(job("t1")), "dispatch t1.1 a again?")
		want(t, r.redeliver(job("t2")), "dispatch t2.1 b again?")
	})
	t.Run("its queue was full", func(t *testing.T) {
		r := batch(t)
		want(t, r.settle(1, coordinator.PublishRejected), "dispatch t1.1 b")
		want(t, r.settle(2, coordinator.PublishRejected), "dispatch t2.1 b")
		want(t, r.together(2), "t1 b", "t2 b")
	})
	t.Run("given back", func(t *testing.T) {
		r := batch(t)
		r.confirm(1)
		r.confirm(2)
		r.giveBack(r.dispatches[0])
		r.giveBack(r.dispatches[1])
		r.pass(time.Second) // the back-off, at most 250 ms
		got := r.together(2)
		slices.Sort(got) // by the hash that spreads the back-off
		want(t, got, "t1 b", "t2 b")
	})
	t.Run("its answer was lost", func(t *testing.T) {
		r := batch(t)
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		want(t, r.redeliver(job("t1")), "dispatch t1.1 a again?")
		want(t, r.redeliver(job("t2")), "dispatch t2.1 a again?")
		want(t, r.together(2), "t1 a", "t2 a")
	})
	t.Run("sent again after it failed, it is new", func(t *testing.T) {
		r := two(t)
		r.assignAll(job("t1"))
		want(t, r.pass(batchWait), "dispatch t1.1 a")
		want(t, r.settle(1, coordinator.PublishNotSent), "fail t1 invalid_message")
		r.assignAll(job("t1"))
		r.assign(job("t2"))
		want(t, r.together(1), "t1 b (t1.1/2)", "t2 b (t1.1/2)")
	})
}

// TestCancelOfWhatGathers: one is withdrawn; for the others nothing changes.
func TestCancelOfWhatGathers(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(4)).batched("any", 10))
	r.assignAll(jobs("t1", "t2", "t3")...)
	r.pass(20 * time.Millisecond)
	if s := r.Snapshot(r.now); s.Gathering != 3 || s.Pending != [4]int{0, 3, 0, 0} ||
		s.OldestPending != 20*time.Millisecond {
		t.Errorf("snapshot: %d gather, pending %v, the oldest for %v", s.Gathering, s.Pending, s.OldestPending)
	}
	want(t, r.withdraw("t1"), "fail t1 cancelled", "cancel t1: done")
	engine.CheckIndexes(t, r.Engine)
	want(t, r.pass(30*time.Millisecond), "dispatch t2.1 a", "dispatch t3.1 a")
	want(t, r.together(0), "t2 a (t2.1/2)", "t3 a (t2.1/2)")
	r.assignAll(job("t4"))
	want(t, r.withdraw("t4"), "fail t4 cancelled", "cancel t4: done")
	if _, scheduled := r.batchTimer(); scheduled {
		t.Error("a batch of nobody gathers")
	}
}

// TestSessionEndsWhileABatchGathers: the broker has them all again, and nothing is left
// behind.
func TestSessionEndsWhileABatchGathers(t *testing.T) {
	for _, end := range []coordinator.Event{coordinator.SessionLost{}, coordinator.DrainBegan{}} {
		t.Run(fmt.Sprintf("%T", end), func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(4)).batched("any", 10))
			r.assignAll(jobs("t1", "t2")...)
			want(t, r.apply(end))
			engine.CheckIndexes(t, r.Engine)
			want(t, r.pass(time.Second))
			if len(r.HeldTasks()) != 0 || r.PendingTotal() != 0 {
				t.Errorf("%d held, %d pending", len(r.HeldTasks()), r.PendingTotal())
			}
		})
	}
}

// TestPolicyChangesWhileABatchGathers: no task waits for a batch of another policy, and
// what the new one allows is given out together at once.
func TestPolicyChangesWhileABatchGathers(t *testing.T) {
	ten := func() *policyBuilder { return policyOf(worker("a").slots(8), worker("b").slots(8)).batched("any", 10) }
	tests := []struct {
		name string
		next *policyBuilder
		want []string
	}{
		{"the same", ten(), []string{"t1 a (t1.1/3)", "t2 a (t1.1/3)", "t3 a (t1.1/3)"}},
		{"smaller batches", ten().batched("any", 2), []string{"t1 a (t1.1/2)", "t2 a (t1.1/2)", "t3 b"}},
		{"no batches", ten().batched("any", 0), []string{"t1 a", "t2 b", "t3 a"}},
		{"the agent is gone", policyOf(worker("b").slots(8)).batched("any", 10),
			[]string{"t1 b (t1.1/3)", "t2 b (t1.1/3)", "t3 b (t1.1/3)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, ten())
			r.assignAll(jobs("t1", "t2", "t3")...)
			r.apply(coordinator.PolicyChanged{Policy: &tt.next.Policy})
			want(t, r.together(0), tt.want...)
			engine.CheckIndexes(t, r.Engine)
			want(t, r.pass(batchWait)) // its timer is gone
		})
	}
	t.Run("nobody can do it any more", func(t *testing.T) {
		r := ready(t, ten())
		r.assignAll(jobs("t1", "t2")...)
		want(t, r.apply(coordinator.PolicyChanged{Policy: &policyOf(worker("a").slots(8)).route("any", "gpu").Policy}),
			"fail t1 no_eligible_agents", "fail t2 no_eligible_agents")
	})
}

// TestBacklogAndBatches: those that gather count among the pending; where there is no
// room to wait, no task waits for others.
func TestBacklogAndBatches(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(4)).batched("any", 10).
		set(func(s *coordinator.Settings) { s.MaxQueueSize = 2 }))
	r.assignAll(jobs("t1", "t2")...)
	want(t, r.assign(job("t3")), "dispatch t3.1 a")
	want(t, r.pass(batchWait), "dispatch t1.1 a", "dispatch t2.1 a")
}

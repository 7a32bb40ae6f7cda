package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// work confirms what was dispatched and has each task take so long, while time goes by.
type work struct {
	*rig
	takes time.Duration
	seen  int // of the rig's dispatches
	runs  []coordinator.Dispatch
	ends  []time.Time
}

// pass lets time go by; every agent reports each interval what it runs.
func (w *work) pass(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		for ; w.seen < len(w.dispatches); w.seen++ {
			w.runs, w.ends = append(w.runs, w.dispatches[w.seen]), append(w.ends, w.now.Add(w.takes))
			w.confirm(w.dispatches[w.seen].Handle)
		}
		next := coordinator.Earlier(end, w.now.Add(time.Second))
		if len(w.ends) > 0 {
			next = coordinator.Earlier(next, w.ends[0])
		}
		w.rig.pass(next.Sub(w.now))
		for len(w.ends) > 0 && !w.ends[0].After(w.now) {
			d := w.runs[0]
			w.runs, w.ends = w.runs[1:], w.ends[1:]
			w.tell(says(d.Agent, d.Task.ID))
		}
		if w.now.Unix()%int64(interval/time.Second) == 0 {
			for i := range w.Policy().Agents {
				running := []coordinator.TaskID{}
				for _, d := range w.runs {
					if d.Agent == w.Policy().Agents[i].ID {
						running = append(running, d.Task.ID)
					}
				}
				w.hear(beat(w.Policy().Agents[i].ID).running(running...))
			}
		}
	}
}

// TestBurstWaits: what waits behind others does not fail, however short the timeout, and however
// long the tasks take. 100 tasks on 3 × 4 slots are ⌈100/12⌉ = 9 rounds.
func TestBurstWaits(t *testing.T) {
	for _, tt := range []struct {
		takes, timeout time.Duration
	}{
		{8 * time.Second, 30 * time.Second}, // 9 × 8 = 72 s in all
		{4 * time.Minute, 30 * time.Second}, // nothing is dispatched for 4 min at a time
		{70 * time.Second, 2 * time.Second}, // nor anything heard
		{100 * time.Millisecond, time.Second},
	} {
		t.Run(tt.takes.String(), func(t *testing.T) {
			p := policyOf(worker("a").slots(4), worker("b").slots(4), worker("c").slots(4))
			w := &work{rig: ready(t, p.set(func(s *coordinator.Settings) { s.AssignmentTimeout = tt.timeout })), takes: tt.takes}
			for i := range 100 {
				w.assign(job(coordinator.TaskID(fmt.Sprint("t", i))))
			}
			w.pass(9*tt.takes + 2*time.Second)
			if done := len(w.dispatches) - len(w.runs); done != 100 || len(w.failures) > 0 {
				t.Errorf("%d of 100 done, %d failed", done, len(w.failures))
			}
			engine.CheckIndexes(t, w.Engine)
		})
	}
}

// TestStuckIsTold: what waits fails 30 s after something moved last for it, for the reason that
// holds then. Agent a works on a task of at most 5 min from 0 s on; of b another class's tasks go on.
func TestStuckIsTold(t *testing.T) {
	for _, tt := range []struct {
		name   string
		at10   func(r *rig) // what happens at 10 s
		fails  time.Duration
		reason string
	}{
		{"its agent leaves", func(r *rig) { r.hear(beat("a").status(coordinator.StatusOffline)) }, 40 * time.Second,
			"no_agents_online"},
		{"its agent is cordoned", func(r *rig) { r.order("a", coordinator.OrderCordon) }, 40 * time.Second,
			"all_agents_at_capacity"},
		{"its agent hangs", func(*rig) {}, 331 * time.Second, "all_agents_at_capacity"}, // 5 min, a margin of 1 s, 30 s
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").can("x"), worker("b").can("y")))
			r.hear(beat("a").running())
			start := r.now
			r.give(job("hangs").needs("x"))
			want(t, r.assign(job("waits").needs("x")))
			left := func() (where string, at time.Duration) {
				for _, f := range r.failures {
					if f.Task.ID == "waits" {
						return f.Failure.Reason.String(), f.Failure.FailedAt.Sub(start)
					}
				}
				return "", 0
			}
			for s := 1; s <= 400; s++ {
				r.pass(start.Add(time.Duration(s) * time.Second).Sub(r.now))
				if s == 10 {
					tt.at10(r)
				}
				if s%20 == 0 {
					if r.seen("a").State == coordinator.AgentOnline {
						r.hear(beat("a").running("hangs"))
					}
					r.hear(beat("b"))
					r.give(job(coordinator.TaskID(fmt.Sprint("y", s))).needs("y"))
				}
			}
			if reason, at := left(); reason != tt.reason || at != tt.fails {
				t.Errorf("it failed for %q after %v, want %s after %v", reason, at, tt.reason, tt.fails)
			}
		})
	}
}

// TestAnyClassOfAnAgentMovesIt: a slot that a task could have is given to a task of another class.
func TestAnyClassOfAnAgentMovesIt(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("x", "y").slots(1)))
	r.hear(beat("a").running())
	r.give(job("y0").needs("y").prio(critical))
	want(t, r.assign(job("x").needs("x").prio(low)))
	for i := range 10 { // 20 s each: 200 s in all
		next := job(coordinator.TaskID(fmt.Sprint("y", i+1))).needs("y").prio(critical)
		want(t, r.assign(next))
		want(t, r.pass(20*time.Second))
		r.tell(says("a", coordinator.TaskID(fmt.Sprint("y", i))))
		r.confirm(r.latest().Handle)
		r.hear(beat("a").running(r.latest().Task.ID))
	}
	want(t, r.tell(says("a", "y10")), "completed y10.1 a succeeded", "dispatch x.1 a")
}

// TestTimeoutThatCountsWaiting is COORDINATOR's to the letter: 30 s, whatever moves.
func TestTimeoutThatCountsWaiting(t *testing.T) {
	r := ready(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.CountsWaiting = true }))
	r.give(job("t1"))
	want(t, r.assign(job("t2")))
	want(t, r.pass(30*time.Second-1))
	want(t, r.pass(1), "fail t2 all_agents_at_capacity")
}

// TestMaxWait: a task waits no longer for its first agent than it says, or its type does, although
// others are worked off. After that it may wait as anything that came back.
func TestMaxWait(t *testing.T) {
	p := policyOf(worker("a"), worker("b").can("other")).route("typed")
	p.Routes["typed"] = coordinator.Route{MaxWait: 20 * time.Second}
	for _, tt := range []struct {
		name string
		task *taskBuilder
		own  time.Duration
		want time.Duration // 0: it waits on
	}{
		{"the task's", job("t"), 10 * time.Second, 10 * time.Second},
		{"its type's", job("t").kind("typed"), 0, 20 * time.Second},
		{"the task's before its type's", job("t").kind("typed"), time.Minute, time.Minute},
		{"none", job("t"), 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, p)
			r.give(job("first").not("b"))
			tt.task.MaxWait, tt.task.Excluded = tt.own, []coordinator.AgentID{"b"}
			want(t, r.assign(tt.task))
			if tt.want == 0 {
				want(t, r.pass(100*time.Second))
				return
			}
			want(t, r.pass(tt.want-1))
			want(t, r.pass(1), "fail t all_agents_at_capacity")
			if text := r.failures[0].Failure.Text; !strings.Contains(text,
				fmt.Sprintf("at most %s (max_wait_seconds)", tt.want)) {
				t.Error(text)
			}
		})
	}
	t.Run("what came back", func(t *testing.T) {
		r := ready(t, policyOf(worker("a"), worker("b")))
		task := job("t").not("b")
		task.MaxWait = 10 * time.Second
		d := r.give(task)
		d.Task = &coordinator.Task{ID: "t", Type: "any", ContentHash: 1, AcceptedAt: d.Task.AcceptedAt,
			MaxWait: 10 * time.Second}
		r.give(job("u").not("a"))
		r.pass(time.Minute)
		r.returns(d, coordinator.ReturnRejected, false) // b is busy, and goes on
		r.pass(time.Minute)
		if len(r.failures) > 0 {
			t.Error(r.failures)
		}
	})
}

// TestOutOfALane: what comes out of its lane is judged by when something moved last for its class.
func TestOutOfALane(t *testing.T) {
	old := func(r *rig, id coordinator.TaskID) *taskBuilder {
		b := job(id)
		b.AcceptedAt = r.now.Add(-time.Hour)
		return b
	}
	t.Run("its class works", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")).lanes(2))
		r.give(job("first"))
		want(t, r.comes("other", old(r, "t"), false))
		want(t, r.tell(says("a", "first")), "completed first.1 a succeeded", "dispatch t.1 a again?")
	})
	t.Run("its class is stuck", func(t *testing.T) {
		r := boot(t, policyOf(worker("a")).lanes(2))
		r.hear(beat("a").status(coordinator.StatusOffline))
		r.pass(30 * time.Second)
		want(t, r.comes("other", old(r, "t"), false), "fail t no_agents_online")
	})
}

// TestQuotaThatMoves: what waits for quota fails only when nothing has moved for its group for the
// timeout of 30 s.
func TestQuotaThatMoves(t *testing.T) {
	perMinute := func(n *coordinator.QuotaNode) { // one a minute, none in advance
		n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 1, Per: time.Minute, Burst: 1}
	}
	eachMinute := func(n *coordinator.QuotaNode) {
		n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: 100,
			Period: coordinator.Period{Unit: coordinator.PerMinute}}
	}
	for _, tt := range []struct {
		name  string
		limit func(*coordinator.QuotaNode)
		takes time.Duration
		fails bool
	}{
		{"a rate of one a minute", perMinute, time.Second, false},
		{"a budget of one a minute", eachMinute, time.Second, false},
		{"one seat, for two minutes", seats(1), 2 * time.Minute, false},
		{"a budget of the day", daily(100), time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := policyOf(worker("a").slots(1000)).quotas(quotasOf().group("team", 1, tt.limit).group("others", 1, nil))
			w := &work{rig: ready(t, p), takes: tt.takes}
			for i := range 5 {
				w.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).of("team").tokens(90, 10))
			}
			for i := range 700 { // the pool goes on all the time
				w.assign(job(coordinator.TaskID(fmt.Sprint("o", i))).of("others").tokens(1, 1))
				w.pass(time.Second)
			}
			done := 0
			for _, d := range w.dispatches {
				if d.Task.Group == "team" {
					done++
				}
			}
			if tt.fails && (done != 1 || len(w.failures) != 4) || !tt.fails && (done != 5 || len(w.failures) > 0) {
				t.Errorf("%d of 5 dispatched, %d failed", done, len(w.failures))
			}
		})
	}
}

package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/hash"
	"taskbus/coordinator/learning"
	"taskbus/coordinator/strategy"
)

const (
	benchCapabilities = 64
	benchTypes        = 256 // half need one capability, half two
	benchSlots        = 4
)

// bench is a fleet kept about half loaded: every second dispatch is followed by
// a heartbeat of the next agent in turn, which speaks for what it was given and
// says that it runs two of four tasks at most.
type bench struct {
	e       *engine.Engine
	now     time.Time
	reports []coordinator.AgentReported // one per agent, boxed once
	turn    int
	tasks   []coordinator.Task
	ids     []coordinator.TaskID
	handle  coordinator.Handle
	out     []coordinator.Effect
}

// newBench makes n agents, each with a quarter of the capabilities in a pattern
// of its own, so that about 1/4 of them can do a task of one and 1/16 one of two.
func newBench(tb testing.TB, n int) *bench {
	tb.Helper()
	mix := func(i, j int) bool { return hash.Of(fmt.Sprint(i, "/", j), 0)%4 == 0 }
	p := policyOf().set(func(s *coordinator.Settings) {
		s.MaxQueueSize, s.DedupeMaxIDs = 100_000, 100_000
		s.AssignmentTimeout, s.StaleAfter = time.Hour, 1000*time.Hour
	})
	for i := range n {
		w := worker(coordinator.AgentID(fmt.Sprintf("agent-%06d", i))).slots(benchSlots)
		var can []string
		for j := range benchCapabilities {
			if mix(i, j) {
				can = append(can, fmt.Sprintf("cap-%02d", j))
			}
		}
		p.Agents = append(p.Agents, w.can(append(can, fmt.Sprintf("cap-%02d", i%benchCapabilities))...).AgentSpec)
	}
	w := &bench{e: engine.New(), now: epoch, tasks: make([]coordinator.Task, benchTypes)}
	for i := range w.tasks {
		need := []string{fmt.Sprintf("cap-%02d", i%benchCapabilities)}
		if i%2 == 1 {
			need = coordinator.SortedUnique(append(need, fmt.Sprintf("cap-%02d", (i*7+3)%benchCapabilities)))
		}
		name := fmt.Sprintf("type-%03d", i)
		p.route(name, need...)
		w.tasks[i] = coordinator.Task{Type: name, Priority: coordinator.Priority(i % 4), ContentHash: 1}
	}
	w.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	w.apply(coordinator.SessionOpened{})
	w.reports = make([]coordinator.AgentReported, n)
	for i := range w.reports {
		w.reports[i] = coordinator.AgentReported{Live: true, Report: beat(p.Agents[i].ID).load(float64(i%7) / 10).
			active(i % 3).AgentReport}
		w.reports[i].Report.Available = benchSlots
	}
	for range n {
		w.heartbeat()
	}
	return w
}

func (w *bench) apply(ev coordinator.Event) []coordinator.Effect {
	w.now = w.now.Add(10 * time.Microsecond)
	w.out = w.e.Apply(w.now, ev, w.out[:0])
	return w.out
}

// heartbeat is the next agent's.
func (w *bench) heartbeat() {
	ev := w.reports[w.turn]
	w.turn = (w.turn + 1) % len(w.reports)
	ev.Report.Timestamp = w.now
	w.settleAll(w.apply(ev))
}

// assign makes one decision and confirms whatever was dispatched.
func (w *bench) assign(i int) {
	task := w.tasks[i%benchTypes]
	task.ID, task.AcceptedAt = w.ids[i], w.now
	w.handle++
	w.settleAll(w.apply(coordinator.TaskReceived{Handle: w.handle, Task: &task}))
}

// settleAll confirms the dispatches among the effects.
func (w *bench) settleAll(effects []coordinator.Effect) {
	var first [4]coordinator.Handle // usually there is one
	handles := first[:0]
	for _, f := range effects {
		if d, ok := f.(*coordinator.Dispatch); ok {
			handles = append(handles, d.Handle)
		}
	}
	for _, h := range handles {
		w.apply(coordinator.DispatchSettled{Handle: h, Outcome: coordinator.PublishConfirmed})
	}
}

func (w *bench) name(n int) {
	w.ids = make([]coordinator.TaskID, n)
	for i := range w.ids {
		w.ids[i] = coordinator.TaskID(fmt.Sprintf("order-2030-01-01-%09d", i))
	}
}

// BenchmarkApply: one operation is one decision, TaskReceived and its
// DispatchSettled, and half a heartbeat. Two of four slots are in use.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprint("agents=", n), func(b *testing.B) {
			w := newBench(b, n)
			w.name(b.N)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				w.assign(i)
				if i%2 == 1 {
					w.heartbeat()
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			if waiting := w.e.PendingTotal(); waiting > b.N/10+10 {
				b.Fatalf("%d of %d tasks wait: this measured something else", waiting, b.N)
			}
		})
	}
}

// TestApplyAllocations bounds what a decision and a heartbeat allocate in steady state: one allocation more for each is
// too little to be noticed in a time, and is paid with every task. Of the 8.5 for a decision, of which AllocsPerRun
// drops the fraction, 3.5 are made by the test itself, the task and the events; so is the one of a heartbeat.
func TestApplyAllocations(t *testing.T) {
	const warm, runs = 2000, 2000
	w := newBench(t, 100)
	w.name(warm + runs + 1)
	i := 0
	decide := func() {
		w.assign(i)
		if i++; i%2 == 0 {
			w.heartbeat()
		}
	}
	for range warm {
		decide()
	}
	if got := testing.AllocsPerRun(runs, decide); got > 8 {
		t.Errorf("a decision, its confirm and half a heartbeat take %v allocations", got)
	}
	if got := testing.AllocsPerRun(runs, w.heartbeat); got > 1 {
		t.Errorf("a heartbeat takes %v allocations", got)
	}
}

// BenchmarkRecord is BenchmarkApply with 100 agents and the records that it leaves.
func BenchmarkRecord(b *testing.B) {
	w := newBench(b, 100)
	w.name(b.N)
	w.e.Record(true)
	var records []coordinator.Record
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		w.assign(i)
		if i%2 == 1 {
			w.heartbeat()
		}
		records = w.e.Records(records[:0])
	}
}

// BenchmarkChoose: one operation is one choice among a fleet in which everybody can
// do the task and has a free slot, without what surrounds it: the worst case for a
// strategy. Half of the agents have shown something, none of them the same.
func BenchmarkChoose(b *testing.B) {
	for _, name := range []string{strategy.CapabilityMatchName, strategy.LoadBalancedName, strategy.RewardRateName,
		strategy.WeightedName} {
		for _, n := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("%s/agents=%d", name, n), func(b *testing.B) {
				w := newBench(b, n)
				w.e.Policy().Routes["any"] = coordinator.Route{}
				kind := w.e.KindOf("any")
				for i := range n / 2 {
					for j := range i%7 + 1 {
						o := learning.Outcome{Attribution: learning.Succeeded, Duration: time.Duration(i+j) * time.Millisecond}
						if j%3 == 1 {
							o = learning.Outcome{Attribution: learning.AgentFault}
						}
						w.e.Learner().Observe(w.now, 2*i, kind, o)
					}
				}
				choose, text := w.e.Chooser(coordinator.Task{ID: "t", Type: "any", Strategy: name})
				if text != "" {
					b.Fatal(text)
				}
				ids := make([]coordinator.TaskID, 1024) // as many places to begin with, and draws
				for i := range ids {
					ids[i] = coordinator.TaskID(fmt.Sprint("t", i))
				}
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					if !choose(ids[i%len(ids)]) {
						b.Fatal("nobody")
					}
				}
			})
		}
	}
}

// BenchmarkRefuse: one operation is what a choice says of the agents that are out, where a fifth each is
// ready, full, overloaded, busy or offline.
func BenchmarkRefuse(b *testing.B) {
	for _, n := range []int{16, 1000, 10_000} {
		b.Run(fmt.Sprint("agents=", n), func(b *testing.B) {
			w := newBench(b, n)
			for i := range w.reports {
				r := &w.reports[i].Report
				switch r.Active, r.Load = 0, 0; i % 5 {
				case 1:
					r.Active = benchSlots
				case 2:
					r.Load = 1
				case 3:
					r.Status = coordinator.StatusBusy
				case 4:
					r.Status = coordinator.StatusOffline
				}
			}
			for range n {
				w.heartbeat()
			}
			refuse, ready, able, text := w.e.Refuser(coordinator.Task{ID: "t", Type: "type-000"})
			if text != "" {
				b.Fatal(text)
			}
			if ready == 0 || ready == able {
				b.Fatalf("%d of %d are ready", ready, able)
			}
			b.ReportAllocs()
			for b.Loop() {
				refuse()
			}
		})
	}
}

// BenchmarkReport: one heartbeat of a fleet where no task waits.
func BenchmarkReport(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint("agents=", n), func(b *testing.B) {
			w := newBench(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				w.heartbeat()
			}
		})
	}
}

// BenchmarkPendingWake: 4,000 tasks wait in 50 classes; one operation is a
// heartbeat that frees one slot, the dispatch of the task that goes first, its
// confirm, and one more task that takes its place.
func BenchmarkPendingWake(b *testing.B) {
	const classes, waiting = 50, 4000
	var needs [classes]string
	w1 := worker("a")
	for i := range needs {
		needs[i] = fmt.Sprintf("cap-%02d", i)
	}
	p := policyOf(w1.can(needs[:]...)).set(func(s *coordinator.Settings) {
		s.MaxQueueSize, s.AssignmentTimeout, s.StaleAfter = 2*waiting, 1000*time.Hour, 1000*time.Hour
	})
	w := &bench{e: engine.New(), now: epoch, tasks: make([]coordinator.Task, benchTypes)}
	for i := range w.tasks {
		w.tasks[i] = coordinator.Task{Type: "any", Required: needs[i%classes : i%classes+1],
			Priority: coordinator.Priority(i % 4), ContentHash: 1}
	}
	w.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	w.apply(coordinator.SessionOpened{})
	w.reports = []coordinator.AgentReported{{Live: true, Report: beat("a").AgentReport}}
	w.name(waiting + b.N)
	for i := range waiting {
		w.assign(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		w.heartbeat()
		w.assign(waiting + i)
	}
	b.StopTimer()
	if got := w.e.PendingTotal(); got != waiting {
		b.Fatalf("%d tasks wait, want %d: this measured something else", got, waiting)
	}
}

// BenchmarkAuctions: one operation is one task that is offered to some of 100 agents, or to all, the bids of
// all of these, and its end.
func BenchmarkAuctions(b *testing.B) {
	for _, all := range []bool{false, true} {
		b.Run(map[bool]string{false: "sample", true: "all"}[all], func(b *testing.B) {
			agents := make([]*specBuilder, 100)
			for i := range agents {
				agents[i] = worker(coordinator.AgentID(fmt.Sprint("a", i))).slots(4)
			}
			r := ready(b, policyOf(agents...).market(func(m *coordinator.Market) { m.InviteAll = all }))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				r.now = r.now.Add(time.Millisecond)
				task := job(coordinator.TaskID(fmt.Sprint("t", i))).Task
				task.AcceptedAt = r.now
				r.last++
				var dispatched *coordinator.Dispatch
				for n, f := range r.Apply(r.now, coordinator.TaskReceived{Handle: r.last, Task: &task}, nil) {
					o, ok := f.(*coordinator.Offer)
					if !ok {
						continue
					}
					for _, f := range r.Apply(r.now, coordinator.BidReceived{
						Agent: o.Agent, Task: task.ID, AuctionID: o.AuctionID, Fitness: 0.5 + float64(n)/1000,
					}, nil) {
						if d, ok := f.(*coordinator.Dispatch); ok {
							dispatched = d
						}
					}
				}
				d := dispatched
				r.Apply(r.now, coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishConfirmed}, nil)
				end := says(d.Agent, task.ID).of(d.DispatchID).stamped(r.now).Result
				r.Apply(r.now, coordinator.ResultReported{Result: end, Live: true}, nil)
			}
		})
	}
}

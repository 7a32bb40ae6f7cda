package engine_test

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
)

// BenchmarkQuotas: one operation is the whole way of one task through the engine: it comes, is
// dispatched and confirmed, and its agent tells what it used. Two engines do the same work in
// turns of quotaBlock tasks, one with quotas and one without; the one that goes first changes.
// It reports for both CPU time and allocations a task, and bytes a task in the journal; "ratio" is
// the median over all turns of how fast it is with quotas, of how fast without.
//
//	room   no limit binds, and agents are free: no task waits
//	rate   the pool's rate is short: every task waits for its group's turn there; without
//	       quotas as many wait for one of as many agents as are at work here
//	seats  so may run at one time; without quotas there are as many slots
func BenchmarkQuotas(b *testing.B) {
	for _, mode := range []string{"room", "rate", "seats"} {
		for _, groups := range []int{10, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/groups=%d", mode, groups), func(b *testing.B) {
				with, without := newQuotaSide(b, mode, groups, true), newQuotaSide(b, mode, groups, false)
				for range (2*groups+2*quotaWaiting)/quotaBlock + 1 { // everybody has been there
					with.block(false)
					without.block(false)
				}
				b.ResetTimer()
				var ratios []float64
				for n := 0; n < b.N; n += quotaBlock {
					var took [2]time.Duration // without, with
					for i := range took {
						if i^len(ratios)&1 == 0 {
							took[0] = without.block(true)
						} else {
							took[1] = with.block(true)
						}
					}
					ratios = append(ratios, float64(took[0])/float64(took[1]))
				}
				slices.Sort(ratios)
				b.ReportMetric(0, "ns/op") // of both together: of no use
				b.ReportMetric(ratios[len(ratios)/2], "ratio")
				for _, s := range []*quotaSide{without, with} {
					s.report(b)
				}
			})
		}
	}
}

const (
	quotaBlock   = 1024
	quotaAgents  = 100
	quotaRunning = 200 // with agents at any time
	quotaWaiting = 2000
	quotaPace    = 100 * time.Microsecond // of virtual time between two tasks
	quotaKinds   = 8
)

// quotaSide is one of the two engines, with what its agents have in hand.
type quotaSide struct {
	bench
	name    string
	groups  int
	arrived int
	ended   int
	steps   int
	wait    int           // how many should wait
	running []runningTask // oldest first
	records []coordinator.Record
	// What was measured.
	tasks          int
	took           time.Duration
	allocs, stored uint64
}

type runningTask struct {
	agent coordinator.AgentID
	task  coordinator.TaskID
}

// newQuotaSide makes one in which quotaWaiting tasks wait for quota, unless there is room; if it
// is without quotas, for an agent.
func newQuotaSide(b *testing.B, mode string, groups int, quotas bool) *quotaSide {
	b.Helper()
	slots := 2 * quotaRunning / quotaAgents
	if mode != "room" && !quotas {
		slots = quotaRunning / quotaAgents
	}
	p := policyOf().set(func(s *coordinator.Settings) {
		s.MaxQueueSize, s.DedupeMaxIDs = 100_000, 100_000
		s.AssignmentTimeout, s.StaleAfter = 24*time.Hour, 1000*time.Hour
	})
	var can []string
	for i := range quotaKinds {
		can = append(can, fmt.Sprint("cap-", i))
		p.route(fmt.Sprint("type-", i), can[i])
	}
	for i := range quotaAgents {
		w := worker(coordinator.AgentID(fmt.Sprintf("agent-%06d", i))).slots(slots).can(can...)
		w.Timeout, w.AcceptTimeout = 24*time.Hour, 24*time.Hour
		p.Agents = append(p.Agents, w.AgentSpec)
	}
	s := &quotaSide{bench: bench{e: engine.New(), now: epoch}, name: "plain", groups: groups}
	if quotas {
		s.name = "quota"
		p.Quotas = benchQuotas(mode, groups)
	}
	s.e.Record(true)
	s.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	s.apply(coordinator.SessionOpened{})
	for _, a := range p.Agents {
		ev := coordinator.AgentReported{Live: true, Report: beat(a.ID).AgentReport}
		ev.Report.Timestamp, ev.Report.Available = s.now, slots
		s.apply(ev)
	}
	if mode != "room" {
		s.wait = quotaWaiting
	}
	return s
}

// benchQuotas is three levels: the pool, organisations and their teams, with a budget and a rate
// in each of four dimensions at all of them, by weight below the pool.
func benchQuotas(mode string, groups int) *coordinator.Quotas {
	q := quotasOf()
	limits := func(n *coordinator.QuotaNode, amount int64) {
		for _, d := range []coordinator.Dimension{coordinator.DimRequests, coordinator.DimInputTokens,
			coordinator.DimOutputTokens, coordinator.DimCost} {
			n.Budgets[d] = &coordinator.QuotaLimit{Nominal: amount, Period: coordinator.Period{Unit: coordinator.PerMonth}}
			n.Rates[d] = &coordinator.QuotaLimit{Nominal: amount, Per: time.Second}
		}
	}
	pool := &q.Nodes[0]
	limits(pool, 1<<55)
	switch mode {
	case "rate":
		pool.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: int64(time.Second / quotaPace),
			Per: time.Second, Burst: 10}
	case "seats":
		pool.Seats = &coordinator.QuotaLimit{Nominal: quotaRunning}
	}
	orgs := max(1, groups/100)
	add := func(name string, parent int, weight int64) {
		n := coordinator.QuotaNode{ID: q.Nodes[parent].ID + "/" + name, Kind: coordinator.QuotaGroup, Name: name,
			Parent: parent, Weight: weight}
		limits(&n, coordinator.ByWeight)
		switch mode {
		case "rate":
			n.Rates[coordinator.DimRequests] = nil
		case "seats":
			n.Seats = &coordinator.QuotaLimit{Nominal: coordinator.ByWeight}
		}
		q.Nodes = append(q.Nodes, n)
	}
	for i := range orgs {
		add(fmt.Sprint("org-", i), 0, int64(1+i%5))
	}
	for i := range groups {
		add(fmt.Sprint("team-", i), 1+i%orgs, int64(1+i%7))
	}
	q.Prices = []coordinator.Price{{Provider: "lab", Model: "m", InputPerMillion: 2_500_000, OutputPerMillion: 10_000_000}}
	return &q.Quotas
}

// apply also keeps the records, and confirms what is dispatched.
func (s *quotaSide) apply(ev coordinator.Event) {
	effects := s.bench.apply(ev)
	s.records = s.e.Records(s.records)
	var first [4]coordinator.Handle // usually there is one
	handles := first[:0]
	for _, f := range effects {
		if d, ok := f.(*coordinator.Dispatch); ok {
			handles = append(handles, d.Handle)
			s.running = append(s.running, runningTask{d.Agent, d.Task.ID})
		}
	}
	for _, h := range handles {
		s.apply(coordinator.DispatchSettled{Handle: h, Outcome: coordinator.PublishConfirmed})
	}
}

// arrive sends the next task.
func (s *quotaSide) arrive() {
	i := s.arrived
	s.arrived++
	s.handle++
	s.apply(coordinator.TaskReceived{Handle: s.handle, Task: &coordinator.Task{
		ID: coordinator.TaskID(fmt.Sprintf("order-2030-01-01-%09d", i)), Type: benchKinds[i%quotaKinds],
		Priority: coordinator.Priority(i % 4), ContentHash: 1, AcceptedAt: s.now,
		Group: s.group(i), EstimatedUsage: s.usage(i),
	}})
}

var benchKinds = func() (kinds [quotaKinds]string) {
	for i := range kinds {
		kinds[i] = fmt.Sprint("type-", i)
	}
	return kinds
}()

// group spreads tasks over all of them, so that the next is another.
func (s *quotaSide) group(i int) string { return fmt.Sprint("team-", i*7919%s.groups) }

func (s *quotaSide) usage(i int) *coordinator.Usage {
	return &coordinator.Usage{Requests: 1, InputTokens: float64(500 + i%1500), OutputTokens: float64(50 + i%300),
		Provider: "lab", Model: "m"}
}

// step lets the time of one task pass: one ends if enough are running, and as many come as
// went, so that as many wait as before.
func (s *quotaSide) step() {
	s.steps++
	s.now = epoch.Add(time.Duration(s.steps) * quotaPace)
	if at, ok := s.e.NextDeadline(); ok && !at.After(s.now) {
		s.apply(coordinator.Tick{})
	}
	for n := len(s.running) - quotaRunning; n >= 0; n-- {
		r := s.running[0]
		s.running = s.running[1:]
		s.ended++
		s.apply(coordinator.ResultReported{Live: true, Result: coordinator.Result{
			Task: r.task, Agent: r.agent, Outcome: coordinator.OutcomeSucceeded, Timestamp: s.now, Usage: s.usage(s.ended),
		}})
	}
	if s.wait == 0 {
		s.arrive()
	}
	for s.e.PendingTotal() < s.wait {
		s.arrive()
	}
}

// block goes on until quotaBlock more tasks have come, and tells how much CPU time that took.
func (s *quotaSide) block(measured bool) time.Duration {
	s.records = s.records[:0]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun, first := cpuTime(), s.arrived
	for s.arrived-first < quotaBlock {
		s.step()
	}
	took := cpuTime() - begun
	runtime.ReadMemStats(&after)
	if measured {
		s.tasks += s.arrived - first
		s.took += took
		s.allocs += after.Mallocs - before.Mallocs
		s.stored += uint64(len(journal.AppendBatch(nil, journal.Header{At: s.now}, s.records)))
	}
	return took
}

// cpuTime is that of this process: others use the machine, too.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// report sees that the work was that of the mode, and tells what it took.
func (s *quotaSide) report(b *testing.B) {
	if n := s.e.PendingTotal(); n != s.wait || s.arrived != s.ended+len(s.running)+n {
		b.Fatalf("%s: %d of %d tasks wait, %d have ended: this measured something else", s.name, n, s.arrived, s.ended)
	}
	per := func(x uint64) float64 { return float64(x) / float64(s.tasks) }
	b.ReportMetric(per(uint64(s.took)), s.name+"-ns/task")
	b.ReportMetric(per(s.allocs), s.name+"-allocs/task")
	b.ReportMetric(float64(s.e.AllRefusals())/float64(max(1, s.arrived)), s.name+"-refused/task")
	b.ReportMetric(per(s.stored), s.name+"-journal-B/task")
}

package engine_test

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// quotaTree describes quotas.yaml: the pool without a provider, and groups below it.
type quotaTree struct{ coordinator.Quotas }

func quotasOf() *quotaTree {
	q := &quotaTree{coordinator.Quotas{RepayPercent: 20, ReservationTTL: 15 * time.Minute, TombstoneTTL: time.Hour,
		DefaultOutput: 512}}
	q.Nodes = []coordinator.QuotaNode{{ID: "pool", Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1}}
	return q
}

// group adds one below the pool; its limits are set by change.
func (q *quotaTree) group(name string, weight int64, change func(*coordinator.QuotaNode)) *quotaTree {
	n := coordinator.QuotaNode{ID: "pool/" + name, Kind: coordinator.QuotaGroup, Name: name, Weight: weight}
	if change != nil {
		change(&n)
	}
	q.Nodes = append(q.Nodes, n)
	return q
}

// open lets tasks and calls name groups and agents that it does not list.
func (q *quotaTree) open() *quotaTree { q.AnyCaller = true; return q }

// in adds a group in a group.
func (q *quotaTree) in(parent, name string, weight int64, change func(*coordinator.QuotaNode)) *quotaTree {
	for i := range q.Nodes {
		if q.Nodes[i].Name == parent {
			q.group(name, weight, change)
			n := &q.Nodes[len(q.Nodes)-1]
			n.ID, n.Parent = q.Nodes[i].ID+"/"+name, i
			return q
		}
	}
	panic("no group " + parent)
}

// agent adds an agent's own node below a group.
func (q *quotaTree) agent(name, group string, change func(*coordinator.QuotaNode)) *quotaTree {
	for i := range q.Nodes {
		if q.Nodes[i].Name == group {
			n := coordinator.QuotaNode{ID: q.Nodes[i].ID + "/" + name, Kind: coordinator.QuotaAgent, Name: name, Parent: i,
				Weight: 1}
			change(&n)
			q.Nodes = append(q.Nodes, n)
		}
	}
	return q
}

// daily is a budget of total tokens for a day.
func daily(tokens int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: tokens,
			Period: coordinator.Period{Unit: coordinator.PerDay}}
	}
}

// requests is a rate of calls for each second.
func requests(n, burst int64) func(*coordinator.QuotaNode) {
	return func(node *coordinator.QuotaNode) {
		node.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: n, Per: time.Second, Burst: burst}
	}
}

func (b *policyBuilder) quotas(q *quotaTree) *policyBuilder { b.Quotas = &q.Quotas; return b }

func (b *taskBuilder) of(group string) *taskBuilder { b.Group = group; return b }

// tokens is what the task is said to take.
func (b *taskBuilder) tokens(in, out float64) *taskBuilder {
	b.EstimatedUsage = &coordinator.Usage{InputTokens: in, OutputTokens: out}
	return b
}

// used is what it has taken.
func (b *resultBuilder) used(in, out float64) *resultBuilder {
	b.Usage = &coordinator.Usage{InputTokens: in, OutputTokens: out}
	return b
}

// A task's quota is set aside before it is dispatched, and settled at what it has taken.
func TestQuotaIsSetAsideAndSettled(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000)).open()))
	want(t, r.assign(job("t1").of("team").tokens(500, 100)), "dispatch t1.1 a") // 600 of 1000
	want(t, r.confirm(r.latest().Handle), "ack 1")
	want(t, r.assign(job("t2").of("team").tokens(400, 100))) // 600 + 500 > 1000: it waits
	want(t, r.assign(job("t3").of("nobody").tokens(1e6, 1e6)), "dispatch t3.1 a")
	// 450 were used: 450 + 500 fit
	want(t, r.tell(says("a", "t1").used(400, 50)), "completed t1.1 a succeeded", "quota pool/team total_tokens 80%",
		"quota pool/team total_tokens 90%", "dispatch t2.1 a")
	engine.CheckIndexes(t, r.Engine)
}

// What is used up comes back when the period ends, and the task goes out then.
func TestQuotaComesBackWithThePeriod(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))).
		set(func(s *coordinator.Settings) { s.AssignmentTimeout = 24 * time.Hour; s.StaleAfter = 48 * time.Hour }))
	r.give(job("t1").of("team").tokens(900, 100))
	want(t, r.tell(says("a", "t1").used(900, 100)), "completed t1.1 a succeeded")
	want(t, r.assign(job("t2").of("team").tokens(9, 1)))
	want(t, r.pass(time.Date(2030, 1, 1, 23, 59, 59, 0, time.UTC).Sub(r.now)))
	want(t, r.pass(time.Second), "dispatch t2.1 a")
}

// A task whose time is over while its group has no quota says so, and when it is back.
func TestQuotaExhausted(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))))
	r.give(job("t1").of("team").tokens(900, 100))
	r.tell(says("a", "t1").used(900, 100)) // what is set aside for one that runs might come back
	r.assign(job("t2").of("team").tokens(9, 1))
	want(t, r.pass(30*time.Second), "fail t2 quota_exhausted")
	f := r.failures[0].Failure
	if !f.RetryAt.Equal(time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)) ||
		!strings.Contains(f.Text, "the budget of pool/team in total_tokens is used up") {
		t.Errorf("%+v", f)
	}
	want(t, r.assign(job("t3").of("team").tokens(900, 101)), "fail t3 exceeds_quota")
}

// One group's lack is not another's, nor that of its own tasks of a higher priority, which need
// less. What comes after a waiting task, in its group and at its priority or below, waits behind it,
// even if there is enough for it: else small tasks would keep a large one waiting for ever.
func TestQuotaLackParksTheGroupAlone(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).
		quotas(quotasOf().group("poor", 1, daily(104)).group("rich", 1, daily(1e6))))
	want(t, r.assign(job("p1").of("poor").tokens(90, 10)), "quota pool/poor total_tokens 80%",
		"quota pool/poor total_tokens 90%", "dispatch p1.1 a")
	want(t, r.assign(job("p2").of("poor").tokens(90, 10))) // 4 are left
	want(t, r.assign(job("r1").of("rich").tokens(90, 10)), "dispatch r1.1 a")
	// 2 are left
	want(t, r.assign(job("p3").of("poor").prio(coordinator.PriorityCritical).tokens(1, 1)), "dispatch p3.1 a")
	want(t, r.assign(job("p4").of("poor").tokens(1, 1)))
	want(t, r.assign(job("p5").of("poor").prio(coordinator.PriorityLow).tokens(1, 1)))
	s := r.Snapshot(r.now)
	if s.PendingReasons[coordinator.ReasonQuotaExhausted] != 3 {
		t.Errorf("they wait for %v", s.PendingReasons)
	}
	// p2 leaves: there is enough for those behind it.
	want(t, r.withdraw("p2"), "fail p2 cancelled", "cancel p2: done", "quota pool/poor total_tokens 100%",
		"dispatch p4.1 a")
}

// A rate lets the next task out to the millisecond.
func TestQuotaRate(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, requests(2, 1))))
	want(t, r.assign(job("t1").of("team")), "dispatch t1.1 a")
	want(t, r.assign(job("t2").of("team")))
	want(t, r.assign(job("t3").of("team")))
	want(t, r.pass(499*time.Millisecond))
	want(t, r.pass(time.Millisecond), "dispatch t2.1 a") // 2 in a second
	want(t, r.pass(499*time.Millisecond))
	want(t, r.pass(time.Millisecond), "dispatch t3.1 a")
}

// An agent whose own quota is used up does not keep the task from another. When all of them have
// used theirs, it goes to the one that has some again first: a after 1 s, b, which had two, too.
func TestQuotaOfOneAgent(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10), worker("b").slots(10)).by("round_robin").
		quotas(quotasOf().group("team", 1, nil).
			agent("a", "team", requests(1, 1)).agent("b", "team", requests(1, 2))))
	for i, agent := range []string{"a", "b", "b"} { // the third would be a's turn
		id := coordinator.TaskID([]string{"t1", "t2", "t3"}[i])
		want(t, r.assign(job(id).of("team")), "dispatch "+string(id)+".1 "+agent)
	}
	want(t, r.assign(job("t4").of("team")))
	want(t, r.assign(job("t5").of("team")))
	want(t, r.assign(job("t6").of("team")))
	want(t, r.pass(999*time.Millisecond))
	want(t, r.pass(time.Millisecond), "dispatch t4.1 a", "dispatch t5.1 b")
	want(t, r.pass(999*time.Millisecond))
	want(t, r.pass(time.Millisecond), "dispatch t6.1 a")
	engine.CheckIndexes(t, r.Engine)
}

// How a dispatch ends decides what becomes of its quota.
func TestQuotaByTheEndOfTheDispatch(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(r *rig, d coordinator.Dispatch)
		used int64 // of 1000, 600 of which were set aside
	}{
		"refused, never begun": {func(r *rig, d coordinator.Dispatch) {
			r.tell(says("a", "t1").but(coordinator.OutcomeRejected))
		}, 0},
		"comes back untouched": {func(r *rig, d coordinator.Dispatch) {
			r.returns(d, coordinator.ReturnExpired,
				false)
		}, 0},
		"succeeds, and does not say": {func(r *rig, d coordinator.Dispatch) { r.tell(says("a", "t1")) }, 600},
		"fails, and says": {func(r *rig, d coordinator.Dispatch) {
			r.tell(says("a", "t1").but(coordinator.OutcomeFailed).used(10, 5))
		}, 15},
		"takes more than was thought": {func(r *rig, d coordinator.Dispatch) { r.tell(says("a", "t1").used(900, 50)) }, 950},
		"gives up after it had begun": {func(r *rig, d coordinator.Dispatch) { r.tell(says("a", "t1").gaveUp()) }, 600},
		"is overdue":                  {func(r *rig, d coordinator.Dispatch) { r.Track("a"); r.pass(6 * time.Minute) }, 0},
		"is overdue, and told late": {func(r *rig, d coordinator.Dispatch) {
			r.Track("a")
			r.pass(6 * time.Minute)
			r.tell(says("a", "t1").of("t1.1").used(300, 20))
		}, 320},
		"is withdrawn, overdue, and told late": {func(r *rig, d coordinator.Dispatch) {
			r.Track("a")
			r.withdraw("t1")
			r.pass(6 * time.Minute)
			r.tell(says("a", "t1").of("t1.1").but(coordinator.OutcomeCancelled).used(300, 20))
		}, 320},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))).
				set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
			d := r.give(job("t1").of("team").tokens(500, 100))
			c.end(r, d)
			// What is left is exactly what one more task may take.
			left := 1000 - c.used
			before := len(r.dispatches)
			r.assign(job("over").of("team").tokens(float64(left), 1))
			r.withdraw("over")
			r.assign(job("fits").of("team").tokens(float64(left-1), 1))
			if n := len(r.dispatches) - before; n != 1 || r.latest().Task.ID != "fits" {
				t.Errorf("with %d left %d were dispatched, %s", left, n, r.latest().Task.ID)
			}
		})
	}
}

// A dispatch id that is used again, because the task is forgotten, is not paid for by
// what is remembered of its first life.
func TestQuotaOfAnIDThatIsUsedAgain(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))).
		set(func(s *coordinator.Settings) {
			s.StaleAfter, s.DedupeWindow = time.Hour, time.Minute
		}))
	r.give(job("t1").of("team").tokens(900, 100))
	r.Track("a")
	r.pass(6 * time.Minute) // overdue: its quota expires, and is remembered for an hour
	r.give(job("t1").of("team").tokens(900, 100))
	want(t, r.assign(job("t2").of("team").tokens(1, 1))) // 1000 of 1000 are set aside
}

// What a task is only thought to take never keeps it out for good.
func TestQuotaEstimateBeyondTheLimit(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(2000))).
		set(func(s *coordinator.Settings) { s.MaxQueueSize = 1000 }))
	want(t, r.assign(job("t1").of("team").tokens(0, 0).with("big")), // nothing is known: 2048 and 512 tokens, of 2000
		"quota pool/team total_tokens 80%", "quota pool/team total_tokens 90%", "quota pool/team total_tokens 100%",
		"dispatch t1.1 a")
	want(t, r.assign(job("t2").of("team").tokens(2048, 512)), "fail t2 exceeds_quota") // stated
}

// A result that tells of more than can be believed is held at what can: of 1,000 of its own, with 600 set
// aside, as much again. People are told: once for the dispatch, also where it tells so late. Where nothing
// limits tokens a thousand times the 600, which count as 1,000 at least, is charged, and told of beyond that.
func TestQuotaExcessiveUsage(t *testing.T) {
	limited, unlimited := daily(1000), requests(100, 100)
	for name, c := range map[string]struct {
		limit   func(*coordinator.QuotaNode)
		in, out float64
		late    bool
		used    int64
		told    []string
	}{
		"as much again": {limited, 1900, 100, false, 2000, nil},
		"and one": {limited, 1900, 101, false, 2000,
			[]string{`a says that t1 of "team" took 2001 of total_tokens, estimated 600, charged 2000`}},
		"and one, late": {limited, 1900, 101, true, 2000,
			[]string{`a says that t1 of "team" took 2001 of total_tokens, estimated 600, charged 2000`}},
		"10^15 of output": {limited, 10, 1e15, false, 2000,
			[]string{`a says that t1 of "team" took 1000000000000010 of total_tokens, estimated 600, charged 2000`}},
		"a thousand times": {unlimited, 999_000, 1000, false, 1_000_000, nil},
		"once more": {unlimited, 999_000, 1001, false, 1_000_001,
			[]string{`a says that t1 of "team" took 1000001 of total_tokens, estimated 600, charged 1000001`}},
		"of more than can be": {unlimited, 1e15, 0, false, 100_000_000,
			[]string{`a says that t1 of "team" took 1000000000000000 of input_tokens, estimated 500, charged 100000000`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, c.limit)).
				set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
			r.Record(true)
			r.give(job("t1").of("team").tokens(500, 100))
			if c.late {
				r.Track("a")
				r.pass(6 * time.Minute)
			}
			var told []string
			for range 2 { // the second is the same result once more
				for _, line := range r.tell(says("a", "t1").of("t1.1").used(c.in, c.out)) {
					if strings.Contains(line, "says that") {
						told = append(told, line)
					}
				}
			}
			want(t, told, c.told...)
			var ended *coordinator.QuotaEnded
			for _, rec := range r.Records(nil) {
				if one, is := rec.(*coordinator.QuotaEnded); is && one.How == coordinator.QuotaSettled {
					ended = one
				}
			}
			if ended == nil || ended.Used[coordinator.DimTotalTokens] != c.used ||
				(ended.Told[coordinator.DimTotalTokens] > c.used) != (ended.Told != coordinator.Amounts{}) {
				t.Fatalf("it is recorded as %+v, want %d used", ended, c.used)
			}
		})
	}
}

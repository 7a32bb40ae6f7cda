package engine_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/quotacontrol"
)

// ruled are quotas with both rules: x with 1,000 tokens a day and the agents a and b in it, that
// share them 3:1; y without a limit of its own.
func ruled() *quotaTree {
	part := func(weight int64) func(*coordinator.QuotaNode) {
		return func(n *coordinator.QuotaNode) {
			n.Weight = weight
			partDaily(n)
			n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 100, Per: time.Second, Burst: 100}
		}
	}
	q := quotasOf().group("x", 5, daily(1000)).agent("a", "x", part(3)).agent("b", "x", part(1)).
		group("y", 5, requests(1000, 1000))
	q.Adjustment = coordinator.Adjustment{
		Idle: &coordinator.IdleRule{BelowPercent: 10, Days: 3, Step: 1, MinWeight: 1},
		Slow: &coordinator.SlowRule{Above: 2 * time.Second, Percent: 10, MaxPercent: 25},
	}
	return q
}

// serves plays the shell: whenever controls have changed it installs the quotas with what rules
// say of weights.
type serves struct {
	*rig
	n       int
	journal []coordinator.Record // all of it
}

func ruledRig(t testing.TB) *serves {
	t.Helper()
	r := &rig{Engine: engine.New(), t: t, now: epoch, auctions: make(map[coordinator.TaskID]string)}
	r.Record(true)
	p := policyOf(worker("a").slots(50), worker("b").slots(50)).quotas(ruled()).
		set(func(s *coordinator.Settings) { s.StaleAfter = 10_000 * time.Hour })
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	r.apply(coordinator.SessionOpened{})
	for _, a := range p.Agents {
		r.hear(beat(a.ID).running())
	}
	return &serves{rig: r}
}

// until lets time go by, to the second.
func (r *serves) until(at time.Time) {
	r.t.Helper()
	for r.now.Before(at) {
		step := at.Sub(r.now)
		if due, ok := r.NextDeadline(); ok && due.Before(at) {
			step = due.Sub(r.now)
		}
		if slices.ContainsFunc(r.pass(max(step, 0)), isStand) {
			r.renew()
		}
	}
}

// renew installs what the controls say.
func (r *serves) renew() {
	q := ruled()
	q.Adjustment = r.Policy().Quotas.Adjustment
	for _, c := range r.QuotaControls() {
		for i := range q.Nodes {
			if by, err := strconv.ParseInt(c.Value, 10, 64); err == nil && c.Key == "weight" && q.Nodes[i].ID == c.Target {
				q.Nodes[i].Weight += by
			}
		}
	}
	r.reload(q)
}

// works has an agent do a task of that many tokens, in so long.
func (r *serves) works(agent coordinator.AgentID, group string, tokens float64, took time.Duration) {
	r.t.Helper()
	r.n++
	id := coordinator.TaskID(fmt.Sprint("t", r.n))
	b := job(id).of(group).tokens(1, 1)
	b.Preferred = []coordinator.AgentID{agent}
	d := r.give(b)
	if d.Agent != agent {
		r.t.Fatalf("%s went to %s", id, d.Agent)
	}
	r.tell(says(agent, id).used(tokens, 0).took(took))
	r.hear(beat(agent).running())
}

// often is how many answers a day has whose mean counts.
const often = quotacontrol.LeastAnswers

// worksOften has it do as many tasks as it takes for their mean to count.
func (r *serves) worksOften(agent coordinator.AgentID, group string, tokens float64, took time.Duration) {
	r.t.Helper()
	for range often {
		r.works(agent, group, tokens/often, took)
	}
}

// midnightAfter is the next one in UTC.
func midnightAfter(t time.Time) time.Time { return t.Truncate(24 * time.Hour).Add(24 * time.Hour) }

// day lets the day end after some work.
func (r *serves) day(work func()) {
	r.t.Helper()
	next := midnightAfter(r.now)
	work()
	r.until(next.Add(time.Second))
}

// Idle days cost weight, step by step and never below the bound, in the list with what explains
// it; days of use give it back, and in the end nothing is left of it.
func TestIdleRule(t *testing.T) {
	r := ruledRig(t)
	// x has 150 of 1,000; b 150 of 250; a nothing of 750
	busy := func() { r.works("b", "x", 150, time.Second); r.works("a", "y", 500, time.Second) }
	// the day on which counting began says nothing
	r.day(busy)
	for range 2 {
		r.day(busy)
	}
	r.stands()
	r.day(busy) // the third whole one
	r.stands("pool/x/a weight -1")
	c := r.QuotaControls()[0]
	if c.Rule != "idle" || c.By != "rule idle" ||
		!strings.Contains(c.Reason,
			"under 10 % of its own used on 3 days in a row (0 of 750 on the last): weight 2 instead of 3") ||
		!c.At.Equal(midnightAfter(r.now.Add(-24*time.Hour))) {
		t.Errorf("%+v", c)
	}
	for range 3 {
		r.day(busy)
	}
	r.stands("pool/x/a weight -2")
	for range 7 { // never below 1
		r.day(busy)
	}
	r.stands("pool/x/a weight -2")
	work := func() { busy(); r.works("a", "x", 500, time.Second) } // of 1:1 a has 500
	r.day(work)
	r.stands("pool/x/a weight -1")
	r.day(work)
	r.stands()
	if n := r.Policy().Quotas.Nodes[2]; n.ID != "pool/x/a" || n.Weight != 3 {
		t.Errorf("%s has the weight %d, want 3 as in the file", n.ID, n.Weight)
	}
	r.day(work)
	r.stands()
}

// A day on which no coordinator led from its beginning to its end says nothing, and ends the row.
func TestIdleDaysInARow(t *testing.T) {
	r := ruledRig(t)
	nothing := func() {}
	for range 3 { // the first is none
		r.day(nothing)
	}
	heir := &serves{rig: heirs(r.rig)["by its records"]}
	heir.Record(true)
	heir.now = heir.now.Add(50 * time.Hour) // over two midnights
	heir.apply(coordinator.Tick{})
	heir.until(midnightAfter(heir.now).Add(time.Second))
	heir.stands()
	for range 2 {
		heir.day(nothing)
	}
	// All of x, a, b: y's part of nothing is nothing, so that it is not idle.
	heir.stands("pool/x weight -1", "pool/x/a weight -1")
}

// Without a budget it is the part by weight of what all have used: y uses 1 of 200, of which half
// were its own.
func TestIdleShare(t *testing.T) {
	q := quotasOf().pool(requests(1000, 1000)).group("x", 1, nil).group("y", 1, nil)
	q.Nodes[2].Weight = 2
	q.Adjustment.Idle = &coordinator.IdleRule{BelowPercent: 10, Days: 1, Step: 1, MinWeight: 1}
	r := ruledRig(t)
	r.reload(q)
	r.until(midnightAfter(r.now).Add(time.Second))
	r.works("a", "x", 199, 0)
	r.works("a", "y", 1, 0)
	r.pass(midnightAfter(r.now).Sub(r.now))
	r.stands("pool/y weight -1") // 1 of 200 · 2/3 = 133
}

// What rules have changed goes with the rules; what people have said stays.
func TestRulesThatAreTakenOut(t *testing.T) {
	r := ruledRig(t)
	r.asks([]coordinator.QuotaControl{control(coordinator.ControlSet, "pool/y", "weight", "4")})
	for range 4 {
		r.day(func() { r.worksOften("b", "x", 150, 3*time.Second) })
	}
	r.stands("pool/y weight 4", "pool/x limits +25%", "pool/x/b limits +25%", "pool/x/a weight -1") // x's answers are b's
	q := ruled()
	q.Adjustment.Idle = nil
	r.reload(q)
	r.until(midnightAfter(r.now).Add(time.Second))
	r.stands("pool/y weight 4", "pool/x limits +25%", "pool/x/b limits +25%")
	q = ruled()
	q.Adjustment = coordinator.Adjustment{}
	r.reload(q)
	r.pass(time.Second)
	r.stands("pool/y weight 4")
	if !r.DayStart().IsZero() {
		t.Error("days are counted for nobody")
	}
}

// What an operator takes back is gone; the rule begins anew.
func TestRulesAreTakenBackByHand(t *testing.T) {
	r := ruledRig(t)
	nothing := func() { r.works("b", "x", 150, 0) }
	for range 4 {
		r.day(nothing)
	}
	r.stands("pool/x/a weight -1")
	r.asks(nil, r.QuotaControls()[0].ID)
	r.renew()
	r.stands()
	for range 2 {
		r.day(nothing)
	}
	r.stands()
	r.day(nothing)
	r.stands("pool/x/a weight -1")
}

// Whatever the days are like and whenever leaders change: all know the same day, runs and
// controls; weights stay in their bounds and change once a day at most.
func TestRulesOutlastTakeOvers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := ruledRig(t)
		for range rapid.IntRange(1, 8).Draw(rt, "days") {
			before := r.standing()
			for range rapid.IntRange(0, 3).Draw(rt, "tasks") {
				agent := rapid.SampledFrom([]coordinator.AgentID{"a", "b"}).Draw(rt, "agent")
				group := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "group")
				tokens, took := rapid.IntRange(1, 60).Draw(rt, "tokens"),
					time.Duration(rapid.IntRange(0, 4).Draw(rt, "seconds"))*time.Second
				for range rapid.SampledFrom([]int{1, often}).Draw(rt, "times") {
					if r.mayWork(agent, group) {
						r.works(agent, group, float64(tokens), took)
					}
				}
				r.pass(time.Minute)
			}
			if !slices.Equal(r.standing(), before) {
				rt.Fatalf("changed within a day: %q, then %q", before, r.standing())
			}
			r.journal = append(r.journal, r.Records(nil)...)
			for how, heir := range map[string]*rig{"by its records": r.heirOf(r.now, r.journal),
				"by a snapshot": r.heirOf(r.now, r.imaged())} {
				if !heir.DayStart().Equal(r.DayStart()) || !reflect.DeepEqual(heir.DayUse(), r.DayUse()) {
					rt.Fatalf("%s: the day %v %+v, want %v %+v", how, heir.DayStart(), heir.DayUse(), r.DayStart(), r.DayUse())
				}
				if !slices.EqualFunc(heir.QuotaControls(), r.QuotaControls(),
					func(x, y coordinator.QuotaControl) bool { return x.Same(&y) && x.Reason == y.Reason }) {
					rt.Fatalf("%s: %+v, want %+v", how, heir.QuotaControls(), r.QuotaControls())
				}
			}
			r.until(midnightAfter(r.now).Add(time.Second))
			for _, n := range r.Policy().Quotas.Nodes {
				if n.Weight < 1 || n.Weight > 5 {
					rt.Fatalf("%s has the weight %d", n.ID, n.Weight)
				}
			}
		}
	})
}

// mayWork tells whether there is quota for a small task.
func (r *serves) mayWork(agent coordinator.AgentID, group string) bool {
	a, ok := r.Quotas(r.now).Explain(&engine.QuotaQuestion{Group: group, Agent: agent,
		Usage: coordinator.Usage{Requests: 1, InputTokens: 1}})
	return ok && a.Explanation.Verdict.OK
}

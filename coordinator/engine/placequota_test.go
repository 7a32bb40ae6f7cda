package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// A rate: slow may make one request a second; fast has no limit, and is busy. Of 101 tasks the first goes
// at once, the last after 100 s, whatever fast does.
func TestPlaceBehindARate(t *testing.T) {
	r := lendingRig(t, quotasOf().group("slow", 1, requests(1, 1)).group("fast", 1, nil))
	r.flood(100, 10, 10, "slow") // of which one goes at once
	last := job("last").of("slow").tokens(10, 10)
	r.assign(last)
	r.flood(1000, 1000, 1000, "fast")
	p := r.place(last)
	if p.Ahead != 99 || p.QuotaDelay != 100*time.Second+time.Millisecond || p.Unbounded != "" { // and 1 ms for rounding
		t.Fatalf("%+v", p)
	}
	r.pass(100*time.Second - time.Nanosecond)
	if d := r.latest().Task.ID; d == last.ID {
		t.Error("it went before")
	}
	if r.pass(time.Nanosecond); r.latest().Task.ID != last.ID {
		t.Errorf("%v after %v", r.latest().Task.ID, p.QuotaDelay)
	}
}

// A budget: of 3,000 tokens a day tasks of 2,000 go one a day. Of ten the last goes on the tenth day.
func TestPlaceBehindABudget(t *testing.T) {
	q := quotasOf().group("team", 1, daily(3000))
	q.RepayPercent = 0 // nothing is taken off for the day before
	r := ready(t, patient(policyOf(worker("x").slots(100)).quotas(q)).
		set(func(s *coordinator.Settings) { s.AssignmentTimeout = 1000 * time.Hour }))
	r.hear(beat("x").available(100))
	r.flood(9, 1000, 1000, "team")
	last := job("last").of("team").tokens(1000, 1000)
	r.assign(last)
	p := r.place(last)
	// Today 3,000 less the first one's 2,000 are left; 9 more are needed, one a day: 8 days of up to
	// 25 h, when the clock goes back, after what is left of today.
	today := epoch.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(r.now)
	if p.Ahead != 8 || p.Unbounded != "" || p.QuotaDelay != today+8*25*time.Hour {
		t.Fatalf("%+v, want %v", p, today+8*25*time.Hour)
	}
	r.pass(today + 8*24*time.Hour - time.Nanosecond)
	if r.latest().Task.ID == last.ID {
		t.Error("it went before")
	}
	if r.pass(time.Nanosecond); r.latest().Task.ID != last.ID {
		t.Errorf("on the tenth day it is the turn of %v", r.latest().Task.ID)
	}
}

// A rate and a budget: at 40 requests an hour what is left of 200 tokens for today lapses. Of 150 tasks
// of two tokens, an hour before midnight, 40 go today, 100 tomorrow, and the last 10 on the day after.
func TestPlaceWhereABudgetLapses(t *testing.T) {
	q := quotasOf().group("team", 1, func(n *coordinator.QuotaNode) {
		daily(200)(n)
		requests(40, 1)(n)
		n.Rates[coordinator.DimRequests].Per = time.Hour
	})
	q.RepayPercent = 0
	r := ready(t, patient(policyOf(worker("x").slots(1000)).quotas(q)).
		set(func(s *coordinator.Settings) { s.AssignmentTimeout = 1000 * time.Hour }))
	r.hear(beat("x").available(1000))
	midnight := epoch.Truncate(24 * time.Hour).Add(24 * time.Hour)
	r.pass(midnight.Add(-time.Hour).Sub(r.now))
	r.flood(150, 1, 1, "team") // one goes at once
	last := job("last").of("team").tokens(1, 1)
	r.assign(last)
	p := r.place(last)
	r.pass(25*time.Hour - time.Nanosecond)
	if r.latest().Task.ID == last.ID {
		t.Fatal("it went before the budget of the third day")
	}
	r.pass(24 * time.Hour)
	if at := r.latest().Task.ID; at != last.ID || p.Unbounded != "" || p.QuotaDelay < 25*time.Hour ||
		p.QuotaLikely > p.QuotaDelay || p.QuotaLikely <= 0 {
		t.Errorf("%s; %+v", at, p)
	}
}

// Where that is not known it says which limit is to blame.
func TestPlaceWithoutBoundForQuota(t *testing.T) {
	part := func(n *coordinator.QuotaNode) { daily(coordinator.ByWeight)(n) }
	for name, c := range map[string]struct {
		quotas *quotaTree
		first  float64 // tokens of the task before it
		says   string
	}{
		"seats for fewer": {quotasOf().group("team", 1, seats(1)), 10, "something ends that has the seats of pool/team"},
		"no part of a budget": {quotasOf().pool(daily(1000)).group("team", 1, daily(0)).group("rest", 1, part), 900,
			"of the budget of pool/team in total_tokens less is its own"},
		"no part of a rate": {quotasOf().pool(requests(1, 1)).group("team", 1, noneOf(requests(1, 1))).
			group("rest", 1, partOfRequests(0)), 10,
			"of the rate of pool/team in requests less is its own"},
		"less than it needs": {quotasOf().pool(daily(1000)).group("team", 1, part).group("rest", 1, part), 900,
			"of the budget of pool/team in total_tokens less is its own"},
	} {
		t.Run(name, func(t *testing.T) {
			r := lendingRig(t, c.quotas)
			r.assign(job("first").of("team").tokens(c.first, 1))
			task := job("next").of("team").tokens(c.first, 1)
			r.assign(task)
			r.assign(job("behind").of("team").tokens(1, 1))
			if p := r.place(task); !strings.Contains(p.Unbounded, c.says) || p.Bound != 0 || p.QuotaDelay != 0 {
				t.Errorf("%+v, want %q", p, c.says)
			}
		})
	}
}

// noneOf is a rate of which nothing is its own: it lives on what others leave.
func noneOf(rate func(*coordinator.QuotaNode)) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		rate(n)
		n.Rates[coordinator.DimRequests].Nominal = 0
	}
}

// drawCaps draws what a group or the pool may do: nothing is lent, so that no more than quota and
// turns decide when a task starts.
func drawCaps(t *rapid.T, what string, pool *coordinator.QuotaNode) func(*coordinator.QuotaNode) {
	kind := rapid.SampledFrom([]string{"none", "requests", "tokens", "budget", "requests and budget", "both rates"}).
		Draw(t, what)
	n, m := rapid.Int64Range(1, 5).Draw(t, what+" requests"), rapid.Int64Range(3000, 9000).Draw(t, what+" tokens")
	per := rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, 3 * time.Minute}).Draw(t, what+" for every")
	return func(node *coordinator.QuotaNode) {
		node.Borrowing.Rule = coordinator.BorrowNever
		if strings.Contains(kind, "requests") || kind == "both rates" {
			requests(n, n)(node)
			node.Rates[coordinator.DimRequests].Per = per
		}
		if kind == "tokens" || kind == "both rates" {
			node.Rates[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: m, Per: time.Minute, Burst: m}
		}
		if strings.Contains(kind, "budget") {
			hundredSeconds(m)(node)
			if pool != nil && pool.Budgets[coordinator.DimTotalTokens] != nil { // what is promised must fit
				partOf(node)
			}
		}
	}
}

// What Place says of quotas is true: whatever limits groups and their pool have, with whatever tasks
// before it, and a group beside them that no limit concerns and that is always busy, no task starts
// later; nor if others come meanwhile that take as much for their cost.
func TestPlaceHoldsForQuota(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := quotasOf().pool(drawCaps(rt, "pool", nil))
		q.RepayPercent = 0
		groups := []string{"g1", "g2", "g3"}[:rapid.IntRange(1, 3).Draw(rt, "groups")]
		for _, g := range groups {
			q.group(g, rapid.Int64Range(1, 5).Draw(rt, "weight"), drawCaps(rt, g, &q.Nodes[0]))
		}
		r := ready(t, patient(policyOf(worker("x").slots(100_000)).quotas(q)).
			set(func(s *coordinator.Settings) { s.StaleAfter = 1000 * time.Hour }))
		r.hear(beat("x").available(100_000))
		same := rapid.Bool().Draw(rt, "all alike")
		n := 0
		next := func() *taskBuilder {
			n++
			in, out := 1000., 500.
			if !same {
				in, out = float64(rapid.IntRange(1, 2000).Draw(rt, "in")), float64(rapid.IntRange(1, 1000).Draw(rt, "out"))
			}
			b := job(coordinator.TaskID(fmt.Sprint("t", n))).of(rapid.SampledFrom(groups).Draw(rt, "group")).tokens(in, out)
			if !same {
				b.prio(coordinator.Priority(rapid.IntRange(0, 2).Draw(rt, "priority")))
			}
			return b
		}
		type promise struct {
			engine.Place
			at time.Time
		}
		promised := map[coordinator.TaskID]promise{}
		var waiting []*taskBuilder
		for range rapid.IntRange(1, 25).Draw(rt, "tasks") {
			b := next()
			if len(r.assign(b)) == 0 {
				waiting = append(waiting, b)
			}
		}
		for _, b := range waiting {
			if p, ok := r.Place(r.now, &b.Task); ok {
				promised[b.ID] = promise{p, r.now}
			}
		}
		seen := 0
		for range 400 {
			for ; seen < len(r.dispatches); seen++ {
				id := r.dispatches[seen].Task.ID
				p, ok := promised[id]
				if ok && p.Unbounded == "" && r.now.Sub(p.at) > p.QuotaDelay {
					rt.Fatalf("%s starts after %v; its place: %+v", id, r.now.Sub(p.at), p.Place)
				}
				delete(promised, id)
			}
			if len(promised) == 0 {
				return
			}
			if same { // a task that comes is like those that wait
				r.assign(next())
			}
			at, ok := r.NextDeadline()
			if !ok {
				break
			}
			r.pass(max(0, at.Sub(r.now)))
		}
		for id, p := range promised {
			if p.Unbounded == "" && r.now.Sub(p.at) > p.QuotaDelay {
				rt.Fatalf("%s has not started after %v: %+v", id, r.now.Sub(p.at), p.Place)
			}
		}
	})
}

package engine_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/fairshare"
)

// place of a task that waits.
func (r *rig) place(b *taskBuilder) engine.Place {
	r.t.Helper()
	p, ok := r.Place(r.now, &b.Task)
	if !ok {
		r.t.Fatalf("%s does not wait", b.ID)
	}
	return p
}

// waitingFor makes a rig in which agent a of one slot has task "busy", and these tasks wait.
func waitingFor(t *testing.T, p *policyBuilder, waiting ...*taskBuilder) *rig {
	t.Helper()
	r := ready(t, p)
	r.give(job("busy").of("busy").tokens(1000, 500))
	for _, b := range waiting {
		if got := r.assign(b); len(got) > 0 {
			t.Fatalf("%s does not wait: %v", b.ID, got)
		}
	}
	return r
}

func TestPlaceInTheOrderOfGroups(t *testing.T) {
	first, second := job("a1").of("alpha").tokens(1000, 500), job("a2").of("alpha").tokens(1000, 500)
	urgent := job("a3").of("alpha").prio(3).tokens(1000, 500)
	r := waitingFor(t, policyOf(worker("a")).quotas(quotasOf().group("alpha", 3, nil).group("beta", 1, nil).
		group("busy", 1, nil)).
		set(func(s *coordinator.Settings) { s.CountsWaiting = true }), first, second, urgent,
		job("b1").of("beta").tokens(1000, 500), job("b2").of("beta").tokens(1000, 500),
		job("b3").of("beta").tokens(1000, 500))
	p := r.place(second)
	if p.Group != "alpha" || p.Ahead != 1 || p.Waiting != 2 || p.Others != 3 || p.Higher != 1 || p.Lacks != nil ||
		p.Unbounded != "" || p.AtLeast {
		t.Errorf("the second of alpha: %+v", p)
	}
	// Every task costs 1000 + 2·500 = 2000. "busy" was dispatched at this very moment: a rate
	// is of ten seconds at least.
	if p.Dearest != 2000 || p.Rate != 200 {
		t.Errorf("a task costs %d, and %v are dispatched in a second; want 2000 and 200", p.Dearest, p.Rate)
	}
	if want := 4. / (4 + 64); p.Part != want { // normal and critical wait
		t.Errorf("%v of the dispatches are of its priority, want %v", p.Part, want)
	}
	if first := r.place(first); first.Ahead != 0 || first.Bound >= p.Bound || first.Likely > first.Bound ||
		first.Likely <= 0 {
		t.Errorf("the first of alpha: %+v, before the second: %+v", first, p)
	}
	if p := r.place(urgent); p.Ahead != 0 || p.Waiting != 1 || p.Higher != 0 || p.Lower != 5 || p.Part != 64./(4+64) {
		t.Errorf("the urgent one: %+v", p)
	}
	r.pass(time.Minute / 2) // the assignment timeout
	if _, ok := r.Place(r.now, &first.Task); ok {
		t.Error("a task that has failed has a place")
	}
}

// Which rule makes it unbounded.
func TestPlaceWithoutBound(t *testing.T) {
	seats := func(n *coordinator.QuotaNode) { n.Seats = &coordinator.QuotaLimit{Nominal: 1} }
	for name, c := range map[string]struct {
		quotas *quotaTree
		others []*taskBuilder
		before func(r *rig)
		slots  int
		strict bool
		says   string // in Unbounded; empty: there is a bound
	}{
		"nothing against it": {quotas: quotasOf().group("team", 1, nil).group("busy", 1, nil), slots: 1},
		"no weight": {quotas: quotasOf().group("team", 0, nil).group("busy", 1, nil), slots: 1,
			says: "group team, or one that it is part of, has weight 0"},
		"no share of lower": {quotas: quotasOf().group("team", 1, nil).group("busy", 1, nil), strict: true,
			others: []*taskBuilder{job("x").of("busy").prio(2)}, slots: 1, says: "priority_order is strict"},
		"a share of lower": {quotas: quotasOf().group("team", 1, nil).group("busy", 1, nil),
			others: []*taskBuilder{job("x").of("busy").prio(2)}, slots: 1},
		"the lower one waits": {quotas: quotasOf().group("team", 1, nil).group("busy", 1, nil), strict: true,
			others: []*taskBuilder{job("x").of("busy").prio(0)}, slots: 1},
		"nobody online": {quotas: quotasOf().group("team", 1, nil).group("busy", 1, nil),
			before: func(r *rig) { r.hear(beat("a").status(coordinator.StatusOffline)) }, slots: 1,
			says: "no agent that may have it is online"},
		"an agent is cordoned": {quotas: quotasOf().group("team", 1, nil).group("busy", 1, nil),
			before: func(r *rig) { r.order("a", coordinator.OrderCordon) }, slots: 1,
			says: "no agent that may have it is online"},
		"a seat, back some time": {quotas: quotasOf().group("team", 1, seats).group("busy", 1, nil), before: nil, slots: 3,
			says: "it is not known when its quota is back"},
		"a budget, back tomorrow": {quotas: quotasOf().group("team", 1, daily(3000)).group("busy", 1, nil), slots: 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(c.slots)).quotas(c.quotas).
				set(func(s *coordinator.Settings) { s.Priorities.Strict = c.strict }))
			r.give(job("busy").of("busy").tokens(1000, 500))
			if c.slots > 1 {
				r.give(job("t0").of("team").tokens(1000, 500)) // has the seat, or half of the budget
			}
			for _, b := range c.others {
				r.assign(b)
			}
			task := job("t1").of("team").tokens(1500, 500)
			r.assign(task)
			if c.before != nil {
				c.before(r)
			}
			p := r.place(task)
			if !strings.Contains(p.Unbounded, c.says) || (p.Unbounded == "") != (c.says == "") ||
				(p.Bound > 0) != (c.says == "") {
				t.Errorf("%+v, want %q", p, c.says)
			}
			if lack, ok := r.LacksQuota(&task.Task); ok != (c.slots > 1) || ok &&
				(p.Lacks == nil || lack != p.LacksText || !strings.Contains(lack, "pool/team")) {
				t.Errorf("it lacks %q, %v; %+v", lack, ok, p.Lacks)
			}
		})
	}
}

// Without quotas the turns of priorities decide, among all that wait for the same agents.
func TestPlaceWithoutQuotas(t *testing.T) {
	low, normal, high := job("low").needs("x").prio(0), job("normal").needs("x"), job("high").needs("x").prio(3)
	r := ready(t, policyOf(worker("a").can("x"), worker("b").can("y")))
	r.give(job("before").needs("x"))
	r.pass(5 * time.Second) // a quiet time says nothing of how fast they go
	r.give(job("else").needs("y"))
	for _, b := range []*taskBuilder{low, normal, high, job("y").needs("y").prio(3)} { // y waits for another agent
		want(t, r.assign(b))
	}
	if p := r.place(high); p.Rate != 0 || p.Starts != 0 {
		t.Errorf("nothing was dispatched since they wait: %+v", p)
	}
	r.pass(10 * time.Second)
	want(t, r.tell(says("a", "before")), "completed before.1 a succeeded", "dispatch high.1 a")
	// One in the ten seconds since tasks wait. The low one is the second, so it starts after two more.
	if p := r.place(low); p.Quotas || p.Ahead != 1 || p.Waiting != 2 || p.Higher != 1 || p.Lower != 0 ||
		p.Part != 1./(1+4) || p.Rate != 0.1 || p.Starts != 20*time.Second || p.Lacks != nil || p.Bound != 0 {
		t.Errorf("the low one: %+v", p)
	}
	if p := r.place(normal); p.Ahead != 0 || p.Lower != 1 || p.Higher != 0 || p.Starts != 10*time.Second {
		t.Errorf("the normal one: %+v", p)
	}
	for _, b := range []*taskBuilder{job("high"), job("stranger")} {
		if _, ok := r.Place(r.now, &b.Task); ok {
			t.Errorf("%s has a place", b.ID)
		}
	}
}

// The first that waits starts as soon as a slot is free, however few were dispatched of late, and the next by the
// pace after that.
func TestFirstStartsWhenASlotIsFree(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("x")))
	r.give(job("before").needs("x"))
	r.pass(20 * time.Second)
	r.tell(says("a", "before")) // such a task takes 20 s
	r.hear(beat("a"))
	r.give(job("now").needs("x"))
	r.pass(15 * time.Second)
	first, second := job("first").needs("x"), job("second").needs("x")
	r.assign(first)
	r.assign(second)
	if p := r.place(first); p.Starts.Round(time.Second) != 5*time.Second || p.Rate != 0 {
		t.Errorf("it starts after %v, want 20 − 15 = 5 s, though none was dispatched since it waits", p.Starts)
	}
	if p := r.place(second); p.Starts != 0 {
		t.Errorf("it starts after %v, but nothing tells how long the first takes to go", p.Starts)
	}
}

// What competes for the same agents, be it by way of others, goes at one pace: x with y for b, y with z for c.
func TestPacesOfThoseThatShareAgents(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("x"), worker("b").can("x", "y"), worker("c").can("y", "z"),
		worker("d").can("w")))
	for _, b := range []*taskBuilder{job("2").needs("x", "y"), job("3").needs("y", "z"), job("1").needs("x"),
		job("4").needs("w")} {
		r.give(b)
	}
	for i, needs := range []string{"x", "x", "x", "y", "y", "z", "w"} {
		r.assign(job(coordinator.TaskID(fmt.Sprint("waits", i))).needs(needs))
	}
	r.pass(10 * time.Second)
	r.tell(says("a", "1")) // one of x goes
	for _, w := range r.Snapshot(r.now).Waits {
		among, rate := 5, 0.1 // 2 of x, 2 of y, 1 of z; one in 10 s
		if w.Required[0] == "w" {
			among, rate = 1, 0
		}
		if w.Among != among || w.PerSecond != rate {
			t.Errorf("%s: %d at %g a second, want %d at %g", w.Required, w.Among, w.PerSecond, among, rate)
		}
	}
}

// What Place says is true: whatever waits, with whatever weights, costs and priorities, no
// task starts after more cost than that, as long as none costs more than the dearest before,
// and no task comes meanwhile.
func TestPlaceHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slots := rapid.IntRange(1, 3).Draw(rt, "slots")
		q := quotasOf().group("busy", 1, nil)
		groups := []string{"g1", "g2", "g3"}[:rapid.IntRange(1, 3).Draw(rt, "groups")]
		for _, g := range groups {
			q.group(g, rapid.Int64Range(1, 5).Draw(rt, "weight"), nil)
		}
		r := ready(t, policyOf(worker("a").slots(slots)).quotas(q).
			set(func(s *coordinator.Settings) { s.AssignmentTimeout = time.Hour; s.StaleAfter = time.Hour }))
		running := []coordinator.TaskID{}
		for i := range slots {
			id := coordinator.TaskID(fmt.Sprint("busy", i))
			r.give(job(id).of("busy").tokens(1000, 2000)) // 1000 + 2·2000: the dearest
			running = append(running, id)
		}
		cost := map[coordinator.TaskID]int64{}
		usage := map[coordinator.TaskID][2]float64{}
		var tasks []*taskBuilder
		for i := range rapid.IntRange(1, 25).Draw(rt, "tasks") {
			id := coordinator.TaskID(fmt.Sprint("t", i))
			in, out := rapid.Float64Range(1000, 3000).Draw(rt, "in"), rapid.Float64Range(1, 1000).Draw(rt, "out")
			in, out = math.Ceil(in), math.Ceil(out)
			b := job(id).of(rapid.SampledFrom(groups).Draw(rt, "group")).
				prio(coordinator.Priority(rapid.IntRange(0, 2).Draw(rt, "priority"))).tokens(in, out)
			cost[id], usage[id] = int64(in+2*out), [2]float64{in, out}
			tasks = append(tasks, b)
			r.assign(b)
		}
		bound := map[coordinator.TaskID]engine.Place{}
		for _, b := range tasks {
			bound[b.ID] = r.place(b)
		}
		var before int64
		seen := len(r.dispatches)
		for range len(tasks) + slots + 1 {
			if len(running) == 0 {
				break
			}
			id := running[0]
			running = running[1:]
			u, known := usage[id]
			if !known {
				u = [2]float64{1000, 2000}
			}
			r.tell(says("a", id).used(u[0], u[1]))
			r.hear(beat("a").running(running...))
			for ; seen < len(r.dispatches); seen++ {
				d := r.dispatches[seen]
				p := bound[d.Task.ID]
				// Each costs what was thought: even the lower bound holds.
				if p.Unbounded != "" || before > p.Likely || p.Likely > p.Bound {
					rt.Fatalf("%s starts after %d of cost; its place: %+v", d.Task.ID, before, p)
				}
				before += cost[d.Task.ID]
				r.confirm(d.Handle)
				running = append(running, d.Task.ID)
				delete(bound, d.Task.ID)
			}
		}
		if len(bound) > 0 {
			rt.Fatalf("%d tasks never started", len(bound))
		}
	})
}

// Quotas tells which groups wait, which were served of late, and what was refused.
func TestQuotasForReaders(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(3)).quotas(quotasOf().group("alpha", 3, nil).group("beta", 1, daily(4000)).
		group("idle", 4, nil).open()))
	r.give(job("a1").of("alpha").tokens(1000, 1000)) // 1000 + 2·1000 = 3000 of cost
	r.give(job("b1").of("beta").tokens(2000, 500))   // 2000 + 2·500 = 3000; 2500 of 4000 tokens
	want(t, r.assign(job("b2").of("beta").tokens(2000, 500)))
	r.give(job("x").of("nobody").tokens(1000, 500)) // 2000
	want(t, r.assign(job("a2").of("alpha").tokens(1000, 500)))
	s := r.Quotas(r.now).Snapshot(10, nil)
	got := map[string]engine.QuotaGroup{}
	for _, g := range s.Groups {
		got[g.Name] = g
	}
	// Of 8000, 3/8, 3/8 and 2/8 (of `other`, whose weight is 1). By weight among those three
	// 3:1:1.
	for _, want := range []engine.QuotaGroup{
		{Name: "alpha", Waiting: 1, Share: 3. / 8, Target: 3. / 5}, {Name: "beta", Waiting: 1, Parked: 1, Share: 3. / 8,
			Target: 1. / 5},
		{Name: "other", Share: 2. / 8, Target: 1. / 5}, {Name: "idle"},
	} {
		if got[want.Name] != want {
			t.Errorf("%+v, want %+v", got[want.Name], want)
		}
	}
	if s.Refused[fairshare.LimitBudget][coordinator.DimTotalTokens] != 1 || s.All != 4 || len(s.Nodes) != 4 {
		t.Errorf("refused %v, %d nodes of %d; want one, and 4 of 4", s.Refused, len(s.Nodes), s.All)
	}
	r.tell(says("a", "a1").used(500, 500))
	s = r.Quotas(r.now).Snapshot(2, func(n *coordinator.QuotaNode,
		_ string) bool {
		return n.Kind == coordinator.QuotaGroup
	})
	if s.Reserved != 2000 || s.Used != 1000 || len(s.Nodes) != 2 || s.All != 3 {
		t.Errorf("%d tokens set aside for %d; %d nodes of %d; want 2000, 1000; 2 of 3", s.Reserved, s.Used, len(s.Nodes),
			s.All)
	}
	// 8000 + a2's 2000, as if in ten seconds; after ten minutes nothing is "of late" any more.
	if s.Rate != 1000 {
		t.Errorf("%v a second, want 1000", s.Rate)
	}
	if s = r.Quotas(r.now.Add(10*time.Minute)).Snapshot(0, nil); s.Rate != 0 ||
		slices.ContainsFunc(s.Groups, func(g engine.QuotaGroup) bool { return g.Share != 0 }) {
		t.Errorf("after ten minutes: %v, %+v", s.Rate, s.Groups)
	}
	if s := ready(t, policyOf(worker("a"))).Quotas(epoch).Snapshot(10, nil); s.Installed || s.Groups != nil {
		t.Errorf("without quotas: %+v", s)
	}
}

// A question about quotas is answered as a task would be treated, and changes nothing.
func TestExplainQuota(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))))
	r.give(job("t1").of("team").tokens(500, 100))
	ask := func(group string, in, out float64) engine.QuotaAnswer {
		a, ok := r.Quotas(r.now).Explain(&engine.QuotaQuestion{Group: group,
			Usage: coordinator.Usage{InputTokens: in, OutputTokens: out}})
		if !ok {
			t.Fatal("there are no quotas")
		}
		return a
	}
	for _, c := range []struct {
		group    string
		in, out  float64
		admitted bool
		says     string
	}{
		{"team", 300, 100, true, ""}, // 600 + 400 are the whole
		// 600 are set aside
		{"team", 301, 100, false,
			"too little is left of the budget of pool/team in total_tokens: 400 left, 401 asked; back when something of it " +
				"ends"},
		{"team", 900, 101, false, "it needs more total_tokens at once than the budget of pool/team ever allows"},
		{"nobody", 1e6, 1e6, true, ""},
	} {
		a := ask(c.group, c.in, c.out)
		if a.Explanation.Verdict.OK != c.admitted || a.Lack != c.says || a.Known != (c.group == "team") {
			t.Errorf("%v: %+v", c, a)
		}
	}
	a := ask("team", 300, 100)
	if !slices.Equal(a.Nodes, []string{"pool/team", "pool"}) || len(a.Explanation.Limits) != 1 ||
		a.Explanation.Limits[0].Left != 400 {
		t.Errorf("%+v", a)
	}
	want(t, r.assign(job("t2").of("team").tokens(300, 100)), "quota pool/team total_tokens 80%",
		"quota pool/team total_tokens 90%", "quota pool/team total_tokens 100%", "dispatch t2.1 a")
}

// A standby tells of quotas without getting ahead of what it folds: that would be
// counted in another period than by the leader.
func TestReadingDoesNotMoveAFollower(t *testing.T) {
	e := engine.New()
	e.Apply(epoch, coordinator.PolicyChanged{Policy: &policyOf(worker("a")).
		quotas(quotasOf().group("team", 1, daily(1000))).Policy}, nil)
	e.Follow()
	e.Apply(epoch, coordinator.AgentReported{Report: beat("a").stamped(epoch).AgentReport, Live: true}, nil)
	reserve := func(id string, at time.Time) {
		e.Fold(at, &coordinator.QuotaReserved{Key: coordinator.KeyOf(coordinator.TaskID(id)), Group: "team",
			Amounts: coordinator.Amounts{coordinator.DimTotalTokens: 100}, Expect: 1, At: at})
	}
	reserve("t1.1", epoch)
	tomorrow := epoch.Add(24 * time.Hour)
	if s := e.Quotas(tomorrow).Snapshot(10, nil); s.Nodes[1].Budgets[0].Reserved != 100 {
		t.Errorf("%+v", s.Nodes[1])
	}
	if _, ok := e.Quotas(tomorrow).Explain(&engine.QuotaQuestion{Group: "team"}); !ok {
		t.Error("a follower does not answer")
	}
	if d, reason, _ := e.Explain(tomorrow, &job("t9").of("team").tokens(500, 401).
		Task); reason != coordinator.ReasonQuotaExhausted || d.Agent != "a" {
		t.Errorf("of 901 more it says %s, %s", reason, d.Text())
	}
	reserve("t2.1", epoch.Add(time.Second))
	if s := e.Quotas(tomorrow).Snapshot(10, nil); s.Nodes[1].Budgets[0].Reserved != 200 {
		t.Errorf("%+v, want both of today", s.Nodes[1])
	}
}

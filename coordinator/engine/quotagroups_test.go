package engine_test

import (
	"fmt"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// flood has groups publish n tasks each of that estimate.
func (r *rig) flood(n int, in, out float64, groups ...string) {
	for i := range n {
		for _, g := range groups {
			r.assign(job(coordinator.TaskID(fmt.Sprint(g, "-", r.last, "-", i))).of(g).tokens(in, out))
		}
	}
}

// servedOf ends n tasks and counts what follows them, by group.
func (r *rig) servedOf(n int, in, out float64) map[string]int {
	r.t.Helper()
	got := make(map[string]int)
	for range n {
		got[r.serveNext(in, out)]++
	}
	return got
}

// reload installs other quotas.
func (r *rig) reload(q *quotaTree) []string {
	p := *r.Policy()
	p.Quotas, p.Version = &q.Quotas, p.Version+"'"
	return r.apply(coordinator.PolicyChanged{Policy: &p})
}

// Groups in groups, 3:1 inside of 2:1: x has two of three dispatches, of which a has three of
// four. Of any 12 these are 8, 6 for a and 2 for b, and 4 for y; from the first on, because all
// cost the same and what is thought of them is right.
func TestQuotaNestedGroups(t *testing.T) {
	tree := func() *quotaTree {
		return quotasOf().group("x", 2, nil).group("y", 1, nil).in("x", "a", 3, nil).in("x", "b", 1, nil)
	}
	r := fairRig(t, tree(), nil)
	r.flood(300, 200, 100, "a", "b", "y")
	r.servedOf(12, 200, 100)
	for range 10 {
		if n := r.servedOf(12, 200, 100); n["a"] != 6 || n["b"] != 2 || n["y"] != 4 {
			t.Fatalf("of 12: %v, want a 6, b 2, y 4", n)
		}
	}
	// b has nothing more: its part is a's, and y's is what it was.
	for _, o := range r.OpenTasks() {
		if o.State() == engine.StateWaiting && o.Task().Group == "b" {
			r.withdraw(o.Task().ID)
		}
	}
	r.servedOf(3, 200, 100) // what is b's or was decided with it
	if n := r.servedOf(12, 200, 100); n["a"] != 8 || n["y"] != 4 {
		t.Errorf("without b: %v, want a 8, y 4", n)
	}
	// The weights are changed at both levels while all wait: 1:1 inside of 1:2. Of 12 two are
	// a's, two b's and eight y's. What each leads or lags by at that moment is one task at most.
	r.flood(100, 200, 100, "b")
	next := tree()
	for name, w := range map[string]int64{"x": 1, "y": 2, "a": 1, "b": 1} {
		for i := range next.Nodes {
			if next.Nodes[i].Name == name {
				next.Nodes[i].Weight = w
			}
		}
	}
	r.reload(next)
	n := r.servedOf(120, 200, 100)
	for g, part := range map[string]int{"a": 20, "b": 20, "y": 80} {
		if n[g] < part-2 || n[g] > part+2 {
			t.Errorf("with new weights: %v, want a 20, b 20, y 80, each within 2", n)
		}
	}
	engine.CheckIndexes(t, r.Engine)
}

// A task is charged to its group as the configuration is when it goes: where groups need not be listed, one
// that is no more waits with all that are not, and one that is listed anew leaves these, with what waits.
func TestQuotaGroupsComeAndGoWhileTasksWait(t *testing.T) {
	r := fairRig(t, quotasOf().group("big", 3, nil).open(), nil)
	r.flood(100, 200, 100, "big", "one", "two")
	// one and two are `other`, of weight 1: a quarter, in the order in which they came.
	if n := r.servedOf(40, 200, 100); n["big"] < 29 || n["big"] > 31 || n["one"]-n["two"] > 1 || n["two"]-n["one"] > 1 {
		t.Errorf("two of them together: %v", n)
	}
	r.reload(quotasOf().group("big", 1, nil).group("one", 1, nil).group("two", 2, nil).open())
	if n := r.servedOf(40, 200, 100); n["big"] < 9 || n["big"] > 11 || n["one"] < 9 || n["one"] > 11 {
		t.Errorf("1:1:2: %v", n)
	}
	// two becomes part of one: what it is charged is one's, too. Half is big's.
	r.reload(quotasOf().group("big", 1, nil).group("one", 1, nil).in("one", "two", 1, nil).open())
	if n := r.servedOf(40, 200, 100); n["big"] < 19 || n["big"] > 21 || n["one"] < 9 || n["one"] > 11 {
		t.Errorf("1:1, of which two is half of the one: %v", n)
	}
	engine.CheckIndexes(t, r.Engine)
}

// A group of weight 0 is served when none with weight waits that could be, however long it has
// waited, and explain says why it is not known when that is. Of those without weight all have
// the same.
func TestQuotaWeightZero(t *testing.T) {
	tree := func(w int64) *quotaTree {
		return quotasOf().group("paying", 1, nil).group("scraps", w, nil).group("crumbs", 0, nil)
	}
	r := fairRig(t, tree(0), nil)
	r.flood(50, 200, 100, "scraps", "crumbs")
	r.flood(100, 200, 100, "paying")
	if n := r.servedOf(100, 200, 100); n["paying"] != 100 {
		t.Errorf("while paying waits: %v", n)
	}
	if p, _ := r.Place(r.now, r.someone(
		"scraps")); p.Unbounded != "group scraps, or one that it is part of, has weight 0: it is served when no group "+
		"beside it with weight waits" {
		t.Errorf("scraps: %q", p.Unbounded)
	}
	if n := r.servedOf(20, 200, 100); n["scraps"] != 10 || n["crumbs"] != 10 {
		t.Errorf("nobody with weight waits: %v", n)
	}
	r.flood(1, 200, 100, "paying")
	if g := r.serveNext(200, 100); g != "paying" {
		t.Errorf("%s goes before who has weight", g)
	}
	// With a weight it shares, from then on.
	r.reload(tree(1))
	r.flood(50, 200, 100, "paying")
	if n := r.servedOf(20, 200, 100); n["crumbs"] != 0 || n["scraps"] < 9 || n["scraps"] > 11 {
		t.Errorf("scraps has weight 1 now: %v", n)
	}
	if p, _ := r.Place(r.now, r.someone("scraps")); p.Unbounded != "" || p.Bound == 0 {
		t.Errorf("it has a bound now: %+v", p)
	}
}

// someone is a task of the group that waits: the last that came.
func (r *rig) someone(group string) (last *coordinator.Task) {
	r.t.Helper()
	arrival := uint64(0)
	for _, o := range r.OpenTasks() {
		if o.State() == engine.StateWaiting && o.Task().Group == group && o.Arrival() > arrival {
			last, arrival = o.Task(), o.Arrival()
		}
	}
	if last == nil {
		r.t.Fatalf("nothing of %s waits", group)
	}
	return last
}

// Of a flood that no agent can serve now (its only agent is away), of the highest priority and with
// a hundred times the weight, no other notices anything: not another group, nor the flood's
// own group with what others can do. When the agent comes back it has the flood to itself.
func TestQuotaFloodThatNobodyIsCapableOf(t *testing.T) {
	p := patient(policyOf(worker("a").can("any"), worker("gpu").can("gpu")).
		quotas(quotasOf().group("flood", 100, nil).group("other", 1, nil)))
	r := boot(t, p)
	r.hear(beat("a"))
	for i := range 2000 {
		want(t, r.assign(job(coordinator.TaskID(fmt.Sprint("g", i))).needs("gpu").of("flood").
			prio(coordinator.PriorityCritical).tokens(200, 100)))
	}
	for i := range 20 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("f", i))).needs("any").of("flood").prio(coordinator.PriorityLow).
			tokens(200, 100))
		r.assign(job(coordinator.TaskID(fmt.Sprint("o", i))).needs("any").of("other").prio(coordinator.PriorityLow).
			tokens(200, 100))
	}
	n := r.servedOf(39, 200, 100) // f0 has gone; what is left goes without a pause
	if n["flood"] != 19 || n["other"] != 20 {
		t.Errorf("a serves %v", n)
	}
	want(t, r.hear(beat("gpu")), "agent gpu online", "dispatch g0.1 gpu")
	engine.CheckIndexes(t, r.Engine)
}

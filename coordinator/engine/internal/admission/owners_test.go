package admission

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/fairshare"
)

// node is one of a tree; its ID is its path.
func node(
	kind coordinator.QuotaKind, name string, parent int, change ...func(n *coordinator.QuotaNode),
) coordinator.QuotaNode {
	n := coordinator.QuotaNode{ID: name, Kind: kind, Name: name, Parent: parent, Weight: 1}
	for _, c := range change {
		c(&n)
	}
	return n
}

// treeOf installs these nodes, parents first.
func treeOf(nodes ...coordinator.QuotaNode) *Quotas {
	for i := range nodes {
		if n := &nodes[i]; n.Parent >= 0 {
			n.ID = nodes[n.Parent].ID + "/" + n.Name
		}
	}
	q := NewQuotas(testTasksInOrder)
	q.Install(epoch, &coordinator.Policy{Quotas: &coordinator.Quotas{ReservationTTL: time.Hour,
		TombstoneTTL: time.Hour, Nodes: nodes}})
	return q
}

// perDay limits tokens; nothing is borrowed.
func perDay(tokens int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: tokens,
			Borrow: coordinator.Bound{Kind: coordinator.BoundAmount}, Period: coordinator.Period{Unit: coordinator.PerDay}}
	}
}

func provider(name string) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) { n.Provider = name }
}

// taking is a task of the group team that takes so many tokens.
func taking(id coordinator.TaskID, tokens float64) *coordinator.Task {
	return &coordinator.Task{ID: id, Group: "team",
		EstimatedUsage: &coordinator.Usage{InputTokens: tokens - 1, OutputTokens: 1}}
}

// among are three agents, a, b and c by number, of which these are ready.
func among(ready ...int) Takers {
	of := Takers{Usable: agentset.New(3), Ready: agentset.New(3), Agents: 3}
	for i := range 3 {
		of.Usable.Add(i)
	}
	for _, i := range ready {
		of.Ready.Add(i)
	}
	of.Number = func(id coordinator.AgentID) (int, bool) {
		i := slices.Index([]coordinator.AgentID{"a", "b", "c"}, id)
		return i, i >= 0
	}
	return of
}

func members(s agentset.Set) (all []int) {
	s.Each(func(i int) { all = append(all, i) })
	return all
}

// TestOwners: agents with quota of their own count for their group. What they have in a provider's pool is for the
// groups below theirs, too, where these have quota by agent themselves.
func TestOwners(t *testing.T) {
	const pool, group, agent = coordinator.QuotaPool, coordinator.QuotaGroup, coordinator.QuotaAgent
	q := treeOf(
		node(pool, "pool", -1),                       // 0
		node(group, "top", 0),                        // 1
		node(group, "sub", 1),                        // 2
		node(group, "plain", 1),                      // 3
		node(agent, "s", 2),                          // 4
		node(pool, "openai", -1, provider("openai")), // 5
		node(group, "top", 5), node(agent, "a", 6), node(agent, "b", 6),
	)
	for of, want := range map[string][]coordinator.AgentID{
		"top": {"a", "b"}, "sub": {"s", "a", "b"}, "plain": nil, "": {"s", "a", "b"}, "unknown": nil,
	} {
		got := q.Owners(of)
		if !slices.Equal(got, want) || q.AgentsDiffer(of) != (len(want) > 0) {
			t.Errorf("group %q: %v, want %v", of, got, want)
		}
	}
	if own := ownersIn(nil); len(own) != 0 {
		t.Errorf("without quotas: %v", own)
	}
}

// TestOthers: the team may use 1000 tokens a day, of which agent a may use some. A task of 500 that a has no quota for
// may go to the others, as far as the team has some left.
func TestOthers(t *testing.T) {
	for name, c := range map[string]struct {
		own     int64 // of a
		used    float64
		ready   []int
		able    []int
		without []int
		never   bool // what is lacked will never be there
		back    bool // it is back at midnight
	}{
		"the others are ready": {own: 100, ready: []int{0, 1, 2}, able: []int{1, 2}, without: []int{0}, never: true},
		// b and c have quota, and c is busy: the task may wait for it, although for a there never is enough.
		"one of them is busy": {own: 100, ready: []int{0, 1}, able: []int{1}, without: []int{0}},
		"the others are busy": {own: 100, ready: []int{0}, without: []int{0}},
		// 600 + 500 > 1000 for any agent. What a has is less than 500, so for it there is never enough; but there is
		// tomorrow for the others.
		"the team has too little": {own: 100, used: 600, ready: []int{0, 1, 2}, without: []int{0, 1, 2}, back: true},
		"a has enough":            {own: 1000, ready: []int{0}, able: []int{0}},
	} {
		q := treeOf(node(coordinator.QuotaPool, "pool", -1), node(coordinator.QuotaGroup, "team", 0, perDay(1000)),
			node(coordinator.QuotaAgent, "a", 1, perDay(c.own)))
		if c.used > 0 {
			first := taking("first", c.used)
			if v := q.Reserve(epoch, first, 1, q.Hold(first), "b"); !v.OK {
				t.Fatalf("%s: %+v", name, v)
			}
		}
		task := taking("t", 500)
		h := q.Hold(task)
		v := q.Judge(epoch, task, h, "a", false).Verdict
		r := q.Others(epoch, task, h, &v, among(c.ready...), false)
		if !slices.Equal(members(r.Able), c.able) || !slices.Equal(members(r.Without.Agents), c.without) {
			t.Errorf("%s: able %v, without %v; want %v and %v", name, members(r.Able), members(r.Without.Agents), c.able,
				c.without)
		}
		if lacks := r.Lacks; r.Refused != (len(c.without) > 0) ||
			r.Refused && (lacks.Permanent != c.never || lacks.RetryAt.IsZero() == c.back) {
			t.Errorf("%s: lacks %+v", name, lacks)
		}
		x, exceeds := q.Exceeds(epoch, task, h, "a", among(c.ready...))
		if exceeds || x.Able == nil && v.Permanent && !x.Refused {
			t.Errorf("%s: one of three agents may have it some time, and it exceeds: %+v", name, x)
		}
		if want := c.own >= 500 && c.used == 0; q.Affords(epoch, task, h, "a") != want || !q.Affords(epoch, task, nil, "a") {
			t.Errorf("%s: there is quota for a: %v, want %v", name, !want, want)
		}
	}
}

// TestExceeds: a task of 2000 tokens is more than the 1000 of its team; and one of 500 more than the 100 of the only
// agent that may have it.
func TestExceeds(t *testing.T) {
	q := treeOf(node(coordinator.QuotaPool, "pool", -1), node(coordinator.QuotaGroup, "team", 0, perDay(1000)),
		node(coordinator.QuotaAgent, "a", 1, perDay(100)))
	onlyA := among(0)
	onlyA.Usable = agentset.New(3)
	onlyA.Usable.Add(0)
	for _, c := range []struct {
		tokens float64
		first  coordinator.AgentID
		among  Takers
		want   bool
	}{
		{50, "a", onlyA, false}, {500, "a", onlyA, true}, {500, "a", among(0), false}, {500, "b", among(0), false},
		{2000, "a", among(0, 1, 2), true}, {2000, "b", among(), true},
	} {
		task := taking("t", c.tokens)
		r, exceeds := q.Exceeds(epoch, task, q.Hold(task), c.first, c.among)
		if exceeds != c.want || exceeds && !r.Lacks.Permanent {
			t.Errorf("%v tokens, first %s: %v, %+v", c.tokens, c.first, exceeds, r.Lacks)
		}
	}
	if r := q.Able(epoch, taking("t", 10), q.Hold(taking("t", 10)), among(1), false); !slices.Equal(members(r.Able),
		[]int{1}) {
		t.Errorf("of a and b one is ready: %v", members(r.Able))
	}
	plain := newTeam(t)
	task := taking("t", 10)
	if r := plain.Able(epoch, task, plain.Hold(task), among(1), false); r.Able != nil || r.Refused {
		t.Errorf("it makes no difference which agent has it: %+v", r)
	}
}

// TestRefusedToo: agents that seemed able are among those without, and what is back sooner is waited for.
func TestRefusedToo(t *testing.T) {
	q := newTeam(t)
	at := func(s int) *fairshare.Verdict {
		return &fairshare.Verdict{Node: "pool/team", Behind: "pool", RetryAt: epoch.Add(time.Duration(s) * time.Second)}
	}
	first, second := at(10), at(5)
	r := Refusal{Able: among(1, 2).Ready, Refused: true, Lacks: *first, Without: &Lacking{Agents: among(0).Ready}}
	if q.RefusedToo(&r, second); r.Lacks != *second || !slices.Equal(members(r.Without.Agents), []int{0, 1, 2}) {
		t.Errorf("%+v", r)
	}
	if q.RefusedToo(&r, first); r.Lacks != *second {
		t.Error("what is back later is waited for")
	}
	never, open := &fairshare.Verdict{Permanent: true}, &fairshare.Verdict{}
	for _, c := range []struct {
		a, b *fairshare.Verdict
		want bool
	}{
		{second, first, true}, {first, second, false}, {first, first, false}, {first, never, true}, {never, first, false},
		{never, never, false}, {first, open, true}, {open, first, false}, {open, never, true}, {open, open, false},
	} {
		if got := endsSooner(c.a, c.b); got != c.want {
			t.Errorf("%+v before %+v: %v", c.a, c.b, got)
		}
	}
}

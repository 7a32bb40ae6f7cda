package place

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/fairqueue"
)

// Levels, and their weights: 1, 4, 16 and 64.
const (
	low    = int(coordinator.PriorityLow)
	normal = int(coordinator.PriorityNormal)
	high   = int(coordinator.PriorityHigh)
)

// shares of these groups, by weight.
func shares(t *testing.T, strict bool, groups ...fairqueue.Node) *fairqueue.Shares {
	t.Helper()
	s := fairqueue.NewShares()
	s.Order(coordinator.PriorityOrder{Strict: strict})
	if err := s.Install(groups); err != nil {
		t.Fatal(err)
	}
	s.DebtCap, s.LagCap = billing.CostCap, billing.CostCap
	return s
}

func group(name string, weight int64) fairqueue.Node {
	return fairqueue.Node{Name: name, Parent: -1, Weight: weight}
}

// costs is a charge of so many input tokens, which is what it costs.
func costs(tokens int64) fairshare.Charge {
	a := coordinator.Amounts{coordinator.DimRequests: 1, coordinator.DimInputTokens: tokens}
	return fairshare.Charge{Amounts: a, Expect: billing.Weigh(&a)}
}

// TestByPriority: where the normal task stands among 1 low, 3 normal and 2 high ones.
func TestByPriority(t *testing.T) {
	for name, c := range map[string]struct {
		strict        bool
		ahead, inLane int
		laned         bool
		rate          float64
		free          time.Duration
		want          Place
	}{
		// Both high ones go first, and one of its own.
		"strict": {strict: true, ahead: 1, rate: 0.5,
			want: Place{Ahead: 2 + 1, Part: 0, Rate: 0.5, Starts: (3 + 1) * 2 * time.Second}},
		"a slot is free soon": {strict: true, ahead: 1, rate: 0.5, free: time.Second,
			want: Place{Ahead: 3, Part: 0, Rate: 0.5, Starts: time.Second + 3*2*time.Second}},
		"no pace is known": {strict: true, ahead: 1, free: time.Second, want: Place{Ahead: 3}},
		// Of two dispatches it earns 2·4/21, the low one 2·1/21, and the high ones 2·16/21: both of these go first.
		"by weight":               {ahead: 0, want: Place{Ahead: 2, Part: 4. / (1 + 4 + 16)}},
		"one of its own is ahead": {ahead: 1, want: Place{Ahead: 3, Part: 4. / (1 + 4 + 16)}},
		// Its lane holds 4 others, each of which may have been accepted before it.
		"in its lane": {strict: true, laned: true, inLane: 5,
			want: Place{Ahead: 2 + 4, Lane: "lane", InLane: 5}},
		"tasks in its lane":     {strict: true, inLane: 5, want: Place{Ahead: 2, InLane: 5}},
		"more than are counted": {strict: true, ahead: MostAhead, want: Place{Ahead: MostAhead, AtLeast: true}},
	} {
		s := shares(t, c.strict)
		l := Beside(0, normal, fairshare.Charge{})
		for _, in := range []time.Duration{0, c.free, 2 * c.free} {
			l.Frees(in)
		}
		l.Pace(c.rate / 4)
		l.Pace(c.rate / 4 * 3)
		if l.Ahead, l.InLane = c.ahead, c.inLane; c.laned {
			l.Lane = "lane"
		}
		for level, n := range map[int]int{low: 1, normal: 3, high: 2} {
			l.Count(0, level, n)
		}
		c.want.Waiting, c.want.Higher, c.want.Lower = 6, 2, 1
		if got := l.ByPriority(s); got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
	}
}

// TestByGroup: x and y have weight 1 each, beside the group of all others. Two of x, one of them before the task, and
// three of y wait at its level, two at others.
func TestByGroup(t *testing.T) {
	s := shares(t, false, group("x", 1), group("y", 1), group("none", 0))
	x, y := s.Leaf("x"), s.Leaf("y")
	line := func() *Line {
		c := costs(100)
		l := Beside(x, normal, c)
		l.Add(x, normal, &c, true, false)
		l.Add(x, normal, &c, false, false) // the task itself
		for range 3 {
			l.Add(y, normal, &c, true, false)
		}
		l.Add(y, high, &c, false, false)
		l.Add(x, low, &c, false, false)
		return l
	}
	supply := func() *Supply {
		return &Supply{Ledger: fairshare.NewLedger(), Shares: s, Least: 100, Most: 100, Rate: 7,
			Takers: []coordinator.AgentID{"a"}}
	}
	p := line().ByGroup(supply())
	if !p.Quotas || p.Group != "x" || p.Waiting != 2 || p.Others != 3 || p.Higher != 1 || p.Lower != 1 || p.Ahead != 1 ||
		p.AtLeast || p.Part != 4./(1+4+16) || p.Rate != 7 || p.Dearest != 100 {
		t.Errorf("%+v", p)
	}
	// What waits of x before it costs 100. y and the others may each have as much by then, and one task more, which
	// costs 100. A group of weight 0 has nothing.
	service := int64(100 + 2*(100+100))
	// That is 500 / 100 + 2 = 7 dispatches of its level. Of 21 by weight 4 are normal: ⌊(7+2)·21/4⌋ + 1 = 48, so that
	// 41 others come between.
	if want := service + 41*100; p.Likely != want || p.Bound != want {
		t.Errorf("likely %d, bound %d, want %d", p.Likely, p.Bound, want)
	}
	busy := supply() // each of ten slots may have a task with underestimated costs
	if busy.Slots = 10; line().ByGroup(busy).Bound <= p.Bound || line().ByGroup(busy).Likely != p.Likely {
		t.Error("what runs is not bounded apart from what is likely")
	}

	laned := line()
	laned.Lane, laned.InLane = "lane", 11
	if p := laned.ByGroup(supply()); p.Ahead != 2+10 || p.AtLeast || p.Lane != "lane" || p.InLane != 11 {
		t.Errorf("behind both of its group, and ten of its lane: %+v", p)
	}
	crowd := line()
	for range MostAhead {
		c := costs(1)
		crowd.Add(x, normal, &c, true, false)
	}
	if p := crowd.ByGroup(supply()); p.Ahead != MostAhead || !p.AtLeast || p.Waiting != MostAhead+2 {
		t.Errorf("more than are counted: %d ahead, %v, %d wait", p.Ahead, p.AtLeast, p.Waiting)
	}
}

// TestUnbounded: which rule makes it unbounded.
func TestUnbounded(t *testing.T) {
	for want, c := range map[string]struct {
		group  string
		strict bool
		takers []coordinator.AgentID
	}{
		"": {"x", false, []coordinator.AgentID{"a"}},
		"group none, or one that it is part of, has weight 0: it is served when no group beside it with weight waits": {
			"none", false, []coordinator.AgentID{"a"}},
		"priority_order is strict, and tasks of higher priority wait: these go first for as long as there are any": {
			"x", true, []coordinator.AgentID{"a"}},
		"no agent that may have it is online and takes work": {"x", false, nil},
	} {
		s := shares(t, c.strict, group("x", 1), group("none", 0))
		l, takes := Beside(s.Leaf(c.group), normal, costs(100)), costs(100)
		l.Add(s.Leaf("x"), high, &takes, false, false)
		p := l.ByGroup(&Supply{Ledger: fairshare.NewLedger(), Shares: s, Least: 1, Most: 1, Takers: c.takers})
		if p.Unbounded != want || (p.Bound > 0) != (want == "") {
			t.Errorf("%+v, want %q", p, want)
		}
	}
}

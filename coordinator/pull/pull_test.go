package pull

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// balancing is BALANCING's fleet, 16, 8 and 4 items/s, with slots for anything.
func balancing(unclaimed int, pending ...int) Fleet {
	f := Fleet{Unclaimed: unclaimed}
	for i, capacity := range []float64{16, 8, 4} {
		a := Agent{ID: coordinator.AgentID(fmt.Sprintf("a%d", i+1)), Capacity: capacity, Free: 1000}
		if i < len(pending) {
			a.Pending = pending[i]
		}
		f.Agents = append(f.Agents, a)
	}
	return f
}

func fair(p *Plan, ids ...coordinator.AgentID) []int {
	var all []int
	for _, id := range ids {
		all = append(all, p.FairShare(id))
	}
	return all
}

func TestShares(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name       string
		total      int
		capacities []float64
		want       []int
	}{
		// 49/28 = 1.75 s each: 16·1.75, 8·1.75, 4·1.75, all whole.
		{"BALANCING's equilibrium", 49, []float64{16, 8, 4}, []int{28, 14, 7}},
		// 100/28 = 3.571 s: 57.14, 28.57, 14.29. Whole 57+28+14 = 99; the one left to .57.
		{"100", 100, []float64{16, 8, 4}, []int{57, 29, 14}},
		// 32.67, 16.33: the one left to .67.
		{"49 without the third", 49, []float64{16, 8}, []int{33, 16}},
		// 0.57, 0.29, 0.14.
		{"one item goes to the fastest", 1, []float64{16, 8, 4}, []int{1, 0, 0}},
		// 2.5 each: equal fractions, the first gets the odd one.
		{"a tie goes to the first", 5, []float64{3, 3}, []int{3, 2}},
		{"slow ones are not hidden by a floor", 21, []float64{1, 0.05}, []int{20, 1}},
		{"without a capacity no part", 10, []float64{0, 5, nan, -1}, []int{0, 10, 0, 0}},
		{"unless nobody has one", 5, []float64{0, 0}, []int{3, 2}},
		{"an endless one counts as 1e9", 4, []float64{inf, 1e9}, []int{2, 2}},
		{"nothing to divide", 0, []float64{1, 2}, []int{0, 0}},
		{"less than nothing", -3, []float64{1, 2}, []int{0, 0}},
		{"nobody", 7, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Shares(tt.total, tt.capacities); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestSharesLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, 1_000_000).Draw(t, "total")
		capacities := rapid.SliceOfN(rapid.Float64Range(0.001, 1000), 1, 50).Draw(t, "capacities")
		sum, all := 0, 0.0
		for _, c := range capacities {
			all += c
		}
		for i, share := range Shares(total, capacities) {
			sum += share
			if quota := float64(total) * capacities[i] / all; math.Abs(float64(share)-quota) >= 1+1e-6 {
				t.Errorf("share %d is %d, its quota %v", i, share, quota)
			}
		}
		if sum != total {
			t.Errorf("the shares are %d in all, of %d", sum, total)
		}
	})
}

func TestTarget(t *testing.T) {
	tests := []struct {
		name     string
		items    int
		capacity float64
		floor    time.Duration
		want     time.Duration
	}{
		{"BALANCING's 1.75", 49, 28, time.Second, 1750 * time.Millisecond},                       // 49/28
		{"floor: poll and round trip", 14, 28, 1050 * time.Millisecond, 1050 * time.Millisecond}, // 0.5 s
		{"ceiling", 1000, 28, time.Second, 30 * time.Second},                                     // 35.7 s
		{"nothing to do", 0, 28, time.Second, time.Second},
		{"nobody to do it", 49, 0, time.Second, time.Second},
		{"no number", 49, math.NaN(), time.Second, time.Second},
		{"a floor above the ceiling", 49, 28, time.Minute, 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Target(tt.items, tt.capacity, tt.floor); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	silent := balancing(42, 4, 3)
	silent.Agents[2].Pending, silent.Agents[2].Seen = 7, start.Add(-SilentAfter)
	almost := balancing(49)
	almost.Agents[2].Seen = start.Add(-SilentAfter + 1)
	unmeasured := balancing(33)
	unmeasured.Agents[0].Capacity, unmeasured.Agents[1].Capacity = 0, math.NaN()
	twice := balancing(49)
	twice.Agents = append(twice.Agents, Agent{ID: "a1", Capacity: 1000, Pending: 9})
	slow := balancing(31)
	slow.Agents[0].Capacity, slow.Agents[1].Capacity, slow.Agents[2].Capacity = 0.5, 0.5, 0.05

	tests := []struct {
		name     string
		fleet    Fleet
		capacity float64
		target   time.Duration
		want     []int
	}{
		{"49 unclaimed", balancing(49), 28, 1750 * time.Millisecond, []int{28, 14, 7}},
		{"who holds them does not matter", balancing(10, 0, 0, 39), 28, 1750 * time.Millisecond, []int{28, 14, 7}},
		// 1142.9, 571.4, 285.7, but the first has 1,000 slots: 1000 over 8 and 4 are 667, 333.
		{"more than it has slots for", balancing(2000), 28, 30 * time.Second, []int{1000, 667, 333}},
		// 100/28 = 3.5714285714… s is no whole number of nanoseconds; nothing is lost by it.
		{"100", balancing(100), 28, 3571428571, []int{57, 29, 14}},
		// Its 7 are not counted: 49 over 24/s. 49/24 = 2.0417 s.
		{"the third is silent", silent, 24, 2041666667, []int{33, 16, 0}},
		{"it is not, for a nanosecond more", almost, 28, 1750 * time.Millisecond, []int{28, 14, 7}},
		// 0.5, 0.5, 4: 33/5 = 6.6 s; 3.3, 3.3, 26.4: one left, to .4.
		{"two are not measured", unmeasured, 5, 6600 * time.Millisecond, []int{3, 3, 27}},
		// 1.05/s for 30 s are 31.5; 31 items: 14.76, 14.76, 1.48.
		{"a language model", slow, 1.05, 29523809524, []int{15, 15, 1}},
		{"the first of two of one name", twice, 28, 1750 * time.Millisecond, []int{28, 14, 7}},
		{"nobody", Fleet{Unclaimed: 3}, 0, time.Second, []int{0, 0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPlan(start, tt.fleet, Settings{})
			if got := fair(p, "a1", "a2", "a3"); !slices.Equal(got, tt.want) {
				t.Errorf("fair parts %v, want %v", got, tt.want)
			}
			if p.Target != tt.target || math.Abs(p.Capacity-tt.capacity) > 1e-9 {
				t.Errorf("T* %v at %v/s, want %v at %v/s", p.Target, p.Capacity, tt.target, tt.capacity)
			}
		})
	}
}

func TestGrant(t *testing.T) {
	tight := func(free int) Fleet {
		f := balancing(49)
		f.Agents[0].Free = free
		return f
	}
	old := balancing(49)
	old.Age = DefaultInterval + 1
	oldOdd := balancing(48, 1) // lacks 27
	oldOdd.Age = DefaultInterval + 1
	tests := []struct {
		name    string
		fleet   Fleet
		literal bool
		claim   Claim
		want    Grant
	}{
		{"its part", balancing(49), false, Claim{"a1", 28}, Grant{28, LimitNone, 28}},
		{"the rest is the part of others", balancing(49), false, Claim{"a1", 100}, Grant{28, LimitFairShare, 28}},
		{"what it lacks: 28 − 12", balancing(37, 12), false, Claim{"a1", 100}, Grant{16, LimitFairShare, 28}},
		{"it has its part", balancing(21, 28), false, Claim{"a1", 100}, Grant{0, LimitFairShare, 28}},
		{"it has more", balancing(9, 40), false, Claim{"a1", 100}, Grant{0, LimitFairShare, 28}},
		{"an old picture: ⌈28/2⌉", old, false, Claim{"a1", 100}, Grant{14, LimitFairShare, 28}},
		{"rounded up: ⌈27/2⌉", oldOdd, false, Claim{"a1", 100}, Grant{14, LimitFairShare, 28}},
		// 20 over 16, 8 and 4 are 11, 6 and 3; the first has slots for none of it, and the
		// others get 13 and 7: work does not lie with an agent that cannot take it.
		{"the part of one that is full",
			Fleet{Unclaimed: 20, Agents: []Agent{{ID: "a1", Capacity: 16}, {ID: "a2", Capacity: 8, Free: 50},
				{ID: "a3", Capacity: 4, Free: 50}}},
			false, Claim{"a2", 100}, Grant{13, LimitFairShare, 13}},
		// 3 over 0.02 items a second: all of it, although one alone takes 50 s.
		{"slow work", Fleet{Unclaimed: 3, Agents: []Agent{{ID: "a1", Capacity: 0.02, Free: 4}}}, false, Claim{"a1", 4},
			Grant{3, LimitUnclaimed, 3}},
		// 1 over 16 and 1 is the first's; but the second holds nothing.
		{"an idle one is given something",
			Fleet{Unclaimed: 1, Agents: []Agent{{ID: "a1", Capacity: 16, Free: 9}, {ID: "a2", Capacity: 1, Free: 9}}},
			false, Claim{"a2", 4}, Grant{1, LimitUnclaimed, 0}},
		{"slots", tight(5), false, Claim{"a1", 100}, Grant{5, LimitSlots, 5}},
		{"no slot", tight(0), false, Claim{"a1", 100}, Grant{0, LimitSlots, 0}},
		{"fewer than no slots", tight(-2), false, Claim{"a1", 100}, Grant{0, LimitSlots, 0}},
		{"asked for less", balancing(49), false, Claim{"a1", 3}, Grant{3, LimitNone, 28}},
		{"asked for nothing", balancing(49), false, Claim{"a1", 0}, Grant{0, LimitNone, 28}},
		{"asked for less than nothing", balancing(49), false, Claim{"a1", -1}, Grant{0, LimitNone, 28}},
		// 3 + 7 + 39 held and none unclaimed.
		{"nothing left", balancing(0, 3, 7, 39), false, Claim{"a1", 10}, Grant{0, LimitUnclaimed, 28}},
		{"less left than its part", balancing(5, 3, 2, 39), false, Claim{"a1", 10}, Grant{5, LimitUnclaimed, 28}},
		{"a stranger", balancing(49), false, Claim{"a9", 10}, Grant{0, LimitUnknownAgent, 0}},
		{"literal: no fair part", balancing(49), true, Claim{"a3", 40}, Grant{40, LimitNone, 7}},
		{"literal: but slots", tight(5), true, Claim{"a1", 40}, Grant{5, LimitSlots, 5}},
		{"literal: and items", balancing(49), true, Claim{"a3", 50}, Grant{49, LimitUnclaimed, 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPlan(start, tt.fleet, Settings{Literal: tt.literal})
			if got := p.Grant(tt.claim); got != tt.want {
				t.Errorf("%+v (%s), want %+v (%s)", got, got.Limit, tt.want, tt.want.Limit)
			}
		})
	}
}

// TestGrantsNever: more than was asked for, than there are slots or items; and one plan
// for several claims is as good as a new one after each.
func TestGrantsNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Fleet{
			Unclaimed: rapid.IntRange(0, 200).Draw(t, "unclaimed"),
			Age:       rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "age"),
		}
		for i := range rapid.IntRange(1, 8).Draw(t, "agents") {
			f.Agents = append(f.Agents, Agent{
				ID:       coordinator.AgentID(fmt.Sprintf("a%d", i)),
				Capacity: rapid.SampledFrom([]float64{0, 0.05, 1, 4, 8, 16, math.Inf(1), math.NaN()}).Draw(t, "capacity"),
				Pending:  rapid.IntRange(0, 50).Draw(t, "pending"),
				Free:     rapid.IntRange(-1, 30).Draw(t, "free"),
			})
		}
		s := Settings{Literal: rapid.Bool().Draw(t, "literal")}
		plan := NewPlan(start, f, s)
		total := plan.Pending() + plan.Unclaimed()
		for range rapid.IntRange(1, 20).Draw(t, "claims") {
			i := rapid.IntRange(0, len(f.Agents)-1).Draw(t, "who")
			a := &f.Agents[i]
			c := Claim{a.ID, rapid.IntRange(0, 40).Draw(t, "max")}
			anew := NewPlan(start, f, s).Grant(c)
			g := plan.Grant(c)
			if g != anew {
				t.Fatalf("the plan grants %+v, a new one %+v", g, anew)
			}
			if g.Items < 0 || g.Items > c.MaxItems || g.Items > max(a.Free, 0) || g.Items > f.Unclaimed {
				t.Fatalf("%+v for %+v by %+v of %d", g, c, *a, f.Unclaimed)
			}
			// An agent that holds nothing is granted one item at least.
			if !s.Literal && g.Items > 0 && a.Pending+g.Items > max(g.FairShare, 1) {
				t.Fatalf("%+v takes %+v above its fair part", g, *a)
			}
			if (g.Items < c.MaxItems) != (g.Limit != LimitNone) {
				t.Fatalf("%+v for %+v: a reason is given when, and only when, it got less", g, c)
			}
			a.Pending += g.Items
			a.Free -= g.Items
			f.Unclaimed -= g.Items
			if plan.Pending()+plan.Unclaimed() != total {
				t.Fatalf("%d items became %d", total, plan.Pending()+plan.Unclaimed())
			}
		}
	})
}

// TestGain: with a delay of one round the error e(k+1) = e(k) − g·e(k−1) has the
// characteristic λ² − λ + g, and V = e(k)² − e(k)·e(k−1) + g·e(k−1)² is multiplied by
// g each round: at g = 0.5, the gain for an old picture, it halves. At g = 1, which is
// for fresh ones, it stays for ever, and above that it grows.
func TestGain(t *testing.T) {
	if fresh, old := Gain(time.Second, time.Second), Gain(time.Second+1, time.Second); fresh != 1 || old != 0.5 {
		t.Fatalf("gain %v fresh, %v old; want 1 and 0.5", fresh, old)
	}
	for _, g := range []float64{Gain(time.Hour, time.Second), 1, 1.25} {
		before, now := 1.0, 1.0
		energy := func() float64 { return now*now - now*before + g*before*before }
		for round := range 20 {
			was := energy()
			before, now = now, now-g*before
			if got := energy() / was; math.Abs(got-g) > 1e-9 {
				t.Errorf("g %v, round %d: the energy is multiplied by %v", g, round, got)
			}
		}
		if g == 0.5 && math.Abs(now) > 1e-2 { // |λ| = √0.5: 0.5^(20/2) = 0.00098
			t.Errorf("after 20 rounds the error is still %v", now)
		}
	}
	// Without delay g = 1 is right at once: e(1) = e(0) − e(0) = 0.
	// The bound 2·sin(π/(2(2d+1))) for d = 0, 1, 2: what is used lies within it.
	for d, want := range []float64{2, 1, 0.618} {
		if bound := 2 * math.Sin(math.Pi/(2*float64(2*d+1))); math.Abs(bound-want) > 1e-3 || Gain(time.Hour, 1) >= bound {
			t.Errorf("delay %d: the bound is %v, want %v, and above 0.5", d, bound, want)
		}
	}
}

func TestLimits(t *testing.T) {
	seen := map[string]bool{"": true}
	for _, l := range Limits() {
		if seen[l.String()] {
			t.Errorf("limit %d: %q says nothing, or the same as another", l, l)
		}
		seen[l.String()] = true
	}
	if len(Limits()) != 6 || LimitNone.String() != "" || Limit(99).String() != "unknown_limit" {
		t.Errorf("%v, none %q, 99 %q", Limits(), LimitNone, Limit(99))
	}
}

func BenchmarkPlan(b *testing.B) {
	f := Fleet{Unclaimed: 5000}
	for i := range 1000 {
		f.Agents = append(f.Agents, Agent{ID: coordinator.AgentID(fmt.Sprintf("a%04d", i)), Capacity: 1 + float64(i%16),
			Free: 100})
	}
	b.Run("new/1000", func(b *testing.B) {
		for b.Loop() {
			NewPlan(start, f, Settings{})
		}
	})
	b.Run("grant/1000", func(b *testing.B) {
		p := NewPlan(start, f, Settings{})
		for b.Loop() {
			p.Grant(Claim{"a0500", 1})
		}
	})
}

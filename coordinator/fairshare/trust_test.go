package fairshare

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

const ofTokens = coordinator.DimTotalTokens

// liar is an agent that speaks for itself.
type liar struct {
	l     *Ledger
	group string
	made  int
}

// charge tells of a call for which it has not asked; false: it is not believed.
func (a *liar) charge(now time.Time, told int64) bool {
	c := tokens(a.group, told)
	if a.l.DoubtedUnasked(now, c) != nil {
		return false
	}
	a.made++
	a.l.Charge(now, id(a.made), c)
	a.l.SettleBy(now, id(a.made), c.Amounts, false, coordinator.WordUnasked)
	return true
}

// result tells of a task that it has used so much, and what is charged of that, which is believed.
func (a *liar) result(t *rapid.T, now time.Time, key coordinator.TaskKey, told int64) {
	used, doubt := a.l.Held(now, key, tokens(a.group, told).Amounts)
	if a.l.Doubted(now, key, &used) != nil || (doubt == nil) != (used == tokens(a.group, told).Amounts) {
		t.Fatalf("of %d %+v are held, with %+v in doubt", told, used, doubt)
	}
	a.l.SettleBy(now, key, used, false, coordinator.WordOwn)
}

// settle tells that it has used so much; nil: it is believed.
func (a *liar) settle(now time.Time, key coordinator.TaskKey, told int64) *Doubt {
	used := tokens(a.group, told).Amounts
	d := a.l.Doubted(now, key, &used)
	if d == nil {
		a.l.SettleBy(now, key, used, false, coordinator.WordOwn)
	}
	return d
}

// An agent's own word is believed as far as it could be true, and no further: what it says of one
// call must not use up what all have in common.
func TestDoubted(t *testing.T) {
	for _, c := range []struct {
		name           string
		group          string
		reserved, told int64
		most           int64 // -1: it is believed
		node           string
	}{
		{"as reserved", "own", 100, 100, -1, ""},
		{"its own, 1000, and a tenth of as much that the smallest of the others has", "own", 10, 1100, -1, ""},
		{"one more", "own", 10, 1101, 1100, "pool/own"},
		{"of nothing reserved: what was made without asking", "own", 0, 1101, 1100, "pool/own"},
		{"of 900,000 of its own, and a tenth of the 1,000 that the smallest has", "most", 1, 900_101, 900_100, "pool/most"},
		{"a budget of nothing is none of its own: a tenth of the 1,000 of the smallest, besides the 100", "none", 100, 201,
			200, "pool"},
		{"of 98,000 that no group was given, and a tenth of the 1,000 of the smallest", "nobody", 100, 98_101, 98_100,
			"pool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTree(monthly(ofTokens, 1_000_000)).group("own", "pool", monthly(ofTokens, 1000)).group("most", "pool",
				monthly(ofTokens, 900_000)).
				group("none", "pool", monthly(ofTokens, 0)).group("rest", "pool", monthly(ofTokens, 1000)).ledger()
			at := epoch.AddDate(0, 0, 10) // something has accrued to be borrowed
			charge, used := tokens(c.group, c.reserved), tokens(c.group, c.told).Amounts
			d := l.DoubtedUnasked(at, tokens(c.group, c.told))
			if c.reserved > 0 {
				if v := l.Reserve(at, id(1), charge, time.Time{}); !v.OK {
					t.Fatalf("it is refused: %+v", v)
				}
				d = l.Doubted(at, id(1), &used)
			}
			switch {
			case c.most < 0 && d != nil:
				t.Errorf("it is doubted: %+v", d)
			case c.most >= 0 && (d == nil || *d != Doubt{Node: c.node, Limit: LimitBudget, Dimension: ofTokens, Told: c.told,
				Most: c.most}):
				t.Errorf("got %+v, want at most %d by %s", d, c.most, c.node)
			}
		})
	}
}

// An agent of a group that has 1,000 of a pool of 1,000,000 tells again and again of what it has used,
// each time as much as it is believed: what one word has charged, or borrowed, makes no room for the
// next.
func TestDoubtedAgainAndAgain(t *testing.T) {
	l := newTree(monthly(ofTokens, 1_000_000)).group("own", "pool", monthly(ofTokens, 1000)).group("second", "pool",
		monthly(ofTokens, 1000)).ledger()
	at := epoch.AddDate(0, 0, 10)
	a, charged := liar{l: l, group: "own"}, int64(0)
	for n, told := 0, int64(1000); told > 0 && n < 100; n++ {
		if !a.charge(at, told) {
			told /= 2
			continue
		}
		charged += told
	}
	if charged != 2000 { // its own, and as much again, which was given to no node: it is lent that
		t.Errorf("%d were charged by an agent's own word, want 2000", charged)
	}
	if v := l.Reserve(at, id(1000), tokens("second", 1000), time.Time{}); !v.OK {
		t.Errorf("the other group has used nothing of its 1000, and is refused them: %+v", v)
	}
	// With the next month it is believed again: for its own, a fifth of which it repays, and a tenth of the
	// other's 1000.
	if at = at.AddDate(0, 1, 0); a.charge(at, 901) || !a.charge(at, 900) {
		t.Error("want it to be believed for 900 in the next month")
	}
}

// Ten times of each of many reservations is no way to use up what others have, nor is telling of
// them in the next period.
func TestDoubtedInSum(t *testing.T) {
	for _, c := range []struct {
		name string
		at   time.Time
		next time.Duration // until it is told
		most int64
	}{
		// 100 reserved ten times are its own 1,000; beyond that it is believed for a tenth of 9,000.
		{"in the same month", epoch.AddDate(0, 0, 10), 0, 1900},
		// What it had reserved was of the month before: now it is all beyond that, and nothing its own.
		{"in the next", epoch.AddDate(0, 1, 0).Add(-time.Second), time.Minute, 1000 + 900},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTree(monthly(ofTokens, 10_000)).group("own", "pool", monthly(ofTokens, 1000),
				lends(coordinator.Bound{Kind: coordinator.BoundAmount}, coordinator.Bound{})).
				group("rest", "pool", monthly(ofTokens, 9000)).ledger()
			for i := range 10 {
				if v := l.Reserve(c.at, id(i+1), tokens("own", 100), time.Time{}); !v.OK {
					t.Fatalf("%+v", v)
				}
			}
			a, now, sum := liar{l: l, group: "own"}, c.at.Add(c.next), int64(0)
			for i := range 10 {
				told := int64(1000)
				if d := a.settle(now, id(i+1), told); d != nil {
					if told = d.Most; a.settle(now, id(i+1), told) != nil {
						t.Fatalf("it is not believed what it is said to be: %+v", d)
					}
				}
				sum += told
			}
			if sum != c.most {
				t.Errorf("%d were charged, want %d", sum, c.most)
			}
		})
	}
}

// Of a rate an agent's word is believed as much again as it gives, ten bursts of it at once.
func TestDoubtedRate(t *testing.T) {
	l := newTree(perSecond(ofTokens, 100, 100)).group("own", "pool", perSecond(ofTokens, 10, 20)).ledger()
	a := liar{l: l, group: "own"}
	if !a.charge(epoch, 200) || a.charge(epoch, 1) {
		t.Error("want 10 · 20 at once, and no more")
	}
	if at := epoch.Add(3 * time.Second); !a.charge(at, 30) || a.charge(at, 1) {
		t.Error("want 3 s · 10/s more")
	}
}

// TestOthersKeepTheirs: whatever an agent says of itself, asks for, borrows or lets go, in whatever
// order and over the end of a month: each of the others still has all of its own, with what it has borrowed
// and without what it has lent by the rules, but for a tenth, also if all others have used theirs before it.
func TestOthersKeepTheirs(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		const pool = 100_000
		tr, others := newTree(monthly(ofTokens, pool)), []string{}
		own := rapid.Int64Range(0, pool).Draw(t, "own")
		tr = tr.group("own", "pool", monthly(ofTokens, own))
		left := pool - own
		for i := range rapid.IntRange(1, 4).Draw(t, "others") {
			part := rapid.Int64Range(0, left).Draw(t, "part")
			others = append(others, fmt.Sprint("other", i))
			tr = tr.group(others[i], "pool", monthly(ofTokens, part))
			left -= part
		}
		l, now := tr.ledger(), epoch.AddDate(0, 0, rapid.IntRange(0, 30).Draw(t, "day"))
		a := liar{l: l, group: "own", made: 1000}
		open := []coordinator.TaskKey{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			told := rapid.Int64Range(0, pool>>rapid.IntRange(0, 16).Draw(t, "smaller")).Draw(t, "told")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				a.charge(now, told)
			case 1:
				a.made++
				if l.Reserve(now, id(a.made), tokens("own", told), time.Time{}).OK {
					open = append(open, id(a.made))
				}
			case 2:
				if len(open) == 0 {
					break
				}
				if rapid.Bool().Draw(t, "task") {
					a.result(t, now, open[0], told<<rapid.IntRange(0, 40).Draw(t, "wild"))
					open = open[1:]
					break
				}
				if d := a.settle(now, open[0], told); d != nil && a.settle(now, open[0], d.Most) != nil {
					t.Fatalf("it is not believed what it is said to be: %+v", d)
				}
				open = open[1:]
			case 3:
				if len(open) > 0 {
					l.Expire(now, open[0]) // and is told late, perhaps
				}
			case 4:
				a.made++ // what the others borrow of it is not its own any more
				l.Reserve(now, id(a.made), tokens(rapid.SampledFrom(others).Draw(t, "who"), told), time.Time{})
			default:
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "later")))
			}
		}
		for i, g := range rapid.Permutation(others).Draw(t, "the last comes last") {
			v := budgetView(outer, l, now, "pool/"+g)
			has := v.Used + v.Reserved
			for more := int64(pool); more > 0; more /= 2 {
				for n := 0; l.Reserve(now, id(1_000_000*(i+1)+int(more)*10+n), noBorrowing(tokens(g, more)), time.Time{}).OK; n++ {
					has += more
				}
			}
			if least := v.Cap - v.Nominal/10; has < least {
				t.Errorf("%s has %d of its %d, want at least %d: all but a tenth of %d", g, has, v.Cap, least, v.Nominal)
			}
		}
	})
}

func noBorrowing(c *Charge) *Charge {
	c.NoBorrowing = true
	return c
}

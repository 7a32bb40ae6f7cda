package fairqueue

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRestoredGoesOn: shares that were restored from an image, at any moment of any history, stay equal to those that
// wrote it, whatever happens afterwards.
func TestRestoredGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SampledFrom([]int64{0, 1, 1, 2, 3, 7, 1000})
		nodes := randomTree(t, 2, 5, weights)
		fresh := func() *queueing {
			s := NewShares()
			s.DebtCap, s.LagCap = 200, 300
			if err := s.Install(nodes); err != nil {
				t.Fatal(err)
			}
			return &queueing{Shares: s, backlog: newWaiting(s)}
		}
		s := fresh()
		both := []*queueing{s}
		groups := []string{"", "g0", "g1", "g2", "g3", "g4"}
		type call struct {
			group string
			cost  int64
		}
		var open, ended []call
		group, costs := rapid.SampledFrom(groups), rapid.SampledFrom([]int64{1, 2, 3, 5, 10, 99, 400, costBound})
		charge := func(group string, cost int64) {
			for _, q := range both {
				q.Charge(q.Leaf(group), cost)
			}
			open = append(open, call{group, cost})
		}
		draw := func(t *rapid.T, from *[]call) (c call, any bool) {
			if len(*from) == 0 {
				return c, false
			}
			i := rapid.IntRange(0, len(*from)-1).Draw(t, "call")
			c = (*from)[i]
			*from = slices.Delete(*from, i, i+1)
			return c, true
		}
		correct := func(c call, actual int64) {
			for _, q := range both {
				q.Correct(q.Leaf(c.group), c.cost, actual)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				name := group.Draw(t, "group")
				for _, q := range both {
					q.push(name, 1, 0)
				}
			},
			"dispatch": func(t *rapid.T) {
				cost := costs.Draw(t, "cost")
				for i, q := range both {
					if x := q.next(cost); x != nil && i == 0 {
						open = append(open, call{x.group, cost})
					}
				}
			},
			"remove": func(t *rapid.T) {
				for _, q := range both {
					if head, ok := q.backlog.First(0); ok {
						q.backlog.Remove(head.Leaf, head.Level, head.Item.index)
					}
				}
			},
			"charge": func(t *rapid.T) { charge(group.Draw(t, "group"), costs.Draw(t, "cost")) },
			"correct": func(t *rapid.T) {
				if c, any := draw(t, &open); any {
					correct(c, costs.Draw(t, "cost"))
				}
			},
			"refund": func(t *rapid.T) {
				if c, any := draw(t, &open); any {
					correct(c, 0)
					ended = append(ended, c)
				}
			},
			"bill late": func(t *rapid.T) {
				if c, any := draw(t, &ended); any {
					actual := costs.Draw(t, "cost")
					for _, q := range both {
						q.Bill(q.Leaf(c.group), actual)
					}
				}
			},
			"install": func(t *rapid.T) {
				nodes = randomTree(t, 2, 5, weights)
				for _, q := range both {
					if err := q.Install(nodes); err != nil {
						t.Fatal(err)
					}
					q.rebuild()
				}
			},
			"restore": func(*rapid.T) {
				restored := fresh()
				restored.Import(s.Export())
				restored.backlog.Rebuild(nil)
				for h := range s.backlog.All() {
					x := *h.Item
					restored.backlog.Push(h.Leaf, h.Level, &x)
				}
				restored.arrival = s.arrival
				both = append(both[:1], restored)
			},
			"": func(t *rapid.T) {
				if len(both) == 1 {
					return
				}
				if got, want := both[1].Export(), s.Export(); !reflect.DeepEqual(got, want) {
					t.Fatalf("what was restored is at\n%+v\nwant\n%+v", got, want)
				}
			},
		})
	})
}

// A group that is idle exactly at the virtual time goes on from there, as after a restart: refunds take its tag no
// further down, although it stood lower once.
func TestIdleAtTheVirtualTime(t *testing.T) {
	q := queue(t, "A 1; B 1")
	A, B := q.Leaf("A"), q.Leaf("B")
	q.Charge(B, 100) // to 100
	q.Correct(B, 100, 100)
	q.Charge(A, 100) // to 100, and not below 0
	q.Correct(A, 100, 100)
	q.Charge(B, 10) // V is 100, where A is
	restored := queue(t, "A 1; B 1")
	restored.Import(q.Export())
	for _, s := range []*Shares{q.Shares, restored.Shares} {
		s.Charge(A, 10)
	}
	if got, want := restored.Export(), q.Export(); !reflect.DeepEqual(got, want) {
		t.Errorf("what was restored is at\n%+v\nwant\n%+v", got, want)
	}
}

// A bill for what had ended is charged whole, and leaves the other calls of the group open.
func TestLateBills(t *testing.T) {
	q := queue(t, "A 1; B 1")
	A := q.Leaf("A")
	q.Charge(A, 10)
	q.Correct(A, 10, 0)
	q.Charge(A, 10) // to 10
	q.Bill(A, 5)
	tags := q.Export().Tags
	if len(tags) != 1 || tags[0].Open != 1 || tags[0].Lead != 15<<shareBits {
		t.Errorf("one call is open, and another was billed: %+v", tags)
	}
}

// TestFollowedShares: shares in which nothing waits stand where those of the leader do, to the byte, after each charge
// and correction and what Moved says besides.
func TestFollowedShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SampledFrom([]int64{0, 1, 1, 2, 3, 7, 1000})
		leader, follower := &queueing{Shares: NewShares()}, NewShares()
		leader.backlog = newWaiting(leader.Shares)
		var nodes []Node
		install := func(t *rapid.T) {
			nodes = randomTree(t, 2, 5, weights)
			for head, ok := leader.backlog.First(0); ok; head, ok = leader.backlog.First(0) {
				leader.backlog.Remove(head.Leaf, head.Level, head.Item.index)
			}
			for _, s := range []*Shares{leader.Shares, follower} {
				if s.DebtCap, s.LagCap = 200, 300; s.Install(nodes) != nil {
					t.Fatal("the tree is wrong")
				}
			}
			leader.rebuild()
		}
		install(t)
		type call struct {
			group string
			cost  int64
		}
		var open []call
		group := rapid.SampledFrom([]string{"", "g0", "g1", "g2", "g3", "g4"})
		costs := rapid.SampledFrom([]int64{1, 2, 3, 5, 10, 99, 400, costBound})
		charge := func(t *rapid.T, group string) {
			open = append(open, call{group, costs.Draw(t, "cost")})
			for _, s := range []*Shares{leader.Shares, follower} {
				s.Charge(s.Leaf(group), open[len(open)-1].cost)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push":    func(t *rapid.T) { leader.push(group.Draw(t, "group"), 1, 0) },
			"install": install,
			"charge":  func(t *rapid.T) { charge(t, group.Draw(t, "group")) },
			"dispatch": func(t *rapid.T) {
				if head, ok := leader.backlog.First(0); ok {
					charge(t, head.Item.group)
					leader.backlog.Remove(head.Leaf, head.Level, head.Item.index)
				}
			},
			"remove": func(t *rapid.T) {
				if head, ok := leader.backlog.First(0); ok {
					leader.backlog.Remove(head.Leaf, head.Level, head.Item.index)
				}
			},
			"correct": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("none is open")
				}
				i, actual := rapid.IntRange(0, len(open)-1).Draw(t, "call"), costs.Draw(t, "cost")
				for _, s := range []*Shares{leader.Shares, follower} {
					s.Correct(s.Leaf(open[i].group), open[i].cost, actual)
				}
				open = slices.Delete(open, i, i+1)
			},
			"bill": func(t *rapid.T) {
				name, actual := group.Draw(t, "group"), costs.Draw(t, "cost")
				for _, s := range []*Shares{leader.Shares, follower} {
					s.Bill(s.Leaf(name), actual)
				}
			},
			"": func(t *rapid.T) {
				for _, tags := range leader.Moved() {
					follower.Place(&tags)
				}
				image := leader.Export()
				for i := range image.Tags {
					image.Tags[i].Waiting = false
				}
				restored := NewShares()
				if err := restored.Install(nodes); err != nil {
					t.Fatal(err)
				}
				restored.Import(image)
				want := restored.Export()
				if got := follower.Export(); !reflect.DeepEqual(got, want) {
					t.Fatalf("the follower is at\n%+v\nwant\n%+v", got, want)
				}
			},
		})
	})
}

package fairqueue

import (
	"encoding/json"
	"math/bits"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestBacklog compares backlogs that share one tree with the naive model: which item is first at each
// level, what waits where, and which leaf goes before which; through any history of pushes, removals,
// charges, corrections, parking, and restarts.
func TestBacklog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := randomTree(t, 3, 7, rapid.SampledFrom([]int64{0, 1, 1, 2, 3, 7, 1000}))
		fresh := func() *Shares {
			s := NewShares()
			s.DebtCap, s.LagCap = 200, 300
			if err := s.Install(nodes); err != nil {
				t.Fatal(err)
			}
			return s
		}
		s, naive := fresh(), newNaiveShares(nodes)
		backlogs := []*Backlog[*waiting]{newWaiting(s), newWaiting(s)}
		var leaves []*naiveGroup
		for _, g := range naive.groups {
			if len(g.children) == 0 {
				leaves = append(leaves, g)
			}
		}
		number := func(g *naiveGroup) int { return s.Leaf(g.name) }
		parked := map[[2]any]bool{}
		var items []*naiveItem
		var calls []struct {
			group *naiveGroup
			cost  int64
		}
		arrival := 0
		costs := rapid.SampledFrom([]int64{1, 2, 3, 5, 10, 99, 400, 1 << 20, costBound})
		push := func(backlog int, g *naiveGroup, level int) {
			arrival++
			x := &naiveItem{&waiting{arrival: arrival, leaf: number(g), level: level, group: g.name}, backlog, g}
			backlogs[backlog].Push(x.leaf, level, x.waiting)
			naive.wait(g)
			items = append(items, x)
		}
		remove := func(x *naiveItem) {
			if got := backlogs[x.backlog].Remove(x.leaf, x.level, x.index); got != x.waiting || x.index != -1 {
				t.Fatalf("%+v was removed, and not %+v", got, x.waiting)
			}
			for g := x.group; g != naive.root; g = g.parent {
				g.waiting--
			}
			items = slices.DeleteFunc(items, func(y *naiveItem) bool { return x == y })
		}
		charge := func(g *naiveGroup, cost int64) {
			s.Charge(number(g), cost)
			naive.charge(g, cost, s.LagCap)
			calls = append(calls, struct {
				group *naiveGroup
				cost  int64
			}{g, cost})
		}
		at := func(backlog, level int) (found []*naiveItem) {
			for _, x := range items {
				if x.backlog == backlog && x.level == level && !parked[[2]any{backlog, x.group}] {
					found = append(found, x)
				}
			}
			return found
		}
		leaf, which, level := rapid.SampledFrom(leaves), rapid.IntRange(0, 1), rapid.IntRange(0, Levels-1)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				push(which.Draw(t, "backlog"), leaf.Draw(t, "leaf"), level.Draw(t, "level"))
			},
			"push many": func(t *rapid.T) {
				for _, g := range leaves {
					for range 3 {
						push(which.Draw(t, "backlog"), g, level.Draw(t, "level"))
					}
				}
			},
			"remove": func(t *rapid.T) {
				if len(items) > 0 {
					remove(rapid.SampledFrom(items).Draw(t, "item"))
				}
			},
			"dispatch": func(t *rapid.T) {
				for range 5 {
					if head, ok := backlogs[0].First(0); ok {
						x := items[slices.IndexFunc(items, func(x *naiveItem) bool { return x.waiting == head.Item })]
						s.Served(head.Level, backlogs[0].Serving())
						charge(x.group, costs.Draw(t, "cost"))
						remove(x)
					}
				}
			},
			"charge": func(t *rapid.T) { charge(leaf.Draw(t, "leaf"), costs.Draw(t, "cost")) },
			"correct": func(t *rapid.T) {
				if len(calls) == 0 {
					return
				}
				i := rapid.IntRange(0, len(calls)-1).Draw(t, "call")
				c, actual := calls[i], costs.Draw(t, "cost")
				calls = slices.Delete(calls, i, i+1)
				s.Correct(number(c.group), c.cost, actual)
				naive.correct(c.group, c.cost, actual, s.DebtCap)
			},
			"park": func(t *rapid.T) {
				backlog, g := which.Draw(t, "backlog"), leaf.Draw(t, "leaf")
				backlogs[backlog].Park(number(g))
				parked[[2]any{backlog, g}] = true
			},
			"unpark": func(t *rapid.T) {
				backlog, g := which.Draw(t, "backlog"), leaf.Draw(t, "leaf")
				backlogs[backlog].Unpark(number(g))
				delete(parked, [2]any{backlog, g})
			},
			"install the same tree": func(t *rapid.T) {
				if err := s.Install(nodes); err != nil {
					t.Fatal(err)
				}
				for _, b := range backlogs {
					b.Rebuild(func(x *waiting) int { return x.leaf })
				}
				clear(parked)
			},
			"restart": func(t *rapid.T) {
				text, err := json.Marshal(s.Export())
				if err != nil {
					t.Fatal(err)
				}
				var image Image
				if err := json.Unmarshal(text, &image); err != nil {
					t.Fatal(err)
				}
				s = fresh()
				s.Import(image)
				if again := s.Export(); !reflect.DeepEqual(again, image) {
					t.Fatalf("exported again: %+v, want %+v", again, image)
				}
				for i := range backlogs {
					all := slices.Collect(backlogs[i].All())
					backlogs[i] = newWaiting(s)
					for _, h := range all {
						backlogs[i].Push(h.Leaf, h.Level, h.Item)
					}
				}
				clear(parked)
			},
			"": func(t *rapid.T) {
				for i, b := range backlogs {
					var serving uint8
					n := 0
					for level := range Levels {
						want := naive.first(at(i, level))
						got, ok := b.FirstAt(level)
						if ok != (want != nil) || ok && (got.Item != want.waiting || got.Leaf != want.leaf || got.Level != level) {
							t.Fatalf("the first of backlog %d at level %d is %+v, want %+v", i, level, got, want)
						}
						if want != nil {
							serving |= 1 << level
						}
					}
					if b.Serving() != serving {
						t.Fatalf("backlog %d serves %b, want %b", i, b.Serving(), serving)
					}
					if head, ok := b.First(0b0010); ok != (serving&^0b0010 != 0) || ok && head.Level != s.Turn(serving&^0b0010) {
						t.Fatalf("the first but of level 1 is %+v, %v", head, ok)
					}
					lens := map[[2]int]int{}
					b.Leaves(func(leaf, level, waiting int, isParked bool) {
						lens[[2]int{leaf, level}] = waiting
						if waiting == 0 || isParked != b.Parked(leaf) {
							t.Fatalf("%d wait in leaf %d, parked %v", waiting, leaf, isParked)
						}
					})
					for _, g := range leaves {
						for level := range Levels {
							var firstOf *waiting
							held := 0
							for _, x := range items {
								if x.backlog == i && x.group == g && x.level == level {
									held++
									if firstOf == nil || x.arrival < firstOf.arrival {
										firstOf = x.waiting
									}
								}
							}
							got, ok := b.At(number(g), level, 0) // parked or not
							if n += held; lens[[2]int{number(g), level}] != held || ok != (held > 0) || got != firstOf {
								t.Fatalf("%d wait in %s at level %d of backlog %d, want %d", lens[[2]int{number(g), level}], g.name, level, i,
									held)
							}
						}
						if b.Parked(number(g)) != parked[[2]any{i, g}] {
							t.Fatalf("%s is parked: %v", g.name, b.Parked(number(g)))
						}
					}
					if b.Len() != n || len(slices.Collect(b.All())) != n {
						t.Fatalf("%d wait in backlog %d, want %d", b.Len(), i, n)
					}
				}
				for _, x := range leaves {
					for _, y := range leaves {
						if got, want := s.Before(number(x), number(y)), naiveBefore(x, y); got != want {
							t.Fatalf("%s before %s: %v, want %v", x.name, y.name, got, want)
						}
					}
				}
				// The first of both: by what is first in each, and by looking at everything.
				serving := backlogs[0].Serving() | backlogs[1].Serving()
				if level := s.Turn(serving); bits.OnesCount8(serving) > 0 {
					var best Head[*waiting]
					for _, b := range backlogs {
						if head, ok := b.FirstAt(level); ok &&
							(best.Item == nil || head.Leaf != best.Leaf && s.Before(head.Leaf, best.Leaf) ||
								head.Leaf == best.Leaf && b.before(head.Item, best.Item)) {
							best = head
						}
					}
					if want := naive.first(append(at(0, level), at(1, level)...)); best.Item != want.waiting {
						t.Fatalf("the first of both is %+v, want %+v", best.Item, want.waiting)
					}
				}
			},
		})
	})
}

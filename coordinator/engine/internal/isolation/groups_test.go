package isolation

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// task of the tests: the smaller due goes first.
type task struct {
	due    int
	class  string
	leaf   int
	ticket Ticket[*task, string]
}

func newGroups() Groups[*task, string] {
	return New(func(a, b *task) int { return cmp.Compare(a.due, b.due) },
		func(t *task) *Ticket[*task, string] { return &t.ticket })
}

func (t *task) joins(g *Groups[*task, string]) *task { g.Add(t, t.class, t.leaf, 0); return t }

func all(*Group[*task, string]) bool { return true }
func each(*task) bool                { return true }

// TestFirst: the first of those that are first in a group, as far as its group and it may be served.
func TestFirst(t *testing.T) {
	g := newGroups()
	if _, ok := g.First(all, each); ok || !g.Empty() {
		t.Error("none waits")
	}
	go1 := (&task{due: 1, class: "go"}).joins(&g)
	go2 := (&task{due: 2, class: "go"}).joins(&g)
	run := (&task{due: 3, class: "run"}).joins(&g)
	other := (&task{due: 4, class: "go", leaf: 1}).joins(&g)
	notGo := func(g *Group[*task, string]) bool { return g.Class != "go" }
	for _, c := range []struct {
		name  string
		group func(*Group[*task, string]) bool
		may   func(*task) bool
		want  *task
	}{
		{"of all", all, each, go1},
		{"not of that class", notGo, each, run},
		{"not behind one that may not", all, func(t *task) bool { return t != go1 }, run},
		{"another leaf is another group", all, func(t *task) bool { return t != go1 && t != run }, other},
		{"none", all, func(*task) bool { return false }, nil},
	} {
		if got, ok := g.First(c.group, c.may); got != c.want || ok != (c.want != nil) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	g.Remove(go1)
	g.Remove(go1) // no other leaves
	if got, _ := g.First(all, each); got != go2 || go1.ticket.Waits() || !go2.ticket.Waits() {
		t.Errorf("the next of that group: %+v", got)
	}
	go2.joins(&g) // it is there
	g.Remove(go2)
	if got, _ := g.First(all, each); got != run || !g.Has("go") || g.Has("walk") {
		t.Errorf("the other group of that class waits: %+v", got)
	}
	if g.Remove(other); g.Has("go") {
		t.Error("no task of that class waits")
	}
	if g.Clear(); !g.Empty() || run.ticket.Waits() || g.Has("run") {
		t.Error("none waits each more")
	}
}

// TestLook: a group whose first task was tried has no turn until the next look.
func TestLook(t *testing.T) {
	g := newGroups()
	first, second := (&task{due: 1, class: "go"}).joins(&g), (&task{due: 2, class: "run"}).joins(&g)
	g.Look()
	for _, want := range []*task{first, second} {
		got, _ := g.First(g.Turn, each)
		if got != want {
			t.Fatalf("%+v has its turn, want %+v", got, want)
		}
		g.Tried(got)
	}
	if got, ok := g.First(g.Turn, each); ok {
		t.Errorf("%+v has had its turn", got)
	}
	g.Remove(first)
	g.Tried(first) // which is nothing
	if g.Look(); !g.Turn(second.ticket.group) {
		t.Error("another look")
	}
}

// TestGroupsBalance: whatever comes and leaves, the groups agree with the tasks, and the first is the one that a pass
// over all of them finds.
func TestGroupsBalance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newGroups()
		var waiting []*task
		due := 0
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				due++
				waiting = append(waiting, (&task{
					due: due * rapid.SampledFrom([]int{-1, 1}).Draw(rt, "before"), leaf: rapid.IntRange(0, 1).Draw(rt, "leaf"),
					class: rapid.SampledFrom([]string{"go", "run"}).Draw(rt, "class"),
				}).joins(&g))
			},
			"remove": func(rt *rapid.T) {
				if len(waiting) == 0 {
					rt.Skip("none waits")
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(rt, "task")
				g.Remove(waiting[i])
				waiting = slices.Delete(waiting, i, i+1)
			},
			"": func(rt *rapid.T) {
				if err := g.Check(func(t *task) (string, bool) { return t.class, slices.Contains(waiting, t) }); err != nil {
					rt.Fatal(err)
				}
				first, ok := g.First(all, each)
				if ok != (len(waiting) > 0) || ok && first != slices.MinFunc(waiting, g.compare) {
					rt.Fatalf("the first of %d is %+v", len(waiting), first)
				}
			},
		})
	})
}

// TestCheckFindsFaults: each kind of what does not balance is found.
func TestCheckFindsFaults(t *testing.T) {
	for name, spoil := range map[string]func(g *Groups[*task, string], t *task){
		"place":    func(g *Groups[*task, string], t *task) { t.ticket.group.place = 7 },
		"key":      func(g *Groups[*task, string], t *task) { t.ticket.group.leaf = 7 },
		"ticket":   func(g *Groups[*task, string], t *task) { t.ticket.at = 7 },
		"no group": func(g *Groups[*task, string], t *task) { t.ticket.group = nil },
		"class":    func(g *Groups[*task, string], t *task) { t.class = "run" },
		"order":    func(g *Groups[*task, string], t *task) { t.due = 7 },
		"count":    func(g *Groups[*task, string], t *task) { g.byClass["go"]++ },
		"classes":  func(g *Groups[*task, string], t *task) { g.byClass["run"]++ },
		"lost":     func(g *Groups[*task, string], t *task) { g.of[key[string]{"run", 0, 0}] = nil },
	} {
		g := newGroups()
		first := (&task{due: 1, class: "go"}).joins(&g)
		(&task{due: 2, class: "go"}).joins(&g)
		is := func(t *task) (string, bool) { return t.class, true }
		if err := g.Check(is); err != nil {
			t.Fatal(err)
		}
		if spoil(&g, first); g.Check(is) == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

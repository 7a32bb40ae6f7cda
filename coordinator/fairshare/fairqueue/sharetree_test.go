package fairqueue

import (
	"fmt"
	"strings"
	"testing"
)

func TestWeightsChange(t *testing.T) {
	q := queue(t, "A 1; B 1")
	q.push("A", 200, 1)
	q.push("B", 200, 1)
	if got := q.served(20); got["A"] != 10 {
		t.Errorf("at 1:1 of 20: %v", got)
	}
	q.install(t, "A 3; B 1")
	if got := q.served(40); got["A"] != 30 {
		t.Errorf("at 3:1 of 40 that were waiting: %v, want A 30", got)
	}
	q.install(t, "B 1; A 3") // only the order of ties has changed
	if got := q.served(40); got["A"] != 30 {
		t.Errorf("at 3:1 of 40 once more: %v, want A 30", got)
	}
}

// What was served before costs the same afterwards: a lead of 100 is one of 100/2 at weight
// 2, in which time B, of weight 1, gets 50.
func TestWeightsChangeKeepsCost(t *testing.T) {
	q := queue(t, "A 1; B 1")
	q.push("A", 2, 100)
	q.push("B", 200, 1)
	q.next(0)
	q.install(t, "A 2; B 1")
	expect(t, "the order", q.order(51), strings.Repeat("B", 50)+"A") // at 0 to 49; A at 50
}

func TestReparenting(t *testing.T) {
	q := queue(t, "A 1; B 1; X 1; c 1 X")
	q.push("A", 10, 100)
	q.push("B", 100, 10)
	q.push("c", 100, 10)
	expect(t, "the order", q.order(3), "ABc") // A's tag is 100 now, those of B, X, c are 10
	q.install(t, "B 1; X 1; c 1 X; A 1 X")
	// In X, where A was served nothing, it begins at V = 0, and goes before c: X's tag is
	// 110 then. B goes at 10, 20, ..., 110, the latter two before X. In X it is c's turn.
	expect(t, "the order", q.order(13), "BA"+strings.Repeat("B", 10)+"c")
}

// Division leaves nothing over in the long run: 999,983 tasks of cost 1 at weight 999,983
// are one unit of cost at weight 1, 2^20, though each is 1.05 of virtual time.
func TestSharesDoNotDrift(t *testing.T) {
	const weight = 999_983
	q := queue(t, fmt.Sprint("A ", weight))
	A := q.Leaf("A")
	for range weight {
		q.Charge(A, 3)
		q.Correct(A, 3, 1)
	}
	g := q.groups[A]
	expect(t, "the tag", g.tag, 1<<20)
	expect(t, "the rest", g.rest, 0)
}

func TestLeaves(t *testing.T) {
	q := queue(t, "X 2; a 1 X; B 1")
	for group, want := range map[string]string{"X": "X", "a": "a", "B": "B", "": "other", "nobody": "other",
		"other": "other"} {
		expect(t, fmt.Sprintf("the name of %q's leaf", group), q.Name(q.Leaf(group)), want)
	}
	// X's own tasks are a child of weight 1 beside a; unknown groups together one beside X.
	q.push("X", 100, 1)
	q.push("a", 100, 1)
	q.push("nobody", 50, 1)
	q.push("", 50, 1)
	if got := q.served(60); got["X"] != 20 || got["a"] != 20 || got["nobody"]+got[""] != 20 {
		t.Errorf("of 60: %v, want 20 of X, of a, of others", got)
	}
	// Unless the tree says how much the others are worth.
	q = queue(t, "A 1; other 3")
	q.push("A", 100, 1)
	q.push("nobody", 100, 1)
	if got := q.served(40); got["A"] != 10 {
		t.Errorf("of 40: %v, want A 10", got)
	}
}

func TestInstallRefuses(t *testing.T) {
	q := queue(t, "A 1")
	leaf := q.Leaf("A")
	for what, tree := range map[string][]Node{
		"no name":          {{Parent: -1, Weight: 1}},
		"a name twice":     {{Name: "a", Parent: -1}, {Name: "a", Parent: -1}},
		"its own parent":   {{Name: "a", Parent: 0}},
		"a cycle":          {{Name: "a", Parent: 1}, {Name: "b", Parent: 0}},
		"a parent beyond":  {{Name: "a", Parent: 7}},
		"a parent before":  {{Name: "a", Parent: -2}},
		"a weight below 0": {{Name: "a", Parent: -1, Weight: -1}},
		"a weight beyond":  {{Name: "a", Parent: -1, Weight: MaxWeight + 1}},
	} {
		if q.Install(tree) == nil {
			t.Errorf("%s is taken", what)
		}
	}
	expect(t, "the leaf of before", q.Leaf("A"), leaf)
	q.push("A", 1, 1) // which panics if the tree has been replaced
}

// A backlog of a tree that is gone would charge some groups for others.
func TestBacklogOfAnOlderTree(t *testing.T) {
	q := queue(t, "A 1")
	if err := q.Install(nil); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("it is used")
		}
	}()
	q.push("", 1, 1)
}

// TestTimeBeginsAnew: it makes no difference when a virtual time has come to its bound:
// the same history is gone through at its beginning and across it.
func TestTimeBeginsAnew(t *testing.T) {
	const tree = "A 3; X 2; a 1 X; b 5 X; Z 0; Y 0"
	var orders []string
	for _, from := range []int64{0, timeBound - 1, timeBound - 300<<shareBits} {
		q := queue(t, tree)
		image := q.Export()
		for _, name := range []string{"", "X"} {
			image.Tags = append(image.Tags, Tags{Name: name, Time: [2]int64{from, from}})
		}
		q.Import(image)
		q.backlog.Rebuild(nil)
		for i, group := range []string{"A", "a", "b", "Z", "Y"} {
			q.push(group, 200, int64(7+3*i))
		}
		var b strings.Builder
		for i := range 1000 {
			x := q.next(10)
			b.WriteString(x.group)
			if i%3 == 0 {
				q.Correct(x.leaf, 10, x.cost)
			}
		}
		orders = append(orders, b.String())
		for i := range q.groups {
			for k, v := range q.groups[i].time {
				if v-timeOrigin[k] >= timeBound {
					t.Errorf("a virtual time is at %d", v)
				}
			}
		}
	}
	expect(t, "the order from just before the bound", orders[1], orders[0])
	expect(t, "the order across it", orders[2], orders[0])
}

// A bill that comes after a restart is for then, not for now: what V has passed since the
// call began is not owed once more.
func TestBillsAfterARestart(t *testing.T) {
	q := queue(t, "A 1; B 1")
	q.push("A", 2, 100)
	q.push("B", 100, 10)
	q.next(1) // A, to 1
	q.served(1)
	q.next(1)    // A, to 2
	q.served(50) // B, to 510: V is 500
	q.Correct(q.Leaf("A"), 1, 100)
	image := q.Export()
	q = queue(t, "A 1; B 1")
	q.Import(image)
	q.backlog.Rebuild(nil)
	q.Correct(q.Leaf("A"), 1, 100) // to 2 + 2·99 = 200
	q.push("A", 1, 100)
	q.push("B", 10, 10)
	expect(t, "the order", q.order(2), "AB")
}

package fairqueue

import (
	"fmt"
	"strings"
	"testing"
)

// waiting is an item of the tests: it knows its place, and goes in the order of arrival.
type waiting struct {
	group          string
	arrival, index int
	leaf, level    int
	cost           int64
}

func newWaiting(s *Shares) *Backlog[*waiting] {
	return NewBacklog(s, func(a, b *waiting) bool { return a.arrival < b.arrival },
		func(x *waiting, i int) { x.index = i })
}

// held is how many items wait at a leaf, at level 0.
func held(b *Backlog[*waiting], leaf int) int {
	if f := b.flows[flowKey{int32(leaf), 0}]; f != nil {
		return int(f.held)
	}
	return 0
}

// queueing is one backlog over one tree.
type queueing struct {
	*Shares
	backlog *Backlog[*waiting]
	arrival int
}

// queue makes one of a tree: "X 1; a 3 X; b 2 X" are X of weight 1 at the top and a and b
// in it.
func queue(t testing.TB, tree string) *queueing {
	t.Helper()
	s := NewShares()
	q := &queueing{Shares: s, backlog: newWaiting(s)}
	q.install(t, tree)
	return q
}

func (q *queueing) install(t testing.TB, tree string) {
	t.Helper()
	if err := q.Install(shareTree(tree)); err != nil {
		t.Fatal(err)
	}
	q.rebuild()
}

func (q *queueing) rebuild() {
	q.backlog.Rebuild(func(x *waiting) int {
		x.leaf = q.Leaf(x.group)
		return x.leaf
	})
}

func shareTree(tree string) (nodes []Node) {
	index := map[string]int{"": -1}
	for one := range strings.SplitSeq(tree, ";") {
		var name, parent string
		var weight int64
		fmt.Sscan(one, &name, &weight, &parent)
		index[name] = len(nodes)
		nodes = append(nodes, Node{Name: name, Weight: weight, Parent: index[parent]})
	}
	return nodes
}

// push n items of that cost each.
func (q *queueing) push(group string, n int, cost int64) {
	for range n {
		q.arrival++
		x := &waiting{group: group, arrival: q.arrival, leaf: q.Leaf(group), cost: cost}
		q.backlog.Push(x.leaf, x.level, x)
	}
}

// next dispatches the first item, charged that, or what it costs if that is 0.
func (q *queueing) next(estimate int64) *waiting {
	head, ok := q.backlog.First(0)
	if !ok {
		return nil
	}
	x := head.Item
	if estimate == 0 {
		estimate = x.cost
	}
	q.Charge(head.Leaf, estimate)
	q.backlog.Remove(head.Leaf, head.Level, x.index)
	return x
}

// order is the groups of the next n.
func (q *queueing) order(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(q.next(0).group)
	}
	return b.String()
}

// served counts the groups of the next n.
func (q *queueing) served(n int) map[string]int {
	counts := map[string]int{}
	for range n {
		counts[q.next(0).group]++
	}
	return counts
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestSharesByWeight(t *testing.T) {
	q := queue(t, "A 2; B 1")
	q.push("A", 10, 1)
	q.push("B", 10, 1)
	// Tags move by 1/2 and by 1; of equal ones A is the first:
	//	A 0 ½ . 1 1½ . 2 2½
	//	B . 0 1 . .  2 . .  3
	// A(0) B(0) A(½) A(1) B(1) A(1½) A(2) B(2) A(2½)
	expect(t, "the order at 2:1", q.order(9), "ABAABAABA")
}

func TestSharesByCost(t *testing.T) {
	q := queue(t, "A 1; B 1")
	q.push("A", 10, 100)
	q.push("B", 1000, 1)
	// A's first moves its tag to 100: B's tags 0 to 99 come before it, and A at 100.
	expect(t, "the order with costs 100 and 1", q.order(202), strings.Repeat("A"+strings.Repeat("B", 100), 2))
}

func TestSharesInATree(t *testing.T) {
	q := queue(t, "X 1; Y 1; a 3 X; b 2 X")
	for _, group := range []string{"a", "b", "Y"} {
		q.push(group, 100, 1)
	}
	// X and Y take turns; of X's 10, 3/5 are a's.
	for range 5 {
		got := q.served(20)
		if got["a"] != 6 || got["b"] != 4 || got["Y"] != 10 {
			t.Errorf("of 20: %v, want a 6, b 4, Y 10", got)
		}
	}
}

// 300 units divided by a tree of equal halves, of which one is divided 1:1:3 again: the
// numbers of Kueue's story of hierarchical cohorts. (What of it is about nominal quotas
// and borrowing is the ledger's.)
func TestSharesOfNestedHalves(t *testing.T) {
	q := queue(t, "X 1; Y 1; a 1 X; b 1 X; c 3 X")
	for _, group := range []string{"a", "b", "c", "Y"} {
		q.push(group, 300, 1)
	}
	got := q.served(300)
	if got["Y"] != 150 || got["a"] != 30 || got["b"] != 30 || got["c"] != 90 {
		t.Errorf("of 300: %v, want Y 150, a 30, b 30, c 90", got)
	}
	// c leaves: 150 of the next 300 are still X's, by halves.
	for {
		x, ok := q.backlog.At(q.Leaf("c"), 0, 0)
		if !ok {
			break
		}
		q.backlog.Remove(x.leaf, 0, x.index)
	}
	got = q.served(300)
	if got["Y"] != 150 || got["a"] != 75 || got["b"] != 75 {
		t.Errorf("of 300 without c: %v, want Y 150, a 75, b 75", got)
	}
}

// An hour of idling saves nothing up.
func TestSharesDoNotHoard(t *testing.T) {
	q := queue(t, "idle 1; busy 1")
	q.push("busy", 3600+1000, 1)
	q.push("idle", 1, 1)
	q.served(3601) // an hour at one a second
	q.push("idle", 100_000, 1)
	// It is due at V = 3599, the other at 3600. So it goes at 3599, and then both at 3600,
	// 3601, ...: 49 pairs are 98, and of the last pair it goes first. It does not have the
	// next 3,600 to itself.
	if got := q.served(100); got["idle"] != 51 || got["busy"] != 49 {
		t.Errorf("of 100: %v, want 51 and 49", got)
	}
}

// A flood by one group delays another's first task by one of the flood's.
func TestSharesOfAFlood(t *testing.T) {
	q := queue(t, "flood 1; late 1")
	q.push("flood", 100_000, 1)
	q.served(5000)
	q.push("late", 1, 1)
	// V is 4999, the start of the latest; the flood's tag is 5000. The bound of one
	// task of the flood in algorithms.md 1.3 is not even used up.
	expect(t, "the next", q.next(0).group, "late")
}

func TestDebtIsCapped(t *testing.T) {
	q := queue(t, "A 2; B 1")
	q.DebtCap = 1000
	q.push("A", 100, 10)
	q.push("B", 2000, 10)
	q.next(1)
	q.Correct(q.Leaf("A"), 1, 1_000_000_000)
	// A may lead by 1000/2 = 500: B, whose tag is 0, goes at 0, 10, ..., 490, which is 50
	// times, and A at 500, the first of equal ones. Without the cap it were 50 million.
	expect(t, "the order", q.order(51), strings.Repeat("B", 50)+"A")
}

// A bill does not bring down what charges have made of a tag that was ahead of the cap
// already.
func TestDebtCapForgivesNoCharges(t *testing.T) {
	q := queue(t, "A 1; B 1")
	q.DebtCap = 10
	q.push("A", 3, 500)
	q.push("B", 100, 100)
	q.next(500)
	q.Correct(q.Leaf("A"), 500, 501)
	expect(t, "the order", q.order(6), "BBBBBA") // at 0 to 400, and A at 500
}

func TestDebtOutlastsIdling(t *testing.T) {
	q := queue(t, "A 1; B 1")
	q.push("A", 1, 50)
	q.push("B", 100, 10)
	q.next(0)
	q.served(2) // B at 0 and 10: V is 10
	q.push("A", 1, 50)
	expect(t, "the order", q.order(4), "BBBA") // B at 20, 30, 40; A at 50
}

func TestWeightless(t *testing.T) {
	q := queue(t, "W 1; Y 0; Z 0")
	q.push("Z", 20, 1)
	q.push("Y", 20, 2)
	q.push("W", 3, 1_000_000)
	// W first, whatever it costs; then Y and Z alike: each 2 of cost in turn.
	expect(t, "the order", q.order(12), "WWW"+"YZZYZZYZZ")
	q.push("W", 2, 1) // its tag is 3,000,000: all the same
	expect(t, "the order", q.order(5), "WWYZZ")
	// Of weight again: what it is ahead of those without means nothing among the others.
	// With weight now, Y shares with W: both lead by 1 over the virtual times that they come
	// from (W by its last task of 1; Y went at 6, to 8, and Z at 7 after it).
	q.install(t, "W 1; Y 1; Z 0")
	q.push("W", 10, 2)
	expect(t, "the order", q.order(8), "WYWYWYWY")
}

func TestCorrections(t *testing.T) {
	q := queue(t, "A 1; B 1")
	q.push("A", 10, 10)
	q.push("B", 10, 10)
	A := q.Leaf("A")
	expect(t, "the first", q.next(100).group, "A")
	expect(t, "the next", q.order(1), "B")
	q.Correct(A, 100, 10) // as if it had been charged 10: both are due at 10
	expect(t, "the order", q.order(2), "AB")
	q.next(1)           // A at 20, to 21
	q.Correct(A, 1, 30) // to 50
	expect(t, "the order", q.order(4), "BBBA")
}

// All of a refund comes back, however many calls are open.
func TestRefundsOfSeveralCalls(t *testing.T) {
	q := queue(t, "A 1; B 1")
	q.push("A", 100, 10)
	q.push("B", 100, 10)
	for range 3 { // A at 0, 100, 200; B ten times between
		expect(t, "whose turn it is", q.next(100).group, "A")
		expect(t, "the order", q.order(10), strings.Repeat("B", 10))
	}
	for range 3 {
		q.Correct(q.Leaf("A"), 100, 10)
	}
	// A has had 30 and B 300. A goes at 30, 40, ..., 300; then each has had 300, and A, the
	// first of equal ones, 10 more.
	expect(t, "the order", q.order(29), strings.Repeat("A", 28)+"B")
}

// What was charged before V overtook an idle group has been forgiven: its refund is no
// credit to be used later.
func TestRefundsAfterIdling(t *testing.T) {
	q := queue(t, "A 1; B 1")
	q.push("A", 1, 10)
	q.push("B", 200, 10)
	q.next(100)  // A, to 100
	q.served(50) // B, to 500: V is 490
	q.push("A", 100, 10)
	q.Correct(q.Leaf("A"), 100, 10)
	expect(t, "the order", q.order(4), "AABA") // A at 490, not at 400; then both at 500
}

// A group that waits but cannot be served goes first when it can, for LagCap and a task.
func TestLagIsCapped(t *testing.T) {
	q := queue(t, "A 1; B 1")
	q.LagCap = 100
	q.push("A", 100, 10)
	q.push("B", 100, 10)
	q.backlog.Park(q.Leaf("A"))
	expect(t, "the order", q.order(50), strings.Repeat("B", 50)) // V is 490, B's tag 500
	q.backlog.Unpark(q.Leaf("A"))
	// A at 0, which counts as 490 - 100 = 390; at 400, ..., 490, and at 500 before B.
	expect(t, "the order", q.order(13), strings.Repeat("A", 12)+"B")
}

package admission

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/fairqueue"
)

// epoch is when the tests begin.
var epoch = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// harness is a kernel in miniature: classes of tasks that each take quota, with as many slots as are free. It
// does what each Step says, and nothing else.
type harness struct {
	*Waits
	t        *testing.T
	now      time.Time
	classes  []*testClass
	added    int
	served   []*testTask // in the order in which they got quota
	refused  int         // tasks, by the ledger or behind a head
	blocked  int         // waits, without their task having been tried
	unparked int
}

// testClass is a class of tasks.
type testClass struct {
	ClassState
	waiting *fairqueue.Backlog[*testTask]
	slots   int // free ones
}

func (c *testClass) Serving() uint8 { return c.waiting.Serving() }

func (c *testClass) FirstLeaf(level int) (int, bool) {
	h, ok := c.waiting.FirstAt(level)
	return h.Leaf, ok
}

func (c *testClass) TakenBy(int) bool       { return true }
func (c *testClass) Admission() *ClassState { return &c.ClassState }

// testTask is a task of one group.
type testTask struct {
	class       *testClass
	group       string
	leaf, level int
	seq, index  int
	key         coordinator.TaskKey
	charge      fairshare.Charge
}

// newHarness is one whose ledger has a pool with these groups, of equal weights; change may limit them, by ID.
func newHarness(t *testing.T, change func(n *coordinator.QuotaNode), groups ...string) *harness {
	t.Helper()
	q := &coordinator.Quotas{ReservationTTL: time.Hour, TombstoneTTL: time.Hour}
	q.Nodes = []coordinator.QuotaNode{{ID: "pool", Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1}}
	for _, name := range groups {
		n := coordinator.QuotaNode{ID: "pool/" + name, Kind: coordinator.QuotaGroup, Name: name, Weight: 1}
		q.Nodes = append(q.Nodes, n)
	}
	if change != nil {
		for i := range q.Nodes {
			change(&q.Nodes[i])
		}
	}
	shares, ledger := fairqueue.NewShares(), fairshare.NewLedger()
	shares.Order(coordinator.PriorityOrder{})
	if err := shares.Install(fairqueue.NodesOf(q)); err != nil {
		t.Fatal(err)
	}
	ledger.Install(epoch, q)
	return &harness{Waits: New(ledger, shares, testTasksInOrder), t: t, now: epoch}
}

// class adds a class with so many free slots.
func (h *harness) class(slots int) *testClass {
	c := &testClass{slots: slots}
	before := func(a, b *testTask) bool { return a.seq < b.seq }
	c.waiting = fairqueue.NewBacklog(h.shares, before, func(x *testTask, i int) { x.index = i })
	h.classes = append(h.classes, c)
	return c
}

// add has a task wait that takes these amounts.
func (h *harness) add(c *testClass, group string, level coordinator.Priority, a coordinator.Amounts) *testTask {
	h.added++
	x := &testTask{class: c, group: group, leaf: h.shares.Leaf(group), level: int(level), seq: h.added}
	x.key[0] = uint64(x.seq)
	x.charge = fairshare.Charge{Group: group, Amounts: a, Expect: billing.Weigh(&a)}
	c.waiting.Push(x.leaf, x.level, x)
	for _, w := range h.Overtaken(c, x.leaf, x.level, x) {
		h.unpark(w)
	}
	return x
}

func testTasksInOrder(a, b any) bool { return a.(*testTask).seq < b.(*testTask).seq }

func (h *harness) unpark(w *Wait) {
	if h.unparked++; w.Leaf >= 0 {
		w.Class.(*testClass).waiting.Unpark(w.Leaf)
	}
}

// limits has nodes have so many seats, by name.
func limits(seats map[string]int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		if most, is := seats[n.Name]; is {
			n.Seats = &coordinator.QuotaLimit{Nominal: most}
		}
	}
}

// end ends a task that was served: nothing was used, and its slot is free.
func (h *harness) end(x *testTask) {
	h.ledger.Release(h.now, x.key, false)
	x.class.slots++
}

// leave has a task wait no more.
func (h *harness) leave(x *testTask) {
	h.Left(x.class, x.leaf, x)
	x.class.waiting.Remove(x.leaf, x.level, x.index)
}

// run runs a round, and checks what is left.
func (h *harness) run() {
	h.t.Helper()
	h.Begin(h.now)
	for s, ok := h.Next(h); ok; s, ok = h.Next(h) {
		for _, w := range s.Unpark {
			h.unpark(w)
		}
		if s.Blocked != nil {
			h.blocked++
		}
		n := len(h.served)
		served := s.Levels != 0 && h.serve(s)
		h.Done(served, len(h.served) > n)
	}
	for _, v := range append(h.Check(), h.CheckServed(h.now, h)...) {
		h.t.Fatalf("%+v: %s", v.Wait, v.Text)
	}
	if h.Paused() {
		return
	}
	for _, w := range h.All() { // none waits for what is there, unless behind a head
		if !h.Servable(w.Class) || w.Behind() != nil {
			continue
		}
		path := h.ledger.PathOf(w.Charge)
		if _, ahead := h.Ahead(h.now, *w.Charge, w.Level); ahead {
			continue
		}
		if v := h.ledger.Explain(h.now, &path, w.Charge).Verdict; v.OK {
			h.t.Fatalf("task %d of %s waits for %+v, and there is enough", w.Task.(*testTask).seq, w.Task.(*testTask).group,
				w.Lacks)
		}
	}
}

// serve gives quota to the first task at a level of the step, or parks it.
func (h *harness) serve(s Step) bool {
	levels := h.levels() & s.Levels
	if levels == 0 {
		return false
	}
	x := h.first(h.shares.Turn(levels))
	x.class.waiting.Remove(x.leaf, x.level, x.index)
	v, ahead := h.Ahead(h.now, x.charge, x.level)
	if !ahead {
		v = h.ledger.Reserve(h.now, x.key, &x.charge, time.Time{})
	}
	if v.OK {
		h.shares.Charge(x.leaf, x.charge.Expect)
		h.shares.Served(x.level, levels|s.Others)
		x.class.slots--
		h.served = append(h.served, x)
		return true
	}
	h.refused++
	x.class.waiting.Push(x.leaf, x.level, x)
	w := &Wait{Class: x.class, Leaf: x.leaf, Level: x.level, Task: x, Charge: &x.charge, Lacks: v}
	if h.Park(h.now, w, x.group); w.Leaf >= 0 {
		x.class.waiting.Park(w.Leaf)
	}
	return true
}

// first is the task that goes first at a level of those that wait for an agent alone.
func (h *harness) first(level int) (first *testTask) {
	for _, c := range h.classes {
		if c.slots == 0 || c.Whole != nil {
			continue
		}
		if x, ok := c.waiting.FirstAt(level); ok && (first == nil || h.shares.Before(x.Leaf, first.leaf)) {
			first = x.Item
		}
	}
	return first
}

// Servable and First are the View of the round.
func (h *harness) Servable(c Class) bool { return c.(*testClass).slots > 0 }

func (h *harness) First(others uint8) (level, leaf int, ok bool) {
	level = h.shares.Turn(h.levels() | others)
	if x := h.first(level); x != nil {
		return level, x.leaf, true
	}
	return level, 0, false
}

func (h *harness) levels() (levels uint8) {
	for _, c := range h.classes {
		if c.slots > 0 && c.Whole == nil {
			levels |= c.Serving()
		}
	}
	return levels
}

// order is the groups of what was served since, a letter each.
func (h *harness) order(from int) (s string) {
	for _, x := range h.served[from:] {
		s += x.group
	}
	return s
}

// Amounts of one dimension.
func requests(n int64) (a coordinator.Amounts) { a[coordinator.DimRequests] = n; return a }
func seats(n int64) (a coordinator.Amounts)    { a[coordinator.DimConcurrency] = n; return a }

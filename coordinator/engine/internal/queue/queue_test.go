package queue

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/fairshare/fairqueue"
)

// task is of one class, and goes before those with a larger due.
type task struct {
	name               string
	class              *class
	leaf, level, index int
	due                int
}

// class is a record of a class; named as the class's key.
type class struct {
	Class[*task, *class]
	name string
	kept bool
}

// rig is a queue of these with two groups of equal weights, x and y, over agents 0 to 3.
type rig struct {
	Queue[*task, *class]
	t      *testing.T
	shares *fairqueue.Shares
}

func newRig(t *testing.T) *rig {
	t.Helper()
	shares := fairqueue.NewShares()
	shares.Order(coordinator.PriorityOrder{Strict: true})
	err := shares.Install(fairqueue.NodesOf(&coordinator.Quotas{Nodes: []coordinator.QuotaNode{
		{ID: "pool", Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1},
		{ID: "pool/x", Kind: coordinator.QuotaGroup, Name: "x", Weight: 1},
		{ID: "pool/y", Kind: coordinator.QuotaGroup, Name: "y", Weight: 1},
	}}))
	if err != nil {
		t.Fatal(err)
	}
	before := func(a, b *task) bool { return a.due < b.due }
	return &rig{t: t, shares: shares, Queue: New[*class](shares, before, func(x *task, i int) { x.index = i })}
}

func agents(numbers ...int) agentset.Set {
	s := agentset.New(4)
	for _, n := range numbers {
		s.Add(n)
	}
	return s
}

// class adds a class that these agents can take.
func (r *rig) class(name string, usable ...int) *class {
	c := &class{name: name}
	r.Start(&c.Class, []byte(name), c)
	c.Usable = agents(usable...)
	r.Keep(&c.Class, func(o *class) bool { return o.kept })
	return c
}

// push has a task of a group wait.
func (r *rig) push(c *class, name, group string, level coordinator.Priority, due int) *task {
	x := &task{name: name, class: c, leaf: r.shares.Leaf(group), level: int(level), due: due, index: -1}
	r.Push(&c.Class, x.leaf, x.level, x)
	return x
}

func (r *rig) take(x *task) { r.Take(&x.class.Class, x.leaf, x.level, x.index) }

// drain takes all of a line, puts each class back, and charges the group for each.
func (r *rig) drain(l Line[*task, *class]) (names []string) {
	defer l.End()
	for c, x, _ := l.Take(); c != nil; c, x, _ = l.Take() {
		names = append(names, x.name)
		r.take(x)
		r.shares.Charge(x.leaf, 10)
		l.Back(c)
	}
	return names
}

func (r *rig) check() {
	r.t.Helper()
	for c := range r.All() {
		if wrong := r.Check(&c.Class); wrong != "" {
			r.t.Errorf("class %s: %s", c.name, wrong)
		}
	}
}

const (
	normal = coordinator.PriorityNormal
	high   = coordinator.PriorityHigh
)

func TestDue(t *testing.T) {
	accepted := epoch
	for after, want := range map[time.Duration]time.Duration{
		0:                time.Hour, // no deadline
		10 * time.Minute: 10 * time.Minute,
		2 * time.Hour:    time.Hour, // later than if it had none: it counts as none
	} {
		x := &coordinator.Task{AcceptedAt: accepted}
		if after > 0 {
			x.Deadline = accepted.Add(after)
		}
		if got := time.Unix(0, Due(x)).Sub(accepted); got != want {
			t.Errorf("deadline after %v: due after %v, want %v", after, got, want)
		}
	}
}

// TestLineOfAnAgent: the higher priority first, then the groups in turn, 10 of cost each, then what is due
// first, across the classes that the agent can take.
func TestLineOfAnAgent(t *testing.T) {
	r := newRig(t)
	a, b, other := r.class("a", 0, 1), r.class("b", 0), r.class("other", 1)
	r.push(a, "x3", "x", normal, 3)
	r.push(a, "x1", "x", normal, 1)
	r.push(b, "x2", "x", normal, 2)
	r.push(b, "y9", "y", normal, 9)
	r.push(a, "high", "y", high, 100)
	r.push(other, "not its", "x", high, 0)
	r.check()
	// y has been charged 10 for its high one: x has its turn, then both in turn; of equals x is first.
	want := []string{"high", "x1", "x2", "y9", "x3"}
	if got := r.drain(r.LineOf(0)); !slices.Equal(got, want) {
		t.Errorf("agent 0 is given %v, want %v", got, want)
	}
	if got := r.drain(r.LineOf(1)); !slices.Equal(got, []string{"not its"}) {
		t.Errorf("agent 1 is given %v", got)
	}
	if r.check(); len(r.Active()) > 0 {
		t.Errorf("%d classes are active, and nothing waits", len(r.Active()))
	}
}

// TestReach: what waits that an agent could have; tasks of a group that is parked wait for more than an agent.
func TestReach(t *testing.T) {
	r := newRig(t)
	a, b := r.class("a", 0, 1), r.class("b", 1)
	x := r.push(a, "x", "x", normal, 1)
	r.push(a, "y", "y", normal, 2)
	r.push(b, "z", "x", normal, 3)
	a.Park(x.leaf)
	for agent, want := range map[int]string{-1: "[] 0", 0: "[a] 1", 1: "[a b] 2", 2: "[] 0"} {
		of, tasks := r.Reach(agent)
		keys := make([]string, len(of))
		for i, c := range of {
			keys[i] = c.Key
		}
		if got := fmt.Sprint(keys, " ", tasks); got != want {
			t.Errorf("agent %d: %s, want %s", agent, got, want)
		}
	}
}

// TestLineForAgents: it has the classes that one of the agents can take, at the levels that are to be served, and
// what has come meanwhile.
func TestLineForAgents(t *testing.T) {
	r := newRig(t)
	a, b := r.class("a", 0), r.class("b", 1)
	r.push(a, "a1", "x", normal, 1)
	r.push(b, "b0", "x", normal, 0)
	r.push(a, "a2", "x", high, 2)
	if got := r.drain(r.LineFor(agents(2, 3), fairqueue.AllLevels, 0)); len(got) > 0 {
		t.Errorf("agents 2 and 3 are given %v", got)
	}
	l := r.LineFor(agents(0, 3), 1<<normal, 1<<coordinator.PriorityLow)
	if got := l.Levels(); got != 1<<normal|1<<high {
		t.Errorf("the levels are %b", got)
	}
	c, x, levels := l.Take()
	if c != &a.Class || x.name != "a1" || levels != 1<<normal|1<<high|1<<coordinator.PriorityLow {
		t.Fatalf("the first is %+v, of the levels %b", x, levels)
	}
	if c, x, _ := l.Take(); c != nil {
		t.Errorf("its class was taken and is not back, and %s is next", x.name)
	}
	r.push(a, "a0", "x", normal, 0)
	l.Back(&a.Class)
	if _, x, _ := l.Take(); x == nil || x.name != "a0" {
		t.Errorf("after one that goes first has come, %+v is next", x)
	}
	l.End()
	if c, x, leaf := l.First(int(high)); c != nil {
		t.Errorf("%s of leaf %d is first in a line of which its class was taken", x.name, leaf)
	}
}

// TestPeek: the level that has its turn, and what goes next there, without taking it; and how much waits by leaf.
func TestPeek(t *testing.T) {
	r := newRig(t) // in a strict order
	a, b := r.class("a", 0), r.class("b", 1)
	r.push(a, "a1", "x", normal, 1)
	r.push(a, "a2", "y", normal, 2)
	r.push(b, "b", "y", high, 0)
	x, y := r.shares.Leaf("x"), r.shares.Leaf("y")
	for _, c := range []struct {
		agent, level int
		others       uint8
		leaf         int
		ok           bool
	}{
		{0, int(normal), 0, x, true}, {1, int(high), 0, y, true},
		{0, int(high), 1 << high, 0, false}, // something else waits there, and nothing of the line
		{0, int(normal), 1 << coordinator.PriorityLow, x, true}, {2, -1, 0, 0, false},
	} {
		l := r.LineFor(agents(c.agent), fairqueue.AllLevels, c.others)
		if c.level < 0 {
			if levels := l.Levels(); levels != 0 {
				t.Errorf("agent %d: levels %b", c.agent, levels)
			}
			continue
		}
		if level, leaf, ok := l.Peek(); level != c.level || leaf != c.leaf || ok != c.ok {
			t.Errorf("%+v: level %d, leaf %d, %v", c, level, leaf, ok)
		}
	}
	a.Park(y)
	b.Park(-1)
	all, parked := r.ByLeaf(r.shares.Leaves())
	if all[x] != 1 || all[y] != 2 || parked[x] != 0 || parked[y] != 2 {
		t.Errorf("%v wait, %v of them parked", all, parked)
	}
}

// TestTwoLines: one that is made while another is in use does not have its room.
func TestTwoLines(t *testing.T) {
	r := newRig(t)
	r.push(r.class("a", 0, 2), "a", "x", normal, 1)
	r.push(r.class("b", 1, 2), "b", "x", normal, 1)
	former := r.LineOf(2)
	former.End() // which leaves room for two
	one := r.LineOf(0)
	two := r.LineOf(1)
	if got := fmt.Sprint(r.drain(one), r.drain(two)); got != "[a] [b]" {
		t.Errorf("the lines have %s", got)
	}
}

func TestParking(t *testing.T) {
	r := newRig(t)
	c := r.class("c", 0)
	r.push(c, "x", "x", normal, 1)
	r.push(c, "y", "y", normal, 2)
	x, y := r.shares.Leaf("x"), r.shares.Leaf("y")
	tests := []struct {
		parked   []int // leaves; -1: all
		first    string
		servable int
	}{
		{nil, "x", 2},
		{[]int{x}, "y", 1},
		{[]int{x, y}, "", 0},
		{[]int{-1}, "", 0},
		{[]int{-1, y}, "", 0},
		{nil, "x", 2},
	}
	for _, tt := range tests {
		for _, leaf := range tt.parked {
			c.Park(leaf)
		}
		name := ""
		if first := c.First(); first != nil {
			name = first.name
		}
		l := r.LineOf(0)
		next, _, _ := l.Take()
		l.End()
		if name != tt.first || c.Servable() != tt.servable || (next != nil) != (tt.first != "") {
			t.Errorf("%v parked: first %q of %d, in line %v; want %q of %d",
				tt.parked, name, c.Servable(), next != nil, tt.first, tt.servable)
		}
		for _, leaf := range []int{-1, x, y} {
			if c.Parked(leaf) != slices.Contains(tt.parked, leaf) {
				t.Errorf("%v parked: leaf %d is: %v", tt.parked, leaf, c.Parked(leaf))
			}
			c.Unpark(leaf)
		}
	}
}

// TestPlaces: classes are active while tasks wait in them, whatever the order in which these go.
func TestPlaces(t *testing.T) {
	r := newRig(t)
	var all []*task
	var classes []*class
	for i := range 20 {
		if i < 5 {
			classes = append(classes, r.class(fmt.Sprint("c", i), 0))
		}
		all = append(all, r.push(classes[i%5], fmt.Sprint(i), "x", normal, i))
	}
	for i, n := range []int{7, 2, 12, 17, 0, 19, 4, 9, 14, 1, 3, 5, 6, 8, 10, 11, 13, 15, 16, 18} {
		x := all[n]
		if !x.class.Holds(x, x.leaf, x.level, x.index) {
			t.Errorf("%s is not at its place", x.name)
		}
		if r.take(x); x.index != -1 || x.class.Holds(x, x.leaf, x.level, 0) {
			t.Errorf("%s has left, and is at %d", x.name, x.index)
		}
		r.check()
		waiting := 0
		for _, c := range r.Active() {
			waiting += c.Waiting.Len()
		}
		if waiting != 19-i {
			t.Errorf("%d wait, want %d", waiting, 19-i)
		}
		if t.Failed() {
			break
		}
	}
}

// TestClear: everything is out, in the order in which it would have gone, and may come again.
func TestClear(t *testing.T) {
	r := newRig(t)
	a, b := r.class("a", 0), r.class("b", 0)
	var all []*task
	for i, due := range []int{5, 2, 8, 1} {
		all = append(all, r.push(a, fmt.Sprint("a", due), "x", normal, due))
		all = append(all, r.push(b, fmt.Sprint("b", due), "y", high, 9-i))
	}
	out := r.Clear()
	names := func(list []*task, of *class) (names []string) {
		for _, x := range list {
			if x.class == of {
				names = append(names, x.name)
			}
		}
		return names
	}
	if got := names(out, a); !slices.Equal(got, []string{"a1", "a2", "a5", "a8"}) {
		t.Errorf("out of a: %v", got)
	}
	if got := names(out, b); !slices.Equal(got, []string{"b1", "b8", "b2", "b5"}) { // due at 6, 7, 8, 9
		t.Errorf("out of b: %v", got)
	}
	for _, x := range all {
		if x.index != -1 {
			t.Errorf("%s is at place %d", x.name, x.index)
		}
		r.Push(&x.class.Class, x.leaf, x.level, x)
	}
	r.check()
	slices.SortFunc(all, func(x, y *task) int { return cmp.Compare(x.due, y.due) })
	if got := a.First(); got.name != "a1" {
		t.Errorf("%s is the first now", got.name)
	}
	r.Clear()
	if r.Forget(); len(r.classes) != 0 || r.Find([]byte("a")) != nil {
		t.Errorf("%d classes are known", len(r.classes))
	}
}

// TestIdleClasses: of those in which none waits 1,024 are kept, and those that are in use besides.
func TestIdleClasses(t *testing.T) {
	r := newRig(t)
	for i := range 10 {
		r.class(fmt.Sprint("kept", i)).kept = true
		r.push(r.class(fmt.Sprint("busy", i)), "x", "x", normal, i)
	}
	most := 0
	for i := range 3 * MaxIdle {
		r.class(fmt.Sprint("idle", i))
		most = max(most, len(r.classes))
	}
	if most != MaxIdle+20 { // 10 that are kept and 10 that are busy
		t.Errorf("%d classes are known at most, want %d", most, MaxIdle+20)
	}
	for i := range 10 {
		for _, name := range []string{"kept", "busy"} {
			if r.Find([]byte(fmt.Sprint(name, i))) == nil {
				t.Errorf("%s%d is forgotten", name, i)
			}
		}
	}
	r.check()
}

// TestCheckOfClasses: each way in which a class may be at a wrong place is told.
func TestCheckOfClasses(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, c *class){
		"":                   func(*rig, *class) {},
		"under another key":  func(r *rig, c *class) { c.Key = "other" },
		"at another place":   func(r *rig, c *class) { c.active = 1 },
		"at no place":        func(r *rig, c *class) { c.active = 7 },
		"not active":         func(r *rig, c *class) { c.active = -1 },
		"active and nothing": func(r *rig, c *class) { c.Waiting.Remove(r.shares.Leaf("x"), int(normal), 0) },
	} {
		r := newRig(t)
		c := r.class("c", 0)
		r.push(c, "x", "x", normal, 1)
		r.push(r.class("d", 0), "y", "x", normal, 1)
		spoil(r, c)
		if wrong := r.Check(&c.Class); (wrong != "") != (name != "") {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

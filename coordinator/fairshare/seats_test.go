package fairshare

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// running is a charge of seats.
func running(group string, n int64) *Charge {
	return &Charge{Group: group, Amounts: coordinator.Amounts{coordinator.DimConcurrency: n}}
}

func seatsView(t testing.TB, l *Ledger, node string) SeatsView {
	t.Helper()
	n, ok := l.Node(l.Now(), node)
	if !ok || n.Seats == nil {
		t.Fatalf("%s: %+v", node, n)
	}
	return *n.Seats
}

// TestSeatsStory is Kueue's third story of hierarchical fair sharing: 300 divided 150/150, and
// one half 30/30/90 (weights 1:1:3). A group that is alone has all 300; when all want all, they
// come to their parts by attrition.
func TestSeatsStory(t *testing.T) {
	part := seatsOf(coordinator.ByWeight)
	l := newTree(seatsOf(300)).group("x", "pool", part).group("y", "pool", part).
		group("x1", "x", part).group("x2", "x", part).group("x3", "x", weight(3), part).ledger()
	for node, want := range map[string]int64{"pool": 300, "pool/x": 150, "pool/y": 150, "pool/x/x1": 30, "pool/x/x2": 30,
		"pool/x/x3": 90} {
		if s := seatsView(t, l, node); s.Nominal != want || s.Available != 300 {
			t.Errorf("%s has %d, may have %d; want %d of 300", node, s.Nominal, s.Available, want)
		}
	}
	var seated []coordinator.TaskKey
	of := map[string][]coordinator.TaskKey{}
	n := 0
	take := func(group string) bool {
		n++
		v := l.Reserve(epoch, id(n), running(group, 1), time.Time{})
		if v.OK {
			seated, of[group] = append(seated, id(n)), append(of[group], id(n))
		}
		return v.OK
	}
	for take("x1") {
	}
	if len(of["x1"]) != 300 {
		t.Fatalf("alone it has %d", len(of["x1"]))
	}
	wants := []string{"x1", "y", "x2", "x3"}
	for _, g := range wants {
		p := l.PathOf(running(g, 1))
		l.Wait(&p, 1000)
	}
	// Always the oldest ends, and every group asks for its seat, x1 first.
	for range 300 {
		l.Release(epoch, seated[0], false)
		seated = seated[1:]
		got := 0
		for _, g := range wants {
			if take(g) {
				got++
			}
		}
		if got != 1 {
			t.Fatalf("%d seats given for one", got)
		}
	}
	for node, want := range map[string]int64{"pool/y": 150, "pool/x/x1": 30, "pool/x/x2": 30, "pool/x/x3": 90} {
		if s := seatsView(t, l, node); s.Running != want {
			t.Errorf("%s: %d running, want %d", node, s.Running, want)
		}
	}
}

// TestSeatsWorkConserving: one waits below its part, and there are seats for all: none is kept from them.
func TestSeatsWorkConserving(t *testing.T) {
	part := seatsOf(coordinator.ByWeight)
	l := newTree(seatsOf(10)).group("a", "pool", part).group("b", "pool", part).ledger()
	p := l.PathOf(running("b", 1))
	l.Wait(&p, 2)
	got := 0
	for l.Reserve(epoch, id(got), running("a", 1), time.Time{}).OK {
		got++
	}
	if got != 8 {
		t.Errorf("a has %d of 10, want all but the two that b waits for", got)
	}
	l.Wait(&p, -2)
	if v := l.Reserve(epoch, id(100), running("a", 2), time.Time{}); !v.OK {
		t.Errorf("none waits any more: %+v", v)
	}
	if v := l.Reserve(epoch, id(101), running("a", 11), time.Time{}); v.OK || !v.Permanent {
		t.Errorf("more than there are at all: %+v", v)
	}
	if v := l.Reserve(epoch, id(101), running("a", 1), time.Time{}); v.OK || v.Permanent || !v.RetryAt.IsZero() {
		t.Errorf("until one comes back: %+v", v)
	}
}

// availableByTheBook is Kueue's formula (algorithms.md §1.2), from the limits and what runs
// alone.
func availableByTheBook(q *coordinator.Quotas, nominal []int64, running []int64, leaf int) int64 {
	n := len(q.Nodes)
	sub, local, use := make([]int64, n), make([]int64, n), make([]int64, n)
	bound := func(b coordinator.Bound, i int) int64 {
		switch b.Kind {
		case coordinator.BoundAmount:
			return b.Value
		case coordinator.BoundPercent:
			return nominal[i] * b.Value / 100
		}
		return 1 << 40
	}
	for i := n - 1; i >= 0; i-- {
		sub[i] += nominal[i] // its own: what it has less its children's, and what those lend
		use[i] += running[i]
		local[i] = max(0, sub[i]-bound(q.Nodes[i].Seats.Lend, i))
		if p := q.Nodes[i].Parent; p >= 0 {
			sub[p] += sub[i] - local[i] - nominal[i]
			use[p] += max(0, use[i]-local[i])
		}
	}
	var avail func(i int) int64
	avail = func(i int) int64 {
		if q.Nodes[i].Parent < 0 {
			return sub[i] - use[i]
		}
		borrow := bound(q.Nodes[i].Seats.Borrow, i)
		if q.Nodes[i].Borrowing.Rule == coordinator.BorrowNever {
			borrow = 0
		}
		return max(0, local[i]-use[i]) + min(avail(q.Nodes[i].Parent), sub[i]-local[i]-max(0, use[i]-local[i])+borrow)
	}
	return avail(leaf)
}

// TestSeatsByTheBook: what may run is what the recursive formula says, in every tree.
func TestSeatsByTheBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &coordinator.Quotas{}
		n := rapid.IntRange(2, 9).Draw(t, "nodes")
		nominal := make([]int64, n)
		for i := range n {
			node := coordinator.QuotaNode{Kind: coordinator.QuotaGroup, Name: string(rune('a' + i)), ID: string(rune('a' + i)),
				Parent: -1, Weight: rapid.Int64Range(0, 3).Draw(t, "weight")}
			node.Seats = &coordinator.QuotaLimit{Nominal: 100, Borrow: drawBound(t), Lend: drawBound(t)}
			if i == 0 {
				node.Kind = coordinator.QuotaPool
			} else {
				node.Parent = rapid.IntRange(0, i-1).Draw(t, "parent")
				node.Borrowing.Rule = rapid.SampledFrom([]coordinator.BorrowRule{coordinator.BorrowAccrued,
					coordinator.BorrowNever}).Draw(t, "rule")
				node.Seats.Nominal = rapid.SampledFrom([]int64{coordinator.ByWeight, 0, 1, 2}).Draw(t, "nominal")
			}
			q.Nodes = append(q.Nodes, node)
		}
		l := NewLedger()
		l.Install(epoch, q)
		for i := range n {
			nominal[i] = l.nodes[i].seats.Nominal
		}
		for i := range n { // no tree in which more is given than there is
			own := nominal[i]
			for j := range n {
				if q.Nodes[j].Parent == i {
					own -= nominal[j]
				}
			}
			if own < 0 {
				t.Skip("promises too much")
			}
		}
		ran := make([]int64, n)
		for k := range 60 {
			leaf := rapid.IntRange(1, n-1).Draw(t, "leaf")
			want := availableByTheBook(q, nominal, ran, leaf)
			if got := l.nodes[leaf].seats.Available(); got != want {
				t.Fatalf("%s: %d available, by the formula %d", q.Nodes[leaf].ID, got, want)
			}
			take := rapid.Int64Range(1, 20).Draw(t, "take")
			v := l.Reserve(epoch, id(k), running(q.Nodes[leaf].Name, take), time.Time{})
			if v.OK != (take <= want) {
				t.Fatalf("%d of %d: %+v", take, want, v)
			}
			if v.OK {
				ran[leaf] += take
			}
		}
	})
}

package seats

import (
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// tree makes the seats of nodes, parents first.
func tree(nodes []coordinator.QuotaNode) []*Limit {
	all := make([]*Limit, len(nodes))
	for i := range nodes {
		var up *Limit
		if nodes[i].Parent >= 0 {
			up = all[nodes[i].Parent]
		}
		all[i] = New(int32(i), &nodes[i], nodes[i].Seats, up)
	}
	for _, s := range all {
		if s != nil {
			s.Divide()
		}
	}
	return all
}

func of(parent int, nominal int64) coordinator.QuotaNode {
	return coordinator.QuotaNode{Parent: parent, Weight: 1, Seats: &coordinator.QuotaLimit{Nominal: nominal}}
}

func TestSeatsByWeightOfNothing(t *testing.T) {
	all := tree([]coordinator.QuotaNode{of(-1, coordinator.ByWeight)})
	if all[0] != nil {
		t.Errorf("got %+v, want none: there is nothing to divide", all[0])
	}
}

// TestSeatsComeBackByAttrition: one of two equals has all four seats, and the other waits. The first seats that are
// given back are kept for it up to its part, and beyond that it gets no more.
func TestSeatsComeBackByAttrition(t *testing.T) {
	all := tree([]coordinator.QuotaNode{of(-1, 4), of(0, coordinator.ByWeight), of(0, coordinator.ByWeight)})
	root, a, b := all[0], all[1], all[2]
	may := func(s *Limit) bool { ok, _, _ := s.Check(1); return ok }
	for i := range 4 {
		if !may(a) {
			t.Fatalf("alone it gets only %d of 4", i)
		}
		a.Take(1)
	}
	if ok, at, behind := b.Check(1); ok || at != b || behind != root {
		t.Errorf("all are taken: %v at %v behind %v; want b behind the root", ok, at, behind)
	}
	b.Wait(3)
	for i := range 2 {
		a.Take(-1)
		if ok, at, _ := a.Check(1); ok || at != root {
			t.Errorf("seat %d is not kept for the one that waits", i)
		}
		if !may(b) {
			t.Fatalf("seat %d is refused to the one that waits", i)
		}
		b.Take(1)
		b.Wait(-1)
	}
	a.Take(-1)
	if !may(a) || !may(b) {
		t.Error("both have their part or less, and one seat is free: any may have it")
	}
}

// model is what of a node runs and waits, by itself and with those below, reckoned from nothing each time.
type model struct {
	all           []*Limit
	nodes         []coordinator.QuotaNode
	runs, waiting []int64
}

// use returns what runs of each node's, and what of that is borrowed of its parent.
func (m *model) use() []int64 {
	use := append([]int64(nil), m.runs...)
	for i := len(use) - 1; i > 0; i-- {
		use[m.nodes[i].Parent] += max(0, use[i]-m.all[i].local)
	}
	return use
}

// wanting returns what those below a node, but for one, may take within their parts and wait for.
func (m *model) wanting(parent, but int) (sum int64) {
	use, waiting := m.use(), append([]int64(nil), m.waiting...)
	for i := len(waiting) - 1; i > 0; i-- {
		waiting[m.nodes[i].Parent] += waiting[i]
	}
	for i := range m.nodes {
		if m.nodes[i].Parent == parent && i != but {
			sum += max(0, min(waiting[i], m.all[i].sub-use[i]))
		}
	}
	return sum
}

// TestSeatsModel: whatever is taken, given back and waited for, the counts are those of a model that adds them up anew,
// and no more runs than there is.
func TestSeatsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{}
		bound := func() coordinator.Bound {
			kinds := []coordinator.BoundKind{coordinator.BoundNone, coordinator.BoundAmount, coordinator.BoundPercent}
			return coordinator.Bound{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
				Value: rapid.Int64Range(0, 60).Draw(t, "bound")}
		}
		for i := range rapid.IntRange(1, 7).Draw(t, "nodes") {
			n := of(-1, rapid.Int64Range(0, 20).Draw(t, "all"))
			if i > 0 {
				n = of(rapid.IntRange(0, i-1).Draw(t, "parent"), coordinator.ByWeight)
				n.Weight = rapid.Int64Range(0, 3).Draw(t, "weight")
			}
			n.Seats.Borrow, n.Seats.Lend = bound(), bound()
			m.nodes = append(m.nodes, n)
		}
		m.all = tree(m.nodes)
		m.runs, m.waiting = make([]int64, len(m.all)), make([]int64, len(m.all))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(m.all)-1).Draw(t, "node")
			s, n := m.all[i], rapid.Int64Range(1, 5).Draw(t, "n")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				m.waiting[i] += n
				s.Wait(n)
			case 1:
				n = min(n, m.waiting[i])
				m.waiting[i] -= n
				s.Wait(-n)
			case 2:
				n = min(n, m.runs[i])
				m.runs[i] -= n
				s.Take(-n)
			default:
				ok, at, behind := s.Check(n)
				if ok != (at == nil) || ok != (behind == nil) || ok && s.Available() < n || n > s.Most && ok {
					t.Fatalf("%d of %d, ever %d: %v at %v behind %v", n, s.Available(), s.Most, ok, at, behind)
				}
				if !ok && s.Available() >= n && m.wanting(int(at.Node), -1) == 0 {
					t.Fatalf("%d are kept, and none waits below %d", n, at.Node)
				}
				if use := m.use(); ok && i > 0 && use[i]+n > s.sub {
					up := m.nodes[i].Parent
					if others, left := m.wanting(up, i), m.all[up].Available()-n; others > 0 && left < others {
						t.Fatalf("%d beyond its part, and %d are left of the %d that others wait for", n, left, others)
					}
				}
				if ok {
					m.runs[i] += n
					s.Take(n)
				}
			}
			for i, use := range m.use() {
				s := m.all[i]
				if s.use != use || s.use < 0 || s.up == nil && s.use > s.sub || s.Available() < 0 {
					t.Fatalf("node %d uses %d of %d, %d available; want %d", i, s.use, s.sub, s.Available(), use)
				}
				if want := m.wanting(i, -1); s.wanting != want {
					t.Fatalf("below node %d %d are wanted; the model says %d", i, s.wanting, want)
				}
			}
		}
	})
}

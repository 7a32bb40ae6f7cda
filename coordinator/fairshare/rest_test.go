package fairshare

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// with returns quotas with more agents, which share by weight what their groups have.
func with(q *coordinator.Quotas, more []coordinator.QuotaNode) *coordinator.Quotas {
	c := *q
	c.Nodes = nil
	moved := make([]int, len(q.Nodes)) // where each node is now: the agents of a group come with it
	for i, n := range q.Nodes {
		if moved[i] = len(c.Nodes); n.Parent >= 0 {
			n.Parent = moved[n.Parent]
		}
		c.Nodes = append(c.Nodes, n)
		for _, a := range more {
			if a.Parent != i {
				continue
			}
			above := c.Nodes[moved[i]]
			a.Parent, a.ID = moved[i], above.ID+"/"+a.Name
			for d, l := range above.Budgets {
				if l != nil {
					part := *l
					part.Nominal = coordinator.ByWeight
					a.Budgets[d] = &part
				}
			}
			for d, l := range above.Rates {
				if l != nil {
					part := *l
					part.Nominal, part.Burst = coordinator.ByWeight, 0
					a.Rates[d] = &part
				}
			}
			c.Nodes = append(c.Nodes, a)
		}
	}
	return &c
}

// TestAtRestOneInstallIsAsGoodAsMany: agents come one after the other, or go so, and the books are
// the same whether each is installed in its turn or all at once.
func TestAtRestOneInstallIsAsGoodAsMany(t *testing.T) {
	resting := 0
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuotas(t, false)
		var more []coordinator.QuotaNode
		for i := range rapid.IntRange(2, 6).Draw(t, "more") {
			parent := rapid.IntRange(0, len(q.Nodes)-1).
				Filter(func(p int) bool { return q.Nodes[p].Kind == coordinator.QuotaGroup }).Draw(t, "of")
			more = append(more, coordinator.QuotaNode{
				Kind: coordinator.QuotaAgent, Name: fmt.Sprint("new", i), Parent: parent, Weight: rapid.Int64Range(0, 3).
					Draw(t, "weight"),
				Borrowing: q.Nodes[parent].Borrowing,
			})
		}
		going := rapid.Bool().Draw(t, "going") // else coming
		stage := func(k int) *coordinator.Quotas {
			if going {
				return with(q, more[k:])
			}
			return with(q, more[:k])
		}
		w := newWorld(t, stage(0))
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			w.reserve(id(len(w.keys)+1), w.drawCharge())
		}
		for _, key := range w.keys {
			if rapid.IntRange(0, 9).Draw(t, "told") > 0 {
				w.end(key, 9)
			}
		}
		w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "rest")))
		begun := w.now
		copied := func() *Ledger {
			l := NewLedger()
			l.Install(epoch, stage(0))
			for _, r := range w.l.Export(w.now) {
				l.Fold(r)
			}
			l.Install(w.now, stage(0))
			return l
		}
		each, once := copied(), copied()
		for k := 1; k <= len(more); k++ {
			w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "later")))
			each.Install(w.now, stage(k))
		}
		if !once.AtRest(begun, w.now) {
			return
		}
		resting++
		once.Install(w.now, stage(len(more)))
		a, b := picture{each.Export(w.now), each.View(w.now)}, picture{once.Export(w.now), once.View(w.now)}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("one after the other (-) and at once (+):\n%s", differences(a.exported, b.exported))
		}
	})
	if resting == 0 {
		t.Error("no ledger was ever at rest: nothing has been compared")
	}
}

package fairshare

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/rates"
)

// modelUse is what a reservation took of the rates of one chain in one dimension.
type modelUse struct {
	leaf, by *rateModel
	dim      coordinator.Dimension
	cost     int64
}

// TestRatesModel: in trees of rates of which nothing needs to be rounded, the ledger admits what
// the definition admits, and nothing else; the same rates have the same left.
func TestRatesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := wholeRates.draw(t)
		w := newWorld(t, q)
		models := map[coordinator.Dimension][]*rateModel{}
		for _, d := range rateDims {
			models[d] = modelsOf(q, d)
		}
		open, keys := map[coordinator.TaskKey][]modelUse{}, []coordinator.TaskKey{}
		for n := range 200 {
			w.now = w.now.Add(drawWhole(t))
			if at := len(keys) - 1; at >= 0 && rapid.SampledFrom([]bool{true, false, false, false}).Draw(t, "settle") {
				key, used := keys[at], w.drawRates(40).Amounts
				w.l.Settle(w.now, key, used, false)
				for _, u := range open[key] {
					u.leaf.charge(u.by, func(b *bucket) { b.correct(w.now.UnixNano(), u.cost, used[u.dim]) })
				}
				keys = keys[:at]
				continue
			}
			c := w.drawRates(40)
			p := w.l.PathOf(c)
			uses, ok, never := w.ask(models, &p, c)
			v := w.l.Check(w.now, &p, c)
			if v.OK != ok || v.Permanent != never {
				t.Fatalf("%+v is answered with %+v; by the definition it is admitted: %v, will never be: %v", c, v, ok, never)
			}
			if v = w.l.Reserve(w.now, id(n), c, time.Time{}); v.OK != ok {
				t.Fatalf("%+v is answered with %+v; by the definition it is admitted: %v", c, v, ok)
			} else if v.Charged {
				keys, open[id(n)] = append(keys, id(n)), uses
				for _, u := range uses {
					u.leaf.charge(u.by, func(b *bucket) { b.take(w.now.UnixNano(), u.cost) })
				}
			} else if !ok && !never && rapid.Bool().Draw(t, "wait") {
				w.now = v.RetryAt.Add(time.Duration(rapid.Int64Range(-1, 0).Draw(t, "early")))
			}
			for d, all := range models {
				for i, m := range all {
					m.compare(t, w, w.l.nodes[i].rates[d])
				}
			}
		}
	})
}

// ask is the decision by the definition, for all chains and dimensions.
func (w *world) ask(models map[coordinator.Dimension][]*rateModel, p *Path, c *Charge) (uses []modelUse, ok,
	never bool) {
	ok = true
	rated := map[coordinator.Dimension]bool{} // in the chain at hand the nearest has been asked
	for _, n := range p.Nodes() {
		for d, all := range models {
			m, cost := all[n], c.Amounts[d]
			if m == nil || rated[d] {
				continue
			}
			rated[d] = true
			by := m // of what nothing is reserved it is charged what was used
			if cost > 0 {
				by = m.serves(w.now.UnixNano(), cost)
				ok, never = ok && by != nil, never || m.never(cost)
			}
			uses = append(uses, modelUse{m, by, d, cost})
		}
		if w.l.nodes[n].parent < 0 {
			clear(rated)
		}
	}
	return uses, ok, never
}

// compare looks whether a rate of the ledger has left what its definition has.
func (m *rateModel) compare(t *rapid.T, w *world, s *rates.Shaper) {
	if (m == nil) != (s == nil) {
		t.Fatalf("there is one of %v and %v", m, s)
	}
	if m == nil {
		return
	}
	now := w.now.UnixNano()
	if m.hard != s.Hard || m.amount != s.Amount || m.burst != s.Burst || (m.ceiling != nil) != (s.Ceiling.Amount > 0) {
		t.Fatalf("%s: %+v, want %+v", s.ID, s, m)
	}
	if got, want := s.Level(now), m.assured.whole(now); got != want {
		t.Fatalf("%s has %d left, want %d", s.ID, got, want)
	}
	if m.ceiling != nil && s.Ceiling.Remaining(now) != m.ceiling.whole(now) {
		t.Fatalf("%s has %d left of its ceiling, want %d", s.ID, s.Ceiling.Remaining(now), m.ceiling.whole(now))
	}
}

// drawWhole draws a time in which a whole number flows into some rate, or any.
func drawWhole(t *rapid.T) time.Duration {
	some := divisible / time.Duration(rapid.IntRange(1, 30).Draw(t, "one in"))
	return rapid.SampledFrom([]time.Duration{0, 0, some, 3 * some, some - 1, 2 * divisible}).Draw(t, "on")
}

package fairshare

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// budgetModel is the definition of a budget of which nothing is lent: what it and those below it
// use in a period is at most its amount, and what is charged to it and no budget below it is at
// most its own share, which is what it has not given to those below.
type budgetModel struct {
	up, root      *budgetModel
	kids          []*budgetModel
	spec          *coordinator.QuotaLimit
	weight        int64
	amount, share int64
}

// budgetModels makes the budgets of one dimension, by node; nil: it has none.
func budgetModels(q *coordinator.Quotas, d coordinator.Dimension) []*budgetModel {
	all := make([]*budgetModel, len(q.Nodes))
	for i := range q.Nodes {
		n := &q.Nodes[i]
		if n.Budgets[d] == nil {
			continue
		}
		m := &budgetModel{spec: n.Budgets[d], weight: n.Weight}
		m.root = m
		for p := n.Parent; p >= 0 && m.up == nil; p = q.Nodes[p].Parent {
			if x := all[p]; x != nil && (m.spec.Nominal == coordinator.ByWeight || x.root.spec.Period == m.spec.Period) {
				m.up, m.root = x, x.root
				x.kids = append(x.kids, m)
			}
		}
		all[i] = m
	}
	for _, m := range all {
		if m != nil && m.up == nil {
			m.has(m.spec.Nominal)
		}
	}
	return all
}

// has gives a budget its amount, and those below it theirs.
func (m *budgetModel) has(amount int64) {
	m.amount = amount
	weights, left := make([]int64, len(m.kids)), amount
	for i, kid := range m.kids {
		if kid.spec.Nominal == coordinator.ByWeight {
			weights[i] = kid.weight
		} else {
			left -= kid.spec.Nominal
		}
	}
	m.share = amount
	for i, part := range naiveParts(left, weights) {
		if kid := m.kids[i]; kid.spec.Nominal == coordinator.ByWeight {
			kid.has(part)
		} else {
			kid.has(kid.spec.Nominal)
		}
		m.share -= m.kids[i].amount
	}
}

// period is when the period began that a time is in; in UTC all of those drawn here are multiples
// of their length.
func (m *budgetModel) period(at int64) (begin, length int64) {
	p := m.root.spec.Period
	length = int64(map[coordinator.PeriodUnit]time.Duration{
		coordinator.PerMinute: time.Minute, coordinator.PerHour: time.Hour, coordinator.PerDay: 24 * time.Hour,
		coordinator.PerInterval: p.Interval,
	}[p.Unit])
	return at - at%length, length
}

// entry is what has been set aside, or used, of all budgets of a path at one time.
type entry struct {
	at                int64
	path              Path
	reserved, amounts coordinator.Amounts
}

// budgetWorld is the books of the definition: a list.
type budgetWorld struct {
	*world
	models  [coordinator.NumDimensions][]*budgetModel
	entries map[coordinator.TaskKey][]*entry // first what was reserved, then what it was extended by
}

// uses adds up what counts against a budget now: of all, and of what it is the first for.
func (w *budgetWorld) uses(m *budgetModel, d coordinator.Dimension) (all, own int64) {
	begin, _ := m.period(w.l.now)
	for _, of := range w.entries {
		for _, e := range of {
			if e.at < begin {
				continue
			}
			first := true
			for _, n := range e.path.Nodes() {
				x := w.models[d][n]
				if x == m {
					all += e.amounts[d]
					if first {
						own += e.amounts[d]
					}
				}
				first = first && (x == nil || x.root != m.root)
			}
		}
	}
	return all, own
}

// ask is the decision by the definition: whether all budgets have room; if not, whether that will
// be so for ever, else when the last of those that refuse begins anew.
func (w *budgetWorld) ask(p *Path, a *coordinator.Amounts) (ok, never bool, until int64) {
	for _, d := range randomDims {
		met := map[*budgetModel]bool{}
		for _, n := range p.Nodes() {
			m := w.models[d][n]
			if m == nil || a[d] == 0 {
				continue
			}
			all, own := w.uses(m, d)
			most, left := m.amount, m.amount-all
			if !met[m.root] {
				met[m.root] = true
				most, left = m.share, min(left, m.share-own)
			}
			if a[d] > left {
				begin, length := m.period(w.l.now)
				never, until = never || a[d] > most, max(until, begin+length)
			}
		}
	}
	return until == 0, never, until
}

// end is a settlement at what was used: the oldest of what was reserved comes first, and what is
// more belongs to the last that something was reserved by.
func (w *budgetWorld) end(key coordinator.TaskKey, used coordinator.Amounts) {
	for d := range used {
		of := w.entries[key]
		last := of[0]
		for _, e := range of {
			if e.reserved[d] > 0 {
				last = e
			}
			e.amounts[d] = min(e.reserved[d], used[d])
			used[d] -= e.amounts[d]
		}
		last.amounts[d] += used[d]
	}
}

// TestBudgetsModel: in trees of budgets of which nothing is borrowed, the ledger admits what the
// definition admits, and nothing else; a refusal tells when to ask again.
func TestBudgetsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuotas(t, false)
		q.RepayPercent = 0 // what is overdrawn is forgotten with its period
		for i := range q.Nodes {
			n := &q.Nodes[i]
			// its group may have what is its own
			if n.Borrowing.Rule, n.Beside = coordinator.BorrowNever, nil; n.Kind == coordinator.QuotaAgent {
				n.Budgets = [coordinator.NumDimensions]*coordinator.QuotaLimit{}
			}
		}
		w := &budgetWorld{world: newWorld(t, q), entries: map[coordinator.TaskKey][]*entry{}}
		for _, d := range randomDims {
			w.models[d] = budgetModels(q, d)
		}
		for range 150 {
			w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, 0, 0, 0, time.Second, 20 * time.Second, time.Minute,
				time.Hour, 24 * time.Hour}).Draw(t, "on"))
			if w.l.View(w.now); len(w.keys) > 0 && rapid.SampledFrom([]bool{true, false, false}).Draw(t, "change") {
				w.change(rapid.SampledFrom(w.keys).Draw(t, "key"))
				continue
			}
			c, key := w.drawCharge(), id(len(w.keys)+1)
			c.Amounts[coordinator.DimConcurrency] = 0
			p := w.l.PathOf(c)
			w.drawAll(&p, &c.Amounts)
			if w.admit(&p, &c.Amounts, w.l.Reserve(w.now, key, c, time.Time{})) {
				w.keys = append(w.keys, key)
				w.entries[key] = []*entry{{w.l.now, p, c.Amounts, c.Amounts}}
			}
		}
	})
}

// drawAll makes it, at times, exactly as much as some budget is in all, or has left, or 1 more.
func (w *budgetWorld) drawAll(p *Path, a *coordinator.Amounts) {
	d := rapid.SampledFrom(randomDims).Draw(w.t, "dimension")
	m := w.models[d][rapid.SampledFrom(p.Nodes()).Draw(w.t, "node")]
	if m == nil || rapid.Bool().Draw(w.t, "all") {
		return
	}
	all, own := w.uses(m, d)
	some := rapid.SampledFrom([]int64{m.amount, m.share, m.amount - all, m.share - own}).Draw(w.t, "of it")
	a[d] = max(0, some+rapid.Int64Range(0, 1).Draw(w.t, "more"))
}

// admit holds an answer against the definition.
func (w *budgetWorld) admit(p *Path, a *coordinator.Amounts, v Verdict) bool {
	ok, never, until := w.ask(p, a)
	if v.OK != ok || v.Permanent != never || !ok && !never && v.RetryAt.UnixNano() != until {
		w.t.Fatalf("%v at %v is answered with %+v; by the definition it is admitted: %v, will never be: %v, again at %v", a,
			w.l.Now(), v, ok, never, timeOf(until))
	}
	return v.OK
}

// change extends or ends a reservation, in some way.
func (w *budgetWorld) change(key coordinator.TaskKey) {
	c, open, known := w.l.Find(key)
	used := w.drawAmounts(rapid.SampledFrom([]int64{10, 100}).Draw(w.t, "used"))
	switch how := rapid.SampledFrom([]int{0, 1, 2, 3, 3, 3}).Draw(w.t, "how"); {
	case how == 0 && open:
		used[coordinator.DimConcurrency] = 0
		p := w.l.PathOf(&c)
		if w.admit(&p, &used, w.l.Extend(w.now, key, used, time.Time{})) {
			w.entries[key] = append(w.entries[key], &entry{w.l.now, p, used, used})
		}
	case how == 1 && open:
		w.l.Expire(w.now, key)
		w.end(key, coordinator.Amounts{})
	case how == 2 && open:
		w.l.Release(w.now, key, rapid.Bool().Draw(w.t, "keep"))
		w.end(key, coordinator.Amounts{})
	case known:
		if e := w.l.Settle(w.now, key, used, rapid.Bool().Draw(w.t, "keep")); !e.Again {
			w.end(key, used)
		}
	}
}

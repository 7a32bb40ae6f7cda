package fairshare

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/rates"
	"taskbus/coordinator/fairshare/seats"
)

// world is a ledger with a random history, and what an engine would journal of it.
type world struct {
	t       *rapid.T
	l       *Ledger
	now     time.Time
	groups  []string
	agents  []coordinator.AgentID
	keys    []coordinator.TaskKey
	records []coordinator.Record
	quotas  *coordinator.Quotas // that are installed now
	rates   map[*rates.Shaper]*rateLog
	told    map[string]int64 // the highest threshold of each budget and period
	// overdraws: settlements may tell of more than was reserved. reinstalled: limits have
	// changed under what was used.
	overdraws, reinstalled bool
}

func newWorld(t *rapid.T, q *coordinator.Quotas) *world {
	w := &world{t: t, l: NewLedger(), now: epoch, groups: []string{"", "unknown"},
		agents: []coordinator.AgentID{"", "unknown"}, quotas: q, rates: map[*rates.Shaper]*rateLog{},
		told: map[string]int64{}}
	for i := range q.Nodes {
		switch n := &q.Nodes[i]; {
		case n.Kind == coordinator.QuotaGroup && !slices.Contains(w.groups, n.Name):
			w.groups = append(w.groups, n.Name)
		case n.Kind == coordinator.QuotaAgent && !slices.Contains(w.agents, coordinator.AgentID(n.Name)):
			w.agents = append(w.agents, coordinator.AgentID(n.Name))
		}
	}
	w.l.Install(epoch, q)
	return w
}

func (w *world) drawAmounts(most int64) (a coordinator.Amounts) {
	for _, d := range append(randomDims, coordinator.DimConcurrency) {
		a[d] = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, most)).Draw(w.t, "amount")
	}
	a[coordinator.DimConcurrency] = min(a[coordinator.DimConcurrency], 3)
	return a
}

func (w *world) drawCharge() *Charge {
	return &Charge{
		Group: rapid.SampledFrom(w.groups).Draw(w.t, "group"), Agent: rapid.SampledFrom(w.agents).Draw(w.t, "agent"),
		Provider: rapid.SampledFrom([]string{"", "p"}).Draw(w.t, "provider"),
		Model:    rapid.SampledFrom([]string{"", "m1", "m2", "unlisted"}).Draw(w.t, "model"),
		Amounts:  w.drawAmounts(rapid.SampledFrom([]int64{5, 60, 400}).Draw(w.t, "most")), NoBorrowing: rapid.IntRange(0, 5).
				Draw(w.t, "own") == 0,
	}
}

func (w *world) record(r coordinator.Record) { w.records = append(w.records, r) }

// step does one random thing.
func (w *world) step() {
	defer w.tell()
	t := w.t
	switch what := rapid.IntRange(0, 11).Draw(t, "step"); {
	case what <= 4:
		w.reserve(id(len(w.keys)+1), w.drawCharge())
	case what == 5:
		w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "on")))
	case what == 6:
		on := rapid.SampledFrom([]time.Duration{-30 * time.Second, time.Second, 10 * time.Minute, time.Hour, 30 * time.Hour}).
			Draw(t, "jump")
		w.now = w.now.Add(on)
		w.l.View(w.now) // an unasked ledger does not know the time: so it does, and its twin not
	case what == 7:
		c := w.drawCharge()
		p := w.l.PathOf(c)
		w.explain(&p, c)
	case len(w.keys) == 0:
	default:
		w.end(rapid.SampledFrom(w.keys).Draw(t, "key"), what)
	}
}

// tell takes what has reached a threshold, as an engine would: none of a budget is told twice in its
// period, nor a lower one later, and each is one of what may be used now.
func (w *world) tell() {
	for _, a := range w.l.Alerts(nil) {
		// A budget of another period is another one, which may end at the same moment.
		budget := fmt.Sprint(a.Node, a.Dimension, w.l.budgetOf(a.Node, a.Dimension).family.period, a.Ends)
		if a.Percent <= w.told[budget] || a.Used < arith.MulDivUp(a.Cap, a.Percent, 100) {
			w.t.Fatalf("told of %+v after %d %%", a, w.told[budget])
		}
		w.told[budget] = a.Percent
		w.record(a.Told(w.l.Now()))
	}
}

// explain asks why; that changes nothing either.
func (w *world) explain(p *Path, c *Charge) {
	before := w.picture()
	e := w.l.Explain(w.now, p, c)
	w.unchanged("an explanation", before)
	binds := 0
	for _, x := range e.Limits {
		if x.Binds {
			binds++
		}
		if e.Verdict.OK && x.Refuses {
			w.t.Fatalf("admitted, and refused by %+v", x)
		}
	}
	if e.Verdict.OK != (binds == 0) {
		w.t.Fatalf("%+v: %d limits bind of %+v", e.Verdict, binds, e.Limits)
	}
}

func (w *world) reserve(key coordinator.TaskKey, c *Charge) Verdict {
	var until time.Time
	if rapid.Bool().Draw(w.t, "ends") {
		until = w.now.Add(time.Duration(rapid.Int64Range(1, int64(10*time.Minute)).Draw(w.t, "ttl")))
	}
	before := w.picture()
	v := w.l.Reserve(w.now, key, c, until)
	if !v.Charged {
		w.unchanged("a refusal", before)
		return v
	}
	w.keys = append(w.keys, key)
	w.pass(w.l.open[key].uses, &c.Amounts, 1)
	w.record(&coordinator.QuotaReserved{Key: key, Group: c.Group, Agent: c.Agent, Provider: c.Provider, Model: c.Model,
		Amounts: c.Amounts, NoBorrowing: c.NoBorrowing, At: w.l.Now(), Until: until})
	p := w.l.PathOf(c)
	for _, n := range p.Nodes() {
		for d, b := range w.l.nodes[n].budgets {
			if b != nil && c.Amounts[d] > 0 && b.left() < 0 {
				w.t.Fatalf("admitted, and %s has %d more of %s than it may", w.l.nodes[n].spec.ID, -b.left(),
					coordinator.Dimension(d))
			}
		}
	}
	return v
}

// end extends or ends a reservation.
func (w *world) end(key coordinator.TaskKey, what int) {
	c, _, _ := w.l.Find(key)
	before := w.picture()
	keep := rapid.Bool().Draw(w.t, "keep")
	switch what {
	case 8:
		more, parts := w.drawAmounts(40), w.partsOf(key)
		if v := w.l.Extend(w.now, key, more, time.Time{}); v.OK {
			w.passMore(key, parts)
			w.record(&coordinator.QuotaExtended{Key: key, More: more, At: w.l.Now()})
		} else {
			w.unchanged("a refused extension", before)
		}
	case 9:
		used := w.drawAmounts(100)
		for d := range used {
			if !w.overdraws {
				used[d] = min(used[d], c.Amounts[d])
			}
		}
		if !w.overdraws && w.l.open[key] != nil && w.l.open[key].state == resExpired {
			return // late, and nothing is reserved any more
		}
		w.giveBack(key, used)
		word := coordinator.QuotaWord(rapid.IntRange(0, coordinator.NumQuotaWords-1).Draw(w.t, "by whose word"))
		if e := w.l.SettleBy(w.now, key, used, keep, word); e.Known && !e.Again {
			w.record(&coordinator.QuotaEnded{Key: key, How: coordinator.QuotaSettled, Used: used, Keep: keep, At: w.l.Now(),
				Word: word})
		} else {
			w.unchanged("a second settlement", before)
		}
	case 10:
		w.giveBack(key, coordinator.Amounts{})
		if e := w.l.Release(w.now, key, keep); e.Known && !e.Again {
			w.record(&coordinator.QuotaEnded{Key: key, How: coordinator.QuotaReleased, Keep: keep, At: w.l.Now()})
		} else {
			w.unchanged("a second release", before)
		}
	default:
		for {
			key, due := w.l.Due(w.now)
			if !due {
				break
			}
			w.giveBack(key, coordinator.Amounts{})
			w.l.Expire(w.now, key)
			w.record(&coordinator.QuotaEnded{Key: key, How: coordinator.QuotaExpired, Keep: true, At: w.l.Now()})
		}
	}
}

// picture is all that there is to see of a ledger.
type picture struct {
	exported []coordinator.Record
	nodes    []NodeView
}

func (w *world) picture() picture { return picture{w.l.Export(w.now), w.l.View(w.now)} }

func (w *world) unchanged(what string, before picture) {
	if after := w.picture(); !reflect.DeepEqual(before, after) {
		w.t.Fatalf("%s has changed something:\n%s", what, differences(before.exported, after.exported))
	}
}

// differences lists records that are in one image and not in the other.
func differences(a, b []coordinator.Record) (all string) {
	text := func(rs []coordinator.Record) (lines []string) {
		for _, r := range rs {
			lines = append(lines, fmt.Sprintf("%T%+v", r, reflect.ValueOf(r).Elem().Interface()))
		}
		return lines
	}
	x, y := text(a), text(b)
	for _, line := range x {
		if !slices.Contains(y, line) {
			all += "- " + line + "\n"
		}
	}
	for _, line := range y {
		if !slices.Contains(x, line) {
			all += "+ " + line + "\n"
		}
	}
	return all
}

// judge looks at every node: its sums, and that no cap and no rate is exceeded.
func (w *world) judge() {
	w.judgeRates()
	w.judgeSupply()
	t, l := w.t, w.l
	reserved, seated := w.openSums()
	for i := range l.nodes {
		nd := &l.nodes[i]
		name := nd.spec.ID
		for _, b := range nd.budgets {
			if b == nil {
				continue
			}
			used, held, net := b.spent, b.held.sum(), b.lent-b.borrowed
			for _, kid := range b.kids {
				used, held, net = used+kid.used, held+kid.reserved.sum(), net+kid.lentOut-kid.borrowedIn
			}
			if used != b.used || held != b.reserved.sum() || reserved[b] != b.reserved.sum() {
				t.Fatalf("%s %s: used %d, own and below %d; reserved %d, own and below %d, open %d", name, b.dim, b.used, used,
					b.reserved.sum(), held, reserved[b])
			}
			backed := !hasRule(b.family, coordinator.BorrowGroupRemaining)
			if backed && net != b.lentOut-b.borrowedIn || !backed && net > b.lentOut-b.borrowedIn {
				t.Fatalf("%s %s: lent less borrowed %d across its boundary, %d within", name, b.dim, b.lentOut-b.borrowedIn, net)
			}
			if min(b.spent, b.held.sum(), b.lent, b.borrowed, b.lentOut, b.borrowedIn, b.share, b.nominal) < 0 {
				t.Fatalf("%s %s: less than nothing: %+v", name, b.dim, b)
			}
			if w.reinstalled {
				continue
			}
			if b.up == nil && (b.lentOut != 0 || b.borrowedIn != 0) {
				t.Fatalf("%s %s lends or borrows beyond its family", name, b.dim)
			}
			if b.borrowedIn > b.borrowMax || b.lentOut > b.lendMax && !b.own { // its group may have all of it
				t.Fatalf("%s %s: borrowed %d of at most %d, lent %d of at most %d", name, b.dim, b.borrowedIn, b.borrowMax,
					b.lentOut, b.lendMax)
			}
			if !w.overdraws && (b.room() < 0 || b.left() < 0 || b.up == nil && b.used+b.reserved.sum() > b.base) {
				t.Fatalf("%s %s: room %d, left %d, used and reserved %d of %d", name, b.dim, b.room(), b.left(),
					b.used+b.reserved.sum(), b.base)
			}
		}
		if s := nd.seats; s != nil {
			if s.Running != seated[s] || !w.reinstalled && s.Available() < 0 {
				t.Fatalf("%s: %d seated, %d open, %d available", name, s.Running, seated[s], s.Available())
			}
		}
	}
}

// openSums adds up what is open, reservation by reservation.
func (w *world) openSums() (map[*budget]int64, map[*seats.Limit]int64) {
	reserved, seated := map[*budget]int64{}, map[*seats.Limit]int64{}
	for _, r := range w.l.open {
		for part := r; part != nil && r.state == resOpen; part = part.later {
			for _, n := range part.path.Nodes() {
				nd := &w.l.nodes[n]
				for d, b := range nd.budgets {
					if b != nil && part.at >= b.family.span.Start {
						reserved[b] += part.charge.Amounts[d]
					}
				}
				if nd.seats != nil {
					seated[nd.seats] += part.charge.Amounts[coordinator.DimConcurrency]
				}
			}
		}
	}
	return reserved, seated
}

func hasRule(b *budget, r coordinator.BorrowRule) (has bool) {
	b.each(func(x *budget) { has = has || x.rule.Rule == r })
	return has
}

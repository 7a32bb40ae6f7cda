package fairshare

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// world is a ledger with a random history, and what an engine would journal of it.
type world struct {
	t       *rapid.T
	l       *Ledger
	now     time.Time
	groups  []string
	keys    []coordinator.TaskKey
	records []coordinator.Record
	// overdraws: settlements may tell of more than was reserved. reinstalled: limits have
	// changed under what was used.
	overdraws, reinstalled bool
}

// limits of random trees: budgets of three dimensions, rates of one, and seats.
var (
	randomDims    = []coordinator.Dimension{coordinator.DimRequests, coordinator.DimTotalTokens, coordinator.DimCost}
	randomPeriods = []coordinator.Period{{Unit: coordinator.PerMinute}, {Unit: coordinator.PerHour}, {Unit: coordinator.PerDay}, {Unit: coordinator.PerInterval, Interval: 90 * time.Second}}
)

// drawQuotas draws a tree of groups up to five levels deep below the pool, and one of a provider
// that has parts for some of them. wild: rates, seats and the simple rule, too.
func drawQuotas(t *rapid.T, wild bool) *coordinator.Quotas {
	q := &coordinator.Quotas{RepayPercent: rapid.SampledFrom([]int64{0, 20, 100}).Draw(t, "repay"), TombstoneTTL: 5 * time.Minute}
	level := []int{0}
	add := func(n coordinator.QuotaNode) {
		if n.Parent >= 0 {
			n.ID = q.Nodes[n.Parent].ID + "/" + n.Name
		} else {
			n.ID = n.Name
		}
		drawLimits(t, &n, q.Nodes, wild)
		q.Nodes = append(q.Nodes, n)
	}
	add(coordinator.QuotaNode{Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1})
	n := rapid.IntRange(1, 8).Draw(t, "groups")
	for i := 1; i <= n; i++ {
		parent := rapid.IntRange(0, i-1).Filter(func(p int) bool { return level[p] < 4 }).Draw(t, "parent")
		level = append(level, level[parent]+1)
		add(coordinator.QuotaNode{
			Kind: coordinator.QuotaGroup, Name: fmt.Sprint("g", i), Parent: parent, Provider: "p",
			Weight: rapid.Int64Range(0, 3).Draw(t, "weight"), Borrowing: drawBorrowing(t, wild),
		})
	}
	if top := len(q.Nodes); rapid.Bool().Draw(t, "provider") {
		add(coordinator.QuotaNode{Kind: coordinator.QuotaPool, Name: "p", Provider: "p", Parent: -1, Weight: 1})
		for i := 1; i <= n; i++ {
			if level[i] == 1 && rapid.Bool().Draw(t, "part") {
				add(coordinator.QuotaNode{
					Kind: coordinator.QuotaGroup, Name: fmt.Sprint("g", i), Parent: top, Weight: rapid.Int64Range(0, 3).Draw(t, "weight"),
					Borrowing: drawBorrowing(t, wild),
				})
			}
		}
	}
	return q
}

func drawBorrowing(t *rapid.T, wild bool) coordinator.Borrowing {
	rules := []coordinator.BorrowRule{coordinator.BorrowAccrued, coordinator.BorrowAccrued, coordinator.BorrowNever}
	if wild {
		rules = append(rules, coordinator.BorrowGroupRemaining)
	}
	return coordinator.Borrowing{
		Rule: rapid.SampledFrom(rules).Draw(t, "rule"), NoGlobalPool: rapid.Bool().Draw(t, "no pool"),
		SurchargePercent: rapid.SampledFrom([]int64{0, 0, 10}).Draw(t, "surcharge"), HeadroomPercent: rapid.SampledFrom([]int64{0, 0, 30}).Draw(t, "headroom"),
	}
}

func drawBound(t *rapid.T) coordinator.Bound {
	return rapid.SampledFrom([]coordinator.Bound{{}, {}, {Kind: coordinator.BoundPercent, Value: 50}, {Kind: coordinator.BoundAmount, Value: 30}}).Draw(t, "bound")
}

// drawLimits draws a node's limits. As the loader sees to, what is given to those below a node
// is no more than it has: amounts of their own are at most an eighth of it.
func drawLimits(t *rapid.T, n *coordinator.QuotaNode, above []coordinator.QuotaNode, wild bool) {
	nominal := func(up *coordinator.QuotaLimit, whole int64) int64 {
		if up != nil && (up.Nominal == coordinator.ByWeight || rapid.Bool().Draw(t, "by weight")) {
			return coordinator.ByWeight
		}
		if up != nil {
			whole = up.Nominal / 8
		}
		return rapid.Int64Range(0, whole).Draw(t, "nominal")
	}
	of := func(get func(*coordinator.QuotaNode) *coordinator.QuotaLimit) *coordinator.QuotaLimit {
		for p := n.Parent; p >= 0; p = above[p].Parent {
			if l := get(&above[p]); l != nil {
				return l
			}
		}
		return nil
	}
	for _, d := range randomDims {
		if rapid.IntRange(0, 3).Draw(t, "limited") > 0 {
			up := of(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Budgets[d] })
			period := rapid.SampledFrom(randomPeriods).Draw(t, "period")
			if up != nil && rapid.IntRange(0, 4).Draw(t, "other period") > 0 {
				period = up.Period
			}
			l := &coordinator.QuotaLimit{Nominal: nominal(up, 1000), Period: period, Borrow: drawBound(t), Lend: drawBound(t)}
			if l.Nominal == coordinator.ByWeight {
				l.Period = up.Period
			}
			n.Budgets[d] = l
		}
	}
	if !wild {
		return
	}
	if d := coordinator.DimRequests; rapid.Bool().Draw(t, "rate") {
		up := of(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Rates[d] })
		n.Rates[d] = &coordinator.QuotaLimit{Nominal: nominal(up, 100), Per: time.Second, Burst: rapid.Int64Range(0, 50).Draw(t, "burst"), Borrow: drawBound(t)}
	}
	if rapid.Bool().Draw(t, "seats") {
		up := of(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Seats })
		n.Seats = &coordinator.QuotaLimit{Nominal: nominal(up, 40), Borrow: drawBound(t), Lend: drawBound(t)}
	}
}

func newWorld(t *rapid.T, q *coordinator.Quotas) *world {
	w := &world{t: t, l: NewLedger(), now: epoch, groups: []string{"", "unknown"}}
	for i := range q.Nodes {
		if n := &q.Nodes[i]; n.Kind == coordinator.QuotaGroup && !slices.Contains(w.groups, n.Name) {
			w.groups = append(w.groups, n.Name)
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
		Group: rapid.SampledFrom(w.groups).Draw(w.t, "group"), Provider: rapid.SampledFrom([]string{"", "p"}).Draw(w.t, "provider"),
		Amounts: w.drawAmounts(rapid.SampledFrom([]int64{5, 60, 400}).Draw(w.t, "most")), NoBorrowing: rapid.IntRange(0, 5).Draw(w.t, "own") == 0,
	}
}

func (w *world) record(r coordinator.Record) { w.records = append(w.records, r) }

// step does one random thing.
func (w *world) step() {
	t := w.t
	switch what := rapid.IntRange(0, 11).Draw(t, "step"); {
	case what <= 4:
		w.reserve(id(len(w.keys)+1), w.drawCharge())
	case what == 5:
		w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "on")))
	case what == 6:
		on := rapid.SampledFrom([]time.Duration{-30 * time.Second, time.Second, 10 * time.Minute, time.Hour, 30 * time.Hour}).Draw(t, "jump")
		w.now = w.now.Add(on)
		w.l.View(w.now) // a ledger that nobody asks does not know the time: so it does, and its twin not
	case what == 7:
		c := w.drawCharge()
		p := w.l.PathOf(c)
		w.explain(&p, c)
	case len(w.keys) == 0:
	default:
		w.end(rapid.SampledFrom(w.keys).Draw(t, "key"), what)
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
	w.record(&coordinator.QuotaReserved{Key: key, Group: c.Group, Provider: c.Provider, Amounts: c.Amounts, NoBorrowing: c.NoBorrowing, At: w.l.Now(), Until: until})
	p := w.l.PathOf(c)
	for _, n := range p.list() {
		for d, b := range w.l.nodes[n].budgets {
			if b != nil && c.Amounts[d] > 0 && b.left() < 0 {
				w.t.Fatalf("admitted, and %s has %d more of %s than it may", w.l.nodes[n].spec.ID, -b.left(), coordinator.Dimension(d))
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
		more := w.drawAmounts(40)
		if v := w.l.Extend(w.now, key, more, time.Time{}); v.OK {
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
		if e := w.l.Settle(w.now, key, used, keep); e.Known && !e.Again {
			w.record(&coordinator.QuotaEnded{Key: key, How: coordinator.QuotaSettled, Used: used, Keep: keep, At: w.l.Now()})
		} else {
			w.unchanged("a second settlement", before)
		}
	case 10:
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

// judge looks at every node: its sums, and that no cap is exceeded.
func (w *world) judge() {
	t, l := w.t, w.l
	reserved, seated := w.openSums()
	for i := range l.nodes {
		nd := &l.nodes[i]
		name := nd.spec.ID
		for _, b := range nd.budgets {
			if b == nil {
				continue
			}
			used, held, net := b.spent, b.held, b.lent-b.borrowed
			for _, kid := range b.kids {
				used, held, net = used+kid.used, held+kid.reserved, net+kid.lentOut-kid.borrowedIn
			}
			if used != b.used || held != b.reserved || reserved[b] != b.reserved {
				t.Fatalf("%s %s: used %d, own and below %d; reserved %d, own and below %d, open %d", name, b.dim, b.used, used, b.reserved, held, reserved[b])
			}
			backed := !hasRule(b.family, coordinator.BorrowGroupRemaining)
			if backed && net != b.lentOut-b.borrowedIn || !backed && net > b.lentOut-b.borrowedIn {
				t.Fatalf("%s %s: lent less borrowed %d across its boundary, %d within", name, b.dim, b.lentOut-b.borrowedIn, net)
			}
			if min(b.spent, b.held, b.lent, b.borrowed, b.lentOut, b.borrowedIn, b.share, b.nominal) < 0 {
				t.Fatalf("%s %s: less than nothing: %+v", name, b.dim, b)
			}
			if w.reinstalled {
				continue
			}
			if b.up == nil && (b.lentOut != 0 || b.borrowedIn != 0) {
				t.Fatalf("%s %s lends or borrows beyond its family", name, b.dim)
			}
			if b.borrowedIn > b.borrowMax || b.lentOut > b.lendMax {
				t.Fatalf("%s %s: borrowed %d of at most %d, lent %d of at most %d", name, b.dim, b.borrowedIn, b.borrowMax, b.lentOut, b.lendMax)
			}
			if !w.overdraws && (b.room() < 0 || b.left() < 0 || b.up == nil && b.used+b.reserved > b.base) {
				t.Fatalf("%s %s: room %d, left %d, used and reserved %d of %d", name, b.dim, b.room(), b.left(), b.used+b.reserved, b.base)
			}
		}
		if s := nd.seats; s != nil {
			if s.running != seated[s] || s.use < 0 || !w.reinstalled && s.up == nil && s.use > s.sub {
				t.Fatalf("%s: %d seated, %d open; uses %d of %d", name, s.running, seated[s], s.use, s.sub)
			}
		}
	}
}

// openSums adds up what is open, reservation by reservation.
func (w *world) openSums() (map[*budget]int64, map[*seats]int64) {
	reserved, seated := map[*budget]int64{}, map[*seats]int64{}
	for _, r := range w.l.open {
		for part := r; part != nil && r.state == resOpen; part = part.later {
			for _, n := range part.path.list() {
				nd := &w.l.nodes[n]
				for d, b := range nd.budgets {
					if b != nil && part.at >= b.family.span.start {
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

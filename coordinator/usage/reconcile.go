package usage

import (
	"math"
	"slices"

	"taskbus/coordinator"
)

// Tolerance is by how much the history and a bill may differ.
type Tolerance struct {
	// Percent of what the bill says, at least 0.
	Percent float64
	// Tokens, and requests; and Cost in micro-USD.
	Tokens, Requests, Cost int64
}

// Difference is one measure of one key in which the history and the bill differ by more than
// the tolerance.
type Difference struct {
	// Key of what differs: empty where the bill does not distinguish it. Day is a day, a month, or
	// empty.
	Key
	Measure string
	// Ours and Bill, in micro-USD for cost_usd; Ours - Bill is how much the history has more.
	Ours, Bill int64
	// OnlyOurs: the bill has no line of that key; OnlyBill: the history has none.
	OnlyOurs, OnlyBill bool
}

// Absolute is how much the history has more than the bill.
func (d *Difference) Absolute() int64 { return d.Ours - d.Bill }

// Relative is that as a part of what the bill says; infinite where that is 0.
func (d *Difference) Relative() float64 {
	if d.Bill == 0 {
		return math.Inf(int(max(-1, min(1, d.Ours))))
	}
	return float64(d.Absolute()) / math.Abs(float64(d.Bill))
}

// Compared is one measure in all.
type Compared struct {
	Measure    string
	Ours, Bill int64 // as in Difference
}

// Reconciliation is what comparing the history with a bill has shown.
type Reconciliation struct {
	From, To string
	// Columns by which they were compared.
	Columns []string
	// Keys that were compared, and how many of them Differ.
	Keys, Differ int
	Differences  []Difference
	Totals       []Compared
	// Lost is what was used by reservations that are not known any more: it may be part of what the bill
	// has more.
	Lost Counts
}

// Reconcile compares rows of the history, by day, with a bill: by the days (by: or months, or in
// all), and by provider, model, group and agent as far as the bill distinguishes them. Rows of days
// outside the bill's and of other providers do not count; from and to widen or narrow the days. What
// was used with any of a provider's keys is on the provider's bill, unless the bill names that key.
func Reconcile(rows []Row, b *Bill, by By, from, to string, t Tolerance) Reconciliation {
	if from == "" {
		from = b.From
	}
	if to == "" {
		to = b.To
	}
	has := func(column string) bool { return slices.Contains(b.Has, column) }
	shape := func(k Key) Key {
		s := Key{Day: k.Day}
		switch by {
		case ByMonth:
			s.Day = k.Day[:min(len(k.Day), len("2006-01"))]
		case ByTotal:
			s.Day = ""
		}
		for _, c := range []struct {
			column   string
			of, into *string
		}{{ColumnProvider, &k.Provider, &s.Provider}, {ColumnModel, &k.Model, &s.Model}, {ColumnGroup, &k.Group, &s.Group},
			{ColumnAgent, &k.Agent, &s.Agent}} {
			if has(c.column) {
				*c.into = *c.of
			}
		}
		return s
	}
	r := Reconciliation{From: from, To: to, Columns: b.Has}
	theirs := b.shaped(shape, from, to)
	providers := make(map[string]bool)
	for k := range theirs { // order does not matter
		providers[k.Provider] = true
	}
	ours := make(map[Key]*Counts)
	for i := range rows {
		row := &rows[i]
		key := row.Key
		if !providers[key.Provider] {
			key.Provider = coordinator.ProviderOfPool(key.Provider)
		}
		switch {
		case row.Day < from || row.Day > to:
		case row.Group == "" && row.Agent == "" && row.Provider == "" && row.Source == SourceUnknown:
			r.Lost.Add(&row.Counts)
		case has(ColumnProvider) && !providers[key.Provider]:
		default:
			add(ours, shape(key), &row.Counts)
		}
	}
	r.compare(ours, theirs, b.measures(), t)
	return r
}

const million, billion = 1_000_000, 1_000_000_000

// shaped is what the bill says of the days between, by other keys, in micro-USD.
func (b *Bill) shaped(shape func(Key) Key, from, to string) map[Key]*Counts {
	// In dollars and the rest: 200,000 lines of 100 million each are more than a number holds in billionths.
	type cost struct{ dollars, nano int64 }
	costs, all := make(map[Key]cost), make(map[Key]*Counts)
	for k, v := range b.rows { // order does not matter: sums are the same
		if k.Day < from || k.Day > to {
			continue
		}
		s := shape(k)
		add(all, s, &Counts{Requests: v.measures[0], InputTokens: v.measures[1], OutputTokens: v.measures[2],
			TotalTokens: v.measures[3]})
		sum := costs[s]
		costs[s] = cost{sum.dollars + v.nano/billion, sum.nano + v.nano%billion}
	}
	for k, v := range costs { // order does not matter
		dollars, nano := v.dollars+v.nano/billion, v.nano%billion
		if dollars > Most/million || dollars < -Most/million {
			dollars, nano = min(max(dollars, -Most/million), Most/million), 0
		}
		half := int64(500)
		if v := dollars*billion + nano; v < 0 { // at most Most·1000
			half = -half
		}
		all[k].Cost = (dollars*billion + nano + half) / 1000
	}
	return all
}

// measures are those that the bill has.
func (b *Bill) measures() (all []string) {
	for _, m := range Measures {
		if slices.Contains(b.Has, m) {
			all = append(all, m)
		}
	}
	return all
}

// measure is one of them.
func (c *Counts) measure(m string) int64 {
	return *c.Fields()[slices.Index(Measures, m)]
}

func (r *Reconciliation) compare(ours, theirs map[Key]*Counts, measures []string, t Tolerance) {
	keys := make(map[Key]*Counts, len(ours)+len(theirs))
	for _, of := range []map[Key]*Counts{ours, theirs} {
		for k, c := range of { // order does not matter: they are sorted
			keys[k] = c
		}
	}
	var none, sumOurs, sumTheirs Counts
	for _, row := range sorted(keys) {
		a, b := ours[row.Key], theirs[row.Key]
		d := Difference{Key: row.Key, OnlyOurs: b == nil, OnlyBill: a == nil}
		if a == nil {
			a = &none
		}
		if b == nil {
			b = &none
		}
		sumOurs.Add(a)
		sumTheirs.Add(b)
		differs := false
		for _, m := range measures {
			d.Measure, d.Ours, d.Bill = m, a.measure(m), b.measure(m)
			if !t.within(m, d.Ours, d.Bill) {
				r.Differences = append(r.Differences, d)
				differs = true
			}
		}
		if r.Keys++; differs {
			r.Differ++
		}
	}
	for _, m := range measures {
		r.Totals = append(r.Totals, Compared{m, sumOurs.measure(m), sumTheirs.measure(m)})
	}
}

// within reports whether two counts of a measure are near enough.
func (t *Tolerance) within(measure string, ours, bill int64) bool {
	most := t.Tokens
	switch measure {
	case "requests":
		most = t.Requests
	case "cost_usd":
		most = t.Cost
	}
	apart := math.Abs(float64(ours) - float64(bill))
	return apart <= float64(most) || apart <= math.Abs(float64(bill))*t.Percent/100
}

package engine_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// quotaGroups are those that random tasks belong to; the last is in no configuration.
var quotaGroups = []string{"", "g1", "g2", "g3", "g4", "stranger"}

// quotaModels are those that a random provider may list.
var quotaModels = []string{"x1", "x2"}

// quotaProviders are what calls and tasks name: the random provider, which may have keys, by its name,
// and one of its keys.
var quotaProviders = []string{"p", "p", "p@b"}

// crowd is how many groups there are besides, now and then.
const crowd = 30

// drawGroup draws the group of a task.
func drawGroup(t *rapid.T, q *coordinator.Quotas) string {
	if q != nil && slices.ContainsFunc(q.Nodes, func(n coordinator.QuotaNode) bool { return n.Name == "m0" }) &&
		rapid.Bool().Draw(t, "of the crowd") {
		return fmt.Sprint("m", rapid.IntRange(0, crowd-1).Draw(t, "member"))
	}
	return rapid.SampledFrom(quotaGroups).Draw(t, "group")
}

// drawQuotas draws a quotas.yaml: groups that may be nested, with budgets, rates and seats
// so small that they bind, agents of their own, and a provider, or its models, that are divided among
// some.
// Now and then there is none.
func drawQuotas(t *rapid.T) *coordinator.Quotas {
	if rapid.IntRange(0, 7).Draw(t, "no quotas at 0") == 0 {
		return nil
	}
	q := &coordinator.Quotas{
		Unpriced: rapid.SampledFrom([]coordinator.UnpricedRule{coordinator.UnpricedRefuse, coordinator.UnpricedWarn,
			coordinator.UnpricedWarn, coordinator.UnpricedCharge}).Draw(t, "unpriced"),
		AnyCaller:      rapid.SampledFrom([]bool{true, true, false}).Draw(t, "any caller"),
		UnpricedPrice:  coordinator.Price{InputPerMillion: 1_000_000},
		RepayPercent:   rapid.SampledFrom([]int64{0, 20, 100}).Draw(t, "repay"),
		ReservationTTL: 15 * time.Minute, TombstoneTTL: rapid.SampledFrom([]time.Duration{20 * time.Second, time.Hour}).
				Draw(t, "tombstones"), DefaultOutput: 40,
	}
	add := func(n coordinator.QuotaNode) int {
		if n.ID = n.Name; n.Parent >= 0 {
			n.ID = q.Nodes[n.Parent].ID + "/" + n.Name
		}
		drawLimits(t, &n, q.Nodes)
		q.Nodes = append(q.Nodes, n)
		return len(q.Nodes) - 1
	}
	if rapid.IntRange(0, 3).Draw(t, "rules at 0") == 0 { // of days that end soon
		q.Adjustment = coordinator.Adjustment{
			Idle: &coordinator.IdleRule{BelowPercent: 50, Days: 1, Step: 1, MinWeight: 1},
			Slow: &coordinator.SlowRule{Above: time.Second, Percent: 10, MaxPercent: 20},
		}
		q.Location = time.FixedZone("soon", int((12*time.Hour - seconds(t, "midnight", 1, 10, 60, 300)).Seconds()))
	}
	if rapid.IntRange(0, 3).Draw(t, "prices at 0") == 0 {
		q.Prices = []coordinator.Price{{Provider: "p", PerRequest: rapid.SampledFrom([]int64{1, 1e12}).Draw(t, "price"),
			InputPerMillion: 1e6, OutputPerMillion: 1e12}}
	}
	places := []int{add(coordinator.QuotaNode{Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1})}
	provider := rapid.SampledFrom([]string{"", "", "p"}).Draw(t, "default provider")
	for i := 1; i <= 4; i++ {
		if rapid.IntRange(0, 4).Draw(t, "left out at 0") == 0 {
			continue
		}
		parent := rapid.SampledFrom(places).Draw(t, "parent")
		at := add(coordinator.QuotaNode{
			Kind: coordinator.QuotaGroup, Name: fmt.Sprint("g", i), Parent: parent, Provider: provider,
			Model: rapid.SampledFrom([]string{"", "", quotaModels[0]}).Draw(t, "default model"), Weight: rapid.Int64Range(0, 3).
				Draw(t, "weight"), Borrowing: drawBorrowing(t),
		})
		places = append(places, at)
	}
	if rapid.IntRange(0, 3).Draw(t, "a crowd at 0") == 0 { // of which more wait than try at one time
		rate := q.Nodes[0].Rates[coordinator.DimRequests]
		divided := rate != nil && rapid.Bool().Draw(t, "it divides the rate")
		for i := range crowd {
			name := fmt.Sprint("m", i)
			n := coordinator.QuotaNode{Kind: coordinator.QuotaGroup, ID: "pool/" + name, Name: name, Weight: int64(i % 3),
				Borrowing: coordinator.Borrowing{Priority: i % 2}}
			if divided {
				n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: coordinator.ByWeight, Per: rate.Per}
			}
			q.Nodes = append(q.Nodes, n)
		}
	}
	if len(places) > 1 && rapid.IntRange(0, 2).Draw(t, "agents of their own at 0") == 0 {
		for _, id := range agentIDs[:4] {
			if group := rapid.SampledFrom(places).Draw(t, "its group"); group > 0 {
				add(coordinator.QuotaNode{Kind: coordinator.QuotaAgent, Name: string(id), Parent: group, Weight: 1,
					Borrowing: drawBorrowing(t)})
			}
		}
	}
	if rapid.Bool().Draw(t, "a provider") {
		for _, pool := range rapid.SampledFrom([][]string{{"p"}, {"p"}, {"p@a", "p@b"}, {"p@b"}}).Draw(t, "its pools") {
			drawProvider(t, q, pool, add)
		}
	}
	return q
}

// drawProvider draws a provider's pool that some groups have parts of, with parts of that for some of
// their agents; or, if it lists models, each of these.
func drawProvider(t *rapid.T, q *coordinator.Quotas, pool string, add func(coordinator.QuotaNode) int) {
	top := add(coordinator.QuotaNode{Kind: coordinator.QuotaPool, Name: pool, Provider: pool, Parent: -1, Weight: 1})
	shared := []int{top}
	if n := rapid.IntRange(0, len(quotaModels)).Draw(t, "models"); n > 0 {
		shared = nil
		for _, model := range quotaModels[:n] {
			shared = append(shared, add(coordinator.QuotaNode{Kind: coordinator.QuotaModel, Name: model, Provider: pool,
				Model: model, Parent: top, Weight: 1}))
		}
	}
	agents := slices.DeleteFunc(slices.Clone(q.Nodes),
		func(n coordinator.QuotaNode) bool { return n.Kind != coordinator.QuotaAgent })
	for _, at := range shared {
		for _, name := range quotaGroups[1:3] {
			if !rapid.Bool().Draw(t, "part") {
				continue
			}
			part := coordinator.QuotaNode{
				Kind: coordinator.QuotaGroup, Name: name, Provider: pool, Model: q.Nodes[at].Model, Parent: at,
				Weight: rapid.Int64Range(0, 3).Draw(t, "weight"), Borrowing: drawBorrowing(t),
			}
			under := add(part)
			for _, a := range agents {
				if q.Nodes[a.Parent].Name == name && rapid.Bool().Draw(t, "its agent's") {
					part.Kind, part.Name, part.Parent, part.Weight, part.Borrowing = a.Kind, a.Name, under, 1, drawBorrowing(t)
					add(part)
				}
			}
		}
	}
}

func drawBorrowing(t *rapid.T) coordinator.Borrowing {
	return coordinator.Borrowing{
		Rule: rapid.SampledFrom([]coordinator.BorrowRule{coordinator.BorrowAccrued, coordinator.BorrowAccrued,
			coordinator.BorrowNever, coordinator.BorrowGroupRemaining}).Draw(t, "rule"),
		NoGlobalPool: rapid.Bool().Draw(t, "no pool"), Priority: rapid.IntRange(0, 1).Draw(t, "borrows first"),
	}
}

// drawLimits draws what a node may use: a part by weight of what those above it may, or an
// eighth of it at most, as the loader sees to.
func drawLimits(t *rapid.T, n *coordinator.QuotaNode, above []coordinator.QuotaNode) {
	model := n.Kind == coordinator.QuotaModel
	limit := func(get func(*coordinator.QuotaNode) *coordinator.QuotaLimit, most int64) *coordinator.QuotaLimit {
		var up *coordinator.QuotaLimit
		for p := n.Parent; p >= 0 && up == nil; p = above[p].Parent {
			up = get(&above[p])
		}
		if rapid.IntRange(0, 2).Draw(t, "limited at 0") > 0 {
			return nil
		}
		l := &coordinator.QuotaLimit{Nominal: coordinator.ByWeight}
		switch {
		case up == nil:
			l.Nominal = rapid.Int64Range(0, most).Draw(t, "nominal")
		case model || up.Nominal != coordinator.ByWeight && rapid.Bool().Draw(t, "its own"):
			l.Nominal = rapid.Int64Range(0, up.Nominal/8).Draw(t, "nominal")
		}
		if up != nil {
			l.Period, l.Per = up.Period, up.Per
		}
		if model && rapid.IntRange(0, 3).Draw(t, "the file says at 0") > 0 { // else it is its provider's word
			l.Borrow, l.Lend = coordinator.Bound{Kind: coordinator.BoundAmount}, coordinator.Bound{Kind: coordinator.BoundAmount}
		}
		return l
	}
	for _, d := range []coordinator.Dimension{coordinator.DimRequests, coordinator.DimOutputTokens,
		coordinator.DimTotalTokens, coordinator.DimCost} {
		n.Budgets[d] = limit(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Budgets[d] },
			[...]int64{8, 0, 150, 400, 1e15}[d])
		if b := n.Budgets[d]; b != nil && b.Period == (coordinator.Period{}) {
			b.Period = coordinator.Period{
				Unit: rapid.SampledFrom([]coordinator.PeriodUnit{coordinator.PerMinute, coordinator.PerHour}).Draw(t, "period")}
		}
	}
	if r := limit(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Rates[coordinator.DimRequests] },
		6); r != nil {
		if r.Per == 0 {
			r.Per = rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "per")
		}
		r.Burst = rapid.Int64Range(0, 3).Draw(t, "burst")
		n.Rates[coordinator.DimRequests] = r
	}
	n.Seats = limit(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Seats }, 4)
}

// drawUsage draws what a task takes, or is said to take; nil: nothing is said.
func drawUsage(t *rapid.T) *coordinator.Usage {
	if rapid.Bool().Draw(t, "says nothing") {
		return nil
	}
	if rapid.IntRange(0, 11).Draw(t, "as much as a message can say at 0") == 0 {
		return &coordinator.Usage{Requests: 1e15, InputTokens: 1e15, OutputTokens: 1e15, CostUSD: 1e15}
	}
	u := &coordinator.Usage{InputTokens: float64(rapid.SampledFrom([]int{0, 10, 100}).Draw(t, "in")),
		OutputTokens: float64(rapid.SampledFrom([]int{0, 1, 30, 100}).Draw(t, "out"))}
	if rapid.IntRange(0, 3).Draw(t, "of a provider at 0") == 0 {
		u.Provider, u.Model = rapid.SampledFrom(quotaProviders).Draw(t, "provider"),
			rapid.SampledFrom([]string{"", quotaModels[0], quotaModels[1], "unlisted"}).Draw(t, "model")
	}
	return u
}

// drawAlternatives are the models that a task may go to; mostly it has no choice.
func drawAlternatives(t *rapid.T) (all []coordinator.Service) {
	if rapid.IntRange(0, 3).Draw(t, "has a choice at 0") > 0 {
		return nil
	}
	for range rapid.IntRange(1, 3).Draw(t, "alternatives") {
		all = append(all, coordinator.Service{
			Provider: rapid.SampledFrom(quotaProviders).Draw(t, "provider"),
			Model:    rapid.SampledFrom([]string{"", quotaModels[0], quotaModels[1], "unlisted"}).Draw(t, "model"),
		})
	}
	return all
}

// showQuotas renders quotas for the history that is printed when a run fails.
func showQuotas(q *coordinator.Quotas) (s string) {
	if q == nil {
		return ""
	}
	for i := range q.Nodes {
		n := &q.Nodes[i]
		s += fmt.Sprintf("\n\t%s ×%d rule %d priority %d by %q", n.ID, n.Weight, n.Borrowing.Rule, n.Borrowing.Priority,
			n.Provider)
		for d := range coordinator.Dimension(coordinator.NumDimensions) {
			if b := n.Budgets[d]; b != nil {
				s += fmt.Sprintf(", %d %s each period %d", b.Nominal, d, b.Period.Unit)
			}
			if r := n.Rates[d]; r != nil {
				s += fmt.Sprintf(", %d %s for %s, burst %d", r.Nominal, d, r.Per, r.Burst)
			}
		}
		if n.Seats != nil {
			s += fmt.Sprintf(", %d seats", n.Seats.Nominal)
		}
	}
	return s
}

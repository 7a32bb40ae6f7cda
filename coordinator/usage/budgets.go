package usage

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// BudgetForecast is what will become of one budget.
type BudgetForecast struct {
	Node   *view.QuotaNode
	Budget *view.QuotaBudget
	Outlook
	at time.Time
}

// Past is what was used on the whole days before today that forecasts rest on.
type Past struct {
	Rows []Row
	// The first and the last of the days; empty: there is none.
	From, To string
	// Unknown are those of which a part is missing that matters.
	Unknown map[string]bool
}

// gapMatters is how much of a day must be missing in the history for what is there of it to say
// nothing.
const gapMatters = time.Hour

// mostPastRows bounds what forecasts read of the history.
const mostPastRows = 200_000

// ReadPast asks for the past as of at, of a history that is complete since then; zero: there is
// none. What lies in the gaps is missing. Days begin in the zone; nil: UTC. An error is that of ask,
// or says that there is too much.
func ReadPast(at, since time.Time, gaps []Gap, zone *time.Location,
	ask func(Query) (rows []Row, more bool, err error)) (Past, error) {
	if since.IsZero() {
		return Past{}, nil
	}
	if zone == nil {
		zone = time.UTC
	}
	day := func(t time.Time, more int) string {
		y, m, d := t.In(zone).Date()
		return time.Date(y, m, d+more, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	}
	p := Past{From: max(day(since, 1), day(at, -MostDays)), To: day(at, -1)}
	if p.From > p.To {
		return Past{}, nil
	}
	p.Unknown = unknownDays(at, gaps, zone)
	var more bool
	var err error
	if p.Rows, more, err = ask(Query{By: ByDay, From: p.From, To: p.To, Limit: mostPastRows}); err != nil {
		return Past{}, err
	}
	if !more || len(p.Rows) == 0 {
		return p, nil
	}
	// Of the first day not all rows are there.
	cut := p.Rows[0].Day
	if cut >= p.To {
		return Past{}, fmt.Errorf("a single day has more than %d rows: ask for a node's history instead", mostPastRows)
	}
	for len(p.Rows) > 0 && p.Rows[0].Day == cut {
		p.Rows = p.Rows[1:]
	}
	first, err := time.Parse(time.DateOnly, cut)
	if err != nil {
		return Past{}, fmt.Errorf("the history has a row of the day %q, which is none", cut)
	}
	p.From = first.AddDate(0, 0, 1).Format(time.DateOnly)
	return p, nil
}

// unknownDays are those of the last MostDays before at of which more than gapMatters is missing.
func unknownDays(at time.Time, gaps []Gap, zone *time.Location) map[string]bool {
	unknown := make(map[string]bool)
	y, m, d := at.In(zone).Date()
	for back := 1; back <= MostDays; back++ {
		begin, end := time.Date(y, m, d-back, 0, 0, 0, 0, zone), time.Date(y, m, d-back+1, 0, 0, 0, 0, zone)
		var missing time.Duration
		for _, g := range gaps {
			from, to := g.From, g.To
			if to.IsZero() { // it goes on
				to = at
			}
			if from.IsZero() {
				from = to
			}
			missing += max(0, within(to, begin, end).Sub(within(from, begin, end)))
		}
		if missing > gapMatters {
			unknown[begin.Format(time.DateOnly)] = true
		}
	}
	return unknown
}

// Forecasts are those of all budgets, or of one node's, in the order of the nodes, whose parents
// come before them. They point into nodes.
func Forecasts(nodes []view.QuotaNode, only string, at time.Time, zone *time.Location, past *Past) []BudgetForecast {
	places, groups := placesOf(nodes)
	wanted := make(map[Place]bool)
	for i := range nodes {
		if n := &nodes[i]; len(n.Budgets) > 0 && (only == "" || n.ID == only) {
			wanted[places[n.ID]] = true
		}
	}
	used := ByPlace(past.Rows, groups, wanted)
	var all []BudgetForecast
	for i := range nodes {
		n := &nodes[i]
		if only != "" && n.ID != only {
			continue
		}
		for j := range n.Budgets {
			b := &n.Budgets[j]
			c := Course{Used: b.Used, Cap: b.Cap, Begin: b.PeriodFrom, End: b.ResetTime,
				Now: within(at, b.PeriodFrom, b.ResetTime), Location: zone}
			if past.From != "" {
				days := make(map[string]float64)
				for day, counts := range used[places[n.ID]] { // order does not matter
					days[day] = counts.of(b.Dimension)
				}
				c.Days = Series(days, past.From, past.To, past.Unknown)
			}
			all = append(all, BudgetForecast{n, b, Forecast(&c), c.Now})
		}
	}
	return all
}

// within is the time, or that end of a period that is next to it.
func within(at, from, until time.Time) time.Time {
	if at.After(until) {
		at = until
	}
	if at.Before(from) {
		return from
	}
	return at
}

// of is how much of a dimension was used, costs in US dollars.
func (c *Counts) of(dimension string) float64 {
	switch dimension {
	case coordinator.DimRequests.String():
		return float64(c.Requests)
	case coordinator.DimInputTokens.String():
		return float64(c.InputTokens)
	case coordinator.DimOutputTokens.String():
		return float64(c.OutputTokens)
	case coordinator.DimTotalTokens.String():
		return float64(c.TotalTokens)
	}
	return float64(c.Cost) / 1e6
}

// placesOf returns for every node what counts for it, and which agents belong to which groups.
func placesOf(nodes []view.QuotaNode) (places map[string]Place, groups *Groups) {
	places, groups = make(map[string]Place, len(nodes)),
		&Groups{Above: make(map[string]string), Of: make(map[string]string)}
	for i := range nodes { // parents come before their children
		n := &nodes[i]
		p := places[n.Parent]
		switch n.Kind {
		case coordinator.QuotaPool.String():
			if n.Name != "pool" {
				p.Provider = n.Name
			}
		case coordinator.QuotaModel.String():
			p.Model = n.Name
		case coordinator.QuotaGroup.String():
			if p.Group != "" {
				groups.Above[n.Name] = p.Group
			}
			p.Group = n.Name
		case coordinator.QuotaAgent.String():
			if p.Agent = n.Name; p.Provider == "" {
				groups.Of[n.Name] = p.Group
			}
		}
		places[n.ID] = p
	}
	return places, groups
}

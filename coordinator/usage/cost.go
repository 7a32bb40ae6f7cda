package usage

import (
	"cmp"
	"slices"
)

// CostLine is what one group, agent or model has cost.
type CostLine struct {
	// Group of a group or agent, Agent of an agent, Provider and Model of a model.
	Group, Agent, Provider, Model string
	Counts
	// Share of the cost of all, 0 to 1; 0 where nothing has cost anything.
	Share float64
	// Unpriced: it has used tokens, and cost nothing. There is no price for it, or it is free.
	Unpriced bool
}

// CostReport is what everything has cost together, and each group, agent and model: the dearest first, of
// equal cost the one with more tokens.
type CostReport struct {
	Total                  Counts
	Groups, Agents, Models []CostLine
}

// Costs adds up rows. Models are those of providers, whichever of their keys was used, unless the
// rows are those of one key, which is the provider that was asked for.
func Costs(rows []Row, provider string) CostReport {
	var r CostReport
	groups, agents, models := map[Key]*Counts{}, map[Key]*Counts{}, map[Key]*Counts{}
	for i := range rows {
		c := &rows[i]
		r.Total.Add(&c.Counts)
		add(groups, Key{Group: c.Group}, &c.Counts)
		add(agents, Key{Group: c.Group, Agent: c.Agent}, &c.Counts)
		add(models, Key{Provider: BilledAs(c.Provider, provider), Model: c.Model}, &c.Counts)
	}
	r.Groups, r.Agents, r.Models = lines(groups, r.Total.Cost), lines(agents, r.Total.Cost), lines(models, r.Total.Cost)
	return r
}

func add(to map[Key]*Counts, k Key, c *Counts) {
	if to[k] == nil {
		to[k] = new(Counts)
	}
	to[k].Add(c)
}

func lines(of map[Key]*Counts, total int64) []CostLine {
	var all []CostLine
	for _, r := range sorted(of) {
		l := CostLine{Group: r.Group, Agent: r.Agent, Provider: r.Provider, Model: r.Model, Counts: r.Counts,
			Unpriced: r.Cost == 0 && r.TotalTokens > 0}
		if total > 0 {
			l.Share = float64(r.Cost) / float64(total)
		}
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b CostLine) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.TotalTokens, a.TotalTokens))
	})
	return all
}

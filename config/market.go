package config

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// notInBatches says why tasks for which agents bid are not decided in batches.
const notInBatches = "agents bid for one task at a time in a market, while a batch goes to one agent as a whole"

// fallback is what agents.yaml says of what a market falls back to.
type fallback struct {
	// name of a strategy, or first_match; empty when nothing is said.
	name string
	at   place
}

// fallback reads what a market is built on.
func (d *decoder) fallback(into *fallback) reader {
	return func(p place) {
		if p.Scalar() && p.Node.Value == strategy.MarketName {
			d.Fault(p, "a market cannot fall back to itself; choose another strategy, or %s", strategy.FallbackFirstMatch)
			return
		}
		into.at = p
		d.Known(&into.name, "strategy", fallbacks)(p)
	}
}

// fallbacks lists what a market may fall back to.
func fallbacks() []string {
	names := slices.DeleteFunc(strategy.Names(), func(name string) bool { return name == strategy.MarketName })
	return append(names, strategy.FallbackFirstMatch)
}

// bidWindow reads how long bids are taken, at most or at least.
func (d *decoder) bidWindow(into *time.Duration) reader {
	return d.Milliseconds(into, strategy.LeastBidWindow, strategy.MostBidWindow)
}

// market builds the market once the other strategies are there. f is what it falls
// back to.
func (d *decoder) market(listed *listedStrategies, key place, o strategy.Options, f fallback) {
	at := f.at
	switch f.name {
	case strategy.FallbackFirstMatch:
		o.Market.FirstMatch = true
		d.build(listed, key, strategy.MarketName, o)
		return
	case "":
		f.name, at = strategy.DefaultFallback, key
	}
	if !slices.Contains(listed.on, f.name) {
		if at == key {
			d.Fault(at,
				"falls back to %s, which is not enabled; list that with enabled: true, or name another strategy, or %s, as its "+
					"fallback", f.name, strategy.FallbackFirstMatch)
		} else {
			d.Fault(at, "%s, or %s", disabled(f.name), strategy.FallbackFirstMatch)
		}
		return
	}
	i := slices.IndexFunc(listed.enabled, func(s coordinator.Strategy) bool { return s.Name == f.name })
	if i < 0 {
		return // what is wrong with it has been said
	}
	base := listed.enabled[i]
	o.Market.Fallback = &base
	d.build(listed, key, strategy.MarketName, o)
}

// checkBatch sees that tasks that are decided in batches are not put up for bids.
func (d *decoder) checkBatch(p place, route *coordinator.Route, c *Config) {
	if route.Batch.MaxSize < 2 {
		return
	}
	const instead = "remove batch, or choose another strategy for this task type"
	at := p.Child("batch", p)
	switch {
	case route.Strategy == strategy.MarketName:
		d.Fault(at, "%s; %s", notInBatches, instead)
	case route.Strategy == "" && c.policy.Strategy == strategy.MarketName:
		d.Fault(at, "%s, and the default strategy is market; %s", notInBatches, instead)
	}
}

// batched is a task type that is decided in batches by the default strategy: the
// first by name; empty if there is none.
func batched(routes map[string]coordinator.Route) string {
	for _, taskType := range slices.Sorted(maps.Keys(routes)) {
		if route := routes[taskType]; route.Batch.MaxSize > 1 && route.Strategy == "" {
			return taskType
		}
	}
	return ""
}

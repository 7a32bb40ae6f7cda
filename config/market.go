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
		name := p.node.Value
		switch {
		case !isScalar(p.node) || name != strategy.FallbackFirstMatch && !strategy.Known(name):
			d.fault(p, "no strategy is called %s%s", found(p.node), d.suggest(name, fallbacks))
		case name == strategy.MarketName:
			d.fault(p, "a market cannot fall back to itself; choose another strategy, or %s", strategy.FallbackFirstMatch)
		default:
			*into = fallback{name, p}
		}
	}
}

// fallbacks lists what a market may fall back to.
func fallbacks() []string {
	names := slices.DeleteFunc(strategy.Names(), func(name string) bool { return name == strategy.MarketName })
	return append(names, strategy.FallbackFirstMatch)
}

// milliseconds reads a whole number of milliseconds, from the least to the most.
func (d *decoder) milliseconds(into *time.Duration, least, most time.Duration) reader {
	return func(p place) {
		n := int64(*into / time.Millisecond)
		whole(d, &n, least.Milliseconds(), most.Milliseconds())(p)
		*into = time.Duration(n) * time.Millisecond
	}
}

// bidWindow reads how long bids are taken, at most or at least.
func (d *decoder) bidWindow(into *time.Duration) reader {
	return d.milliseconds(into, strategy.LeastBidWindow, strategy.MostBidWindow)
}

// choice reads one of two words, the second of which switches something on.
func (d *decoder) choice(into *bool, off, on string) reader {
	return func(p place) {
		word := off
		oneOf(d, &word, off, on)(p)
		*into = word == on
	}
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
			d.fault(at,
				"falls back to %s, which is not enabled; list that with enabled: true, or name another strategy, or %s, as its fallback", f.name, strategy.FallbackFirstMatch)
		} else {
			d.fault(at, "%s, or %s", disabled(f.name), strategy.FallbackFirstMatch)
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
	at := child(p, "batch", p)
	switch {
	case route.Strategy == strategy.MarketName:
		d.fault(at, "%s; %s", notInBatches, instead)
	case route.Strategy == "" && c.policy.Strategy == strategy.MarketName:
		d.fault(at, "%s, and the default strategy is market; %s", notInBatches, instead)
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

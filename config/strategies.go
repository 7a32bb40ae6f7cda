package config

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"taskbus/config/formula"
	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// strategyName reads the name of a strategy that exists, enabled or not; "" if there is none.
func (d *decoder) strategyName(p place) (name string) {
	d.Known(&name, "strategy", strategy.Names)(p)
	return name
}

// notEnabled says why a known strategy may not be chosen; empty if it may.
func notEnabled(name string, c *Config) string {
	if _, enabled := c.policy.Find(name); enabled {
		return ""
	}
	return disabled(name)
}

func disabled(name string) string {
	return "the strategy " + name +
		" is not enabled; list it under assignment_strategies with enabled: true, or choose another"
}

// listedStrategies is the section assignment_strategies while it is being read.
type listedStrategies struct {
	enabled []coordinator.Strategy
	// on names those that are not switched off, right or wrong.
	on []string
	// marked as the default; empty if none is.
	marked string
	// market builds the market, which needs the others; nil if there is none.
	market func()
}

// strategies reads the section `assignment_strategies`. Without it every strategy
// that needs no options is enabled; with it only those listed and not switched off.
func (d *decoder) strategies(c *Config) reader {
	return func(p place) {
		if p.Null() {
			return
		}
		before := len(d.Faults)
		var listed listedStrategies
		d.Entries(p, "a mapping of strategy names to settings", func(key, value place) { d.strategy(&listed, key, value) })
		if listed.market != nil {
			listed.market()
		}
		if len(d.Faults) > before {
			// What is wrong here must not make the routes look wrong too.
			return
		}
		slices.SortFunc(listed.enabled, func(a, b coordinator.Strategy) int { return strings.Compare(a.Name, b.Name) })
		c.policy.Strategies = listed.enabled
		_, standard := c.policy.Find(strategy.Default)
		switch {
		case len(listed.enabled) == 0:
			d.Fault(p, "no strategy is enabled; enable at least one of %s, or remove the section to enable all",
				strings.Join(strategy.Names(), ", "))
		case listed.marked != "":
			c.policy.Strategy = listed.marked
		case !standard:
			d.Fault(p,
				"no strategy is marked as the default, and %s, which would be it, is not enabled; add default: true to one",
				strategy.Default)
		}
	}
}

// strategy reads one entry.
func (d *decoder) strategy(listed *listedStrategies, key, value place) {
	before := len(d.Faults)
	name := d.strategyName(key)
	on, isDefault, o, market := true, false, strategy.Defaults(), fallback{}
	settings := readers{"enabled": d.Bool(&on), "default": d.Bool(&isDefault)}
	own := slices.Collect(maps.Keys(settings)) // what is named where a key is unknown
	for option, read := range (readers{
		strategy.OptionWeights:       d.weights(&o.Weights),
		strategy.OptionAffinityLabel: d.Text(&o.AffinityLabel, aLabel),
		strategy.OptionSessionLabel:  d.Text(&o.SessionLabel, aLabel),
		strategy.OptionExploration:   d.Number(&o.Exploration, 0, strategy.MaxExploration),
		strategy.OptionFormula:       d.formula(&o),
		strategy.OptionBidWindow:     d.bidWindow(&o.Market.BidWindow),
		strategy.OptionMinBidWindow:  d.bidWindow(&o.Market.MinBidWindow),
		strategy.OptionFallback:      d.fallback(&market),
		strategy.OptionInvite:        d.OneOf(&o.Market.InviteAll, strategy.InviteSample, strategy.InviteAll),
		strategy.OptionFitness:       d.OneOf(&o.Market.Reported, strategy.FitnessAppraised, strategy.FitnessReported),
		strategy.OptionPrefer:        d.OneOf(&o.Specialists, strategy.PreferGeneralists, strategy.PreferSpecialists),
	}) {
		if name != "" && !strategy.Takes(name, option) {
			settings[option] = func(p place) { d.Fault(p, "%s", strategy.NotTaken(name, option)) }
			continue
		}
		settings[option], own = read, append(own, option)
	}
	d.ObjectOf(value, settings, func() []string { return slices.Sorted(slices.Values(own)) })
	switch {
	case name == "":
		return
	case isDefault && !on:
		d.Fault(value.Child("default", key),
			"a strategy that is not enabled cannot be the default; enable it or mark another")
	case isDefault && listed.marked != "":
		d.Fault(value.Child("default", key), "%s is marked as the default already; only one strategy can be", listed.marked)
	case isDefault:
		listed.marked = name
	}
	if on {
		listed.on = append(listed.on, name)
	}
	switch {
	case !on || len(d.Faults) > before:
	case name == strategy.MarketName:
		listed.market = func() { d.market(listed, key, o, market) }
	default:
		d.build(listed, key, name, o)
	}
}

// build makes a strategy of what its entry says.
func (d *decoder) build(listed *listedStrategies, key place, name string, o strategy.Options) {
	s, err := strategy.Build(name, o)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause // the place names the strategy
		}
		d.Fault(key, "%s", err)
		return
	}
	listed.enabled = append(listed.enabled, s)
}

// weights reads the weights of `weighted`.
func (d *decoder) weights(into *map[string]float64) reader {
	return func(p place) {
		given := make(map[string]float64)
		known := make(readers)
		for _, w := range strategy.Weights() {
			known[w.Term] = func(p place) {
				var weight float64
				d.Number(&weight, 0, strategy.MaxWeight)(p)
				given[w.Term] = weight
			}
		}
		d.Object(p, known)
		*into = given
	}
}

// formula reads and compiles the formula of `expression`.
func (d *decoder) formula(o *strategy.Options) reader {
	return func(p place) {
		if !p.Scalar() || p.Null() {
			d.Fault(p, "must be a formula, e.g. success_rate / (1.0 + load), not %s", p.Found())
			return
		}
		score, err := formula.Compile(p.Node.Value)
		var wrong *formula.Error
		if errors.As(err, &wrong) && wrong.Unknown != "" {
			d.Fault(p, "%s%s", err, d.Suggest(wrong.Unknown, formula.Names))
			return
		}
		if err != nil {
			d.Fault(p, "%s", err)
			return
		}
		o.Formula, o.FormulaText = score, p.Node.Value
	}
}

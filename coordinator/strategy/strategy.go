package strategy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"taskbus/coordinator"
)

// Score is a formula of agents.yaml, compiled elsewhere: the score of one agent,
// larger is better. An error, NaN or an infinity means that the agent has none.
type Score func(*coordinator.Case, *coordinator.AgentView, *coordinator.Standing) (float64, error)

// Options are what agents.yaml may say of a strategy. A kind uses those that
// concern it and refuses the others.
type Options struct {
	// Weights of the terms of `weighted`, by name, each from 0 to MaxWeight. A term
	// that is not named keeps its default weight.
	Weights map[string]float64
	// AffinityLabel names the label in which task and agent should agree;
	// SessionLabel the label of a task whose equals should go to the same agent.
	AffinityLabel, SessionLabel string
	// Exploration is the share of tasks for which success rates are drawn, 0 to
	// MaxExploration; negative means the default.
	Exploration float64
	// Formula is the compiled text of FormulaText.
	Formula     Score
	FormulaText string
	Market      MarketOptions
	// Specialists: of the agents that can do a task the one that is needed least for other work.
	Specialists bool
}

// The options by the names they have in agents.yaml.
const (
	OptionWeights       = "weights"
	OptionAffinityLabel = "affinity_label"
	OptionSessionLabel  = "session_label"
	OptionExploration   = "exploration"
	OptionFormula       = "formula"
	OptionBidWindow     = "bid_window_ms"
	OptionMinBidWindow  = "min_bid_window_ms"
	OptionFallback      = "fallback"
	OptionInvite        = "invite"
	OptionFitness       = "fitness"
	OptionPrefer        = "prefer"
)

// given lists the options that ask for something.
func (o *Options) given() []string {
	var names []string
	for _, x := range []struct {
		name  string
		given bool
	}{
		{OptionWeights, len(o.Weights) > 0},
		{OptionAffinityLabel, o.AffinityLabel != ""},
		{OptionSessionLabel, o.SessionLabel != ""},
		{OptionExploration, o.Exploration > 0 || o.Exploration != o.Exploration},
		{OptionFormula, o.Formula != nil || o.FormulaText != ""},
		{OptionBidWindow, o.Market.BidWindow != 0},
		{OptionMinBidWindow, o.Market.MinBidWindow != 0},
		{OptionFallback, o.Market.Fallback != nil || o.Market.FirstMatch},
		{OptionInvite, o.Market.InviteAll},
		{OptionFitness, o.Market.Reported},
		{OptionPrefer, o.Specialists},
	} {
		if x.given {
			names = append(names, x.name)
		}
	}
	return names
}

// Defaults are the options of a strategy of which agents.yaml says nothing.
func Defaults() Options { return Options{Exploration: -1} }

// kind is one way to choose, before it is configured.
type kind struct {
	name string
	// make builds the strategy, or says what is wrong with the options.
	make func(Options) (coordinator.Strategy, error)
	// options that it takes, by their names in agents.yaml.
	options []string
	// configured kinds do nothing without options: they are enabled only where
	// agents.yaml lists them.
	configured bool
}

// Default is used where no configuration names another.
const Default = CapabilityMatchName

// registry is every kind there is. Sorted by name.
var registry = []kind{
	{name: CapabilityMatchName, make: newCapabilityMatch, options: []string{OptionPrefer}},
	{name: ExpressionName, make: newExpression, options: []string{OptionFormula, OptionAffinityLabel, OptionSessionLabel},
		configured: true},
	{name: LeastLoadedName, make: plain(leastLoaded)},
	{name: LoadBalancedName, make: plain(loadBalanced)},
	{name: MarketName, make: newMarket, options: []string{OptionBidWindow, OptionMinBidWindow, OptionFallback,
		OptionInvite, OptionFitness}},
	{name: PriorityBasedName, make: plain(priorityBased)},
	{name: RewardRateName, make: newRewardRate, options: []string{OptionExploration}},
	{name: RoundRobinName, make: plain(roundRobin)},
	{name: WeightedName, make: newWeighted, options: []string{OptionWeights, OptionAffinityLabel, OptionSessionLabel}},
}

// Names lists the known strategies, sorted.
func Names() []string {
	names := make([]string, len(registry))
	for i := range registry {
		names[i] = registry[i].name
	}
	return names
}

// Known reports whether there is a strategy of that name.
func Known(name string) bool { return find(name) != nil }

// Build makes the strategy of that name with these options. The error says what
// is wrong with them.
func Build(name string, o Options) (coordinator.Strategy, error) {
	k := find(name)
	if k == nil {
		return coordinator.Strategy{}, fmt.Errorf("no strategy is called %q; known are %s", name, strings.Join(Names(), ", "))
	}
	for _, option := range o.given() {
		if !slices.Contains(k.options, option) {
			return coordinator.Strategy{}, errors.New(NotTaken(name, option))
		}
	}
	s, err := k.make(o)
	if err != nil {
		return coordinator.Strategy{}, fmt.Errorf("strategy %s: %w", name, err)
	}
	return s, nil
}

// Takes reports whether the strategy of that name has the option.
func Takes(name, option string) bool {
	k := find(name)
	return k != nil && slices.Contains(k.options, option)
}

// NotTaken says of an option that the strategy of that name does not have which ones have it.
func NotTaken(name, option string) string {
	var takers []string
	for i := range registry {
		if slices.Contains(registry[i].options, option) {
			takers = append(takers, registry[i].name)
		}
	}
	return fmt.Sprintf("%s is an option of %s, not of %s; remove it", option, strings.Join(takers, " and "), name)
}

// All builds every strategy that needs no options, sorted by name.
func All() []coordinator.Strategy {
	var all []coordinator.Strategy
	for _, k := range registry {
		if k.configured {
			continue
		}
		if s, err := k.make(Defaults()); err == nil {
			all = append(all, s)
		}
	}
	return all
}

func find(name string) *kind {
	i, ok := slices.BinarySearchFunc(registry, name,
		func(k kind, name string) int { return strings.Compare(k.name, name) })
	if !ok {
		return nil
	}
	return &registry[i]
}

// plain is a strategy that has no options.
func plain(s coordinator.Strategy) func(Options) (coordinator.Strategy, error) {
	return func(Options) (coordinator.Strategy, error) { return s, nil }
}

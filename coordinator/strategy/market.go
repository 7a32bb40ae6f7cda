package strategy

import (
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator"
)

// MarketName is ADR-004's: agents bid for a task before it is given out.
const MarketName = "market"

// What a market is where nothing else is said.
const (
	// DefaultBidWindow is ADR-004's, and DefaultMinBidWindow the least it speaks of.
	DefaultBidWindow    = 500 * time.Millisecond
	DefaultMinBidWindow = 100 * time.Millisecond
	// DefaultFallback knows from results which agents are good at what, and asks specialists
	// before generalists: it chooses well which agents to ask.
	DefaultFallback = LoadBalancedName
)

// LeastBidWindow and MostBidWindow bound both windows.
const (
	LeastBidWindow = 100 * time.Millisecond
	MostBidWindow  = time.Minute
)

// The words of agents.yaml for the options of market.
const (
	// FallbackFirstMatch stands for no strategy: see MarketOptions.FirstMatch.
	FallbackFirstMatch = "first_match"
	InviteSample       = "sample"
	InviteAll          = "all"
	FitnessAppraised   = "appraised"
	FitnessReported    = "reported"
)

// MarketOptions are the options of `market`.
type MarketOptions struct {
	// BidWindow and MinBidWindow are how long bids are taken, at most and at least; 0
	// stands for the default.
	BidWindow, MinBidWindow time.Duration
	// Fallback chooses which agents to ask, and which gets a task without bids; nil
	// stands for the default, without options. It is not market itself.
	Fallback *coordinator.Strategy
	// FirstMatch, in place of a Fallback, gives such a task to the first eligible agent
	// by id. Which agents are asked is then decided by capability_match.
	FirstMatch bool
	// InviteAll and Reported as in [coordinator.Market].
	InviteAll, Reported bool
}

func newMarket(o Options) (coordinator.Strategy, error) {
	m := o.Market
	if m.BidWindow == 0 {
		m.BidWindow = DefaultBidWindow
	}
	if m.MinBidWindow == 0 {
		m.MinBidWindow = DefaultMinBidWindow
	}
	if err := m.check(); err != nil {
		return coordinator.Strategy{}, err
	}
	base, decides := m.base()
	invite, fitness := InviteSample, FitnessAppraised
	if m.InviteAll {
		invite = InviteAll
	}
	if m.Reported {
		fitness = FitnessReported
	}
	about := base.Name + " chooses which agents are asked, and decides where none bids"
	if m.FirstMatch {
		about = base.Name + " chooses which agents are asked, and where none bids the first by id gets the task"
	}
	s := *base // its rules, under another name
	s.Name = MarketName
	s.About = "the best bid of the agents that are asked; " + about
	s.Parameters = fmt.Sprintf("bid_window_ms=%d min_bid_window_ms=%d invite=%s fitness=%s fallback=%s",
		m.BidWindow.Milliseconds(), m.MinBidWindow.Milliseconds(), invite, fitness, decides)
	if base.Parameters != "" {
		s.Parameters += " (" + base.Parameters + ")"
	}
	s.Market = &coordinator.Market{
		Floor: m.MinBidWindow, Ceiling: m.BidWindow,
		InviteAll: m.InviteAll, Reported: m.Reported, FirstMatch: m.FirstMatch, Fallback: decides,
	}
	return s, nil
}

// base is the strategy that the market is built on, and the word of agents.yaml for it.
func (m *MarketOptions) base() (s *coordinator.Strategy, fallback string) {
	switch {
	case m.FirstMatch:
		return &capabilityMatch, FallbackFirstMatch
	case m.Fallback == nil:
		return &loadBalanced, DefaultFallback
	default:
		return m.Fallback, m.Fallback.Name
	}
}

// check says what is wrong with the options once they are complete.
func (m *MarketOptions) check() error {
	for _, window := range []struct {
		name  string
		value time.Duration
	}{{OptionBidWindow, m.BidWindow}, {OptionMinBidWindow, m.MinBidWindow}} {
		if window.value < LeastBidWindow || window.value > MostBidWindow {
			return fmt.Errorf("%s must be from %d to %d, not %d",
				window.name, LeastBidWindow.Milliseconds(), MostBidWindow.Milliseconds(), window.value.Milliseconds())
		}
	}
	switch {
	case m.MinBidWindow > m.BidWindow:
		return fmt.Errorf("%s (%d) is more than %s (%d); lower the one or raise the other",
			OptionMinBidWindow, m.MinBidWindow.Milliseconds(), OptionBidWindow, m.BidWindow.Milliseconds())
	case m.Fallback != nil && m.FirstMatch:
		return errors.New("it cannot fall back both to " + m.Fallback.Name + " and to " + FallbackFirstMatch + "; choose one")
	case m.Fallback != nil && m.Fallback.Market != nil:
		return errors.New("it cannot fall back to a market; choose another strategy, or " + FallbackFirstMatch)
	}
	return nil
}

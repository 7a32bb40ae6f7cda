package strategy

import (
	"math"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
)

// market builds a market, which the test knows to be possible.
func market(t *testing.T, m MarketOptions) coordinator.Strategy {
	t.Helper()
	s, err := Build(MarketName, Options{Exploration: -1, Market: m})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// built makes the strategy that a market falls back to.
func built(t *testing.T, name string, o Options) *coordinator.Strategy {
	t.Helper()
	s, err := Build(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestMarketSettings(t *testing.T) {
	weighted := built(t, WeightedName, Options{Exploration: -1, AffinityLabel: "zone"})
	tests := []struct {
		name       string
		options    MarketOptions
		want       coordinator.Market
		parameters string
	}{
		{"of ADR-004, appraised", MarketOptions{},
			coordinator.Market{Floor: 100 * time.Millisecond, Ceiling: 500 * time.Millisecond, Fallback: "load_balanced"},
			"bid_window_ms=500 min_bid_window_ms=100 invite=sample fitness=appraised fallback=load_balanced"},
		{"of ADR-004 to the letter", MarketOptions{InviteAll: true, Reported: true, FirstMatch: true},
			coordinator.Market{Floor: 100 * time.Millisecond, Ceiling: 500 * time.Millisecond, InviteAll: true, Reported: true,
				FirstMatch: true, Fallback: "first_match"},
			"bid_window_ms=500 min_bid_window_ms=100 invite=all fitness=reported fallback=first_match"},
		{"the shortest there can be", MarketOptions{BidWindow: LeastBidWindow},
			coordinator.Market{Floor: 100 * time.Millisecond, Ceiling: 100 * time.Millisecond, Fallback: "load_balanced"},
			"bid_window_ms=100 min_bid_window_ms=100 invite=sample fitness=appraised fallback=load_balanced"},
		{"always the longest there can be", MarketOptions{BidWindow: MostBidWindow, MinBidWindow: MostBidWindow},
			coordinator.Market{Floor: time.Minute, Ceiling: time.Minute, Fallback: "load_balanced"},
			"bid_window_ms=60000 min_bid_window_ms=60000 invite=sample fitness=appraised fallback=load_balanced"},
		{"with the options of what it is built on", MarketOptions{Fallback: weighted},
			coordinator.Market{Floor: 100 * time.Millisecond, Ceiling: 500 * time.Millisecond, Fallback: "weighted"},
			"bid_window_ms=500 min_bid_window_ms=100 invite=sample fitness=appraised fallback=weighted (" + weighted.Parameters +
				")"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := market(t, tt.options)
			if s.Name != MarketName || s.Market == nil || *s.Market != tt.want {
				t.Errorf("%s with %+v, want market with %+v", s.Name, s.Market, tt.want)
			}
			if s.Parameters != tt.parameters {
				t.Errorf("parameters\n%s, want\n%s", s.Parameters, tt.parameters)
			}
		})
	}
}

// A market ranks, explains and explores as what it is built on; that itself asks
// none.
func TestMarketChoosesAsItsFallback(t *testing.T) {
	agent := &coordinator.AgentView{ID: "a1", Load: 0.5, Max: 4, Free: 2, Rank: 2, Capabilities: 3, Flexibility: 1.5,
		LastAssigned: 7}
	standing := &coordinator.Standing{Success: 0.9, Duration: 15}
	byLoadOf := func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) (float64, error) {
		return a.Load, nil
	}
	tests := []struct {
		base    *coordinator.Strategy
		options MarketOptions
		want    coordinator.Key
	}{
		// ADR-018: −0.9 / (1 + 0.5) = −0.6, then flexibility.
		{&loadBalanced, MarketOptions{}, coordinator.Key{First: -0.9 / 1.5, Second: 1.5}},
		// COORDINATOR: (current_load, −len(capabilities)) = (0.5, −3).
		{&capabilityMatch, MarketOptions{FirstMatch: true}, coordinator.Key{First: 0.5, Second: -3}},
		{&roundRobin, MarketOptions{Fallback: &roundRobin}, coordinator.Key{First: 7}},
		// 0.9 · 30 / (15 · 1.5) = 1.2, then flexibility.
		{built(t, RewardRateName, Options{Exploration: 0.2}), MarketOptions{}, coordinator.Key{First: -1.2, Second: 1.5}},
		{built(t, ExpressionName, Options{Exploration: -1, Formula: byLoadOf, FormulaText: "load"}), MarketOptions{},
			coordinator.Key{First: -0.5, Second: 1.5}},
	}
	for _, tt := range tests {
		t.Run(tt.base.Name, func(t *testing.T) {
			if tt.options == (MarketOptions{}) && tt.base != &loadBalanced {
				tt.options.Fallback = tt.base
			}
			s := market(t, tt.options)
			c := &coordinator.Case{Task: &coordinator.Task{}, Reference: 30}
			if s.Prepare != nil {
				s.Prepare(c)
			}
			key := s.Key(c, agent, standing)
			if math.Abs(key.First-tt.want.First) > 1e-12 || key.Second != tt.want.Second {
				t.Errorf("key %v, want %v", key, tt.want)
			}
			same := slices.Equal(s.Terms, tt.base.Terms) && s.Learned == tt.base.Learned && s.Scored == tt.base.Scored &&
				s.Exploration == tt.base.Exploration && s.Sample == tt.base.Sample &&
				(s.Explain == nil) == (tt.base.Explain == nil) && (s.Prepare == nil) == (tt.base.Prepare == nil) &&
				(s.Why == nil) == (tt.base.Why == nil)
			if !same {
				t.Errorf("the market is %+v, built on %+v", s, tt.base)
			}
			if tt.base.Market != nil || tt.base.Name == MarketName {
				t.Errorf("building a market on %s has changed it", tt.base.Name)
			}
		})
	}
}

func TestMarketOptionsThatCannotBe(t *testing.T) {
	other := market(t, MarketOptions{})
	tests := []struct {
		name    string
		options MarketOptions
		want    string
	}{
		{"too short", MarketOptions{BidWindow: 99 * time.Millisecond}, "bid_window_ms must be from 100 to 60000, not 99"},
		{"too long", MarketOptions{BidWindow: time.Hour}, "bid_window_ms must be from 100 to 60000, not 3600000"},
		{"at least nothing", MarketOptions{MinBidWindow: -time.Millisecond},
			"min_bid_window_ms must be from 100 to 60000, not -1"},
		{"at least more than at most", MarketOptions{BidWindow: 200 * time.Millisecond, MinBidWindow: 201 * time.Millisecond},
			"min_bid_window_ms (201) is more than bid_window_ms (200); lower the one or raise the other"},
		{"at least more than the default", MarketOptions{MinBidWindow: time.Second},
			"min_bid_window_ms (1000) is more than bid_window_ms (500); lower the one or raise the other"},
		{"two fallbacks", MarketOptions{FirstMatch: true, Fallback: &loadBalanced},
			"it cannot fall back both to load_balanced and to first_match; choose one"},
		{"a market of markets", MarketOptions{Fallback: &other},
			"it cannot fall back to a market; choose another strategy, or first_match"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Build(MarketName, Options{Exploration: -1, Market: tt.options}); err == nil ||
				err.Error() != "strategy market: "+tt.want {
				t.Errorf("got  %v\nwant strategy market: %s", err, tt.want)
			}
		})
	}
}

// No other strategy asks agents: without market there is none.
func TestOnlyMarketAsks(t *testing.T) {
	for _, s := range All() {
		if (s.Market != nil) != (s.Name == MarketName) {
			t.Errorf("%s: its market is %+v", s.Name, s.Market)
		}
	}
}

package state

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/market"
)

// The market's objects, by the kernel's tasks and agents.
type (
	Lot    = market.Lot[*Task, *Agent]
	Bidder = market.Bidder[*Agent]
	Closed = market.Closed[*Task, *Agent]
)

// MarketView is what the market reads of the engine.
type marketView State

func (s *State) MarketView() *marketView { return (*marketView)(s) }

func (v *marketView) Slots(a *Agent) int { return a.Free() }

func (v *marketView) Late(t *Task) bool { return t.Late(v.Now) }

func (v *marketView) Free(t *Task, id coordinator.AgentID) int {
	if a := v.Fleet.ByID[id]; a != nil && v.Fleet.Ready.Has(a.Number) && t.Needs.Class.Usable.Has(a.Number) {
		return a.Free()
	}
	return 0
}

func (v *marketView) Merit(t *Task, a *Agent) auction.Merit {
	s := (*State)(v).trackRecords(t)
	known := s.Of(a.Number)
	return auction.Merit{
		Coverage: 1, // an agent that lacks a capability is not asked
		Success:  known.Success,
		Depth:    auction.Depth(v.Learner.Outcomes(a.Number, t.Needs.kind)),
		Active:   a.InFlight(),
		Duration: fleet.DurationOf(known.Duration),
	}
}

func (v *marketView) Affords(t *Task, id coordinator.AgentID) bool {
	return v.Quotas.Affords(v.Now, t.Task, (*State)(v).QuotaDemand(t), id)
}

func (v *marketView) Agent(id coordinator.AgentID) *coordinator.AgentView {
	if a := v.Fleet.ByID[id]; a != nil {
		return &v.Fleet.Views[a.Number]
	}
	return nil
}

// AuctionFor is for how long bids for the task are taken and of which agents: of those that could have it now, only of
// preferred ones if there are any. why is AuctionNone, or why there is no auction.
func (s *State) AuctionFor(
	now time.Time, t *Task,
) (window time.Duration, asked []*Bidder, why coordinator.AuctionOutcome) {
	q := s.Question(t)
	among := q.Among
	if preferred, n := q.Narrow(s.Fleet.Ready); n > 0 {
		among = preferred
	}
	var can []*Bidder
	among.Each(func(i int) {
		if b := &s.Fleet.Agents[i].Bidding; s.Fleet.Ready.Has(i) && b.MayAsk() {
			can = append(can, b)
		}
	})
	score := func(i int) float64 { return -q.Key(can[i].Agent.Number).First }
	wait := s.offeredUntil(now, t).Sub(now)
	return s.Market.Invite(wait, can, t.Needs.Strategy.Market.InviteAll, t.Task.ID, s.Policy.Settings.Seed, score)
}

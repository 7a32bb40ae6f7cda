package place

import (
	"fmt"
	"math"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/fairqueue"
)

// Supply is what decides, beside what waits, when there is an agent and quota for a task.
type Supply struct {
	Ledger *fairshare.Ledger
	Shares *fairqueue.Shares
	At     time.Time // as of when limits are read
	// Least and Most are what one dispatch was charged of late, Rate the cost that is dispatched in a second.
	Least, Most int64
	Rate        float64
	// Slots are those that the agents online have. Takers are those of these agents that may have the task and take
	// work, Owners all that have quota of their own for tasks of its group.
	Slots          int64
	Takers, Owners []coordinator.AgentID
	// Type and Estimate are of the task: without a group it costs what the model of its agent's group does.
	Type     string
	Estimate *coordinator.Usage
}

// ByGroup is the place where there are quotas, and groups take turns. Every task is assumed to cost no more than the
// most expensive one among the recent and the waiting ones; and no more of them are open at a time than the agents
// online have slots. (Where as many calls of the most expensive cost more than the debt that a group may have, some
// debts are forgiven, and others may go before it for these, too.)
func (l *Line) ByGroup(s *Supply) Place {
	p := l.place()
	p.Quotas, p.Group = true, s.Shares.Name(l.leaf)
	p.Waiting, p.Others = l.own, l.levels[l.level]-l.own
	p.Ahead, p.AtLeast = l.Ahead, l.Ahead == MostAhead
	position := p.Ahead + l.InLane
	switch {
	case l.Lane != "":
		p.Ahead, p.AtLeast = p.Waiting+l.besideInLane(), false
		position = p.Ahead
	case p.AtLeast:
		position = p.Waiting + l.InLane
	}
	l.before.inLane(l.InLane)
	p.Dearest, p.Rate = max(s.Most, l.before.dearest), s.Rate
	levels := competing(&l.levels) // also of tasks that wait for quota: they may have it sooner
	p.Part = s.Shares.Part(l.level, levels)
	_, turns := s.Shares.Within(l.level, levels, 1)
	service, weighed := s.Shares.Ahead(l.leaf, position, p.Dearest, p.Dearest, s.Slots)
	switch {
	case !weighed:
		p.Unbounded = fmt.Sprintf(
			"group %s, or one that it is part of, has weight 0: it is served when no group beside it with weight waits", p.Group)
	case !turns:
		p.Unbounded =
			"priority_order is strict, and tasks of higher priority wait: these go first for as long as there are any"
	case len(s.Takers) == 0:
		p.Unbounded = "no agent that may have it is online and takes work"
	default:
		likely, _ := s.Shares.Ahead(l.leaf, position, p.Dearest, p.Dearest, 0)
		least := min(s.Least, max(l.takes.Expect, 1))
		p.Bound = l.withLevels(s.Shares, levels, service, least, p.Dearest)
		p.Likely = l.withLevels(s.Shares, levels, likely, least, p.Dearest)
		l.byQuota(s, &p)
	}
	return p
}

// withLevels adds to the cost of a priority's dispatches what the other priorities that wait dispatch
// meanwhile, until the one that is waited for, at dearest each. One of its own costs least at least.
func (l *Line) withLevels(shares *fairqueue.Shares, levels uint8, service, least, dearest int64) int64 {
	dispatches := service/least + 2
	within, _ := shares.Within(l.level, levels, dispatches)
	if within <= dispatches || service >= math.MaxInt64/2 {
		return service
	}
	all := float64(service) + float64(within-dispatches)*float64(dearest)
	if all >= math.MaxInt64/2 {
		return math.MaxInt64
	}
	return int64(math.Ceil(all))
}

// byQuota works out for how long quota may keep the task, beside the turns: all that goes before it
// must have its own first.
func (l *Line) byQuota(s *Supply, p *Place) {
	before := l.before.with(max(0, p.Likely-l.before.cost))
	var short *fairshare.Shortage
	if p.QuotaDelay, short = s.delay(l.takes, &before); short != nil {
		p.Unbounded, p.Bound, p.Likely, p.QuotaDelay = describe(short), 0, 0, 0
		return
	}
	before.Kept = true
	p.QuotaLikely, _ = s.delay(l.takes, &before)
}

// delay returns how long quota keeps a task, with whichever of the agents that take it keeps it shortest: what
// goes before it goes to that one at worst.
func (s *Supply) delay(takes fairshare.Charge, before *fairshare.Before) (
	shortest time.Duration, short *fairshare.Shortage,
) {
	ask := func(agent coordinator.AgentID) (time.Duration, *fairshare.Shortage) {
		given, usual := takes, coordinator.Amounts{}
		s.Ledger.GiveTo(agent, &given, &usual, s.Type, s.Estimate)
		path := s.Ledger.PathOf(&given)
		return s.Ledger.Delay(s.At, &path, &given, before)
	}
	if len(s.Owners) == 0 {
		return ask("")
	}
	owns := make(map[coordinator.AgentID]bool, len(s.Owners))
	for _, id := range s.Owners {
		owns[id] = true
	}
	shortest = math.MaxInt64
	asked := false
	for _, id := range s.Takers {
		if !owns[id] && asked { // one that has none of its own is as good as another
			continue
		}
		asked = asked || !owns[id]
		switch d, lacks := ask(id); {
		case lacks == nil:
			shortest = min(shortest, d)
		case short == nil:
			short = lacks
		}
	}
	if shortest < math.MaxInt64 || short == nil {
		return shortest, nil
	}
	return 0, short
}

// describe returns, for people, why it is not known when there is quota.
func describe(s *fairshare.Shortage) string {
	if s.Limit == fairshare.LimitSeats {
		return fmt.Sprintf("it is not known when its quota is back: when something ends that has the seats of %s now", s.Node)
	}
	return fmt.Sprintf("of the %s of %s in %s less is its own than it needs, and what others will leave is not known",
		s.Limit, s.Node, s.Dimension)
}

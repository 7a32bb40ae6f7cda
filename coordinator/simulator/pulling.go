package simulator

import (
	"errors"
	"fmt"
	"time"
)

// Pulling is what a scenario of agents that pull has in place of fleet, workloads and
// strategies: every controller is played under every load. Package pulling plays it.
type Pulling struct {
	Agents      []Puller
	Loads       []PullLoad
	Controllers []PullController
}

// Puller is an agent that asks for items and works on one at a time.
type Puller struct {
	Name string
	// Capacity in items per second: the time of an item is exponential, with the mean
	// 1/Capacity. The agent and the leader know it.
	Capacity float64
	// Slots is how many items it may hold.
	Slots int
}

// PullLoad is how many items there are: either always Items (one that is done is
// replaced at once), or arrivals at random with Rate per second.
type PullLoad struct {
	Label string
	Items int
	Rate  float64
	// Death of one agent; the zero value: all live.
	Death Death
}

// Death is when an agent dies. The items that it held are with the leader at once, as
// the broker gives back what a lost connection has not acknowledged.
type Death struct {
	Agent string
	At    time.Duration
}

// PullController is how agents decide when to ask and for how many items.
type PullController struct {
	Mode  PullMode
	Label string
	// MaxClaimItems is the most that one claim asks for.
	MaxClaimItems int
	// Base is the interval between two claims before anything is known; whole
	// milliseconds.
	Base time.Duration
	// FairPart: the leader grants no more than an agent's part of the work. Without
	// it, it grants whatever is asked for.
	FairPart bool
}

// PullMode is a controller of agents that pull.
type PullMode string

// The modes: a fixed interval, and those of agent/balance.
const (
	PullFixed        PullMode = "fixed"
	PullLiteral      PullMode = "literal"
	PullLiteralShare PullMode = "literal-share"
	PullEqual        PullMode = "equal"
)

// The limits of a scenario of agents that pull. What happens in a run is looked for
// among all agents, each time.
const (
	maxPullers      = 256
	maxPullLoads    = 16
	maxPullItems    = 1_000_000
	maxPullCapacity = 100_000
)

// perSecond is about how much happens in a second of a run: items begin and end, and
// every agent claims up to five times.
func (p *Pulling) perSecond(load *PullLoad) float64 {
	n := load.Rate
	for i := range p.Agents {
		n += p.Agents[i].Capacity + 5
	}
	return n
}

// excess says how far all runs together are beyond the limit, and what would help; ""
// when they are not.
func (p *Pulling) excess(s *Scenario) string {
	one := 0.0
	for i := range p.Loads {
		one += p.perSecond(&p.Loads[i]) * s.Duration.Seconds()
	}
	runs := len(s.Seeds) * len(p.Controllers)
	all := one * float64(runs) * float64(len(p.Agents))
	if all <= maxMoments {
		return ""
	}
	return fmt.Sprintf(
		"%d runs (seeds × controllers) of about %.3g claims and items under all loads, for each of which %d agents are "+
			"looked at, are %.3g looks, and %.3g are the most; "+
			"have fewer seeds, controllers, loads or agents, smaller capacities, or a shorter duration",
		runs, one, len(p.Agents), all, float64(maxMoments))
}

// Affordable reports whether the scenario ends in some hours with the seeds that it now has;
// if not, the error says what would help.
func (s *Scenario) Affordable() error {
	text := ""
	switch {
	case s.Pulling != nil:
		text = s.Pulling.excess(s)
	case s.Sharing != nil:
		text = s.Sharing.Excess(len(s.Seeds), s.Sharing.drawn())
	case s.Priorities != nil:
		text = s.Priorities.excess(len(s.Seeds))
	default:
		text = s.cost().excess()
	}
	if text != "" {
		return fmt.Errorf("scenario %s: %s", s.Name, text)
	}
	return nil
}

// What Play says to a scenario that is not for it.
var (
	errPulling    = errors.New("its agents pull: package pulling plays it")
	errSharing    = errors.New("its tenants share a provider: package sharing plays it")
	errPriorities = errors.New("its tasks wait by priority: package priorities plays it")
)

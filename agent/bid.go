package agent

import (
	"math"
	"slices"
	"time"
)

// Bidder says whether the agent wants a task that it is offered, and if so, for how
// good a choice it takes itself. It is asked for one offer at a time, in the order in
// which they come, and should return at once: an offer that has waited for longer than
// its window is not answered. One that panics has not bid; the log gets the place and
// the type of the panic's value.
//
// A bid with a Fitness or Relevance that is not 0 to 1, or with a Duration that is
// negative, is not sent; the log tells.
type Bidder func(Offer) (Bid, bool)

// Offer is a task for which the agent may bid.
type Offer struct {
	TaskID string
	Type   string
	// Required capabilities of the task and its type; empty for none. It belongs to the
	// Bidder.
	Required []string
	// Description as the task's producer gave it; may be empty.
	Description string
	// Priority is 0 low, 1 normal, 2 high, 3 critical.
	Priority int
	// Deadline of the task; zero when it has none.
	Deadline time.Time
	// Attempt that the dispatch will have, from 1.
	Attempt int
	// CorrelationID is the trace id; it may be empty.
	CorrelationID string

	// Until is when the window closes: by the agent's clock, counted from when the offer
	// came.
	Until time.Time
	// Typical is how long the agent's tasks of this type have taken that succeeded, on
	// average; 0: there has been none.
	Typical time.Duration
	// Agent is the state of the agent.
	Agent State
}

// State is how much an agent has to do.
type State struct {
	// Slots as in Config.
	Slots int
	// Active tasks are in hand, running or waiting for a slot.
	Active int
	// Bids are open: their windows have not closed and nothing has been heard of them,
	// or they have won and the task has not come yet.
	Bids int
	// Free slots: Slots less Active and Bids, at least 0.
	Free int
	// Capabilities as in Config; not to be changed.
	Capabilities []string
}

// Bid is what the agent says of itself and a task.
type Bid struct {
	// Fitness, 0 to 1, is how well the task suits the agent.
	Fitness float64
	// Duration is how long it would take, at least 0.
	Duration time.Duration
	// Relevance, 0 to 1, is how much the agent remembers of such tasks; it is said only
	// when HasRelevance.
	Relevance    float64
	HasRelevance bool
}

// fault says why a bid cannot be sent; empty when it can.
func (b Bid) fault() string {
	switch {
	case !(b.Fitness >= 0 && b.Fitness <= 1):
		return "its Fitness is not 0 to 1"
	case b.Duration < 0:
		return "its Duration is negative"
	case b.HasRelevance && !(b.Relevance >= 0 && b.Relevance <= 1):
		return "its Relevance is not 0 to 1"
	}
	return ""
}

// DefaultBidder is the Bidder of ADR-004. It bids while the agent has fewer tasks in hand
// than slots, and its fitness is at least minFitness (0 to 1). Bids that are open do not
// count, or of many tasks that are offered at once all agents would bid for the same few:
// the coordinator sees to it that none wins more than it can take.
//
//	fitness = |required ∩ Config.Capabilities| / |required|    1 when nothing is required
//
// So Config.Capabilities must be given, also where agents.yaml lists them. The duration
// it claims is the mean of the agent's tasks of the type, and fallback before there has
// been one.
func DefaultBidder(minFitness float64, fallback time.Duration) Bidder {
	return func(o Offer) (Bid, bool) {
		if o.Agent.Active >= o.Agent.Slots {
			return Bid{}, false
		}
		bid := Bid{Fitness: coverage(o.Required, o.Agent.Capabilities), Duration: o.Typical}
		if bid.Duration == 0 {
			bid.Duration = max(fallback, 0)
		}
		return bid, bid.Fitness >= minFitness
	}
}

// coverage is which part of required there is among mine.
func coverage(required, mine []string) float64 {
	if len(required) == 0 {
		return 1
	}
	covered := 0
	for _, capability := range required {
		if slices.Contains(mine, capability) {
			covered++
		}
	}
	return float64(covered) / float64(len(required))
}

// steady is from how many tasks on a mean forgets: each later one counts a fiftieth.
const steady = 50

// maxTypes is of how many types of task the mean duration is kept.
const maxTypes = 1_000

// mean is an average duration in seconds.
type mean struct {
	tasks   int
	seconds float64
}

// with is the mean with one more task in it.
func (m mean) with(took time.Duration) mean {
	m.tasks = min(m.tasks+1, steady)
	m.seconds += (took.Seconds() - m.seconds) / float64(m.tasks)
	return m
}

// duration is the mean, at least 1 ns when there is one.
func (m mean) duration() time.Duration {
	if m.tasks == 0 {
		return 0
	}
	return max(1, time.Duration(math.Round(m.seconds*float64(time.Second))))
}

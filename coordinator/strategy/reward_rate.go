package strategy

import (
	"fmt"
	"math"

	"taskbus/coordinator"
)

// RewardRateName is the strategy that goes by expected successes per second.
const RewardRateName = "reward_rate"

// What exploration may be, and is where nothing else is said: the share of tasks
// that are given out by a draw from what is known of the agents. With none, an agent
// that was unlucky with its first tasks would never get another; beyond a half, more
// is spent on finding out than on using what was found.
const (
	DefaultExploration = 0.05
	MaxExploration     = 0.5
)

// mostFaster bounds how much faster or slower than the mean an agent is believed to
// be. An agent that breaks everything within a millisecond is the fastest of all.
const mostFaster = 10

func newRewardRate(o Options) (coordinator.Strategy, error) {
	exploration := o.Exploration
	if exploration < 0 {
		exploration = DefaultExploration
	}
	if !(exploration <= MaxExploration) {
		return coordinator.Strategy{}, fmt.Errorf("exploration must be from 0 to %g, not %g", MaxExploration, exploration)
	}
	return coordinator.Strategy{
		Name: RewardRateName,
		About: "the most successes per second for the place taken; of those that score alike to three digits the " +
			"least flexible",
		Parameters:  fmt.Sprintf("exploration=%g", exploration),
		Terms:       []string{"success rate", "duration / mean", "load", "flexibility"},
		Learned:     true,
		Scored:      true,
		Exploration: exploration,
		Key:         rewardRateKey,
		Explain:     rewardRateTerms,
	}, nil
}

// rewardRateKey compares scores as they are printed, to three digits: what is
// learnt of agents differs in the fourth even where they are equals, so that exact
// scores would never leave anything to the agent that is needed least for other work.
// (A tolerance instead would not order: a ≈ b and b ≈ c do not make a ≈ c.)
func rewardRateKey(c *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing) coordinator.Key {
	return coordinator.Key{First: -threeDigits(rewardRate(c, a, s)), Second: a.Flexibility}
}

func rewardRateTerms(c *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing,
	v *coordinator.TermValues) {
	v[0], v[1], v[2], v[3] = s.Success, durationRatio(c, s), a.Load, a.Flexibility
}

// rewardRate is p̂ · fit / (ŝ/s_ref · (1 + load)). An agent that is eligible has every
// required capability, and none has it by half: fit is 1. What else it could do
// is no fault of its, and counts among equals only. For a task type of which
// nothing is known it is ADR-018's score.
func rewardRate(c *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing) float64 {
	if !(c.Reference > 0 && s.Duration > 0) {
		return assignmentScore(s.Success, a.Load)
	}
	return s.Success * c.Reference / (believed(c, s) * (1 + a.Load)) // one division: it is the dearest of all
}

// durationRatio is ŝ/s_ref: 2 for an agent that takes twice as long as the mean of
// the fleet; 1 when not known.
func durationRatio(c *coordinator.Case, s *coordinator.Standing) float64 {
	if !(c.Reference > 0 && s.Duration > 0) {
		return 1
	}
	return believed(c, s) / c.Reference
}

// believed is ŝ, at most ten times faster or slower than the mean.
func believed(c *coordinator.Case, s *coordinator.Standing) float64 {
	least, most := c.Reference*(1.0/mostFaster), c.Reference*mostFaster
	switch {
	case s.Duration < least:
		return least
	case s.Duration > most:
		return most
	}
	return s.Duration
}

// threeDigits rounds to three significant decimal digits. Numbers below 1e-9 count
// as 0. Nearly every score is between 0.01 and 10, which costs two comparisons.
func threeDigits(x float64) float64 {
	switch {
	case x < 1e-9:
		return 0
	case x >= 0.1 && x < 1:
		return rounded(x, 1000)
	case x >= 0.01 && x < 0.1:
		return rounded(x, 10_000)
	case x >= 1 && x < 10:
		return rounded(x, 100)
	}
	scale := 1.0
	for ; x*scale < 100; scale *= 10 {
	}
	for ; x*scale >= 1000; scale /= 10 {
	}
	return rounded(x, scale)
}

func rounded(x, scale float64) float64 { return math.Floor(x*scale+0.5) / scale }

package auction

import (
	"math"
	"time"
)

// Appraisal is what the auctioneer makes of a bid. Bids are ranked by it.
type Appraisal struct {
	// Fitness, 0 to 1.
	Fitness float64
	// Active tasks of the bidder; at least 0.
	Active int
	// Duration that the task is expected to take; at least 0.
	Duration time.Duration
}

// inRange makes an appraisal that can be ranked of any numbers.
func (a Appraisal) inRange() Appraisal {
	return Appraisal{Fitness: unit(a.Fitness), Active: max(a.Active, 0), Duration: max(a.Duration, 0)}
}

// Mode is which value of a bidder's fitness counts.
type Mode uint8

// Appraised: the auctioneer's, and the agent's within its record. Reported: the
// agent's alone, as in ADR-004.
const (
	Appraised Mode = iota
	Reported
)

// Merit is what the auctioneer knows of an agent and a task without asking.
type Merit struct {
	// Coverage, 0 to 1, is the part of the required capabilities that it offers: see
	// [Coverage].
	Coverage float64
	// Success, 0 to 1, is its measured probability to succeed with such a task.
	Success float64
	// Depth, 0 to 1, is how specialised it is in such tasks: see [Depth].
	Depth float64
	// Active is how many tasks it has by the auctioneer's own count.
	Active int
	// Duration is how long it needs for such tasks by what was measured; 0: unknown.
	Duration time.Duration
}

// Fitness is coverage · success · depth, 0 to 1; NaN in any counts as 0.
func (m Merit) Fitness() float64 { return unit(m.Coverage) * unit(m.Success) * unit(m.Depth) }

const (
	depthOfNewcomer = 0.8
	depthOutcomes   = 1000
)

// Depth makes of how many such tasks an agent has finished how specialised it is:
//
//	0.8 + 0.2 · ln(1 + outcomes) / ln(1 + 1000), at most 1
//
// so that ten outcomes count for a third of the way and a thousand for all of it
// (ADR-004's example). Experience outweighs a fifth of the measured success and no
// more, or the first agent would get everything for ever.
func Depth(outcomes float64) float64 {
	if !(outcomes > 0) {
		return depthOfNewcomer
	}
	return min(1, depthOfNewcomer+(1-depthOfNewcomer)*math.Log1p(outcomes)/math.Log1p(depthOutcomes))
}

// fitnessSteps is how many steps of fitness are distinguished between 0 and 1.
// What it measures is not more exact than one of 0.05 (the standard error of a success
// rate of 0.9 after 36 outcomes); if smaller differences counted, no two agents would
// ever be equal and the number of active tasks would never be asked for.
const fitnessSteps = 20

// Appraise makes of a valid bid what it is ranked by. c is the record of the agent
// that made it; nil means that there is none, and its word counts for nothing.
//
// In mode [Appraised] the fitness is the merit's, moved by the agent's word within
// the ±δ of its record (the package's doc gives the formula) and rounded to steps of
// 0.05; active is the larger of the agent's count and ours; the duration is the
// agent's estimate times the ratio by which its estimates have been wrong, or what
// was measured where it gives less than 1 ms. Where that is not known either it is
// the longest there is: saying nothing must not be the way to look quick.
//
// In mode [Reported] the bid is taken as it stands; merit and c are not looked at.
func Appraise(mode Mode, merit Merit, c *Calibration, bid Bid) Appraisal {
	if mode == Reported {
		return Appraisal{Fitness: bid.Fitness, Active: bid.Active, Duration: bid.Duration}
	}
	own := merit.Fitness()
	fitness, ratio := own, 1.0
	if c != nil {
		ratio = c.Ratio()
		if delta := c.Delta(); delta > 0 {
			// Half of δ is the claim's, half the relevance's: where every claim is 1,
			// as ADR-004's are, the relevance still distinguishes agents.
			fitness += max(-delta, min(delta, bid.Fitness-own)) / 2
			if bid.Relevance >= 0 {
				fitness += delta / 2 * (2*bid.Relevance - 1)
			}
		}
	}
	a := Appraisal{
		Fitness:  math.Round(unit(fitness)*fitnessSteps) / fitnessSteps,
		Active:   max(bid.Active, merit.Active),
		Duration: stretch(bid.Duration, ratio),
	}
	if bid.Duration < estimateLeast {
		if a.Duration = merit.Duration; a.Duration <= 0 {
			a.Duration = math.MaxInt64
		}
	}
	return a.inRange()
}

// Potential is the best that could be made of any bid of the agent in mode [Appraised],
// if it promises no shorter time than it is known to take.
func Potential(merit Merit, c *Calibration) Appraisal {
	a := Appraisal{Active: merit.Active, Duration: merit.Duration}
	a.Fitness = math.Round(unit(merit.Fitness()+c.Delta())*fitnessSteps) / fitnessSteps
	return a.inRange()
}

// stretch multiplies without overflow.
func stretch(d time.Duration, ratio float64) time.Duration {
	if s := float64(d) * ratio; s < math.MaxInt64 {
		return time.Duration(s)
	}
	return math.MaxInt64
}

// unit brings x into 0 to 1; NaN becomes 0.
func unit(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

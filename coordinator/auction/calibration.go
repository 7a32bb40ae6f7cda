package auction

import (
	"math"
	"time"
)

const (
	// brierOfNothing is the score of an agent that always says 0.5: a claim that says nothing.
	brierOfNothing = 0.25
	// biasBound: claims that are off by this much on average count for nothing.
	biasBound = 0.2
	// deltaMost is how far the word of an agent that is always right counts.
	deltaMost = 0.2
	// gainLeast is what one outcome weighs in the long run: those of the last 20 or so
	// outcomes count (an exponentially weighted mean).
	gainLeast = 0.05
	// priorOutcomes is how many outcomes the assumption counts that the claims of an
	// agent say nothing. That its estimates are right is assumed only until the first
	// shows otherwise: an assumption that lingered would leave one that always promises 1 s
	// a little ahead of the others for ever, and durations are compared exactly.
	priorOutcomes = 10
	// estimateLeast: anything shorter is no estimate. ratioMost bounds what one outcome
	// can say about estimates, either way. Together they leave no estimate so short that
	// the ratio cannot make up for it, for tasks of up to 1,000 s.
	estimateLeast = time.Millisecond
	ratioMost     = 1e6
)

// Calibration is what outcomes have taught of one agent's word. The zero value is
// that of an agent without outcomes. It belongs to one goroutine.
type Calibration struct {
	// The means are kept as distances from what is assumed without outcomes, so that
	// the zero value says just that.
	ratio, brier, bias float64
	// timed and judged are how many outcomes have gone into them.
	timed, judged int
}

// CalibrationState is all there is to a Calibration, to be kept and made into one again.
// The means are distances from what is assumed of an agent without outcomes.
type CalibrationState struct {
	Ratio, Brier, Bias float64
	Timed, Judged      int // outcomes that have gone into them
}

// State is what the calibration knows.
func (c *Calibration) State() CalibrationState {
	return CalibrationState{Ratio: c.ratio, Brier: c.brier, Bias: c.bias, Timed: c.timed, Judged: c.judged}
}

// Calibration is one that knows just that.
func (s CalibrationState) Calibration() Calibration {
	return Calibration{ratio: s.Ratio, brier: s.Brier, bias: s.Bias, timed: s.Timed, judged: s.Judged}
}

// Outcomes is how many have been observed.
func (c *Calibration) Outcomes() int { return max(c.judged, c.timed) }

// Observe enters how a task ended that the agent had won.
//
// claimed is the fitness it bid, taken for a probability of success. estimated is the
// duration it bid, actual what the task took; they are compared only after a success,
// since an agent that fails at once is not fast, and where the estimate is at least 1 ms and
// actual is positive. Claims that are not between 0 and 1 are left out.
func (c *Calibration) Observe(claimed float64, estimated, actual time.Duration, succeeded bool) {
	if succeeded && estimated >= estimateLeast && actual > 0 {
		ratio := max(1.0/ratioMost, min(ratioMost, float64(actual)/float64(estimated)))
		c.ratio += gain(c.timed, 0) * (ratio - 1 - c.ratio)
		c.timed++
	}
	if !(claimed >= 0 && claimed <= 1) {
		return
	}
	off := claimed
	if succeeded {
		off--
	}
	c.brier += gain(c.judged, priorOutcomes) * (off*off - brierOfNothing - c.brier)
	c.bias += gain(c.judged, priorOutcomes) * (off - c.bias)
	c.judged++
}

// gain is the weight of the next outcome after n, where the assumption counts as
// prior outcomes: that of a plain mean at first, then a constant, so that an agent may
// change.
func gain(n, prior int) float64 { return max(gainLeast, 1/float64(n+1+prior)) }

// Ratio is the mean of actual by estimated duration, 10⁻⁶ to 10⁶; 1 at first. An
// estimate times it is what to expect.
func (c *Calibration) Ratio() float64 { return 1 + c.ratio }

// Brier is the mean of (claim − outcome)², 0 to 1: 0 where all claims are right, 0.25 where they say
// nothing, and at first.
func (c *Calibration) Brier() float64 { return brierOfNothing + c.brier }

// Bias is the mean of claim − outcome, −1 to 1: more than 0 for one that promises too
// much; 0 at first.
func (c *Calibration) Bias() float64 { return c.bias }

// Delta is how far the agent's word can move its fitness, either way, 0 to 0.2. It is
// 0 at first and where claims say nothing or are wrong by 0.2 on average.
func (c *Calibration) Delta() float64 {
	return deltaMost * max(0, 1-c.Brier()/brierOfNothing) * max(0, 1-math.Abs(c.bias)/biasBound)
}

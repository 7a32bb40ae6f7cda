package simulator

import (
	"slices"
	"time"
)

// quantiles is how many waits of a run are kept.
const quantiles = 201

// outcome is one run in numbers.
type outcome struct {
	tasks                               Tasks
	throughput, success                 float64
	waitMean, waitP50, waitP99, waitMax float64
	utilisation, jain, violations       float64
	regretSuccess, regretReward         float64
	decisions, events                   float64
	failed                              []int
	groupShare, groupUse                []float64
	waits                               []float64
	regretCourse, rewardCourse          []float64
	took                                time.Duration
}

// close ends what is measured.
func (w *world) close() {
	for i := range w.agents {
		w.account(&w.agents[i])
	}
}

// outcome puts a finished run into numbers.
func (w *world) outcome(took time.Duration) outcome {
	c := &w.tally
	o := outcome{took: took, failed: c.cohortFailed, decisions: float64(c.decisions), events: float64(w.events)}
	o.tasks = Tasks{Arrived: c.arrivals, Succeeded: c.succeeded, FailedByAgent: c.failedByAgent, Open: w.open}
	for _, n := range c.refused {
		o.tasks.Refused += n
	}
	if seconds := float64(c.span(0, w.now)) / 1e9; seconds > 0 {
		o.throughput = float64(c.finished) / seconds
	}
	o.success = Ratio(float64(c.cohortSucceeded), float64(c.cohortEnded))
	o.violations = float64(c.violated) / 1e9
	o.regretSuccess = Ratio(c.successRegret, float64(c.choices))
	o.regretReward = Ratio(c.rewardRegret, float64(c.choices))
	o.regretCourse, o.rewardCourse = cumulated(c.regretCourse[:]), cumulated(c.rewardCourse[:])

	if n := len(c.waits); n > 0 {
		slices.Sort(c.waits)
		sum := 0.0
		for _, x := range c.waits {
			sum += x
		}
		o.waitMean = sum / float64(n)
		o.waitP50, o.waitP99, o.waitMax = Quantile(c.waits, 0.5), Quantile(c.waits, 0.99), c.waits[n-1]
		o.waits = make([]float64, quantiles)
		for i := range o.waits {
			o.waits[i] = Quantile(c.waits, float64(i)/(quantiles-1))
		}
	}
	w.shares(&o)
	return o
}

// shares adds up what agents and groups did.
func (w *world) shares(o *outcome) {
	n := len(w.scenario.Fleet)
	o.groupShare, o.groupUse = make([]float64, n), make([]float64, n)
	groupUp := make([]float64, n)
	var busy, up, sum, squares, agents float64
	for i := range w.agents {
		a := &w.agents[i]
		slotUp := float64(a.upFor) * float64(w.scenario.Fleet[a.group].Slots)
		o.groupShare[a.group] += Ratio(float64(a.decisions), o.decisions)
		o.groupUse[a.group] += float64(a.busy)
		groupUp[a.group] += slotUp
		busy += float64(a.busy)
		up += slotUp
		if slotUp > 0 && w.kinds.ever&(1<<a.group) != 0 {
			x := float64(a.busy) / slotUp
			sum += x
			squares += x * x
			agents++
		}
	}
	o.utilisation = Ratio(busy, up)
	o.jain = Ratio(sum*sum, agents*squares)
	for i := range o.groupUse {
		o.groupUse[i] = Ratio(o.groupUse[i], groupUp[i])
	}
}

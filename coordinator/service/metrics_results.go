package service

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
)

// resultMetrics count how tasks end, and what comes back. All labels are of closed
// sets, so every series exists from the start.
type resultMetrics struct {
	results        [coordinator.NumOutcomes]prometheus.Counter
	resultsRefused [coordinator.NumResultRefusals]prometheus.Counter
	invalidResults prometheus.Counter
	forgedResults  prometheus.Counter
	taskDuration   [coordinator.NumOutcomes]prometheus.Observer
	returned       [coordinator.NumReturnCauses]prometheus.Counter
}

// workBuckets reach from a handler that does nothing to two hours of work.
var workBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200}

// newResultMetrics makes them, and the collectors to register. What the service
// counts itself is read off its counters.
func newResultMetrics(c *counters) (m resultMetrics, all []prometheus.Collector) {
	vec := func(name, help, label string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "taskbus_" + name, Help: help}, []string{label})
		all = append(all, v)
		return v
	}
	read := func(name, help string, from *atomic.Uint64) {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "taskbus_" + name, Help: help},
			func() float64 { return float64(from.Load()) }))
	}
	results := vec("results_total",
		"Results that counted: succeeded, failed, cancelled, rejected (given back).", "outcome")
	refused := vec("results_refused_total",
		"Results without effect: unknown, duplicate, late, wrong_agent, invalid, wrong_sender.", "refusal")
	returned := vec("returned_total",
		"Dispatches that came back: rejected, expired, delivery_limit, taken_back.", "cause")
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "taskbus_task_duration_seconds", Buckets: workBuckets,
		Help: "From the arrival of a task to its result.",
	}, []string{"outcome"})
	all = append(all, duration)
	read("late_results_total",
		"Results that counted although another agent had the task.", &c.lateResults)
	read("task_timeouts_total",
		"Dispatches without a result in time.", &c.timedOut)
	read("cancel_requests_total", "Cancels asked for, by HTTP or message.", &c.cancels)

	for o := range m.results {
		outcome := coordinator.Outcome(o)
		m.results[o] = results.WithLabelValues(outcome.String())
		if outcome.Final() {
			m.taskDuration[o] = duration.WithLabelValues(outcome.String())
		}
	}
	for r := range m.resultsRefused {
		m.resultsRefused[r] = refused.WithLabelValues(coordinator.ResultRefusal(r).String())
	}
	m.invalidResults, m.forgedResults = refused.WithLabelValues(refusedInvalid), refused.WithLabelValues(refusedForged)
	for c := range m.returned {
		m.returned[c] = returned.WithLabelValues(coordinator.ReturnCause(c).String())
	}
	return m, all
}

// Causes for which a result does not even reach the engine.
const (
	refusedInvalid = "invalid"
	refusedForged  = "wrong_sender"
)

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
)

// Labels of messages that do not even reach the engine.
const (
	Invalid     = "invalid"
	WrongSender = "wrong_sender"
	// Of progress alone: it counts; there is too much of it.
	Counted = "counted"
	Dropped = "dropped"
)

// resultMetrics count how tasks end, and what comes back. All labels are of closed
// sets, so every series exists from the start.
type resultMetrics struct {
	Results        [coordinator.NumOutcomes]prometheus.Counter
	ResultsRefused [coordinator.NumResultRefusals]prometheus.Counter
	InvalidResults prometheus.Counter
	ForgedResults  prometheus.Counter
	Progress       map[string]prometheus.Counter                // by outcome
	TaskDuration   [coordinator.NumOutcomes]prometheus.Observer // of those that are final
	Returned       [coordinator.NumReturnCauses]prometheus.Counter
}

// workBuckets reach from a handler that does nothing to two hours of work.
var workBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200}

func newResultMetrics(all *collectors) (m resultMetrics) {
	results := all.counters("results_total",
		"Results that counted: succeeded, failed, cancelled, rejected (given back).", "outcome")
	refused := all.counters("results_refused_total",
		"Results without effect: unknown, duplicate, late, wrong_agent, invalid, wrong_sender.", "refusal")
	returned := all.counters("returned_total",
		"Dispatches that came back: rejected, expired, delivery_limit, taken_back.", "cause")
	duration := all.histograms("task_duration_seconds", "From the arrival of a task to its result.",
		workBuckets, "outcome")
	for o := range m.Results {
		outcome := coordinator.Outcome(o)
		m.Results[o] = results.WithLabelValues(outcome.String())
		if outcome.Final() {
			m.TaskDuration[o] = duration.WithLabelValues(outcome.String())
		}
	}
	for r := range m.ResultsRefused {
		m.ResultsRefused[r] = refused.WithLabelValues(coordinator.ResultRefusal(r).String())
	}
	progress := all.counters("progress_total",
		"Reports of progress: counted (the latest of 200 ms), unknown, late, wrong_agent, invalid, wrong_sender, "+
			"dropped (too many).", "outcome")
	m.Progress = make(map[string]prometheus.Counter)
	for _, outcome := range []string{Counted, coordinator.ResultUnknown.String(), coordinator.ResultLate.String(),
		coordinator.ResultWrongAgent.String(), Invalid, WrongSender, Dropped} {
		m.Progress[outcome] = progress.WithLabelValues(outcome)
	}
	m.InvalidResults, m.ForgedResults = refused.WithLabelValues(Invalid), refused.WithLabelValues(WrongSender)
	for c := range m.Returned {
		m.Returned[c] = returned.WithLabelValues(coordinator.ReturnCause(c).String())
	}
	return m
}

package service

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
)

// callMetrics count the requests about calls outside of tasks, and the answers.
type callMetrics struct {
	answered [coordinator.NumCallOps][coordinator.NumCallStates]prometheus.Counter
	unasked  prometheus.Counter // questions that no leader has answered
	own      prometheus.Counter
	// uncharged: admitted here, and refused by the leader when it was reported.
	uncharged prometheus.Counter
	duration  prometheus.Observer
	// poolRefusals of providers, by the node of the pool or model.
	poolRefusals *prometheus.CounterVec
}

// newCallMetrics returns the metrics of calls, and the collectors to register. owed is how many calls were admitted
// here and are not charged yet.
func newCallMetrics(owed func() int) (m callMetrics, all []prometheus.Collector) {
	answers := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "taskbus_calls_total",
		Help: "Questions about LLM calls, answered granted, refused, never, unknown, ended, foreign, put_by, " +
			"taken (the id is another reservation's), doubted (beyond trust limits).",
	}, []string{"operation", "answer"})
	for op := range coordinator.CallOp(coordinator.NumCallOps) {
		for state := range coordinator.CallState(coordinator.NumCallStates) {
			m.answered[op][state] = answers.WithLabelValues(op.String(), state.String())
		}
	}
	m.unasked = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "taskbus_calls_unanswered_total",
		Help: "Of them without an answer: no leader could be asked.",
	})
	m.own = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "taskbus_calls_unconfirmed_total",
		Help: "Calls that this instance admitted without a leader (on_loss).",
	})
	m.uncharged = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "taskbus_calls_uncharged_total",
		Help: "Of those admitted without a leader, calls that the leader did not charge; the log names them.",
	})
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "taskbus_call_duration_seconds",
		Help:    "From a question about LLM calls to its answer.",
		Buckets: latencyBuckets,
	})
	m.duration = duration
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "taskbus_calls_owed",
		Help: "Calls that this instance admitted by itself and are not charged yet.",
	}, func() float64 { return float64(owed()) })
	m.poolRefusals = newPoolRefusals()
	return m, []prometheus.Collector{answers, m.unasked, m.own, m.uncharged, duration, waiting, m.poolRefusals}
}

// note counts what was answered.
func (m *callMetrics) note(took time.Duration, asked []coordinator.Call, answers []coordinator.CallAnswer) {
	m.duration.Observe(took.Seconds())
	for i := range answers {
		m.answered[asked[i].Op][answers[i].State].Inc()
		m.heard(&asked[i], &answers[i])
	}
}

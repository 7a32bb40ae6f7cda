package callgate

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/telemetry"
)

// metrics count the requests about calls outside of tasks, and the answers.
type metrics struct {
	answered [coordinator.NumCallOps][coordinator.NumCallStates]prometheus.Counter
	unasked  prometheus.Counter // questions that no leader has answered
	own      prometheus.Counter
	// uncharged: admitted here, and refused by the leader when it was reported.
	uncharged prometheus.Counter
	duration  prometheus.Observer
	// poolRefusals of providers, by the node of the pool or model.
	poolRefusals *prometheus.CounterVec
	all          []prometheus.Collector
}

// newMetrics returns the metrics of calls. owed is how many calls were admitted
// here and are not charged yet.
func newMetrics(owed func() int) (m metrics) {
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
		Buckets: telemetry.LatencyBuckets,
	})
	m.duration = duration
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "taskbus_calls_owed",
		Help: "Calls that this instance admitted by itself and are not charged yet.",
	}, func() float64 { return float64(owed()) })
	m.poolRefusals = prometheus.NewCounterVec(prometheus.CounterOpts{ // of the pools and models that were refused
		Name: "taskbus_quota_pool_refusals_total",
		Help: "Calls that a provider refused (429, 529), as reported.",
	}, []string{"node"})
	m.all = []prometheus.Collector{answers, m.unasked, m.own, m.uncharged, duration, waiting, m.poolRefusals}
	return m
}

// note counts what was answered.
func (m *metrics) note(took time.Duration, asked []coordinator.Call, answers []coordinator.CallAnswer) {
	m.duration.Observe(took.Seconds())
	for i := range answers {
		m.answered[asked[i].Op][answers[i].State].Inc()
		m.heard(&asked[i], &answers[i])
	}
}

// heard counts a reported refusal of a provider, once: of an end that was reported before, or of a
// call that concerns no quota, nothing is taken over.
func (m *metrics) heard(c *coordinator.Call, a *coordinator.CallAnswer) {
	if c.Heard != nil && c.Heard.Throttled() && a.State == coordinator.CallGranted && a.Pool != "" {
		m.poolRefusals.WithLabelValues(a.Pool).Inc()
	}
}

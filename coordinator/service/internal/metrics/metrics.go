package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/telemetry"
	"taskbus/coordinator/strategy"
)

// Lanes is the queue under whose name all lanes are counted.
const Lanes = "task.lane"

// Metrics are what one coordinator counts as it happens. It is safe for concurrent use.
type Metrics struct {
	resultMetrics
	marketMetrics
	ByAgent *Agents

	Received map[string]prometheus.Counter // by queue

	PublishOutcomes [bus.Unknown + 1]prometheus.Counter
	Invalid         *prometheus.CounterVec
	StatusRefused   *prometheus.CounterVec
	AuthRejections  *prometheus.CounterVec
	Sessions        *prometheus.CounterVec
	Duplicates      prometheus.Counter
	UnknownFields   *prometheus.CounterVec
	EventsDropped   prometheus.Counter
	Connected       prometheus.Gauge
	Blocked         prometheus.Gauge
	ReloadOK        prometheus.Gauge
	Leading         prometheus.Gauge
	JournalRecords  prometheus.Counter
	JournalBytes    prometheus.Counter
	JournalConfirm  prometheus.Histogram

	QuotaAlerts *prometheus.CounterVec
	// UsageExcessive counts reported usage that is implausible, by what became of it.
	UsageExcessive *prometheus.CounterVec
	// Unpriced counts calls and tasks of a model without a price, by what became of them.
	Unpriced *prometheus.CounterVec
	// QuotaOverruns counts budgets that are published because they will not last.
	QuotaOverruns prometheus.Counter

	all         collectors
	assignments *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	queueWait   prometheus.Histogram
	confirm     prometheus.Histogram
	// assignedBy saves the label lookup on the hot path: by strategy.
	assignedBy map[string]assignedMetrics
}

type assignedMetrics struct {
	count    prometheus.Counter
	duration prometheus.Observer
	// score makes its series when the strategy first scores: not every one does.
	score func() prometheus.Observer
}

// scoreBuckets are finest where ADR-018's scores lie, 0 to 1; the sums of `weighted`
// and formulas may lie beyond.
var scoreBuckets = []float64{.05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1, 1.5, 2, 5, 10}

// New makes them; now is the clock of [Agents].
func New(now func() time.Time) *Metrics {
	var all collectors
	m := &Metrics{
		resultMetrics: newResultMetrics(&all),
		marketMetrics: newMarketMetrics(&all),
		ByAgent:       keep(&all, newAgents(now)),
		Received:      make(map[string]prometheus.Counter),
		queueWait: all.histogram("queue_wait_seconds", "From the arrival of a task to the decision for an agent.",
			telemetry.LatencyBuckets),
		confirm: all.histogram("confirm_latency_seconds",
			"From the decision for an agent to the broker's confirm of the dispatch.", telemetry.LatencyBuckets),
		assignments: all.counters("assignments_total",
			"Confirmed outcomes: assigned, or failed with its reason code.", "result", "reason", "strategy"),
		duration: all.histograms("assignment_duration_seconds", "From the arrival of a task to its confirmed outcome.",
			telemetry.LatencyBuckets, "result"),
		assignedBy: make(map[string]assignedMetrics),
		Invalid: all.counters("validation_failures_total",
			"Invalid messages, by schema and broken rule.", "schema", "keyword"),
		StatusRefused: all.counters("status_refused_total",
			"Heartbeats without effect: unknown_agent, out_of_order, not_admitted (by discovery).", "refusal"),
		AuthRejections: all.counters("auth_rejections_total",
			"Messages of another user than their agent, and cancels of an agent or without user, by agents.auth; "+
				"key: the routing key names another id.", "mode"),
		Sessions: all.counters("amqp_sessions_total",
			"Broker sessions opened, and ended: closed, fault, access, topology.", "reason"),
		QuotaAlerts: all.counters("quota_alerts_total",
			"Budgets that have come to one of alert_percents, once in each period.", "percent"),
		UsageExcessive: all.counters("quota_usage_excessive_total",
			"Reports beyond trust limits: held (charged in part), refused (calls); or charged at over a thousand "+
				"times the estimate.", "outcome"),
		Unpriced: all.counters("quota_unpriced_total",
			"Calls and tasks without a price where money is limited: refused, admitted.", "outcome"),
		QuotaOverruns: all.counter("quota_overruns_total",
			"Budgets that by the forecast will not last; once in each period."),
		EventsDropped: all.counter("events_dropped_total",
			"Announcements, refusals of bids and answers to claims that were dropped."),
		Duplicates: all.counter("duplicates_total", "Second copies of known tasks that were dropped."),
		UnknownFields: all.counters("unknown_fields_total",
			"Messages with unknown fields; the log names them once for each producer.", "type"),
		Leading:        all.gauge("leading", "1 while this instance leads, 0 while it stands by."),
		JournalRecords: all.counter("journal_records_total", "Records written to the journal."),
		JournalBytes:   all.counter("journal_bytes_total", "Bytes written to the journal, with snapshots."),
		JournalConfirm: all.histogram("journal_confirm_seconds",
			"From writing a commit to its confirm; every dispatch waits for it.", telemetry.LatencyBuckets),
		Connected: all.gauge("amqp_connected", "1 while this instance has a broker session."),
		Blocked:   all.gauge("amqp_blocked", "1 while the broker holds up publishers."),
		ReloadOK:  all.gauge("config_last_reload_successful", "0 while the configuration file on disk is broken."),
	}
	received := all.counters("messages_received_total", "Deliveries taken; task.lane stands for all lanes.", "queue")
	for _, queue := range []string{bus.QueueAssign, bus.QueueAssignHigh, bus.QueueReassign, bus.QueueRequest,
		bus.QueueProgress, bus.StreamStatus, bus.StreamResult, Lanes} {
		m.Received[queue] = received.WithLabelValues(queue)
	}
	scores := all.histograms("assignment_score", "Score of the chosen agent, if the strategy scores.",
		scoreBuckets, "strategy")
	// What an agent has claimed is no strategy's choice: its decision names the mode.
	for _, name := range append(strategy.Names(), coordinator.PullShared.String()) {
		m.assignedBy[name] = assignedMetrics{
			count:    m.assignments.WithLabelValues("assigned", "", name),
			duration: m.duration.WithLabelValues("assigned"),
			score:    sync.OnceValue(func() prometheus.Observer { return scores.WithLabelValues(name) }),
		}
	}
	published := all.counters("publish_outcomes_total",
		"Publications: confirmed, unroutable, rejected, unknown.", "outcome")
	for o := bus.Confirmed; o <= bus.Unknown; o++ {
		m.PublishOutcomes[o] = published.WithLabelValues(o.String())
	}
	m.ReloadOK.Set(1)
	m.all = all
	return m
}

// Collectors are all of them, to be registered.
func (m *Metrics) Collectors() []prometheus.Collector { return m.all }

// Assigned counts a confirmed dispatch at now.
func (m *Metrics) Assigned(d *coordinator.Dispatch, now time.Time) {
	a := m.assignedBy[d.Decision.Strategy]
	a.count.Inc()
	a.duration.Observe(now.Sub(d.Task.AcceptedAt).Seconds())
	if score, ok := scoreOf(d); ok {
		a.score().Observe(score)
	}
	m.queueWait.Observe(d.At.Sub(d.Task.AcceptedAt).Seconds())
	m.confirm.Observe(now.Sub(d.At).Seconds())
}

// scoreOf returns the score of the agent that was chosen, if the strategy scores.
func scoreOf(d *coordinator.Dispatch) (float64, bool) {
	if !d.Decision.Scored {
		return 0, false
	}
	for i := range d.Decision.Candidates {
		if c := &d.Decision.Candidates[i]; c.Agent == d.Agent {
			return -c.Key.First, true
		}
	}
	return 0, false
}

// Failed counts a confirmed assignment.failed, took after the arrival of its task.
func (m *Metrics) Failed(r coordinator.Reason, strategy string, took time.Duration) {
	m.assignments.WithLabelValues("failed", r.String(), strategy).Inc()
	m.duration.WithLabelValues("failed").Observe(took.Seconds())
}

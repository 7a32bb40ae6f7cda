package service

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/strategy"
)

// metrics are the Prometheus metrics of one service; names as in
// docs/reference/metrics.md. Gauges of the fleet are collected from a snapshot when
// they are scraped.
type metrics struct {
	s *Service
	resultMetrics
	marketMetrics
	calls       callMetrics
	byAgent     *agentCounts
	quotaAlerts *prometheus.CounterVec
	// usageExcessive counts reported usage that is implausible, by what became of it.
	usageExcessive *prometheus.CounterVec
	// unpriced counts calls and tasks of a model without a price, by what became of them.
	unpriced *prometheus.CounterVec
	// quotaOverruns counts budgets that are published because they will not last.
	quotaOverruns prometheus.Counter

	// collectors are all of them, to be registered.
	collectors  []prometheus.Collector
	receivedVec *prometheus.CounterVec
	received    map[string]prometheus.Counter // by queue
	assignments *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	queueWait   prometheus.Histogram
	confirm     prometheus.Histogram
	// assignedBy saves the label lookup on the hot path: by strategy.
	assignedBy map[string]assignedMetrics
	score      *prometheus.HistogramVec

	publishVec      *prometheus.CounterVec
	publishOutcomes [bus.Unknown + 1]prometheus.Counter
	invalid         *prometheus.CounterVec
	statusRefused   *prometheus.CounterVec
	authRejections  *prometheus.CounterVec
	sessions        *prometheus.CounterVec
	duplicates      prometheus.Counter
	unknownFields   *prometheus.CounterVec
	eventsDropped   prometheus.Counter
	connected       prometheus.Gauge
	blocked         prometheus.Gauge
	reloadOK        prometheus.Gauge
	leading         prometheus.Gauge
	journalRecords  prometheus.Counter
	journalBytes    prometheus.Counter
	journalConfirm  prometheus.Histogram
}

// latencyBuckets reach from half a millisecond to the longest assignment timeout.
var latencyBuckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

type assignedMetrics struct {
	count    prometheus.Counter
	duration prometheus.Observer
	// score makes its series when the strategy first scores: not every one does.
	score func() prometheus.Observer
}

// scoreBuckets are finest where ADR-018's scores lie, 0 to 1; the sums of `weighted`
// and formulas may lie beyond.
var scoreBuckets = []float64{.05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1, 1.5, 2, 5, 10}

// keep adds a collector to those that are registered.
func keep[C prometheus.Collector](all *[]prometheus.Collector, c C) C {
	*all = append(*all, c)
	return c
}

func newMetrics(s *Service) *metrics {
	var all []prometheus.Collector
	counter := func(name, help string) prometheus.Counter {
		return keep(&all, prometheus.NewCounter(prometheus.CounterOpts{Name: "taskbus_" + name, Help: help}))
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return keep(&all, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "taskbus_" + name, Help: help}, labels))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return keep(&all, prometheus.NewGauge(prometheus.GaugeOpts{Name: "taskbus_" + name, Help: help}))
	}
	histogram := func(name, help string) prometheus.Histogram {
		return keep(&all, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "taskbus_" + name, Help: help, Buckets: latencyBuckets,
		}))
	}
	histograms := func(name, help string, buckets []float64, label string) *prometheus.HistogramVec {
		return keep(&all, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "taskbus_" + name, Help: help, Buckets: buckets,
		}, []string{label}))
	}
	m := &metrics{
		s:           s,
		byAgent:     newAgentCounts(s.now, func() int { return s.config.Load().MetricsAgents }),
		receivedVec: vec("messages_received_total", "Deliveries taken; task.lane stands for all lanes.", "queue"),
		received:    make(map[string]prometheus.Counter),
		queueWait:   histogram("queue_wait_seconds", "From the arrival of a task to the decision for an agent."),
		confirm: histogram("confirm_latency_seconds",
			"From the decision for an agent to the broker's confirm of the dispatch."),
		assignments: vec("assignments_total",
			"Confirmed outcomes: assigned, or failed with its reason code.", "result", "reason", "strategy"),
		duration: histograms("assignment_duration_seconds", "From the arrival of a task to its confirmed outcome.",
			latencyBuckets, "result"),
		score: histograms("assignment_score", "Score of the chosen agent, if the strategy scores.",
			scoreBuckets, "strategy"),
		assignedBy: make(map[string]assignedMetrics),
		publishVec: vec("publish_outcomes_total",
			"Publications: confirmed, unroutable, rejected, unknown.", "outcome"),
		invalid: vec("validation_failures_total",
			"Invalid messages, by schema and broken rule.", "schema", "keyword"),
		statusRefused: vec("status_refused_total",
			"Heartbeats without effect: unknown_agent, out_of_order, not_admitted (by discovery).", "refusal"),
		authRejections: vec("auth_rejections_total",
			"Messages of another user than their agent, and cancels of an agent or without user, by agents.auth; "+
				"key: the routing key names another id.", "mode"),
		sessions: vec("amqp_sessions_total",
			"Broker sessions opened, and ended: closed, fault, access, topology.", "reason"),
		quotaAlerts: vec("quota_alerts_total",
			"Budgets that have come to one of alert_percents, once in each period.", "percent"),
		usageExcessive: vec("quota_usage_excessive_total",
			"Reports beyond trust limits: held (charged in part), refused (calls); or charged at over a thousand "+
				"times the estimate.", "outcome"),
		unpriced: vec("quota_unpriced_total",
			"Calls and tasks without a price where money is limited: refused, admitted.", "outcome"),
		quotaOverruns: counter("quota_overruns_total",
			"Budgets that by the forecast will not last; once in each period."),
		eventsDropped: counter("events_dropped_total",
			"Announcements, refusals of bids and answers to claims that were dropped."),
		duplicates: counter("duplicates_total", "Second copies of known tasks that were dropped."),
		unknownFields: vec("unknown_fields_total",
			"Messages with unknown fields; the log names them once for each producer.", "type"),
		leading:        gauge("leading", "1 while this instance leads, 0 while it stands by."),
		journalRecords: counter("journal_records_total", "Records written to the journal."),
		journalBytes:   counter("journal_bytes_total", "Bytes written to the journal, with snapshots."),
		journalConfirm: histogram("journal_confirm_seconds",
			"From writing a commit to its confirm; every dispatch waits for it."),
		connected: gauge("amqp_connected", "1 while this instance has a broker session."),
		blocked:   gauge("amqp_blocked", "1 while the broker holds up publishers."),
		reloadOK:  gauge("config_last_reload_successful", "0 while the configuration file on disk is broken."),
	}
	read := func(name, help string, from *atomic.Uint64) {
		all = append(all, prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: "taskbus_" + name, Help: help},
			func() float64 { return float64(from.Load()) }))
	}
	concluded := func(name, help string, o outcome) {
		all = append(all, prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: "taskbus_" + name, Help: help},
			func() float64 { return s.count.books.of(o) }))
	}
	concluded("tasks_dispatched_total", "Dispatches that the broker has confirmed.", outcomeDispatched)
	concluded("tasks_dropped_total", "Copies, acknowledged without a dispatch.", outcomeDropped)
	concluded("tasks_moved_total", "Tasks moved to their lanes.", outcomeMoved)
	concluded("tasks_abandoned_total",
		"Tasks held at the end of a session, to be delivered again.", outcomeAbandoned)
	read("redeliveries_total", "Redelivered deliveries.", &s.count.redelivered)
	all = append(all, prometheus.NewCounterFunc(
		prometheus.CounterOpts{
			Name: "taskbus_stale_acks_total",
			Help: "Ignored acknowledgements of an earlier session.",
		},
		func() float64 { return float64(s.staleAcks()) }))
	all = append(all, prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{
			Name: "taskbus_config_doubts",
			Help: "Warnings by which tasks fail or agents are lost; and that a standby has other files than the " +
				"leader.",
		},
		func() float64 { return float64(len(s.doubts())) }))
	all = append(all, prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{
			Name: "taskbus_journal_lost",
			Help: "1 after the journal was lost, until acknowledged.",
		},
		func() float64 {
			if s.loss.Load() != nil {
				return 1
			}
			return 0
		}))
	concluded("parked_total",
		"Messages in task.dead without assignment.failed: unreadable ones, refused cancels.", outcomeParked)
	all = append(all, s.audited.metrics()...)
	var collectors []prometheus.Collector // of one part
	m.resultMetrics, collectors = newResultMetrics(&s.count)
	all = append(all, collectors...)
	m.marketMetrics, collectors = newMarketMetrics()
	all = append(all, collectors...)
	m.calls, collectors = newCallMetrics(s.lost.waiting)
	all = append(all, collectors...)
	for _, queue := range []string{bus.QueueAssign, bus.QueueAssignHigh, bus.QueueReassign, bus.QueueRequest,
		bus.StreamStatus, bus.StreamResult, queueLanes} {
		m.received[queue] = m.receivedVec.WithLabelValues(queue)
	}
	// What an agent has claimed is no strategy's choice: its decision names the mode.
	for _, name := range append(strategy.Names(), coordinator.PullShared.String()) {
		m.assignedBy[name] = assignedMetrics{
			count:    m.assignments.WithLabelValues("assigned", "", name),
			duration: m.duration.WithLabelValues("assigned"),
			score:    sync.OnceValue(func() prometheus.Observer { return m.score.WithLabelValues(name) }),
		}
	}
	for o := bus.Confirmed; o <= bus.Unknown; o++ {
		m.publishOutcomes[o] = m.publishVec.WithLabelValues(o.String())
	}
	m.reloadOK.Set(1)
	m.collectors = append(all,
		m.byAgent, &fleetCollector{s: s}, &quotaCollector{s: s}, &historyCollector{s: s})
	return m
}

func (m *metrics) register(r *prometheus.Registry) error {
	var all error
	for _, c := range m.collectors {
		all = errors.Join(all, r.Register(c))
	}
	return all
}

// assigned counts a confirmed dispatch at now.
func (m *metrics) assigned(d *coordinator.Dispatch, now time.Time) {
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

func (m *metrics) failed(r coordinator.Reason, strategy string, took time.Duration) {
	m.assignments.WithLabelValues("failed", r.String(), strategy).Inc()
	m.duration.WithLabelValues("failed").Observe(took.Seconds())
}

func boolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/strategy"
)

// maxAgentLabels caps the label agent_id; agents beyond it are summed up under
// "other".
const maxAgentLabels = 500

// metrics are the Prometheus metrics of one service; names as in
// docs/operations.md. Gauges of the fleet are collected from a snapshot when
// they are scraped.
type metrics struct {
	s *Service

	received    prometheus.CounterFunc
	assignments *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	// assignedBy saves the label lookup on the hot path: by strategy.
	assignedBy map[string]assignedMetrics

	publishVec      *prometheus.CounterVec
	publishOutcomes [bus.Unknown + 1]prometheus.Counter
	invalid         *prometheus.CounterVec
	statusRefused   *prometheus.CounterVec
	authRejections  *prometheus.CounterVec
	sessions        *prometheus.CounterVec
	duplicates      prometheus.Counter
	parked          prometheus.Counter
	connected       prometheus.Gauge
	blocked         prometheus.Gauge
	reloadOK        prometheus.Gauge
}

type assignedMetrics struct {
	count    prometheus.Counter
	duration prometheus.Observer
}

func newMetrics(s *Service) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "taskbus_" + name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "taskbus_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "taskbus_" + name, Help: help})
	}
	m := &metrics{
		s:           s,
		assignments: vec("assignments_total", "Tasks whose outcome is confirmed, by result (assigned, failed), reason code and strategy.", "result", "reason", "strategy"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "taskbus_assignment_duration_seconds",
			Help:    "From the arrival of a task to its confirmed outcome, by result.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"result"}),
		assignedBy:     make(map[string]assignedMetrics),
		publishVec:     vec("publish_outcomes_total", "What the broker answered to publications.", "outcome"),
		invalid:        vec("validation_failures_total", "Messages that were refused as invalid, by queue and broken rule.", "queue", "keyword"),
		statusRefused:  vec("status_refused_total", "Heartbeats that changed nothing, by cause.", "refusal"),
		authRejections: vec("auth_rejections_total", "Heartbeats whose broker-validated user was not their agent, by mode of agents.auth.", "mode"),
		sessions:       vec("amqp_sessions_total", "Broker sessions opened, and ended by cause.", "reason"),
		duplicates:     counter("duplicates_total", "Second copies of known tasks that were dropped."),
		parked:         counter("parked_total", "Unreadable messages parked in task.dead that name no task."),
		connected:      gauge("amqp_connected", "1 while there is a broker session."),
		blocked:        gauge("amqp_blocked", "1 while the broker holds up publishers."),
		reloadOK:       gauge("config_last_reload_successful", "0 while the configuration file on disk is broken."),
	}
	m.received = prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "taskbus_tasks_received_total", Help: "Deliveries taken from task.assign and task.assign.high.",
	}, func() float64 { return float64(s.count.received.Load()) })
	for _, name := range strategy.Names() {
		m.assignedBy[name] = assignedMetrics{
			count:    m.assignments.WithLabelValues("assigned", "", name),
			duration: m.duration.WithLabelValues("assigned"),
		}
	}
	for o := bus.Confirmed; o <= bus.Unknown; o++ {
		m.publishOutcomes[o] = m.publishVec.WithLabelValues(o.String())
	}
	m.reloadOK.Set(1)
	return m
}

func (m *metrics) register(r *prometheus.Registry) error {
	var all error
	for _, c := range []prometheus.Collector{
		m.received, m.assignments, m.duration, m.publishVec, m.invalid, m.statusRefused, m.authRejections,
		m.sessions, m.duplicates, m.parked, m.connected, m.blocked, m.reloadOK, &fleetCollector{s: m.s},
	} {
		all = errors.Join(all, r.Register(c))
	}
	return all
}

func (m *metrics) assigned(strategy string, took time.Duration) {
	a, ok := m.assignedBy[strategy]
	if !ok {
		return
	}
	a.count.Inc()
	a.duration.Observe(took.Seconds())
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

// The gauges that are read off a snapshot.
var (
	descAgents    = desc("agents", "Agents by state.", "state")
	descSlots     = desc("agent_slots", "Slots of all agents online, by state (free, used).", "state")
	descAgentLoad = desc("agent_load", "Load of an agent, 0 to 1: reported or own dispatches, whichever is larger.", "agent_id")
	descAgentFree = desc("agent_free_slots", "Free slots of an agent.", "agent_id")
	descPending   = desc("held", "Tasks that wait for an agent, by priority.", "priority")
	descInflight  = desc("inflight", "Dispatches published and not yet confirmed.")
	descOldest    = desc("oldest_pending_seconds", "Age of the task that has waited longest.")
	descDepth     = desc("queue_ready", "Messages ready in a queue, read from the broker every few seconds.", "queue")
	descIDs       = desc("remembered_ids", "Task ids known to the duplicate check.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("taskbus_"+name, help, labels, nil)
}

// fleetCollector reads a snapshot at each scrape.
type fleetCollector struct {
	s  *Service
	mu sync.Mutex // one scrape at a time
}

func (c *fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descAgents, descSlots, descAgentLoad, descAgentFree, descPending, descInflight, descOldest, descDepth, descIDs,
	} {
		ch <- d
	}
}

func (c *fleetCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	snap, err := c.s.snapshot(ctx)
	if err != nil {
		return // the process is stopping: a gap says so
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	collectAgents(snap, gauge)
	for i, n := range snap.Pending {
		gauge(descPending, float64(n), coordinator.Priority(i).String())
	}
	gauge(descInflight, float64(snap.Dispatching))
	gauge(descOldest, snap.OldestPending.Seconds())
	gauge(descIDs, float64(snap.Remembered))
	for _, name := range depthQueues {
		if d, ok := c.s.depths.get(name); ok && d.err == nil {
			gauge(descDepth, float64(d.Ready), name)
		}
	}
}

func collectAgents(snap coordinator.Snapshot, gauge func(*prometheus.Desc, float64, ...string)) {
	states := make(map[coordinator.AgentState]int)
	free, used, otherFree, otherLoad := 0, 0, 0, 0.0
	for i, a := range snap.Agents {
		states[a.State]++
		if a.State == coordinator.AgentOnline {
			free += a.Free
			used += a.InFlight
		}
		if i >= maxAgentLabels {
			otherFree += a.Free
			otherLoad = max(otherLoad, a.Load)
			continue
		}
		gauge(descAgentLoad, a.Load, string(a.Spec.ID))
		gauge(descAgentFree, float64(a.Free), string(a.Spec.ID))
	}
	if len(snap.Agents) > maxAgentLabels {
		gauge(descAgentLoad, otherLoad, "other")
		gauge(descAgentFree, float64(otherFree), "other")
	}
	for st := coordinator.AgentNeverSeen; st <= coordinator.AgentStale; st++ {
		gauge(descAgents, float64(states[st]), st.String())
	}
	gauge(descSlots, float64(free), "free")
	gauge(descSlots, float64(used), "used")
}

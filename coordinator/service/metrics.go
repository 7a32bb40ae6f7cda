package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
	resultMetrics

	// counts are read off the service's own counters.
	counts      []prometheus.Collector
	receivedVec *prometheus.CounterVec
	received    map[string]prometheus.Counter // by queue
	assignments *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	queueWait   prometheus.Histogram
	confirm     prometheus.Histogram
	// assignedBy saves the label lookup on the hot path: by strategy.
	assignedBy map[string]assignedMetrics

	publishVec      *prometheus.CounterVec
	publishOutcomes [bus.Unknown + 1]prometheus.Counter
	invalid         *prometheus.CounterVec
	statusRefused   *prometheus.CounterVec
	authRejections  *prometheus.CounterVec
	sessions        *prometheus.CounterVec
	duplicates      prometheus.Counter
	eventsDropped   prometheus.Counter
	connected       prometheus.Gauge
	blocked         prometheus.Gauge
	reloadOK        prometheus.Gauge
}

// latencyBuckets reach from half a millisecond to the longest assignment timeout.
var latencyBuckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

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
		receivedVec: vec("messages_received_total", "Deliveries taken, by queue.", "queue"),
		received:    make(map[string]prometheus.Counter),
		queueWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "taskbus_queue_wait_seconds", Help: "From the arrival of a task to the decision for an agent.", Buckets: latencyBuckets,
		}),
		confirm: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "taskbus_confirm_latency_seconds", Help: "From the decision for an agent to the broker's confirm of the dispatch.", Buckets: latencyBuckets,
		}),
		assignments: vec("assignments_total", "Tasks whose outcome is confirmed, by result (assigned, failed), reason code and strategy.", "result", "reason", "strategy"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "taskbus_assignment_duration_seconds",
			Help:    "From the arrival of a task to its confirmed outcome, by result.",
			Buckets: latencyBuckets,
		}, []string{"result"}),
		assignedBy:     make(map[string]assignedMetrics),
		publishVec:     vec("publish_outcomes_total", "What the broker answered to publications.", "outcome"),
		invalid:        vec("validation_failures_total", "Messages that were refused as invalid, by the schema they should follow and the rule they break.", "schema", "keyword"),
		statusRefused:  vec("status_refused_total", "Heartbeats that changed nothing, by cause.", "refusal"),
		authRejections: vec("auth_rejections_total", "Heartbeats and results whose broker-validated user was not their agent, and cancels on task.request whose user was an agent or not named, by mode of agents.auth.", "mode"),
		sessions:       vec("amqp_sessions_total", "Broker sessions opened, and ended by cause.", "reason"),
		eventsDropped:  counter("events_dropped_total", "Announcements on taskbus.events that were dropped because too much waited to be published."),
		duplicates:     counter("duplicates_total", "Second copies of known tasks that were dropped."),
		connected:      gauge("amqp_connected", "1 while there is a broker session."),
		blocked:        gauge("amqp_blocked", "1 while the broker holds up publishers."),
		reloadOK:       gauge("config_last_reload_successful", "0 while the configuration file on disk is broken."),
	}
	read := func(name, help string, from *atomic.Uint64) {
		m.counts = append(m.counts, prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: "taskbus_" + name, Help: help},
			func() float64 { return float64(from.Load()) }))
	}
	read("tasks_dispatched_total", "Dispatches that the broker has confirmed.", &s.count.dispatched)
	read("tasks_dropped_total", "Copies of known tasks, acknowledged without a dispatch.", &s.count.dropped)
	read("tasks_abandoned_total", "Tasks held when a session ended; the broker delivers them again.", &s.count.abandoned)
	read("redeliveries_total", "Tasks that the broker had handed out before.", &s.count.redelivered)
	m.counts = append(m.counts, prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: "taskbus_stale_acks_total", Help: "Acknowledgements of deliveries of an earlier session, ignored."},
		func() float64 { return float64(s.staleAcks()) }))
	read("parked_total", "Unreadable messages in task.dead about which nobody could be told.", &s.count.parked)
	var collectors []prometheus.Collector
	m.resultMetrics, collectors = newResultMetrics(&s.count)
	m.counts = append(m.counts, collectors...)
	for _, queue := range []string{bus.QueueAssign, bus.QueueAssignHigh, bus.QueueReassign, bus.QueueRequest, bus.StreamStatus, bus.StreamResult} {
		m.received[queue] = m.receivedVec.WithLabelValues(queue)
	}
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
		m.receivedVec, m.assignments, m.duration, m.queueWait, m.confirm, m.publishVec, m.invalid,
		m.statusRefused, m.authRejections, m.sessions, m.duplicates, m.eventsDropped, m.connected, m.blocked, m.reloadOK,
		&fleetCollector{s: m.s},
	} {
		all = errors.Join(all, r.Register(c))
	}
	for _, c := range m.counts {
		all = errors.Join(all, r.Register(c))
	}
	return all
}

// assigned counts a confirmed dispatch at now.
func (m *metrics) assigned(d *coordinator.Dispatch, now time.Time) {
	a := m.assignedBy[d.Decision.Strategy]
	a.count.Inc()
	a.duration.Observe(now.Sub(d.Task.AcceptedAt).Seconds())
	m.queueWait.Observe(d.At.Sub(d.Task.AcceptedAt).Seconds())
	m.confirm.Observe(now.Sub(d.At).Seconds())
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
	descLeases    = desc("leases", "Dispatches that are with their agents and not known to have ended.")
	descCordoned  = desc("agent_cordoned", "1 while an agent gets no new work by an operator's order.", "agent_id")
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
		descLeases, descCordoned,
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
	gauge(descLeases, float64(snap.Leased))
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
	free, used, otherFree, otherLoad, otherCordoned := 0, 0, 0, 0.0, 0.0
	for i, a := range snap.Agents {
		states[a.State]++
		if a.State == coordinator.AgentOnline {
			free += a.Free
			used += a.InFlight
		}
		if i >= maxAgentLabels {
			otherFree += a.Free
			otherLoad = max(otherLoad, a.Load)
			otherCordoned += boolGauge(a.Cordoned)
			continue
		}
		gauge(descAgentLoad, a.Load, string(a.Spec.ID))
		gauge(descAgentFree, float64(a.Free), string(a.Spec.ID))
		gauge(descCordoned, boolGauge(a.Cordoned), string(a.Spec.ID))
	}
	if len(snap.Agents) > maxAgentLabels {
		gauge(descAgentLoad, otherLoad, "other")
		gauge(descAgentFree, float64(otherFree), "other")
		gauge(descCordoned, otherCordoned, "other")
	}
	for st := coordinator.AgentNeverSeen; st <= coordinator.AgentGone; st++ {
		gauge(descAgents, float64(states[st]), st.String())
	}
	gauge(descSlots, float64(free), "free")
	gauge(descSlots, float64(used), "used")
}

package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/agent/balance"
	"taskbus/messages"
)

// metrics are the Prometheus metrics of one agent: those of bidding when it bids, and
// BALANCING's when it claims. nil counts nothing.
type metrics struct {
	registry   prometheus.Registerer
	registered []prometheus.Collector

	offers, bids *prometheus.CounterVec

	cycles, underloads, overloads              prometheus.Counter
	intervals, depths, loads                   prometheus.Histogram
	interval, depth, load, target, targetDrain prometheus.Gauge
	claims, registryReads                      *prometheus.CounterVec
	items                                      prometheus.Counter
}

// What became of a claim: values of the label outcome.
const (
	claimGranted    = "granted"
	claimEmpty      = "empty"      // nothing was granted
	claimUnanswered = "unanswered" // not in time
)

// newMetrics registers what the configuration asks for; nil when that is nothing.
func newMetrics(c Config) (*metrics, error) {
	if c.Metrics == nil || c.Bidder == nil && c.Pull == nil {
		return nil, nil
	}
	m := &metrics{registry: c.Metrics}
	var all []prometheus.Collector
	if c.Bidder != nil {
		all = append(all, m.ofBidding()...)
	}
	if c.Pull != nil {
		all = append(all, m.ofPulling()...)
	}
	for _, each := range all {
		if err := c.Metrics.Register(each); err != nil {
			m.unregister()
			if again := (prometheus.AlreadyRegisteredError{}); errors.As(err, &again) {
				err = fmt.Errorf(
					"%w: two agents need a Registerer each, such as prometheus.WrapRegistererWith(prometheus.Labels{\"agent_id\": "+
						"…}, registry)", err)
			}
			return nil, fmt.Errorf("the configuration cannot be used: Metrics: %w", err)
		}
		m.registered = append(m.registered, each)
	}
	return m, nil
}

// unregister takes everything back, so that the agent can be run again.
func (m *metrics) unregister() {
	if m == nil {
		return
	}
	for _, each := range m.registered {
		m.registry.Unregister(each)
	}
	m.registered = nil
}

func (m *metrics) ofBidding() []prometheus.Collector {
	m.offers = counters("offers_total",
		"Offers: bid, declined, late, broken (a panic, or an impossible bid), dropped (1,024 waited), unsent, "+
			"repeated.", "answer")
	m.bids = counters("bid_outcomes_total", "Bids: won, or the reason of task.bid_rejected.", "outcome")
	for _, answer := range []string{offerBid, offerDeclined, offerLate, offerBroken, offerDropped, offerUnsent,
		offerRepeated} {
		m.offers.WithLabelValues(answer)
	}
	m.bids.WithLabelValues("won")
	for _, reason := range messages.BidReasons() {
		m.bids.WithLabelValues(string(reason))
	}
	return []prometheus.Collector{m.offers, m.bids}
}

func (m *metrics) ofPulling() []prometheus.Collector {
	const of = "load_balancing_"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "taskbus_agent_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "taskbus_agent_" + name, Help: help})
	}
	histogram := func(name, help string, buckets ...float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "taskbus_agent_" + name, Help: help, Buckets: buckets})
	}
	m.cycles = counter(of+"discovery_total", "Discovery cycles.")
	m.underloads = counter(of+"underload_adjustments_total",
		"Intervals more than a tenth above the base.")
	m.overloads = counter(of+"overload_adjustments_total",
		"Intervals more than a tenth below the base.")
	m.intervals = histogram(of+"discovery_interval_seconds", "Discovery intervals.", .2, .25, .5, .75, 1, 1.5, 2, 3, 5,
		7.5, 10)
	m.depths = histogram(of+"queue_depth", "The same at each cycle.", 0, 1, 2, 5, 10, 20, 50, 100, 200, 500,
		1000, 2000)
	m.loads = histogram(of+"load_factor",
		"The same at each cycle, once it knows of the fleet.", .01, .02, .05, .1, .2, .3, .4,
		.5, .75, 1)
	m.interval = gauge(of+"current_interval_seconds", "Discovery interval now.")
	m.depth = gauge(of+"current_queue_depth", "Tasks in hand at the latest discovery cycle.")
	m.load = gauge(of+"current_load_factor", "Its part of all tasks at the latest discovery cycle.")
	m.target = gauge(of+"target_load_factor", "Its part of the fleet's capacity.")
	m.targetDrain = gauge(of+"target_drain_seconds",
		"In how many seconds all agents should be through, by the coordinator.")
	m.claims = counters("claims_total", "Claims: granted, empty, unanswered.", "outcome")
	m.items = counter("claimed_items_total", "Tasks granted by claims.")
	for _, outcome := range []string{claimGranted, claimEmpty, claimUnanswered} {
		m.claims.WithLabelValues(outcome)
	}
	m.registryReads = counters("registry_reads_total", "Readings of registry.url: read, unreachable, timeout, "+
		"refused (not 200), invalid (no statistics, or above 16 MiB).", "outcome")
	for _, outcome := range registryOutcomes {
		m.registryReads.WithLabelValues(outcome)
	}
	return []prometheus.Collector{m.cycles, m.underloads, m.overloads, m.intervals, m.depths, m.loads,
		m.interval, m.depth, m.load, m.target, m.targetDrain, m.claims, m.items, m.registryReads}
}

func counters(name, help, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "taskbus_agent_" + name, Help: help}, []string{label})
}

func (m *metrics) answered(answer string, offers int) {
	if m != nil {
		m.offers.WithLabelValues(answer).Add(float64(offers))
	}
}

func (m *metrics) bidOutcome(outcome string) {
	if m != nil {
		m.bids.WithLabelValues(outcome).Inc()
	}
}

// paused counts an interval. What differs from base by a tenth may be jitter.
func (m *metrics) paused(interval, base time.Duration) {
	if m == nil {
		return
	}
	m.intervals.Observe(interval.Seconds())
	m.interval.Set(interval.Seconds())
	switch {
	case interval > base+base/10:
		m.underloads.Inc()
	case interval < base-base/10:
		m.overloads.Inc()
	}
}

// cycle counts a discovery cycle; fleet is nil while nothing is known of the fleet.
func (m *metrics) cycle(local balance.Local, fleet *balance.View) {
	if m == nil {
		return
	}
	m.cycles.Inc()
	m.depths.Observe(float64(local.Pending))
	m.depth.Set(float64(local.Pending))
	if fleet == nil {
		return
	}
	load, target := loadFactors(local, fleet)
	m.loads.Observe(load)
	m.load.Set(load)
	m.target.Set(target)
}

// loadFactors are the agent's part of all tasks and, the target, of the fleet's capacity.
func loadFactors(local balance.Local, fleet *balance.View) (load, target float64) {
	return part(float64(local.Pending), float64(fleet.Pending+fleet.Unclaimed)), part(local.Capacity, fleet.Capacity)
}

// drain sets in how many seconds all agents should be through.
func (m *metrics) drain(seconds float64) {
	if m != nil {
		m.targetDrain.Set(seconds)
	}
}

// part is how much of the whole that is, 0 to 1.
func part(some, whole float64) float64 {
	if !(whole > 0) {
		return 0
	}
	return min(some/whole, 1)
}

func (m *metrics) claim(outcome string, items int) {
	if m != nil {
		m.claims.WithLabelValues(outcome).Inc()
		m.items.Add(float64(items))
	}
}

func (m *metrics) registryRead(outcome string) {
	if m != nil {
		m.registryReads.WithLabelValues(outcome).Inc()
	}
}

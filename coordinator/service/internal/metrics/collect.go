package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix begins the names of all metrics.
const prefix = "taskbus_"

// collectors are what is to be registered; its methods make one and add it.
type collectors []prometheus.Collector

func keep[C prometheus.Collector](all *collectors, c C) C {
	*all = append(*all, c)
	return c
}

func (all *collectors) counter(name, help string) prometheus.Counter {
	return keep(all, prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help}))
}

func (all *collectors) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return keep(all, prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels))
}

func (all *collectors) gauge(name, help string) prometheus.Gauge {
	return keep(all, prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help}))
}

func (all *collectors) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return keep(all, prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}))
}

func (all *collectors) histograms(name, help string, buckets []float64, label string) *prometheus.HistogramVec {
	return keep(all, prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, []string{label}))
}

// desc describes a metric of which values are given at each scrape.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

// emitter hands values on to Prometheus.
type emitter func(d *prometheus.Desc, v float64, labels ...string)

// emitTo sends values to a scrape; those of one name are a counter.
func emitTo(ch chan<- prometheus.Metric, counter *prometheus.Desc) emitter {
	return func(d *prometheus.Desc, v float64, labels ...string) {
		kind := prometheus.GaugeValue
		if d == counter {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
}

// Bool is the value of a gauge that is 1 or 0.
func Bool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// lookup is a collector of values that are looked up at each scrape, in lookupLimit at most.
type lookup struct {
	descs   []*prometheus.Desc
	collect func(context.Context, chan<- prometheus.Metric)
}

const lookupLimit = 2 * time.Second

// Lookup returns a collector of what collect looks up at each scrape, in 2 s at most.
func Lookup(descs []*prometheus.Desc, collect func(context.Context, chan<- prometheus.Metric)) prometheus.Collector {
	return &lookup{descs, collect}
}

func (c *lookup) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c *lookup) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	c.collect(ctx, ch)
}

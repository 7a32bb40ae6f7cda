package service

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// The metrics of how the pools of providers, and their models, stand by their providers' own word.
// Every pool and model has the first two, also while nothing is wrong with it: an alert must be
// able to tell that from one of which nothing is known. The other two are there once answers of it
// have been told.
var (
	descPoolBlocked = desc("quota_pool_blocked_seconds", "For how long a provider's pool or model is still left alone because the provider has refused a call (429); 0: calls may go to it.", "node")
	descPoolRate    = desc("quota_pool_rate_ratio", "Which part of its rates a provider's pool or model is used at, 0.02 to 1: less after the provider has refused a call.", "node")
	descPoolLatency = desc("quota_pool_latency_seconds", "Mean latency of the answers of a provider's pool or model, of the latest 16 calls or so.", "node")
	descPoolSuccess = desc("quota_pool_success_ratio", "Which part of the calls to a provider's pool or model was answered without an error of the provider, 0 to 1, of the latest 16 or so.", "node")
)

// collectPool gives how a pool or model stands at now; of other nodes nothing.
func collectPool(n *fairshare.NodeView, now time.Time, emit gauges) {
	if n.Provider == "" || n.Kind != coordinator.QuotaPool && n.Kind != coordinator.QuotaModel {
		return
	}
	h := n.Health
	if h == nil {
		h = &fairshare.Health{PerMille: 1000} // nothing has been heard: it is well
	}
	emit(descPoolBlocked, max(0, h.BlockedUntil.Sub(now).Seconds()), n.ID)
	emit(descPoolRate, float64(h.PerMille)/1000, n.ID)
	if h.Calls > 0 {
		emit(descPoolSuccess, float64(h.Success)/1e6, n.ID)
	}
	if h.Latency > 0 {
		emit(descPoolLatency, h.Latency.Seconds(), n.ID)
	}
}

// newPoolRefusals counts the refusals of providers that callers have told. It has a series for each
// pool and model of quotas.yaml to which that has happened.
func newPoolRefusals() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "taskbus_quota_pool_refusals_total",
		Help: "Calls that a provider has refused because of its own limits (429, 529), as their callers have told, by its pool or model.",
	}, []string{"node"})
}

// heard counts what was told of a provider's refusal, once: of an end that was told before, or of a
// call that concerns no quota, nothing is taken over.
func (m *callMetrics) heard(c *coordinator.Call, a *coordinator.CallAnswer) {
	if c.Heard != nil && c.Heard.Throttled() && a.State == coordinator.CallGranted && a.Pool != "" {
		m.poolRefusals.WithLabelValues(a.Pool).Inc()
	}
}

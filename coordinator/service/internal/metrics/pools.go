package metrics

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/health"
)

// The metrics of the state of the pools of providers, and their models, by their providers' answers.
// Every pool and model has the first two, also while nothing is wrong with it: an alert must be
// able to distinguish that from one of which nothing is known. The other two are there once answers of it
// have been reported.
var (
	descPoolBlocked = desc("quota_pool_blocked_seconds",
		"For how long a pool or model is closed after a 429; 0: open.", "node")
	descPoolRate = desc("quota_pool_rate_ratio",
		"Part of its rates at which a pool or model is used, 0.02 to 1: less after refusals.", "node")
	descPoolLatency = desc("quota_pool_latency_seconds",
		"Mean latency of about 16 latest calls.", "node")
	descPoolSuccess = desc("quota_pool_success_ratio",
		"Part of about 16 latest calls without a provider's error; refusals do not count.", "node")
)

// collectPool gives how a pool or model stands at now; of other nodes nothing.
func collectPool(n *fairshare.NodeView, now time.Time, emit emitter) {
	if n.Provider == "" || n.Kind != coordinator.QuotaPool && n.Kind != coordinator.QuotaModel {
		return
	}
	h := n.Health
	if h == nil {
		h = &health.View{PerMille: health.Whole} // nothing has been heard: it is well
	}
	emit(descPoolBlocked, max(0, h.BlockedUntil.Sub(now).Seconds()), n.ID)
	emit(descPoolRate, float64(h.PerMille)/health.Whole, n.ID)
	if h.Calls > 0 {
		emit(descPoolSuccess, float64(h.Success)/1e6, n.ID)
	}
	if h.Latency > 0 {
		emit(descPoolLatency, h.Latency.Seconds(), n.ID)
	}
}

package webhook

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// What becomes of an event.
const (
	resultDelivered = "delivered"
	resultRefused   = "refused"  // by an answer after which another try is of no use
	resultGivenUp   = "given_up" // after longestTried
	resultDropped   = "dropped"  // too many waited
	resultUnsent    = "unsent"   // the process ended first
)

type metrics struct {
	results *prometheus.CounterVec
	retries prometheus.Counter
}

// newMetrics makes them; waiting is how many events wait.
func newMetrics(r prometheus.Registerer, waiting func() float64) (*metrics, error) {
	m := &metrics{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taskbus_quota_webhook_events_total",
			Help: "Events about LLM quotas for the webhook, by what became of them: delivered, refused, given_up, dropped, unsent.",
		}, []string{"result"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "taskbus_quota_webhook_retries_total", Help: "Tries to send an event to the webhook beyond the first.",
		}),
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "taskbus_quota_webhook_waiting", Help: "Events that wait to be sent to the webhook, or to be tried again.",
	}, waiting)
	for _, result := range []string{resultDelivered, resultRefused, resultGivenUp, resultDropped, resultUnsent} {
		m.results.WithLabelValues(result)
	}
	return m, errors.Join(r.Register(m.results), r.Register(m.retries), r.Register(gauge))
}

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
			Help: "Events for the webhook: delivered, refused, given_up, dropped, unsent.",
		}, []string{"result"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "taskbus_quota_webhook_retries_total", Help: "Further tries to send an event.",
		}),
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "taskbus_quota_webhook_waiting", Help: "Events to be sent to the webhook.",
	}, waiting)
	for _, result := range []string{resultDelivered, resultRefused, resultGivenUp, resultDropped, resultUnsent} {
		m.results.WithLabelValues(result)
	}
	return m, errors.Join(r.Register(m.results), r.Register(m.retries), r.Register(gauge))
}

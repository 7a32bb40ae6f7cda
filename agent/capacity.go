package agent

import (
	"time"

	"taskbus/agent/balance"
)

// What the agent does a second: measured while it works, told with heartbeats and claims.

// newEstimator measures over the window of the configuration, BALANCING's without one, and
// says how often the capacity is told.
func newEstimator(pull *balance.Config) (e *balance.Estimator, every time.Duration, err error) {
	c := balance.Default()
	if pull != nil {
		c = pull.WithDefaults()
	}
	e, err = balance.NewEstimator(c)
	return e, milliseconds(c.LoadBalancing.CapacityReportIntervalMS), err
}

// occupied tells the estimator how many slots are taken. mu is held.
func (w *worker) occupied(now time.Time) { w.estimator.InHand(now, len(w.running)) }

// measure learns from a task that has been done. mu is held, and the task is still
// among the running ones.
func (w *worker) measure(d *dispatch, now time.Time) {
	if w.cfg.Bidder != nil {
		m, _ := w.means.get(d.task.Type)
		w.means.add(d.task.Type, m.with(d.verdict.took))
	}
	w.estimator.Done(now)
}

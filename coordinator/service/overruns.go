package service

import (
	"context"
	"time"

	"taskbus/coordinator/service/internal/alerts"
)

// Alert is an event that people are to hear of, as it is published.
type Alert = alerts.Alert

// A leader looks at the forecasts of all budgets now and then, beside the loop, and publishes those that
// will not last.

const (
	overrunsFirst  = 10 * time.Second // after the session leads: the history may have to be opened yet
	overrunsPeriod = time.Minute      // between looks
	overrunsLimit  = 20 * time.Second // for one look
)

// watchOverruns looks until the session ends.
func (r *session) watchOverruns() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.workers.Go(func() { // a database that hangs must not hold up the end of the session
		select {
		case <-r.bus.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	timer := time.NewTimer(overrunsFirst)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := r.tellOverruns(ctx); err != nil && ctx.Err() == nil {
			r.s.log.Debug().Err(err).Msg("the quotas could not be forecast; trying again in a minute")
		}
		timer.Reset(overrunsPeriod)
	}
}

// tellOverruns publishes budgets that will not last and were not published yet.
func (r *session) tellOverruns(ctx context.Context) error {
	s := r.s
	ctx, cancel := context.WithTimeout(ctx, overrunsLimit)
	defer cancel()
	now := s.now()
	s.overruns.Forget(now)
	nodes, err := s.reading.Budgets(ctx)
	if err != nil || !s.overruns.Any(nodes) {
		return err
	}
	q := s.config.Load().Policy().Quotas
	if q == nil {
		return nil
	}
	past, err := alerts.Past(ctx, s.options.History, now, q.Location)
	if err != nil {
		return err
	}
	for _, o := range s.overruns.Find(nodes, now, q.Location, &past) {
		if !r.mayAnnounce() {
			break
		}
		s.overruns.Told(&o)
		s.observe.QuotaOverrun(&o)
		r.alert(alerts.Overrun(&o, s.now()))
	}
	return nil
}

// alert publishes an event about quotas and passes it to the webhook.
func (r *session) alert(key string, a Alert) {
	r.announce(key, a.Type, a.ID, "", a.Body)
	if tell := r.s.options.Alerted; tell != nil {
		tell(a)
	}
}

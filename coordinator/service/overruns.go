package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	forecast "taskbus/coordinator/usage"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// A leader looks at the forecasts of all budgets now and then, beside the loop, and publishes those that
// will not last.

const (
	overrunsFirst  = 10 * time.Second // after the session leads: the history may have to be opened yet
	overrunsPeriod = time.Minute      // between looks
	overrunsLimit  = 20 * time.Second // for one look
	// overrunsAtOnce bounds what one look publishes: the nodes nearest to the roots, the others with the
	// next. A pool that runs out takes all groups below it along.
	overrunsAtOnce = 100
	// nodesAtOnce is how many nodes one turn of the loop copies: some milliseconds.
	nodesAtOnce = 5000
)

// overrun is what is published once.
type overrun struct {
	node, dimension string
	until           int64 // when the period ends, in nanoseconds since 1970
}

// overruns are those that this process has reported. They belong to the goroutine of watchOverruns, of
// which there is one at a time.
type overruns map[overrun]bool

// forget drops those with periods that are over.
func (o overruns) forget(now time.Time) {
	for told := range o {
		if told.until <= now.UnixNano() {
			delete(o, told)
		}
	}
}

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
	s.overruns.forget(now)
	nodes, err := s.budgets(ctx)
	if err != nil || !s.untold(nodes) {
		return err
	}
	q := s.config.Load().Policy().Quotas
	if q == nil {
		return nil
	}
	past, err := s.past(ctx, now, q.Location)
	if err != nil {
		return err
	}
	told := 0
	for _, f := range forecast.Forecasts(nodes, "", now, q.Location, &past) {
		key := overrunOf(f.Node, f.Budget)
		if !f.Alarming() || s.overruns[key] {
			continue
		}
		if told++; told > overrunsAtOnce || !r.mayAnnounce() {
			break
		}
		s.overruns[key] = true
		o := &messages.QuotaOverrun{
			Node: f.Node.ID, Kind: f.Node.Kind, Dimension: f.Budget.Dimension, Period: f.Budget.Period,
			From: f.Budget.PeriodFrom, Until: f.Budget.ResetTime,
			Used: f.Budget.Used, Cap: f.Budget.Cap, Expected: f.Expected, Basis: f.Basis, At: f.OverrunAt,
		}
		s.observe.QuotaOverrun(o)
		r.announceOverrun(o)
	}
	return nil
}

func overrunOf(n *view.QuotaNode, b *view.QuotaBudget) overrun {
	return overrun{n.ID, b.Dimension, b.ResetTime.UnixNano()}
}

// untold reports whether there is any budget that could be published.
func (s *Service) untold(nodes []view.QuotaNode) bool {
	for i := range nodes {
		for j := range nodes[i].Budgets {
			if b := &nodes[i].Budgets[j]; forecast.Tellable(b) && !s.overruns[overrunOf(&nodes[i], b)] {
				return true
			}
		}
	}
	return false
}

// errQuotasChanged: some nodes were copied before, and some after.
var errQuotasChanged = errors.New("the quotas have changed meanwhile")

// budgets returns all nodes of the quota trees, parents first; none where there are no quotas. The loop
// copies them a few thousand at a time, so that tasks do not wait for it.
func (s *Service) budgets(ctx context.Context) (all []view.QuotaNode, err error) {
	for from, nodes := 0, -1; ; from += nodesAtOnce {
		var snap engine.QuotaSnapshot
		n := 0
		err := s.loop.query(ctx, func(now time.Time, e *engine.Engine) {
			snap = e.Quotas(now).Snapshot(nodesAtOnce, func(*coordinator.QuotaNode, string) bool {
				n++
				return n > from
			})
		})
		if err != nil {
			return nil, fmt.Errorf("ask the engine for the quotas: %w", err)
		}
		if nodes >= 0 && n != nodes {
			return nil, errQuotasChanged
		}
		nodes = n
		all = append(all, quotasOf(&snap).Nodes...)
		if from+nodesAtOnce >= n {
			return all, nil
		}
	}
}

// past returns what the history says; nothing if none is kept. A history that is behind for a reason that
// passes is waited for: a forecast from less would be another one.
func (s *Service) past(ctx context.Context, now time.Time, zone *time.Location) (forecast.Past, error) {
	h := s.options.History
	if h == nil {
		return forecast.Past{}, nil
	}
	p, err := h.Projection(ctx)
	switch {
	case err != nil:
		return forecast.Past{}, fmt.Errorf("ask the history of usage: %w", err)
	case p.State == view.HistoryFailing, p.State == view.HistoryRebuilding:
		return forecast.Past{}, fmt.Errorf("the history of usage is %s: %s", p.State, p.Detail)
	}
	return forecast.ReadPast(now, p.Since, p.Gaps, zone,
		func(q forecast.Query) ([]forecast.Row, bool, error) { return h.Usage(ctx, q) })
}

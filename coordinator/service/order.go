package service

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/callers"
	"taskbus/coordinator/view"
)

// Order cordons, drains or uncordons an agent (see httpapi.Source). Only a
// coordinator that leads does so: one that stands by assigns nothing, and an order kept for later would
// take effect when no longer expected. It is answered when it will survive.
func (s *Service) Order(ctx context.Context, agent string, order coordinator.Order) (view.Agent, error) {
	a, err := s.orderAgent(ctx, coordinator.AgentID(agent), order)
	if err != nil {
		return view.Agent{}, fmt.Errorf("%s agent %s: %w", order, agent, err)
	}
	return a, nil
}

func (s *Service) orderAgent(
	ctx context.Context, id coordinator.AgentID, order coordinator.Order,
) (view.Agent, error) {
	r, err := s.leading()
	if err != nil {
		return view.Agent{}, err
	}
	if _, err := s.reading.Agent(ctx, id); err != nil {
		return view.Agent{}, err
	}
	_, err = s.order(r, func(now time.Time, token uint64) {
		s.loop.apply(now, coordinator.AgentOrdered{Agent: id, Order: order, Token: token})
	})
	if err != nil {
		return view.Agent{}, err
	}
	// From here on the order stands, whatever becomes of ctx.
	return s.reading.Agent(context.WithoutCancel(ctx), id)
}

// order lets the loop carry out an order while the session leads, and returns when the engine's answer to
// the token is in the journal: with the controls that it has made, if it is a change of the quotas. After an error it
// may be tried again.
func (s *Service) order(
	r *session, carryOut func(now time.Time, token uint64),
) ([]coordinator.QuotaControl, error) {
	w := s.callers.Add("")
	if w == nil {
		return nil, fmt.Errorf("%d orders and cancels wait for their answers already; try again", callers.Most)
	}
	defer w.Remove()
	s.loop.within(r.number, func(now time.Time) { carryOut(now, w.Token) })
	if _, err := s.awaitEngine(r, w); err != nil {
		return nil, fmt.Errorf("%w; try again", err)
	}
	return w.Stands, nil
}

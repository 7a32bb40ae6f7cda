package service

import (
	"context"
	"fmt"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
)

// Order cordons, drains or uncordons an agent (see httpapi.Source). Only a
// coordinator that leads does so: one that stands by assigns nothing, and an order
// kept for later would come to life when nobody thinks of it any more.
func (s *Service) Order(ctx context.Context, agent string, order coordinator.Order) (httpapi.Agent, error) {
	if _, err := s.leading(); err != nil {
		return httpapi.Agent{}, fmt.Errorf("%s agent %s: %w", order, agent, err)
	}
	id := coordinator.AgentID(agent)
	_, err := s.agent(ctx, id)
	if err == nil {
		s.loop.post(0, coordinator.AgentOrdered{Agent: id, Order: order})
		// From here on the order stands, whatever becomes of ctx.
		var a httpapi.Agent
		if a, err = s.agent(context.WithoutCancel(ctx), id); err == nil {
			return a, nil
		}
	}
	return httpapi.Agent{}, fmt.Errorf("%s agent %s: %w", order, agent, err)
}

// agent looks one agent up.
func (s *Service) agent(ctx context.Context, id coordinator.AgentID) (httpapi.Agent, error) {
	snap, err := s.snapshot(ctx)
	if err != nil {
		return httpapi.Agent{}, err
	}
	for _, a := range snap.Agents {
		if a.Spec.ID == id {
			return agentStatus(a), nil
		}
	}
	return httpapi.Agent{}, httpapi.ErrNoAgent
}

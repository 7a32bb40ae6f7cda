package service

import (
	"context"
	"errors"
	"fmt"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/outbox"
)

// ReportCapacity publishes what an agent reports over HTTP as an agent.status, which
// every coordinator reads, this one included: so those that stand by and those that
// start know it as well (see httpapi.Source).
func (s *Service) ReportCapacity(ctx context.Context, agent string, report httpapi.CapacityReport) error {
	r := s.current.Load()
	if r == nil {
		return s.withoutSession("does not publish; report to")
	}
	a, err := s.relays.Agent(ctx, coordinator.AgentID(agent))
	if err != nil {
		return err
	}
	if s.config.Load().Auth == config.AuthStrict && r.bus.User() == "" {
		return errors.New(
			"agents.auth is strict, and RabbitMQ does not know this coordinator by a user name that it could vouch for: " +
				"report with agent.status")
	}
	if err := s.relays.Admit(a.Spec.ID); err != nil {
		return err
	}
	if r.outbox.Waiting() >= outbox.Most {
		return errors.New("too much waits to be published: the broker is slow, or holds publishers up")
	}
	p, err := s.relays.Status(a, report)
	if err != nil {
		return err
	}
	p.AppID, p.UserID = outbox.AppID, r.userID()
	return r.publishAwaited(ctx, p)
}

// withoutSession says why there is no session. consequence is what one that stands
// by does not do, and what to do with the one that leads.
func (s *Service) withoutSession(consequence string) error {
	v := s.state.read()
	if v.state == stateStandby {
		return fmt.Errorf("this coordinator stands by and %s the one that leads, whose /readyz answers 200", consequence)
	}
	return fmt.Errorf("this coordinator is %s and has no session with the broker", v.state)
}

// knowsFleet is nil when the engine knows the agents: they report to the broker, so without a session it
// knows none, or an outdated state of them.
func (s *Service) knowsFleet() error {
	if s.current.Load() != nil {
		return nil
	}
	return s.withoutSession("does not know the fleet; ask")
}

// publishAwaited publishes, and returns when the broker has it.
func (r *session) publishAwaited(ctx context.Context, p bus.Publication) error {
	answer := make(chan error, 1)
	r.outbox.Add(func() {
		err := r.send(p, func(outcome bus.Outcome) {
			if outcome == bus.Confirmed {
				answer <- nil
				return
			}
			answer <- fmt.Errorf("the broker's answer for %s: %s", p.Key, outcome)
		})
		if err != nil {
			answer <- err
		}
	})
	select {
	case err := <-answer:
		return err
	case <-r.bus.Done():
	case <-ctx.Done():
		return fmt.Errorf("wait for the broker's confirm: %w", ctx.Err())
	}
	select {
	case err := <-answer: // together with the end: the answer counts
		return err
	default:
		return errors.New("the broker session ended before the confirm")
	}
}

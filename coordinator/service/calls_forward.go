package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi"
)

// forwardTimeout bounds how long requests wait here for a leader that has just died.
const forwardTimeout = 2 * time.Second

// AskCalls asks the leader about calls (see httpapi.Source): this coordinator, or the one for which it
// stands by. While neither answers, what quotas.yaml lets each coordinator admit by itself is admitted (see
// onLoss), and charged when there is a leader again.
func (s *Service) AskCalls(ctx context.Context, asked []coordinator.Call) ([]coordinator.CallAnswer, error) {
	begun := s.now()
	answers, err := s.askSomebody(ctx, asked)
	if err == nil {
		answers = s.lost.answered(s.now(), asked, answers)
		s.metrics.calls.note(s.now().Sub(begun), asked, answers)
		return answers, nil
	}
	if errors.Is(err, gateway.ErrCallsBusy) || errors.Is(err, context.Canceled) {
		return nil, err
	}
	own, admitted, ok := s.lost.admit(s.now(), asked)
	if first := s.alone.unanswered(s.now(), admitted); first {
		s.observe.admittedAlone(err, s.LeaderElsewhere())
	}
	if ok {
		s.metrics.calls.own.Add(float64(admitted))
		s.metrics.calls.note(s.now().Sub(begun), asked, own)
		return own, nil
	}
	s.metrics.calls.unasked.Inc()
	s.observe.callUnasked(err)
	return nil, err
}

// askSomebody asks this coordinator if it leads, else the leader that the journal names.
func (s *Service) askSomebody(ctx context.Context, asked []coordinator.Call) ([]coordinator.CallAnswer, error) {
	answers, err := s.askWhoLeads(ctx, asked)
	if err == nil {
		if ended, since, admitted := s.alone.answered(); ended && admitted > 0 {
			s.observe.aloneEnded(since, admitted)
		}
	}
	return answers, err
}

func (s *Service) askWhoLeads(ctx context.Context, asked []coordinator.Call) ([]coordinator.CallAnswer, error) {
	answers, err := s.AskLeader(ctx, asked)
	if !errors.Is(err, gateway.ErrNotLeading) {
		return answers, err
	}
	address := s.LeaderElsewhere()
	if address == "" || s.options.PeerToken == "" {
		return nil, err
	}
	answers, err = httpapi.Forward(ctx, s.forwarding, address, s.options.PeerToken, asked)
	if err != nil {
		return nil, fmt.Errorf("ask for quota: %w", err)
	}
	return answers, nil
}

// LeaderElsewhere returns the leader's address, if this coordinator stands by; empty: it is not known.
func (s *Service) LeaderElsewhere() string {
	r := s.current.Load()
	if r == nil || r.ledger == nil || s.state.read().state != stateStandby {
		return ""
	}
	if p := r.ledger.position(); p.leader.Address != s.options.Address {
		return p.leader.Address
	}
	return ""
}

package service

import (
	"context"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/callgate"
)

// AskCalls asks the leader about calls (see httpapi.Source and callgate.Gate).
func (s *Service) AskCalls(ctx context.Context, asked []coordinator.Call) ([]coordinator.CallAnswer, error) {
	return s.calls.Ask(ctx, s.callLeader(), asked)
}

// AskLeader asks the engine about calls, if this coordinator leads.
func (s *Service) AskLeader(ctx context.Context, asked []coordinator.Call) ([]coordinator.CallAnswer, error) {
	return s.calls.AskHere(ctx, s.callLeader(), asked)
}

// callLeader returns which coordinator can be asked about calls now.
func (s *Service) callLeader() callgate.Leader {
	r, err := s.leading()
	if err != nil {
		return callgate.Leader{Not: err, Elsewhere: s.LeaderElsewhere(), Token: s.options.PeerToken}
	}
	return callgate.Leader{Session: r.number}
}

// LeaderElsewhere returns the leader's address, if this coordinator stands by; empty: it is not known.
func (s *Service) LeaderElsewhere() string {
	r := s.current.Load()
	if r == nil || r.ledger == nil || s.state.read().state != stateStandby {
		return ""
	}
	if p := r.ledger.Position(); p.Leader.Address != s.options.Address {
		return p.Leader.Address
	}
	return ""
}

// reportCalls reports calls that were admitted here to the leader, until ctx ends.
func (s *Service) reportCalls(ctx context.Context) {
	ticker := time.NewTicker(callgate.ReportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.calls.Report(ctx, s.callLeader())
		}
	}
}

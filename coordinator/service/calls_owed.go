package service

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
)

const (
	tellEvery = time.Second
	tellAtOne = 256
)

// tellOwed reports calls that were admitted here to the leader, until ctx ends.
func (s *Service) tellOwed(ctx context.Context) {
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for calls := s.lost.due(s.now(), tellAtOne); len(calls) > 0; calls = s.lost.due(s.now(), tellAtOne) {
			if err := s.tell(ctx, calls); err != nil {
				break // they are reported later
			}
		}
	}
}

// tell has the leader charge calls that were admitted here. An error says that they are to be sent
// again: what is charged already is not charged twice.
func (s *Service) tell(ctx context.Context, calls []coordinator.Call) error {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	answers, err := s.askSomebody(ctx, calls)
	if err != nil {
		return err
	}
	charged := 0
	// A leader may have known a reservation before it was admitted here, under the same id: it is
	// settled then, also if it has expired. If it has ended otherwise, this changes nothing.
	var known []coordinator.Call
	for i := range answers {
		switch a := &answers[i]; {
		case a.Standing, a.State == coordinator.CallTaken, a.State == coordinator.CallEnded:
			settle := calls[i]
			settle.Op = coordinator.CallSettle
			known = append(known, settle)
		case a.State != coordinator.CallGranted:
			s.observe.notCharged(&calls[i], a.State)
		default:
			charged++
		}
	}
	if len(known) > 0 {
		if answers, err = s.askSomebody(ctx, known); err != nil {
			return err
		}
	}
	for i := range known {
		if state := answers[i].State; state == coordinator.CallGranted || state == coordinator.CallEnded {
			charged++
		} else {
			s.observe.notCharged(&known[i], state)
		}
	}
	s.lost.told(calls)
	if charged > 0 {
		s.log.Info().Int("calls", charged).Msg("charged calls that were admitted while no leader could be asked")
	}
	return nil
}

// notCharged logs that a call was made that is charged to no tenant.
func (o *observer) notCharged(c *coordinator.Call, state coordinator.CallState) {
	o.s.metrics.calls.uncharged.Inc()
	o.gated(noiseUncharged, zerolog.WarnLevel).Str("agent_id", string(c.Agent)).Str("group", c.Group).
		Str("provider", c.Usage.Provider).Stringer("answer", state).
		Msg(
			"the leader does not charge a call that was admitted while it could not be asked; see that all coordinators have the same quotas.yaml")
}

// callUnasked logs why no leader has answered about calls: the answer over HTTP does not say.
func (o *observer) callUnasked(err error) {
	o.gated(noiseUnasked, zerolog.WarnLevel).Err(err).
		Msg("a question for LLM quota was not answered: no leader could be asked")
}

package service

import (
	"context"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/dead"
	"taskbus/coordinator/view"
)

// deadSession is a session as the room of task.dead uses it.
type deadSession struct {
	bus.Session
	r *session
}

// Send publishes, and returns where the broker's answer comes.
func (d deadSession) Send(p bus.Publication) (<-chan bus.Outcome, error) {
	answer := make(chan bus.Outcome, 1)
	if err := d.r.send(p, func(o bus.Outcome) { answer <- o }); err != nil {
		return nil, err
	}
	return answer, nil
}

// HeldUp says why the broker takes no publications now.
func (d deadSession) HeldUp() string {
	if v := d.r.s.state.read(); v.state == stateBlocked {
		return v.detail
	}
	return ""
}

// deadSession returns the session in which task.dead can be looked into.
func (s *Service) deadSession() (dead.Session, error) {
	r, err := s.leading()
	if err != nil {
		return nil, err
	}
	return deadSession{r.bus, r}, nil
}

// DeadLetters lists what is in task.dead (see httpapi.Source).
func (s *Service) DeadLetters(ctx context.Context, f view.DeadFilter) (view.DeadList, error) {
	in, err := s.deadSession()
	if err != nil {
		return view.DeadList{}, err
	}
	return s.dead.List(ctx, in, f)
}

// DeadLetter gives one message (see httpapi.Source).
func (s *Service) DeadLetter(ctx context.Context, key string, body bool) (view.DeadMessage, bool, error) {
	in, err := s.deadSession()
	if err != nil {
		return view.DeadMessage{}, false, err
	}
	return s.dead.Get(ctx, in, key, body)
}

// ResendDead publishes messages anew (see httpapi.Source).
func (s *Service) ResendDead(ctx context.Context, keys []string) (view.DeadDone, error) {
	return s.actOnDead(ctx, "sent again", keys, s.dead.Resend)
}

// DropDead takes messages out of the queue for good (see httpapi.Source).
func (s *Service) DropDead(ctx context.Context, keys []string) (view.DeadDone, error) {
	return s.actOnDead(ctx, "dropped", keys, s.dead.Drop)
}

func (s *Service) actOnDead(ctx context.Context, what string, keys []string,
	act func(context.Context, dead.Session, []string) (view.DeadDone, error)) (view.DeadDone, error) {
	in, err := s.deadSession()
	if err != nil {
		return view.DeadDone{}, err
	}
	done, err := act(ctx, in, keys)
	if err == nil {
		s.log.Info().Int("messages", len(done.Done)).Int("kept", len(done.Kept)).Msg("messages of task.dead were " + what)
	}
	return done, err
}

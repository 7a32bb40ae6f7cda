package service

import (
	"context"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/agentqueues"
	"taskbus/coordinator/service/internal/background"
	"taskbus/coordinator/service/internal/coalesce"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/lanes"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/coordinator/service/internal/takeback"
	"taskbus/coordinator/service/internal/taking"
	"taskbus/coordinator/service/internal/vetting"
)

// newSession returns a session that has no bus yet.
func newSession(s *Service) *session {
	fixed := s.options.Config
	return &session{
		s: s, number: s.sessions.Add(1),
		window:  intake.NewWindow(fixed.Window, fixed.WindowBytes, fixed.MaxMessageBytes),
		returns: intake.ReturnsWindow(fixed.Window, fixed.WindowBytes, fixed.MaxMessageBytes),
		held:    intake.NewDeliveries(&s.observe.Books), outbox: outbox.NewQueue[func()](), tickets: outbox.NewTickets(),
		outputs: outbox.NewOutputs(fixed.WindowBytes), latest: coalesce.New(),
		requests: intake.NewRequests(), offers: outbox.NewOffers(), controls: background.NewQueue[struct{}](),
		statuses: intake.NewFence(bus.StreamStatus, journaling.RandomID()),
		results:  intake.NewFence(bus.StreamResult, journaling.RandomID()),
		begun:    make(chan struct{}), faulted: make(chan error, 1),
	}
}

// use gives the session its bus, and its rooms what they need of it.
func (r *session) use(b bus.Session) {
	s := r.s
	r.bus = b
	r.vet = vetting.New(vetting.Options{
		Decoder: s.decoder, Config: s.config.Load, User: b.User(), Log: s.observe,
		Joined:  func(agent coordinator.AgentID) (bool, error) { return s.hasAgent(context.Background(), agent) },
		Unknown: func(schema string) { s.metrics.UnknownFields.WithLabelValues(schema).Inc() },
	})
	r.notices = &outbox.Notices{
		Bus: b, Profile: s.profile(), Tickets: r.tickets, Now: s.now, Add: r.outbox.Add, Log: s.observe,
	}
	r.consumers = taking.New(taking.Options{
		Bus: b, Fault: r.fault,
		Unended: func(queue string, err error) {
			s.log.Warn().Err(err).Str("queue", queue).
				Msg("a consumer could not be ended; what it brings is left to the broker")
		},
	})
	r.takeBacks = takeback.New(takeback.Options{
		Bus: b, Now: s.now, Log: s.observe, Prefetch: r.window.First(takeback.Prefetch), Listed: s.listed,
		Handle: r.onTakenBack, Holding: r.held.ConsumersOf, Post: r.post, Fault: r.fault,
	})
	r.queues = agentqueues.New(agentqueues.Options{
		Bus: b, Profile: s.profile(), Own: r.takeBacks, Log: s.observe, Config: s.config.Load, HasAgent: s.hasAgent,
		Watched: func(ctx context.Context, most int) (list []coordinator.QueueWatch, err error) {
			err = s.loop.query(ctx, func(now time.Time, e *engine.Engine) { list = e.Watched(now, most) })
			return list, err
		},
		Post: r.post,
	})
	r.lanes = lanes.New(lanes.Options{
		Bus: b, Log: s.observe, Prefetch: r.window.Lane, Handle: r.onTask,
		Move: func(m *coordinator.MoveToLane) { r.outbox.Add(func() { r.move(m) }) },
		Watched: func(ctx context.Context) (all []string, err error) {
			err = s.loop.query(ctx, func(now time.Time, e *engine.Engine) { all = e.LanesWatched(now, lanes.PerRound) })
			return all, err
		},
		Post: r.post, Fault: r.fault,
	})
}

// post queues events of this session for the loop. It never blocks.
func (r *session) post(events ...coordinator.Event) { r.s.loop.post(r.number, events...) }

// hasAgent asks the engine whether the agent is part of the fleet.
func (s *Service) hasAgent(ctx context.Context, agent coordinator.AgentID) (has bool, err error) {
	err = s.loop.query(ctx, func(_ time.Time, e *engine.Engine) { has = e.HasAgent(agent) })
	return has, err
}

// declareNewQueues has the queues of agents declared that the old configuration did not have.
func (s *Service) declareNewQueues(old, c *config.Config) {
	if r := s.current.Load(); r != nil {
		r.queues.Declare(old, c)
	}
}

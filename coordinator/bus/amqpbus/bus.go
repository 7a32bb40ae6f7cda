package amqpbus

import (
	"context"
	"sync/atomic"

	"taskbus/coordinator/bus"
)

// Bus opens sessions with one RabbitMQ. It is safe for concurrent use.
type Bus struct {
	cfg     Config
	between func(step string) // see topology
}

var _ bus.Bus = (*Bus)(nil)

// New returns a Bus. Nothing is checked or dialled before Open; see [CheckURL].
func New(cfg Config) *Bus { return &Bus{cfg: cfg.withDefaults()} }

// defaultWindow is SessionSpec.Window where it is 0.
const defaultWindow = 1024

// sessions numbers all sessions of the process, whichever Bus opened them, so
// that no tag is ever taken for one of another session.
var sessions atomic.Uint64

// Open implements [bus.Bus].
func (b *Bus) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	t, err := parseTarget(b.cfg.URL)
	if err != nil {
		return nil, err
	}
	if spec.Window <= 0 {
		spec.Window = defaultWindow
	}
	if spec.OnSettled == nil {
		spec.OnSettled = func(uint64, bus.Outcome) {}
	}
	s := &session{
		number: sessions.Add(1), bus: b, target: t, spec: spec,
		ending: make(chan struct{}), flushing: make(chan struct{}),
		gone: make(chan struct{}), done: make(chan struct{}), locks: make(map[string]bool),
	}
	s.consumers.Store(&[]*consumer{})
	s.publishers = newPublishers(spec.Window, spec.OnSettled, s.fail)
	if err := s.connect(ctx); err != nil {
		for _, l := range []*link{s.publishing, s.consuming} {
			if l != nil {
				l.cut(err)
			}
		}
		return nil, err
	}
	s.start()
	return s, nil
}

// connect does everything that can fail.
func (s *session) connect(ctx context.Context) (err error) {
	s.publishing, err = s.bus.dial(ctx, s.target, "publish", s.spec.Name, s.onBlocked)
	if err != nil {
		return err
	}
	stop := s.publishing.cutWith(ctx)
	defer stop()
	declarer := newTopology(s.publishing, s.spec.Topology.Mode, s.bus.cfg.Logger)
	declarer.between = s.bus.between
	if err := declarer.apply(ctx, s.spec.Topology); err != nil {
		return err
	}
	s.consuming, err = s.bus.dial(ctx, s.target, "consume", s.spec.Name, func(bool, string) {})
	if err != nil {
		return err
	}
	stop = s.consuming.cutWith(ctx)
	defer stop()
	// What comes later must not queue behind publications that are held up.
	s.topology = declarer.moveTo(s.consuming, newProber(s.dialLook))
	if err := s.topology.applyTemporary(ctx, s.spec.Topology); err != nil {
		return err
	}
	return s.openPublisher()
}

// dialLook opens the prober's connection, unless the session ends.
func (s *session) dialLook(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.ending:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.bus.dial(ctx, s.target, "look", s.spec.Name, func(bool, string) {})
}

func (s *session) openPublisher() error {
	e := bus.NewEdge(&s.spec.Topology, s.target.user, s.publishing.conn.Config.FrameSize)
	if err := s.publishers.open(s.publishing, e, s.bus.cfg.Logger); err != nil {
		return explain(s.target, "open the publishing channels", err)
	}
	return nil
}

func (s *session) onBlocked(blocked bool, reason string) {
	s.publishers.block(blocked)
	if s.spec.OnBlocked != nil {
		s.spec.OnBlocked(blocked, reason)
	}
}

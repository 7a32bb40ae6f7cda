package agentqueues

import (
	"context"
	"sync/atomic"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/background"
)

// Broker is what is used of a session (see bus.Session).
type Broker interface {
	EnsureQueue(ctx context.Context, q bus.Queue) (bool, error)
	Depth(ctx context.Context, queue string) (bus.Depth, error)
	Done() <-chan struct{}
}

// Own says which consumers of a queue are ours: their number, and that of the latest change, which is odd while one is
// under way.
type Own interface {
	Count(queue string) int
	Turn(queue string) uint64
}

// Log hears what has become of queues.
type Log interface {
	QueueChecked(q coordinator.EnsureQueue, exists bool, err error)
	Declared(declared, unwanted, missing int, err error)
}

// Options are what the queues are given.
type Options struct {
	Bus     Broker
	Profile bus.Profile
	Own     Own
	Log     Log
	// Config returns the one in force.
	Config func() *config.Config
	// Watched asks the engine at which queues to look, HasAgent whether the agent is part of the fleet.
	Watched  func(ctx context.Context, most int) ([]coordinator.QueueWatch, error)
	HasAgent func(ctx context.Context, agent coordinator.AgentID) (bool, error)
	// Post tells the engine.
	Post func(...coordinator.Event)
}

// Queues are those of agents, as far as one session has to do with them.
type Queues struct {
	Options
	checks chan coordinator.EnsureQueue
	listed *background.Queue[[]string] // that agents.yaml has not listed before
	looked chan struct{}               // closed when the first looks are over
	left   atomic.Bool
}

// New returns queues of which nothing is known yet.
func New(o Options) *Queues {
	return &Queues{Options: o, checks: make(chan coordinator.EnsureQueue, 1024),
		listed: background.NewQueue[[]string](), looked: make(chan struct{})}
}

// Leave ends all looking: the session takes nothing any more.
func (q *Queues) Leave() { q.left.Store(true) }

package demo

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"taskbus/agent"
	"taskbus/agent/balance"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// fleet is the demo's agents: each is an agent.Run in this process, as it would be
// in one of its own.
type fleet struct {
	names []string
	leave context.CancelFunc
	group sync.WaitGroup

	mu     sync.Mutex
	faults []error
}

// newFleet makes an empty fleet; stop ends what is started in it.
func newFleet() (*fleet, context.Context) {
	ctx, leave := context.WithCancel(context.Background())
	return &fleet{leave: leave}, ctx
}

// listener hears what agents do, from goroutines of theirs.
type listener struct {
	began func(coordinator.AgentID, *agent.Task)
	bid   func(coordinator.AgentID, agent.Offer, agent.Bid)
}

// start runs an agent as agents.yaml describes it: one that claims its tasks, or one
// that takes what it is given and bids for what it is offered.
func (f *fleet) start(ctx context.Context, b bus.Bus, spec coordinator.AgentSpec, l listener) {
	f.names = append(f.names, string(spec.ID))
	c := agent.Config{
		ID: string(spec.ID), Queue: spec.Queue, Bus: b,
		Slots: spec.MaxConcurrent, Capabilities: spec.Capabilities,
		Interval:     min(max(spec.HealthCheckInterval, time.Second), time.Minute),
		DrainTimeout: stopGrace / 2,
	}
	if spec.Pull == coordinator.PullOff {
		c.Bidder = bidder(spec.ID, l)
	} else {
		c.Pull = claims(spec.Pull)
	}
	f.group.Go(func() {
		err := agent.Run(ctx, c, func(ctx context.Context, t *agent.Task) (agent.Result, error) {
			l.began(spec.ID, t)
			return pretend(ctx, t)
		})
		if err != nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.faults = append(f.faults, fmt.Errorf("agent %s: %w", spec.ID, err))
		}
	})
}

// bidder is the SDK's own, and prints its bids.
func bidder(id coordinator.AgentID, l listener) agent.Bidder {
	bid := agent.DefaultBidder(0.5, leastWork+workSpread/2)
	return func(o agent.Offer) (agent.Bid, bool) {
		b, wants := bid(o)
		if wants {
			l.bid(id, o, b)
		}
		return b, wants
	}
}

// claims is how an agent of that mode claims its tasks.
func claims(mode coordinator.PullMode) *balance.Config {
	c := balance.Default()
	c.LoadBalancing.Enabled = true
	if mode == coordinator.PullLiteral {
		c.LoadBalancing.Mode = balance.ModeLiteral
	}
	return &c
}

// How long a task takes: leastWork, and up to workSpread more.
const (
	leastWork  = 150 * time.Millisecond
	workSpread = 450 * time.Millisecond
)

// pretend works on a task: 150 to 600 ms, the same for the same task.
func pretend(ctx context.Context, t *agent.Task) (agent.Result, error) {
	h := fnv.New32a()
	h.Write([]byte(t.ID))
	timer := time.NewTimer(leastWork + time.Duration(h.Sum32())%workSpread)
	defer timer.Stop()
	select {
	case <-timer.C:
		return agent.Result{}, nil
	case <-ctx.Done():
		return agent.Result{}, ctx.Err()
	}
}

// stop has every agent finish what it runs, and waits. The error names the agents that could not use their
// configuration.
func (f *fleet) stop() error {
	f.leave()
	f.group.Wait()
	return errors.Join(f.faults...)
}

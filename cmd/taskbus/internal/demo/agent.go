package demo

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"taskbus/agent"
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

// start runs an agent as agents.yaml describes it. began hears of every task that
// it begins, from a goroutine of that task's own.
func (f *fleet) start(ctx context.Context, b bus.Bus, spec coordinator.AgentSpec, began func(coordinator.AgentID, *agent.Task)) {
	f.names = append(f.names, string(spec.ID))
	f.group.Go(func() {
		err := agent.Run(ctx, agent.Config{
			ID: string(spec.ID), Queue: spec.Queue, Bus: b,
			Slots: spec.MaxConcurrent, Capabilities: spec.Capabilities,
			Interval:     min(max(spec.HealthCheckInterval, time.Second), time.Minute),
			DrainTimeout: stopGrace / 2,
		}, func(ctx context.Context, t *agent.Task) (agent.Result, error) {
			began(spec.ID, t)
			return pretend(ctx, t)
		})
		if err != nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.faults = append(f.faults, fmt.Errorf("agent %s: %w", spec.ID, err))
		}
	})
}

// pretend works on a task: 150 to 600 ms, the same for the same task.
func pretend(ctx context.Context, t *agent.Task) (agent.Result, error) {
	h := fnv.New32a()
	h.Write([]byte(t.ID))
	timer := time.NewTimer(150*time.Millisecond + time.Duration(h.Sum32()%450)*time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return agent.Result{}, nil
	case <-ctx.Done():
		return agent.Result{}, ctx.Err()
	}
}

// stop has every agent finish what it runs, and waits. The error is that of agents
// whose configuration could not be used.
func (f *fleet) stop() error {
	f.leave()
	f.group.Wait()
	return errors.Join(f.faults...)
}

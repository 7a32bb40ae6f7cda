package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// agent is a plain agent as COORDINATOR describes it: it consumes its own queue,
// pretends to work, acknowledges, and reports its load.
type agent struct {
	spec    coordinator.AgentSpec
	session bus.Session
	decoder *messages.Decoder
	got     func(agent coordinator.AgentID, d *messages.TaskDispatch)

	slots chan struct{} // one token for each running task
	wake  chan struct{} // capacity 1: a slot has become free
	work  sync.WaitGroup
}

// startAgent connects an agent and begins to consume and to report. got hears of
// every dispatch, from the agent's own goroutine.
func startAgent(ctx context.Context, b bus.Bus, spec coordinator.AgentSpec, decoder *messages.Decoder,
	got func(coordinator.AgentID, *messages.TaskDispatch)) (*agent, error) {
	a := &agent{
		spec: spec, decoder: decoder, got: got,
		slots: make(chan struct{}, spec.MaxConcurrent), wake: make(chan struct{}, 1),
	}
	var err error
	a.session, err = b.Open(ctx, bus.SessionSpec{
		Name:      "taskbus-demo-agent/" + string(spec.ID),
		Topology:  bus.Topology{Mode: bus.Off},
		OnSettled: func(uint64, bus.Outcome) {},
	})
	if err != nil {
		return nil, fmt.Errorf("connect agent %s: %w", spec.ID, err)
	}
	err = a.session.Subscribe(ctx, bus.Subscription{Queue: spec.Queue, Prefetch: spec.MaxConcurrent, Handle: a.handle})
	if err != nil {
		return nil, fmt.Errorf("agent %s: consume %s: %w", spec.ID, spec.Queue, err)
	}
	go a.heartbeat()
	return a, nil
}

// handle takes one dispatch and works on it beside the others.
func (a *agent) handle(d bus.Delivery) {
	m, refusal := a.decoder.DecodeTaskDispatch(d.Body)
	if refusal != nil {
		a.session.Reject(d.Tag) // it goes back to the coordinator
		return
	}
	a.got(a.spec.ID, m)
	a.slots <- struct{}{} // not reported: the coordinator counts its own dispatches
	a.work.Go(func() {
		timer := time.NewTimer(workTime(m.TaskID))
		defer timer.Stop()
		select {
		case <-timer.C:
			a.session.Ack(d.Tag)
		case <-a.session.Done():
		}
		<-a.slots
		select {
		case a.wake <- struct{}{}:
		default:
		}
	})
}

// workTime pretends: 150 to 600 ms, the same for the same task.
func workTime(id coordinator.TaskID) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(id))
	return 150*time.Millisecond + time.Duration(h.Sum32()%450)*time.Millisecond
}

// heartbeat reports at once, when a slot becomes free, and at least every interval.
func (a *agent) heartbeat() {
	ticker := time.NewTicker(a.spec.HealthCheckInterval)
	defer ticker.Stop()
	for {
		if a.report(coordinator.StatusReady) != nil {
			return
		}
		select {
		case <-a.session.Done():
			return
		case <-a.wake:
		case <-ticker.C:
		}
	}
}

func (a *agent) report(status coordinator.AgentStatus) error {
	active := len(a.slots)
	body, err := json.Marshal(messages.AgentStatus{
		AgentID: a.spec.ID, Status: status,
		CurrentLoad: float64(active) / float64(a.spec.MaxConcurrent) * 0.8, // full is not yet overloaded
		ActiveTasks: active, AvailableCapacity: a.spec.MaxConcurrent - active,
		Timestamp: time.Now(),
	})
	if err != nil {
		return fmt.Errorf("agent %s: encode its status: %w", a.spec.ID, err)
	}
	return a.session.Publish(bus.Publication{
		Key:        bus.StreamStatus,
		Properties: bus.Properties{ContentType: "application/json", Type: "agent.status", Timestamp: time.Now()},
		Body:       body,
	})
}

// stop says goodbye and leaves.
func (a *agent) stop(ctx context.Context) {
	a.work.Wait()
	_ = a.report(coordinator.StatusOffline) // without it the coordinator finds out by itself, later
	_ = a.session.Close(ctx)
}

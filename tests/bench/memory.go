package main

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
)

// memoryResult is the resident memory of the service with a full fleet.
type memoryResult struct {
	Agents   int `json:"agents"`
	InFlight int `json:"assignments_in_flight"`
	// RSSBytes is the highest of the samples with nothing waiting,
	// WaitingRSSBytes with as many tasks again waiting for a slot.
	RSSBytes        int64 `json:"rss_bytes"`
	WaitingRSSBytes int64 `json:"rss_with_as_many_waiting_bytes"`
}

const (
	memorySlots  = 10
	memoryTasks  = fleetSize * memorySlots
	memorySample = 100 * time.Millisecond
)

// memory fills every slot of the fleet with dispatches that nobody finishes, has
// the agents say so, and looks at the resident memory; then once more with as
// many tasks again that have to wait.
func (b *bench) memory(ctx context.Context, watch time.Duration) (m memoryResult, err error) {
	if err := b.broker.clean(); err != nil {
		return m, err
	}
	s, err := startTaskbus(ctx, b, fleetFile(memorySlots, allSkills), report{available: memorySlots})
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	_, taskbus := contenders()
	if err := b.broker.fill(bus.QueueAssign, 0, memoryTasks); err != nil {
		return m, err
	}
	if _, err := b.awaitArrivals(ctx, s, taskbus, memoryTasks); err != nil {
		return m, err
	}
	if err := s.say(report{active: memorySlots, perSecond: statusRate}); err != nil {
		return m, err
	}
	m = memoryResult{Agents: fleetSize, InFlight: memoryTasks}
	if m.RSSBytes, err = s.highest(watch); err != nil {
		return m, err
	}
	if err := b.broker.fill(bus.QueueAssign, memoryTasks, memoryTasks); err != nil {
		return m, err
	}
	if m.WaitingRSSBytes, err = s.highest(watch); err != nil {
		return m, err
	}
	if err := s.stop(); err != nil {
		return m, err
	}
	return m, b.verifyWaiting()
}

// highest is the highest resident memory of the coming while.
func (s *subject) highest(watch time.Duration) (int64, error) {
	var most int64
	for end := time.Now().Add(watch); time.Now().Before(end); time.Sleep(memorySample) {
		now, _, err := s.process.memory()
		if err != nil {
			return 0, err
		}
		most = max(most, now)
	}
	return most, nil
}

// verifyWaiting sees that the tasks that had to wait are back in task.assign and
// the others with the agents, each once.
func (b *bench) verifyWaiting() error {
	t := newTally(2 * memoryTasks)
	waiting, err := b.broker.awaitReady(bus.QueueAssign, memoryTasks)
	if err != nil {
		return err
	}
	if err := b.broker.drain(append(queues(taskbusQueue), bus.QueueAssign), t); err != nil {
		return err
	}
	if err := t.complete(); err != nil {
		return fmt.Errorf("memory run: %w", err)
	}
	if waiting != memoryTasks {
		return fmt.Errorf("memory run: %d tasks waited, expected %d", waiting, memoryTasks)
	}
	return nil
}

package service

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// AgentStats returns the fleet in figures (see httpapi.Source).
func (s *Service) AgentStats(ctx context.Context) (view.AgentStats, error) {
	if err := s.knowsFleet(); err != nil {
		return view.AgentStats{}, err
	}
	snap, err := s.snapshot(ctx)
	if err != nil {
		return view.AgentStats{}, err
	}
	return views.AgentStats(&snap, s.unread(&snap)), nil
}

// unread returns how many tasks lie in task.assign, task.assign.high and lanes, as the broker
// said last.
func (s *Service) unread(snap *coordinator.Snapshot) int {
	n := 0
	for _, l := range snap.Lanes {
		n += l.Ready
	}
	for _, queue := range []string{bus.QueueAssign, bus.QueueAssignHigh} {
		if d, ok := s.depths.get(queue); ok && d.err == nil {
			n += d.Ready
		}
	}
	return n
}

// Capabilities is demand and supply of every capability (see httpapi.Source).
func (s *Service) Capabilities(ctx context.Context) ([]view.Capability, error) {
	if err := s.knowsFleet(); err != nil {
		return nil, err
	}
	var all []coordinator.CapabilitySnapshot
	err := s.loop.query(ctx, func(now time.Time, e *engine.Engine) { all = e.Capabilities(now) })
	if err != nil {
		return nil, fmt.Errorf("ask the engine for the capabilities: %w", err)
	}
	list := make([]view.Capability, len(all))
	for i, c := range all {
		list[i] = view.Capability{
			Name: c.Name, Agents: c.Agents, Online: c.Online, BusFactor: c.Usable,
			Slots: c.Slots, FreeSlots: c.Free, Waiting: c.Waiting, DemandPerMinute: 60 * views.Finite(c.Demand),
		}
	}
	return list, nil
}

package reading

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// Agent returns one agent; httpapi.ErrNoAgent when there is none of this id.
func (r *Reader) Agent(ctx context.Context, id coordinator.AgentID) (view.Agent, error) {
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return view.Agent{}, err
	}
	for _, a := range snap.Agents {
		if a.Spec.ID == id {
			return views.Agent(a), nil
		}
	}
	return view.Agent{}, httpapi.ErrNoAgent
}

// Capabilities is demand and supply of every capability (see httpapi.Source).
func (r *Reader) Capabilities(ctx context.Context) ([]view.Capability, error) {
	var all []coordinator.CapabilitySnapshot
	err := r.Query(ctx, func(now time.Time, e *engine.Engine) { all = e.Capabilities(now) })
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

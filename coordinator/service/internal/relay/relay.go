package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/messages"
	"taskbus/schemas"
)

// pause is how often an agent may report over HTTP: what it reports stays in
// the stream for an hour, and BALANCING's agents report every ten seconds.
const pause = time.Second

// Relay is what is known of agents that report over HTTP. It is safe for concurrent use.
type Relay struct {
	now    func() time.Time
	lately lately
	times  times
}

// New returns one that has heard of no agent. snapshot asks the engine for its state.
func New(now func() time.Time, snapshot func(context.Context) (coordinator.Snapshot, error)) *Relay {
	return &Relay{now: now, lately: lately{now: now, snapshot: snapshot}}
}

// Agent returns an agent of the fleet as it was a moment ago; httpapi.ErrNoAgent when there is none of this id.
func (r *Relay) Agent(ctx context.Context, id coordinator.AgentID) (*coordinator.AgentSnapshot, error) {
	return r.lately.agent(ctx, id)
}

// Admit notes a report; *httpapi.TooSoon when it comes too soon.
func (r *Relay) Admit(agent coordinator.AgentID) error {
	if wait := r.times.admit(agent, r.now()); wait > 0 {
		return &httpapi.TooSoon{Wait: wait}
	}
	return nil
}

// Status returns the agent.status of a report, but for what says where it comes from. Status and load are
// as they were last known. Of an agent that reports in no other way the pending items
// say how many of its slots are taken; our own count, sent back to us, would never
// fall.
func (r *Relay) Status(a *coordinator.AgentSnapshot, report httpapi.CapacityReport) (bus.Publication, error) {
	now, active := r.now(), min(report.Pending, a.Spec.MaxConcurrent)
	m := messages.AgentStatus{
		AgentID: a.Spec.ID, Status: a.Status, CurrentLoad: min(1, max(0, a.ReportedLoad)),
		ActiveTasks: active, AvailableCapacity: a.Spec.MaxConcurrent - active, Timestamp: now,
		CapacityItemsPerSecond: report.Capacity, HasCapacity: true, PendingItems: report.Pending, HasPending: true,
		Relayed: true,
	}
	if m.Status == coordinator.StatusUnknown {
		m.Status = coordinator.StatusReady // it is there: it has just said so
	}
	body, err := json.Marshal(m)
	if err != nil {
		return bus.Publication{}, fmt.Errorf("encode the agent's status: %w", err)
	}
	return bus.Publication{
		Key:        bus.StreamStatus,
		Properties: bus.Properties{ContentType: "application/json", Type: schemas.AgentStatus, Timestamp: now},
		Body:       body,
	}, nil
}

// lately is the fleet as it was a moment ago: reports may come by the thousand a
// second, and each look at the engine costs a pass over the fleet.
type lately struct {
	now      func() time.Time
	snapshot func(context.Context) (coordinator.Snapshot, error)

	mu   sync.Mutex
	at   time.Time
	snap coordinator.Snapshot
}

func (l *lately) agent(ctx context.Context, id coordinator.AgentID) (*coordinator.AgentSnapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := l.now().Sub(l.at); l.at.IsZero() || age < 0 || age >= pause {
		snap, err := l.snapshot(ctx)
		if err != nil {
			return nil, err
		}
		l.at, l.snap = l.now(), snap
	}
	i, ok := slices.BinarySearchFunc(l.snap.Agents, id,
		func(a coordinator.AgentSnapshot, id coordinator.AgentID) int { return cmp.Compare(a.Spec.ID, id) })
	if !ok {
		return nil, httpapi.ErrNoAgent
	}
	return &l.snap.Agents[i], nil
}

// times is when each agent last reported over HTTP. Only agents of the fleet
// that have shown their token come here.
type times struct {
	mu   sync.Mutex
	last map[coordinator.AgentID]time.Time
}

// maxTimes bounds the memory; beyond it, what is older than the pause is
// forgotten.
const maxTimes = 1024

// admit notes a report; when it comes too soon it returns for how long it does.
func (t *times) admit(agent coordinator.AgentID, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[agent]; ok {
		if passed := now.Sub(last); passed >= 0 && passed < pause {
			return pause - passed
		}
	}
	if t.last == nil {
		t.last = make(map[coordinator.AgentID]time.Time)
	}
	if len(t.last) >= maxTimes {
		for id, at := range t.last {
			if now.Sub(at) >= pause {
				delete(t.last, id)
			}
		}
	}
	t.last[agent] = now
	return 0
}

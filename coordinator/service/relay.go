package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/messages"
	"taskbus/schemas"
)

// relayPause is how often an agent may report over HTTP: what it reports stays in
// the stream for an hour, and BALANCING's agents report every ten seconds.
const relayPause = time.Second

// ReportCapacity publishes what an agent reports over HTTP as an agent.status, which
// every coordinator reads, this one included: so those that stand by and those that
// start know it as well (see httpapi.Source).
func (s *Service) ReportCapacity(ctx context.Context, agent string, report httpapi.CapacityReport) error {
	r := s.current.Load()
	if r == nil {
		return s.withoutSession("does not publish; report to")
	}
	a, err := s.lately.agent(ctx, s, coordinator.AgentID(agent))
	if err != nil {
		return err
	}
	if s.config.Load().Auth == config.AuthStrict && r.bus.User() == "" {
		return errors.New(
			"agents.auth is strict, and RabbitMQ does not know this coordinator by a user name that it could vouch for: " +
				"report with agent.status")
	}
	if wait := s.relays.admit(a.Spec.ID, s.now()); wait > 0 {
		return &httpapi.TooSoon{Wait: wait}
	}
	relay, err := r.relay(a, report)
	if err != nil {
		return err
	}
	return r.awaitRelay(ctx, relay)
}

// withoutSession says why there is no session. consequence is what one that stands
// by does not do, and what to do with the one that leads.
func (s *Service) withoutSession(consequence string) error {
	v := s.state.read()
	if v.state == stateStandby {
		return fmt.Errorf("this coordinator stands by and %s the one that leads, whose /readyz answers 200", consequence)
	}
	return fmt.Errorf("this coordinator is %s and has no session with the broker", v.state)
}

// knowsFleet is nil when the engine knows the agents: they report to the broker, so without a session it
// knows none, or an outdated state of them.
func (s *Service) knowsFleet() error {
	if s.current.Load() != nil {
		return nil
	}
	return s.withoutSession("does not know the fleet; ask")
}

// relayed is an agent.status on its way to the broker.
type relayed struct {
	publication bus.Publication
	answer      chan error // capacity 1: what became of it
}

// relay makes the status of a report and hands it to the outbox. Status and load are
// as they were last known. Of an agent that reports in no other way the pending items
// say how many of its slots are taken; our own count, sent back to us, would never
// fall.
func (r *session) relay(a *coordinator.AgentSnapshot, report httpapi.CapacityReport) (*relayed, error) {
	if r.outbox.Waiting() >= outbox.Most {
		return nil, errors.New("too much waits to be published: the broker is slow, or holds publishers up")
	}
	now, active := r.s.now(), min(report.Pending, a.Spec.MaxConcurrent)
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
		return nil, fmt.Errorf("encode the agent's status: %w", err)
	}
	v := &relayed{
		answer: make(chan error, 1),
		publication: bus.Publication{
			Key: bus.StreamStatus,
			Properties: bus.Properties{
				ContentType: outbox.ContentJSON, Type: schemas.AgentStatus, AppID: outbox.AppID, UserID: r.userID(), Timestamp: now,
			},
			Body: body,
		},
	}
	r.outbox.Add(outgoing{relayed: v})
	return v, nil
}

// publishRelayed is the outbox's part.
func (r *session) publishRelayed(v *relayed) {
	v.publication.Token = r.issue(v)
	if err := r.bus.Publish(v.publication); err != nil {
		r.tickets.Redeem(v.publication.Token)
		v.answer <- err
	}
}

// settled hears the broker's answer.
func (v *relayed) settled(_ *session, outcome bus.Outcome) {
	if outcome == bus.Confirmed {
		v.answer <- nil
		return
	}
	v.answer <- fmt.Errorf("the broker's answer for %s: %s", bus.StreamStatus, outcome)
}

// awaitRelay waits for the broker's confirm.
func (r *session) awaitRelay(ctx context.Context, v *relayed) error {
	select {
	case err := <-v.answer:
		return err
	case <-r.bus.Done():
	case <-ctx.Done():
		return fmt.Errorf("wait for the broker's confirm: %w", ctx.Err())
	}
	select {
	case err := <-v.answer: // together with the end: the answer counts
		return err
	default:
		return errors.New("the broker session ended before the confirm")
	}
}

// genuine reports whether a status may count. One that a coordinator relays must come from a
// coordinator: by no agent's key, and from this one's own user (agents.auth).
func (r *session) genuine(m *messages.AgentStatus, d *bus.Delivery) bool {
	if key, keyed := intake.KeyOf(d); !m.Relayed || keyed && key != m.AgentID {
		return r.authentic(schemas.AgentStatus, m.AgentID, d)
	}
	mode := r.s.config.Load().Auth
	if mode == config.AuthOff || d.UserID != "" && d.UserID == r.bus.User() {
		return true
	}
	r.s.observe.WrongRelay(m.AgentID, d.UserID, mode)
	return mode != config.AuthStrict
}

// lately is the fleet as it was a moment ago: reports may come by the thousand a
// second, and each look at the engine costs a pass over the fleet.
type lately struct {
	mu   sync.Mutex
	at   time.Time
	snap coordinator.Snapshot
}

// agent finds one; httpapi.ErrNoAgent when there is none of this id.
func (l *lately) agent(ctx context.Context, s *Service, id coordinator.AgentID) (*coordinator.AgentSnapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := s.now().Sub(l.at); l.at.IsZero() || age < 0 || age >= relayPause {
		snap, err := s.snapshot(ctx)
		if err != nil {
			return nil, err
		}
		l.at, l.snap = s.now(), snap
	}
	i, ok := slices.BinarySearchFunc(l.snap.Agents, id,
		func(a coordinator.AgentSnapshot, id coordinator.AgentID) int { return cmp.Compare(a.Spec.ID, id) })
	if !ok {
		return nil, httpapi.ErrNoAgent
	}
	return &l.snap.Agents[i], nil
}

// relayTimes is when each agent last reported over HTTP. Only agents of the fleet
// that have shown their token come here.
type relayTimes struct {
	mu   sync.Mutex
	last map[coordinator.AgentID]time.Time
}

// maxRelayTimes bounds the memory; beyond it, what is older than relayPause is
// forgotten.
const maxRelayTimes = 1024

// admit notes a report; when it comes too soon it returns for how long it does.
func (t *relayTimes) admit(agent coordinator.AgentID, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[agent]; ok {
		if passed := now.Sub(last); passed >= 0 && passed < relayPause {
			return relayPause - passed
		}
	}
	if t.last == nil {
		t.last = make(map[coordinator.AgentID]time.Time)
	}
	if len(t.last) >= maxRelayTimes {
		for id, at := range t.last {
			if now.Sub(at) >= relayPause {
				delete(t.last, id)
			}
		}
	}
	t.last[agent] = now
	return 0
}

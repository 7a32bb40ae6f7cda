package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"taskbus/agent/balance"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// One claim of an agent that pulls: how much it asks for, and what comes of it.

// claim makes one claim and waits for its answer, nil when there is none in time. It is
// not asked when the agent leaves, or the session has ended.
func (w *worker) claim(ctx context.Context, l *link, items int, local balance.Local) (granted *messages.TaskGranted,
	asked bool) {
	p := w.pulling
	p.claims++
	c := &claim{id: fmt.Sprintf("%s-%d", p.ids, p.claims), answer: make(chan *messages.TaskGranted, 1)}
	m := messages.TaskClaim{
		AgentID: messages.AgentID(w.cfg.ID), ClaimID: c.id, MaxItems: items, PendingItems: local.Pending,
	}
	var wait time.Duration
	if local.Pending == 0 {
		wait = p.longPoll
		m.WaitSeconds = wait.Seconds()
	}
	if !local.WarmUp {
		m.CapacityItemsPerSecond = local.Capacity
	}
	w.mu.Lock()
	if w.draining {
		w.mu.Unlock()
		return nil, false
	}
	p.open = c
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		p.open = nil
	}()
	// Without an expiration: what expires on task.request is parked in task.dead.
	err := w.request(l, bus.Properties{Type: "task.claim", MessageID: c.id, Timestamp: time.Now()},
		messages.AppendTaskClaim(nil, &m))
	if err != nil {
		w.log.Debug("a claim was not sent", slog.Any("error", err))
		return nil, !errors.Is(err, bus.ErrClosed)
	}
	late := time.NewTimer(wait + p.timeout)
	defer late.Stop()
	select {
	case granted = <-c.answer:
		return granted, true
	case <-late.C:
		return nil, true
	case <-ctx.Done():
		return nil, false
	}
}

// granted takes the answer to a claim, or the news that no claim is open any more. One
// that comes too late says nothing about the claim that is open now; its tasks come all
// the same.
func (w *worker) granted(m *messages.TaskGranted) {
	if w.pulling == nil {
		return
	}
	w.mu.Lock()
	c := w.pulling.open
	waited := c != nil && (c.id == m.ClaimID || m.ClaimID == messages.AnyClaim)
	if waited {
		w.pulling.open = nil
	}
	w.mu.Unlock()
	if !waited {
		w.log.Debug("an answer to a claim that is not open",
			slog.String("claim_id", messages.Clean(m.ClaimID, messages.MaxText)))
		return
	}
	c.answer <- m // has room: one answer is let through
}

func viewOf(f messages.GrantFleet) balance.View {
	return balance.View{Agents: f.Agents, Pending: f.PendingItems, Unclaimed: f.UnclaimedItems,
		Capacity: f.CapacityItemsPerSecond, FairShare: f.FairShareItems}
}

// local is the agent's own state, for the balancer.
func (w *worker) local(now time.Time) balance.Local {
	w.mu.Lock()
	defer w.mu.Unlock()
	active, e := w.active(), w.estimator
	return balance.Local{Pending: active, Free: max(0, w.cfg.Slots-active), Capacity: e.Estimate(now), WarmUp: e.WarmUp()}
}

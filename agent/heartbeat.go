package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
)

const (
	// reportGap is the least time between two heartbeats that were asked for.
	reportGap = 250 * time.Millisecond
	// listAfter is how long a task runs before a heartbeat of its own lists it.
	// Shorter ones are told of by their results alone.
	listAfter = time.Second
)

// heartbeats reports at once, every interval, when the drain begins, and when
// something matters before that: the capacity is due, a task runs for longer than
// listAfter without having been listed, or a slot is taken in spite of a result. It
// ends with the session.
func (w *worker) heartbeats(ctx context.Context, l *link) {
	ticker := time.NewTicker(w.cfg.Interval)
	defer ticker.Stop()
	capacity := time.NewTicker(w.tellsEvery)
	defer capacity.Stop()
	asked := time.NewTimer(0) // fires when a heartbeat that was asked for is due
	asked.Stop()
	defer asked.Stop()
	look := time.NewTimer(0) // fires when a task may have run for long enough
	look.Stop()
	defer look.Stop()
	leaving := w.leaving

	last := w.report(l, true)
	told := last // when the capacity was told
	for {
		select {
		case <-ticker.C:
		case <-capacity.C:
			ticker.Reset(w.cfg.Interval) // this one is a heartbeat, too
		case <-leaving:
			leaving = nil
			last = w.report(l, false)
			signal(w.farewell)
			continue
		case <-asked.C:
		case <-w.wake:
			asked.Reset(max(0, time.Until(last.Add(reportGap))))
			continue
		case <-w.begun:
			look.Reset(listAfter)
			continue
		case <-look.C:
			first := w.firstUnlisted()
			if first.IsZero() {
				continue
			}
			if rest := time.Until(first.Add(listAfter)); rest > 0 {
				look.Reset(rest)
				continue
			}
		case <-ctx.Done():
			return
		}
		due := time.Since(told) >= w.tellsEvery
		if last = w.report(l, due); due {
			told = last
			capacity.Reset(w.tellsEvery)
		}
	}
}

// firstUnlisted is when the oldest running task began that no heartbeat has
// listed; zero, and the next to begin will signal it, when there is none.
func (w *worker) firstUnlisted() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first time.Time
	for d := range w.running {
		if !d.listed && (first.IsZero() || d.beganAt.Before(first)) {
			first = d.beganAt
		}
	}
	w.watching = !first.IsZero()
	return first
}

// report publishes an agent.status, with the capacity or without, and tells of which moment.
func (w *worker) report(l *link, capacity bool) time.Time {
	m := w.status(capacity)
	body, err := json.Marshal(m)
	if err == nil {
		err = l.session.Publish(bus.Publication{
			Exchange: bus.ExchangeAgents, Key: bus.StreamStatus + "." + w.cfg.ID,
			Properties: bus.Properties{
				ContentType: contentType, Type: bus.StreamStatus, UserID: l.session.User(), Timestamp: m.Timestamp,
			},
			Body: body,
		})
	}
	if err != nil {
		// The session has ended, or will not: then the next heartbeat fails as well,
		// and the coordinator takes the agent for gone.
		w.log.Debug("a heartbeat was not sent", slog.Any("error", err))
	}
	return m.Timestamp
}

// status is what the agent says of itself at this moment. See decide for what its
// timestamp means beside that of a result. A capacity that is a guess yet is not told: the
// coordinator measures as well.
func (w *worker) status(capacity bool) messages.AgentStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	active := len(w.running)
	m := messages.AgentStatus{
		AgentID: messages.AgentID(w.cfg.ID), Status: messages.Ready, Timestamp: time.Now(),
		CurrentLoad: float64(active) / float64(w.cfg.Slots),
		ActiveTasks: active, AvailableCapacity: w.cfg.Slots - active, MaxConcurrentTasks: w.cfg.Slots,
		ActiveTaskIDs: make([]messages.TaskID, 0, active),
		Capabilities:  w.cfg.Capabilities, Queue: w.cfg.Queue, Labels: w.cfg.Labels,
		PendingItems: w.active(), HasPending: true, InstanceID: w.instance,
	}
	if capacity && !w.estimator.WarmUp() {
		m.CapacityItemsPerSecond, m.HasCapacity = w.estimator.Estimate(m.Timestamp), true
	}
	if w.draining {
		m.Status = messages.Offline
	}
	for _, d := range slices.SortedFunc(maps.Keys(w.running), byNumber) {
		m.ActiveTaskIDs = append(m.ActiveTaskIDs, d.names.TaskID)
		d.listed = true
	}
	w.watching = false
	return m
}

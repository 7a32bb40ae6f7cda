package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// What the random histories draw from: small pools, so that things meet.
var (
	agentIDs     = []coordinator.AgentID{"a", "b", "c", "d", "e", "f", "g", "h"}
	capabilities = []string{"c1", "c2", "c3", "c4"}
	strategies   = []string{"capability_match", "least_loaded", "priority_based", "round_robin"}
	taskIDs      = []coordinator.TaskID{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"}
	outcomes     = []coordinator.PublishOutcome{
		coordinator.PublishConfirmed, coordinator.PublishConfirmed, coordinator.PublishConfirmed, coordinator.PublishConfirmed,
		coordinator.PublishUnroutable, coordinator.PublishRejected, coordinator.PublishUnknown, coordinator.PublishNotSent,
	}
)

func seconds(t *rapid.T, name string, choices ...int) time.Duration {
	return time.Duration(rapid.SampledFrom(choices).Draw(t, name)) * time.Second
}

// someOf draws a sorted subset.
func someOf[S ~string](t *rapid.T, name string, pool []S, most int) []S {
	list := rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 0, most, rapid.ID[S]).Draw(t, name)
	slices.Sort(list)
	return list
}

func (h *history) changePolicy(t *rapid.T) {
	p := &coordinator.Policy{
		Strategy: rapid.SampledFrom(strategies).Draw(t, "strategy"), Strategies: strategies,
		Routes: map[string]coordinator.Route{
			"any": {},
			"one": {Required: []string{"c1"}, Strategy: "round_robin"},
			"two": {Required: []string{"c1", "c2"}, Preferred: someOf(t, "preferred", agentIDs, 2)},
		},
		Settings: coordinator.Settings{
			MaxRetryAttempts:  rapid.IntRange(1, 3).Draw(t, "max_retry_attempts"),
			StaleAfter:        seconds(t, "stale", 20, 60),
			MaxQueueSize:      rapid.SampledFrom([]int{2, 50}).Draw(t, "max_queue_size"),
			AssignmentTimeout: seconds(t, "assignment timeout", 0, 5, 30, 30),
			MaxLoad:           0.9,
			BusyIsEligible:    rapid.Bool().Draw(t, "busy is eligible"),
			PriorityAgeing:    seconds(t, "ageing", 0, 10),
			DedupeWindow:      240 * time.Hour, DedupeMaxIDs: 1_000_000,
			Seed: 7,
		},
	}
	for _, id := range someOf(t, "agents", agentIDs, 8) {
		p.Agents = append(p.Agents, coordinator.AgentSpec{
			ID: id, Queue: "agent." + string(id),
			Capabilities:  someOf(t, "capabilities", capabilities, 4),
			MaxConcurrent: rapid.IntRange(1, 3).Draw(t, "slots"),
			Rank:          rapid.IntRange(1, 5).Draw(t, "rank"), HealthCheckInterval: 10 * time.Second,
		})
	}
	h.do(coordinator.PolicyChanged{Policy: p})
}

func (h *history) openSession(*rapid.T) {
	h.session = true
	h.do(coordinator.SessionOpened{})
}

func (h *history) changeSession(t *rapid.T) {
	switch {
	case !h.session:
		h.openSession(t)
	case rapid.IntRange(0, 2).Draw(t, "lost at 0") == 0:
		h.loseSession()
	default:
		t.Skip("the session goes on")
	}
}

func (h *history) loseSession() {
	h.session = false
	h.checking = nil // the shell that was asked is gone with its session
	for _, handle := range slices.Sorted(maps.Keys(h.inState(stateDispatching))) {
		h.arrived = append(h.arrived, *h.m.tasks[handle].live) // it may have
	}
	h.do(coordinator.SessionLost{})
}

// needSession skips an action that only a session can bring about.
func (h *history) needSession(t *rapid.T) {
	if !h.session {
		t.Skip("no session")
	}
}

func (h *history) sendTask(t *rapid.T) {
	h.needSession(t)
	task := &coordinator.Task{
		ID:          rapid.SampledFrom(taskIDs).Draw(t, "task"),
		Type:        rapid.SampledFrom([]string{"any", "one", "two", "two", "none"}).Draw(t, "type"),
		Priority:    coordinator.Priority(rapid.IntRange(0, 3).Draw(t, "priority")),
		Required:    someOf(t, "required", capabilities, 1),
		Excluded:    someOf(t, "excluded", agentIDs, 1),
		Preferred:   someOf(t, "preferred", agentIDs, 1),
		AcceptedAt:  h.now,
		ContentHash: uint64(rapid.SampledFrom([]int{1, 1, 1, 1, 2}).Draw(t, "content")),
		Strategy:    rapid.SampledFrom([]string{"", "", "least_loaded", "priority_based", "nonsense"}).Draw(t, "strategy"),
	}
	if s := seconds(t, "deadline", 0, 0, 0, 10); s > 0 {
		task.Deadline = h.now.Add(s)
	}
	h.deliver(delivery{task: task}, false)
}

func (h *history) deliver(d delivery, again bool) {
	h.handle++
	if d.returned == nil {
		h.do(coordinator.TaskReceived{Handle: h.handle, Task: d.task, Redelivered: again})
		return
	}
	h.do(coordinator.TaskReturned{
		Handle: h.handle, Task: d.task, Agent: d.returned.Agent, Attempt: d.returned.Attempt, Tried: d.returned.Tried, Redelivered: again,
	})
}

// redeliver hands out again what was held when the session ended.
func (h *history) redeliver(t *rapid.T) {
	h.needSession(t)
	if len(h.lost) == 0 {
		t.Skip("nothing to redeliver")
	}
	i := rapid.IntRange(0, len(h.lost)-1).Draw(t, "which")
	d := h.lost[i]
	h.lost = slices.Delete(h.lost, i, i+1)
	h.deliver(d, true)
}

// returnOne gives back a dispatch that an agent has or may have. Dead-lettering
// is at-least-once: some come twice.
func (h *history) returnOne(t *rapid.T) {
	h.needSession(t)
	if len(h.arrived) == 0 {
		t.Skip("nothing to return")
	}
	i := rapid.IntRange(0, len(h.arrived)-1).Draw(t, "which")
	d := h.arrived[i]
	if rapid.IntRange(0, 4).Draw(t, "twice at 0") > 0 {
		h.arrived = slices.Delete(h.arrived, i, i+1)
	}
	h.deliver(delivery{d.Task, &d}, false)
}

func (h *history) sendReport(t *rapid.T) {
	id := rapid.SampledFrom(append(slices.Clone(agentIDs), "stranger")).Draw(t, "agent")
	if rapid.IntRange(0, 19).Draw(t, "clock set at 0") == 0 {
		h.skew[id] = rapid.SampledFrom([]time.Duration{0, -10 * time.Minute, 10 * time.Minute}).Draw(t, "clock")
	}
	late := seconds(t, "made ago", 0, 0, 0, 1, 15)
	h.do(coordinator.AgentReported{
		Live: rapid.IntRange(0, 5).Draw(t, "past at 0") > 0,
		Report: coordinator.AgentReport{
			Agent: id, Timestamp: h.now.Add(h.skew[id] - late),
			Status: rapid.SampledFrom([]coordinator.AgentStatus{
				coordinator.StatusReady, coordinator.StatusReady, coordinator.StatusReady, coordinator.StatusReady,
				coordinator.StatusBusy, coordinator.StatusOffline,
			}).Draw(t, "status"),
			Load:          rapid.SampledFrom([]float64{0, 0, 0.5, 0.8999, 0.9, 1}).Draw(t, "load"),
			Active:        rapid.SampledFrom([]int{0, 0, 0, 1, 2, 4}).Draw(t, "active"),
			Available:     rapid.SampledFrom([]int{0, 1, 2, 3, 3, 3}).Draw(t, "available"),
			MaxConcurrent: rapid.SampledFrom([]int{0, 0, 0, 1, 9}).Draw(t, "reported max"),
		},
	})
}

// settleOne answers a dispatch; an unknown outcome ends the session with it.
func (h *history) settleOne(t *rapid.T) {
	open := slices.Sorted(maps.Keys(h.inState(stateDispatching)))
	if len(open) == 0 {
		if h.handle > 0 { // an answer that comes after its session changes nothing
			h.do(coordinator.DispatchSettled{Handle: 1 + h.handle/2, Outcome: rapid.SampledFrom(outcomes).Draw(t, "late outcome")})
		}
		return
	}
	handle := rapid.SampledFrom(open).Draw(t, "handle")
	outcome := rapid.SampledFrom(outcomes).Draw(t, "outcome")
	if outcome == coordinator.PublishConfirmed || outcome == coordinator.PublishUnknown {
		h.arrived = append(h.arrived, *h.m.tasks[handle].live)
	}
	if outcome == coordinator.PublishUnknown {
		h.lost = append(h.lost, h.deliveryOf(handle))
	}
	h.do(coordinator.DispatchSettled{Handle: handle, Outcome: outcome})
	if outcome == coordinator.PublishUnknown {
		h.loseSession()
	}
}

func (h *history) answerQueue(t *rapid.T) {
	if len(h.checking) == 0 {
		t.Skip("no question is open")
	}
	h.answer(rapid.Bool().Draw(t, "exists"))
}

func (h *history) answer(exists bool) {
	id := h.checking[0]
	h.checking = h.checking[1:]
	h.do(coordinator.QueueChecked{Agent: id, Exists: exists})
}

// pass lets time go by: a little, to the next deadline exactly, or far.
func (h *history) pass(t *rapid.T) {
	at, ok := h.e.NextDeadline()
	switch how := rapid.IntRange(0, 5).Draw(t, "how"); {
	case how < 3:
		h.now = h.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
	case how < 5 && ok && at.After(h.now):
		h.now = at
	default:
		h.now = h.now.Add(time.Duration(rapid.IntRange(0, 70).Draw(t, "s")) * time.Second)
	}
	h.do(coordinator.Tick{})
}

// showEvent renders an event for the history that is printed when a run fails.
func showEvent(ev coordinator.Event) string {
	switch ev := ev.(type) {
	case coordinator.PolicyChanged:
		s := fmt.Sprintf("policy %s %+v", ev.Policy.Strategy, ev.Policy.Settings)
		for _, a := range ev.Policy.Agents {
			s += fmt.Sprintf("; %s×%d %v", a.ID, a.MaxConcurrent, a.Capabilities)
		}
		return s
	case coordinator.TaskReceived:
		return fmt.Sprintf("received %d: %+v redelivered=%v", ev.Handle, *ev.Task, ev.Redelivered)
	case coordinator.TaskReturned:
		return fmt.Sprintf("returned %d: %s.%d from %s, tried %v", ev.Handle, ev.Task.ID, ev.Attempt, ev.Agent, ev.Tried)
	case coordinator.DispatchSettled:
		return fmt.Sprintf("settled %d %s", ev.Handle, ev.Outcome)
	}
	return fmt.Sprintf("%T%+v", ev, ev)
}

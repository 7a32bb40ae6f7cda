package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/strategy"
)

// What the random histories draw from: small pools, so that things meet.
var (
	agentIDs     = []coordinator.AgentID{"a", "b", "c", "d", "e", "f", "g", "h"}
	capabilities = []string{"c1", "c2", "c3", "c4"}
	// The model knows what the first four choose. Of the others it knows what they may
	// choose.
	strategies = []string{"capability_match", "least_loaded", "priority_based", "round_robin", "load_balanced",
		"reward_rate", "weighted"}
	batchings = []coordinator.Batch{{}, {MaxSize: 2, MaxWait: 100 * time.Millisecond}, {MaxSize: 3, MaxWait: time.Second},
		{MaxSize: 5, MaxWait: 7 * time.Second}}
	taskIDs  = []coordinator.TaskID{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"}
	outcomes = []coordinator.PublishOutcome{
		coordinator.PublishConfirmed, coordinator.PublishConfirmed, coordinator.PublishConfirmed,
		coordinator.PublishConfirmed,
		coordinator.PublishUnroutable, coordinator.PublishRejected, coordinator.PublishUnknown, coordinator.PublishNotSent,
		coordinator.PublishAbandoned,
	}
)

func seconds(t *rapid.T, name string, choices ...int) time.Duration {
	return time.Duration(rapid.SampledFrom(choices).Draw(t, name)) * time.Second
}

// oneOf draws a number below another, for what criteria draw.
func oneOf(t *rapid.T) func(n int) int {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "of a criterion") }
}

// someOf draws a sorted subset.
func someOf[S ~string](t *rapid.T, name string, pool []S, most int) []S {
	list := rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 0, most, rapid.ID[S]).Draw(t, name)
	slices.Sort(list)
	return list
}

func (h *history) changePolicy(t *rapid.T) {
	p := &coordinator.Policy{
		Strategy: rapid.SampledFrom(strategies).Draw(t, "strategy"), Strategies: strategy.All(),
		Routes: map[string]coordinator.Route{
			"any": {Batch: rapid.SampledFrom(batchings).Draw(t, "batches of any")},
			"one": {Required: []string{"c1"}, Strategy: "round_robin", Batch: rapid.SampledFrom(batchings).
				Draw(t, "batches of one")},
			"two": {Required: []string{"c1", "c2"}, Preferred: someOf(t, "preferred", agentIDs, 2)},
		},
		Settings: coordinator.Settings{
			MaxRetryAttempts:  rapid.IntRange(1, 3).Draw(t, "max_retry_attempts"),
			PoisonedAfter:     rapid.IntRange(1, 3).Draw(t, "poisoned after"),
			StaleAfter:        seconds(t, "stale", 20, 60),
			MaxQueueSize:      rapid.SampledFrom([]int{2, 50}).Draw(t, "max_queue_size"),
			AssignmentTimeout: seconds(t, "assignment timeout", 0, 5, 30, 30, 900),
			CountsWaiting:     rapid.Bool().Draw(t, "counts waiting"),
			MaxLoad:           0.9,
			BusyIsEligible:    rapid.Bool().Draw(t, "busy is eligible"),
			Priorities:        drawPriorities(t),
			DedupeWindow:      240 * time.Hour, DedupeMaxIDs: 1_000_000,
			Breaker: coordinator.Breaker{Consecutive: rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "consecutive faults"),
				Off: rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "no breaker")},
			SuspectIntervals: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "suspect intervals"),
			SlowStart:        seconds(t, "slow start", 0, 0, 20),
			Seed:             7,
		},
	}
	if p.Lanes = rapid.SampledFrom([][]string{nil, {}, {"g1"}, {"g1", "g2"}}).Draw(t, "lanes"); p.Lanes != nil {
		p.LaneRoom = rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "room")
	}
	for _, id := range agentIDs {
		if rapid.IntRange(0, 4).Draw(t, string(id)+" is left out at 4") == 4 {
			continue
		}
		spec := coordinator.AgentSpec{
			ID: id, Queue: rapid.SampledFrom([]string{"agent.", "agent.", "agent.", "work."}).Draw(t, "queue") + string(id),
			MaxConcurrent: rapid.IntRange(1, 3).Draw(t, "slots"),
			Rank:          rapid.IntRange(1, 5).Draw(t, "rank"), HealthCheckInterval: 10 * time.Second,
			Timeout: seconds(t, "timeout", 5, 60),
		}
		criteria.DrawAgent(oneOf(t), &spec)
		p.Agents = append(p.Agents, spec)
	}
	if h.limited {
		p.Quotas = drawQuotas(t)
		if !h.laned {
			p.Lanes = nil
		}
	}
	h.do(coordinator.PolicyChanged{Policy: p})
}

func (h *history) openSession(*rapid.T) {
	h.session, h.opened = true, h.now
	h.do(coordinator.SessionOpened{})
}

func (h *history) changeSession(t *rapid.T) {
	switch {
	case !h.session:
		h.openSession(t)
	case rapid.IntRange(0, 2).Draw(t, "lost at 0") == 0:
		if rapid.Bool().Draw(t, "drained first") {
			h.do(coordinator.DrainBegan{})
		}
		h.loseSession()
	default:
		t.Skip("the session goes on")
	}
}

// loseSession ends the session. One that was not short has delivered all that was to
// be delivered again.
func (h *history) loseSession() {
	if h.now.Sub(h.opened) >= engine.ShortSession {
		for len(h.lost) > 0 {
			h.deliverAgain(0)
		}
	}
	h.session = false
	h.checking = nil // the shell that was asked is gone with its session
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
		Type:        rapid.SampledFrom([]string{"any", "any", "any", "one", "two", "none"}).Draw(t, "type"),
		Priority:    coordinator.Priority(rapid.IntRange(0, 3).Draw(t, "priority")),
		AcceptedAt:  h.now,
		ContentHash: uint64(rapid.SampledFrom([]int{1, 1, 1, 1, 2}).Draw(t, "content")),
		Strategy:    rapid.SampledFrom([]string{"", "", "least_loaded", "priority_based", "nonsense"}).Draw(t, "strategy"),
		Group:       rapid.SampledFrom([]string{"", "g1", "g2"}).Draw(t, "group"),
	}
	criteria.DrawTask(oneOf(t), &criteria.Needs{Task: task}, agentIDs)
	task.WidenAfter = 0 // the model has no rule for it
	if s := seconds(t, "deadline", 0, 0, 0, 10); s > 0 {
		task.Deadline = h.now.Add(s)
	}
	h.charge(t, task)
	h.handle++
	h.do(coordinator.TaskReceived{Handle: h.handle, Task: task})
}

// sendBurst sends new tasks of one kind together.
func (h *history) sendBurst(t *rapid.T) {
	h.needSession(t)
	taskType := rapid.SampledFrom([]string{"any", "one"}).Draw(t, "type")
	for range rapid.SampledFrom([]int{2, 3, 4, 5, 6, 30}).Draw(t, "tasks") {
		h.handle++
		task := &coordinator.Task{
			ID: coordinator.TaskID(fmt.Sprint("n", h.handle)), Type: taskType,
			Priority:   coordinator.Priority(rapid.IntRange(0, 3).Draw(t, "priority")),
			AcceptedAt: h.now, ContentHash: 1,
		}
		h.charge(t, task)
		h.do(coordinator.TaskReceived{Handle: h.handle, Task: task})
	}
}

// charge says for a task whose quota it takes, and how much.
func (h *history) charge(t *rapid.T, task *coordinator.Task) {
	if h.limited {
		task.Group, task.EstimatedUsage, task.Alternatives = drawGroup(t, h.e.Policy().Quotas), drawUsage(t),
			drawAlternatives(t)
	}
}

// redeliver hands out again what was held when the session ended.
func (h *history) redeliver(t *rapid.T) {
	h.needSession(t)
	if len(h.lost) == 0 {
		t.Skip("nothing to redeliver")
	}
	h.deliverAgain(rapid.IntRange(0, len(h.lost)-1).Draw(t, "which"))
}

func (h *history) deliverAgain(i int) {
	r := h.lost[i]
	h.lost = slices.Delete(h.lost, i, i+1)
	r.again = true
	h.former = r
	defer func() { h.former = nil }()
	h.handle++
	h.do(r.handedOutAgain(h.handle))
}

// handedOutAgain is what the engine hears when the broker hands it out again.
func (r *receipt) handedOutAgain(as coordinator.Handle) coordinator.Event {
	if r.returned == nil {
		return coordinator.TaskReceived{Handle: as, Task: r.task, Redelivered: true, Lane: r.lane, MaybeDuplicate: r.maybe}
	}
	ev := *r.returned
	ev.Handle, ev.Redelivered = as, true
	return ev
}

// returnOne gives back a dispatch that an agent has or may have, perhaps before
// the broker has confirmed it. Dead-lettering is at-least-once: some come twice.
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
	cause := coordinator.ReturnCause(rapid.IntRange(0, coordinator.NumReturnCauses-1).Draw(t, "cause"))
	h.handle++
	h.do(coordinator.TaskReturned{
		Handle: h.handle, Task: d.Task, Agent: d.Agent, Attempt: d.Attempt, Tried: d.Tried, Failed: d.Failed, Cause: cause,
		Redelivered: cause == coordinator.ReturnTakenBack && rapid.Bool().Draw(t, "in hand"),
	})
}

// sendResult has an agent tell how a dispatch ended: usually one that it has, or
// had; before or after its confirm, its return or its end, perhaps more than once.
func (h *history) sendResult(t *rapid.T) {
	if len(h.arrived) == 0 {
		t.Skip("no dispatch to tell of")
	}
	d := h.arrived[rapid.IntRange(0, len(h.arrived)-1).Draw(t, "which")]
	r := coordinator.Result{
		Task: d.Task.ID, Agent: d.Agent, DispatchID: d.DispatchID,
		Outcome:   coordinator.Outcome(rapid.IntRange(0, coordinator.NumOutcomes-1).Draw(t, "outcome")),
		Attempted: rapid.Bool().Draw(t, "attempted"),
		Timestamp: h.now.Add(h.skew[d.Agent] - seconds(t, "made ago", 0, 0, 1, 15, -60)),
	}
	if h.limited {
		r.Usage = drawUsage(t)
	}
	switch rapid.IntRange(0, 9).Draw(t, "wrong in") {
	case 0:
		r.Agent = rapid.SampledFrom(agentIDs).Draw(t, "agent")
	case 1:
		r.DispatchID = ""
	case 2:
		r.DispatchID = rapid.SampledFrom([]string{"t0.1", "t1.2", "t1.x", "t1.0", "t1.o5v0j9c0.1", "t0.1.1"}).
			Draw(t, "dispatch id")
	}
	h.do(coordinator.ResultReported{Result: r, Live: true})
}

// cancel withdraws a task, in whatever state it is.
func (h *history) cancel(t *rapid.T) {
	h.needSession(t)
	h.cancelOne(t, rapid.SampledFrom(taskIDs).Draw(t, "task"))
}

// cancelNew withdraws a task that is held: one that waits, or is on its way.
func (h *history) cancelNew(t *rapid.T) {
	h.needSession(t)
	if len(h.e.HeldTasks()) == 0 {
		t.Skip("no task is held")
	}
	h.cancelOne(t, h.e.HeldTask(rapid.SampledFrom(slices.Sorted(maps.Keys(h.e.HeldTasks()))).Draw(t, "handle")).Task().ID)
}

func (h *history) cancelOne(t *rapid.T, id coordinator.TaskID) {
	h.token++
	h.answered = false
	h.do(coordinator.CancelRequested{
		Task: id, Token: h.token, Reason: rapid.SampledFrom([]string{"", "a typo"}).Draw(t, "why"),
	})
	if !h.answered {
		t.Fatal("a cancel was not answered")
	}
}

func (h *history) order(t *rapid.T) {
	h.do(coordinator.AgentOrdered{
		Agent: rapid.SampledFrom(agentIDs).Draw(t, "agent"),
		Order: rapid.SampledFrom([]coordinator.Order{
			coordinator.OrderCordon, coordinator.OrderDrain, coordinator.OrderUncordon, coordinator.OrderUncordon,
		}).Draw(t, "order"),
	})
}

// control changes the controls.
func (h *history) control(t *rapid.T) {
	if !h.limited {
		t.Skip("there are no quotas")
	}
	ev := coordinator.QuotaControlsRequested{Token: uint64(rapid.IntRange(0, 1).Draw(t, "somebody waits"))}
	for range rapid.IntRange(0, 2).Draw(t, "set") {
		c := coordinator.QuotaControl{
			Kind:   coordinator.QuotaControlKind(rapid.IntRange(0, 3).Draw(t, "kind")),
			Target: rapid.SampledFrom([]string{"pool/g1", "pool/g2"}).Draw(t, "target"),
			Key:    "weight", Value: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value"), At: h.now, By: "ann",
		}
		if seconds := rapid.IntRange(-1, 60).Draw(t, "until"); seconds > 0 {
			c.Until = h.now.Add(time.Duration(seconds) * time.Second)
		}
		ev.Set = append(ev.Set, c.Named())
	}
	if all := h.e.QuotaControls(); len(all) > 0 && rapid.Bool().Draw(t, "one ends") {
		ev.Remove = append(ev.Remove, rapid.SampledFrom(all).Draw(t, "which").ID)
	}
	h.do(ev)
}

// look is what the broker says of a queue, of one that was asked for or any.
func (h *history) look(t *rapid.T) {
	h.needSession(t)
	id := rapid.SampledFrom(agentIDs).Draw(t, "agent")
	if list := h.e.Watched(h.now, 3); len(list) > 0 && rapid.Bool().Draw(t, "one that was asked for") {
		id = list[0].Agent
	}
	if a := h.m.agents[id]; a == nil {
		t.Skip("nobody knows it")
	}
	if rapid.IntRange(0, 9).Draw(t, "taking back ended at 0") == 0 {
		h.do(coordinator.TakeBackEnded{Agent: id})
		return
	}
	h.do(coordinator.QueueSeen{
		Agent: id, Ready: rapid.IntRange(0, 1).Draw(t, "ready"), Consumers: rapid.IntRange(0, 1).Draw(t, "consumers"),
	})
}

// muster has every agent report that it is ready and idle.
func (h *history) muster(*rapid.T) {
	h.now = h.now.Add(time.Millisecond)
	for _, id := range agentIDs {
		h.do(coordinator.AgentReported{Live: true, Report: h.idle(id)})
	}
}

// idle is the report of an agent that runs nothing.
func (h *history) idle(id coordinator.AgentID) coordinator.AgentReport {
	r := coordinator.AgentReport{Agent: id, Status: coordinator.StatusReady, Available: 3,
		Timestamp: h.now.Add(h.skew[id])}
	if !h.plain[id] {
		r.ActiveTasks = []coordinator.TaskID{}
	}
	return r
}

// flap has one agent come and go a few times in a moment.
func (h *history) flap(t *rapid.T) {
	id := rapid.SampledFrom(agentIDs).Draw(t, "agent")
	for i := range rapid.IntRange(1, 5).Draw(t, "times") {
		h.now = h.now.Add(25 * time.Millisecond)
		r := h.idle(id)
		if i%2 == 0 {
			r.Status = coordinator.StatusOffline
		}
		h.do(coordinator.AgentReported{Live: true, Report: r})
	}
}

func (h *history) sendReport(t *rapid.T) {
	id := rapid.SampledFrom(append(slices.Clone(agentIDs), "stranger")).Draw(t, "agent")
	if rapid.IntRange(0, 19).Draw(t, "clock set at 0") == 0 {
		h.skew[id] = rapid.SampledFrom([]time.Duration{0, -10 * time.Minute, 10 * time.Minute}).Draw(t, "clock")
	}
	if rapid.IntRange(0, 19).Draw(t, "another program at 0") == 0 {
		h.plain[id] = !h.plain[id]
	}
	late := seconds(t, "made ago", 0, 0, 0, 1, 15)
	var running []coordinator.TaskID
	if !h.plain[id] {
		running = someOf(t, "active_task_ids", taskIDs, 3)
		if rapid.Bool().Draw(t, "and what it has") {
			for _, d := range h.arrived {
				if d.Agent == id && !slices.Contains(running, d.Task.ID) {
					running = append(running, d.Task.ID)
				}
			}
		}
	}
	h.do(coordinator.AgentReported{
		Live: rapid.IntRange(0, 5).Draw(t, "past at 0") > 0,
		Report: coordinator.AgentReport{
			Agent: id, Timestamp: h.now.Add(h.skew[id] - late),
			Status: rapid.SampledFrom([]coordinator.AgentStatus{
				coordinator.StatusReady, coordinator.StatusReady, coordinator.StatusReady, coordinator.StatusReady,
				coordinator.StatusBusy, coordinator.StatusOffline,
			}).Draw(t, "status"),
			Load:          rapid.SampledFrom([]float64{0, 0, 0.5, 0.8999, 0.9, 1}).Draw(t, "load"),
			ActiveTasks:   running,
			Active:        rapid.SampledFrom([]int{0, 0, 0, 1, 2, 4}).Draw(t, "active"),
			Available:     rapid.SampledFrom([]int{0, 1, 2, 3, 3, 3}).Draw(t, "available"),
			MaxConcurrent: rapid.SampledFrom([]int{0, 0, 0, 1, 9}).Draw(t, "reported max"),
		},
	})
}

// settleOne answers a dispatch; an unknown outcome ends the session with it.
func (h *history) settleOne(t *rapid.T) {
	open := slices.Sorted(maps.Keys(h.inState(engine.StateDispatching)))
	if len(open) == 0 {
		// An answer that comes after its session changes nothing. To a delivery that is open it would be none that is
		// late: time has passed since, and what is due first may dispatch it.
		late := 1 + h.handle/2
		if r := h.l.receipts[late]; h.handle > 0 && (r == nil || !r.open) {
			h.do(coordinator.DispatchSettled{Handle: late, Outcome: rapid.SampledFrom(outcomes).Draw(t, "late outcome")})
		}
		return
	}
	handle := rapid.SampledFrom(open).Draw(t, "handle")
	outcome := rapid.SampledFrom(outcomes).Draw(t, "outcome")
	h.do(coordinator.DispatchSettled{Handle: handle, Outcome: outcome})
	if outcome == coordinator.PublishUnknown || outcome == coordinator.PublishAbandoned {
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
	case coordinator.CallAsked:
		return showCalls(ev)
	case coordinator.PolicyChanged:
		s := fmt.Sprintf("policy %s %+v", ev.Policy.Strategy, ev.Policy.Settings)
		for _, a := range ev.Policy.Agents {
			s += fmt.Sprintf("; %s×%d %v", a.ID, a.MaxConcurrent, a.Capabilities)
		}
		return s + showQuotas(ev.Policy.Quotas)
	case coordinator.TaskReceived:
		return fmt.Sprintf("received %d: %+v redelivered=%v", ev.Handle, *ev.Task, ev.Redelivered)
	case coordinator.TaskReturned:
		return fmt.Sprintf("returned %d: %s.%d from %s, %s, tried %v, failed %v, redelivered=%v",
			ev.Handle, ev.Task.ID, ev.Attempt, ev.Agent, ev.Cause, ev.Tried, ev.Failed, ev.Redelivered)
	case coordinator.DispatchSettled:
		return fmt.Sprintf("settled %d %s", ev.Handle, ev.Outcome)
	}
	return fmt.Sprintf("%T%+v", ev, ev)
}

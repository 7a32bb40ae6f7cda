package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/breaker"
	"taskbus/coordinator/engine/internal/fleet"
)

// agent is one agent: what is known of it, what it has, and what else the kernel keeps of it.
type agent struct {
	fleet.Account[*openTask]
	bidding bidder
	claiming
	stale, recheck, cool, steady, forget, ramping timer
}

// agents are all of the policy.
type agents struct {
	fleet.Fleet[*openTask, *agent]
}

// Held returns how many slots the agent's bids hold.
func (a *agent) Held() int { return a.bidding.Held() }

// Waits reports whether a claim of the agent has not been answered.
func (a *agent) Waits() bool { return a.seat.Waits() }

// rejoin makes an agent of which nothing is known but, if it was in the fleet
// before, the dispatches that it has or may have.
func rejoin(before *agent) *agent {
	a := before
	if a == nil {
		a = &agent{}
	}
	a.Rejoin()
	*a = agent{Account: a.Account, bidding: bidder{Agent: a, Calibration: a.bidding.Calibration}}
	a.stale = newTimer(dutyStale, nil, a)
	a.recheck = newTimer(dutyRecheck, nil, a)
	a.cool = newTimer(dutyCool, nil, a)
	a.steady = newTimer(dutySteady, nil, a)
	a.forget = newTimer(dutyForget, nil, a)
	a.ramping = newTimer(dutyRamp, nil, a)
	a.claimEnd = newTimer(dutyClaim, nil, a)
	return a
}

// adoptFleet replaces the fleet by that of another policy, and cancels what was scheduled for agents that are
// removed or get another queue.
func (e *Engine) adoptFleet(specs []coordinator.AgentSpec, settings coordinator.Settings) {
	moved, gone := e.fleet.Adopt(specs, settings, rejoin)
	for _, a := range e.fleet.Agents {
		a.bidding.ID = a.Spec.ID
	}
	for _, a := range moved {
		e.timers.cancel(&a.recheck)
		e.timers.cancel(&a.cool)
	}
	for _, a := range gone {
		for _, t := range []*timer{&a.stale, &a.recheck, &a.cool, &a.steady, &a.forget, &a.ramping, &a.claimEnd} {
			e.timers.cancel(t)
		}
	}
}

// finishedPast credits the end of a dispatch that is not open any more: one that only the agent could free the slot of,
// one that was let go because a report had covered it, or one that the agent said it runs although no dispatch to
// it is open.
func (e *Engine) finishedPast(now time.Time, a *agent, r *coordinator.Result, attempt int, letGo bool) {
	end := fleet.Ending{Task: r.Task, Stamp: a.Stamp(now, r), Heard: now}
	_, listed := a.Listed[r.Task]
	known := slices.ContainsFunc(a.Recent, func(e fleet.Ending) bool { return e.Task == r.Task })
	switch t := a.Find(r.Task, attempt); {
	case t != nil:
		a.Finished(now, &t.Dispatch, r)
		e.discharge(t)
	case letGo, listed && !known && a.CountsStill(&end):
		a.Note(end, true)
	}
	e.fleet.Refresh(a)
}

// mayLetGo reports whether no agent will report how the dispatch ended, and nothing else needs it.
func (e *Engine) mayLetGo(t *openTask) bool {
	return !e.following && t.state == stateLeased && !t.agent.Tracked && len(t.tried) == 0 && !t.Apart && !t.Over &&
		!t.unanswered
}

// audit is done with every report: which dispatches it covers, which it has begun, which it has let go of, and
// which ends that were reported before it arrived it does not include yet. made is when it was made, by our clock;
// zero when that is not known.
func (e *Engine) audit(now time.Time, a *agent, made time.Time) {
	exact := a.Listed != nil
	for i := 0; i < len(a.Open); {
		t := a.Open[i]
		arrivedBefore := !t.Settled.IsZero() && !made.IsZero() && t.Settled.Before(made)
		_, listed := a.Listed[t.task.ID]
		switch {
		case exact && t.Over && t.state == stateLeased && (listed || arrivedBefore),
			!exact && t.Over && arrivedBefore:
			t.agent.Give(t) // its reports speak for it
			continue
		case exact && listed:
			e.fleet.Cover(t.agent, t)
			if !t.Listed {
				e.renew(t)
			}
			if t.withdrawn && t.state == stateLeased && !t.returning {
				e.withdraw(t, t.cancelReason, 0) // the agent cannot have received it, or ignores it
			}
		case !exact && arrivedBefore && (e.mayLetGo(t) || e.hasDoneAlone(t, made)):
			e.letGo(t)
			continue
		case !exact && arrivedBefore:
			e.fleet.Cover(t.agent, t)
		case exact && arrivedBefore:
			t.Unlisted = made
		}
		t.Listed = listed
		i++
	}
	a.Audited(now, made)
}

// forgetAgents frees the serials of agents that have left and that no record refers to any more, when there are
// twice as many as the last time. An agent may use a new name each time that it starts.
func (e *Engine) forgetAgents() {
	s := &e.fleet.Serials
	if !s.Sweeps() {
		return
	}
	used := agentset.New(len(s.Names()))
	for _, a := range e.fleet.ByID { // order does not matter: it is a set
		used.Add(int(a.Serial))
	}
	for _, a := range e.fleet.Left {
		used.Add(int(a.Serial))
	}
	for r := range e.dedupe.Latest() {
		if !r.Fate.IsOpen() {
			used.Add(int(r.Ref))
		}
	}
	for _, t := range e.tasks.all {
		if t != nil && t.agent != nil {
			used.Add(int(t.agent.Serial))
		}
	}
	for _, t := range e.held {
		if t.agent != nil {
			used.Add(int(t.agent.Serial))
		}
	}
	s.Sweep(used)
}

// rampSteps is how many steps an agent takes to all of its slots: one each five
// seconds of the usual minute.
const rampSteps = 12

// ramp gives a new agent its part of its slots, and asks to be called again until
// it has all of them. Whoever counts as new again begins anew.
func (e *Engine) ramp(now time.Time, a *agent) {
	window := e.policy.Settings.SlowStart
	a.Slots = 0
	if age := now.Sub(a.Since); window > 0 && !a.Since.IsZero() && age < window {
		a.Slots = breaker.Ramp(a.Maximum(), age, window, 1)
		step := max(window/rampSteps, time.Millisecond)
		e.timers.schedule(&a.ramping, earlier(now.Add(step), a.Since.Add(window)))
	} else {
		e.timers.cancel(&a.ramping)
	}
	e.fleet.Refresh(a)
}

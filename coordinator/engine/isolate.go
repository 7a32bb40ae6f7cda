package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// A task that brings its agent down takes with it what the agent has in hand beside it. None
// of them is to blame for sure: all are suspected. One that is suspected until one more failure
// would end it gets an agent to itself: if that goes down as well it was the task, each time.

// isolated are the pending tasks that must be alone, in the order in which they began to wait.
// One that waits no longer is left in it until the next look.
type isolated struct{ tasks []*openTask }

func (i *isolated) add(t *openTask) {
	if !slices.Contains(i.tasks, t) {
		i.tasks = append(i.tasks, t)
	}
}

// leftIsolated takes out what waits no longer, or has gone back to the broker.
func (e *Engine) leftIsolated() {
	e.isolated.tasks = slices.DeleteFunc(e.isolated.tasks, func(t *openTask) bool {
		return e.held[t.handle] != t || !t.alone || t.state != stateWaiting && t.state != stateUnscored
	})
}

// mustBeAlone tells whether the task is suspected, and one more failure may end it.
func (e *Engine) mustBeAlone(t *openTask) bool {
	n, s := len(t.suspected), &e.policy.Settings
	return n > 0 && n+len(t.failed) >= max(1, min(s.PoisonedAfter, s.MaxRetryAttempts)-1)
}

// spareSuspected lets a task that must be alone, and that all its agents have had, go to those
// once more with which it went down in company.
func (e *Engine) spareSuspected(t *openTask) {
	if !e.mustBeAlone(t) {
		return
	}
	if reason, _ := e.resolve(t); reason == coordinator.ReasonNone && t.needs.class.nobody {
		t.tried = slices.DeleteFunc(slices.Clone(t.tried), func(id coordinator.AgentID) bool {
			return contains(t.suspected, id) && !contains(t.failed, id)
		})
		t.untouched = with(t.untouched, t.suspected...)
	}
}

// lostAt notes that the agent went down with the task in hand. Was there nothing beside it, so
// it has failed there, and wherever it was suspected; else it is suspected.
func (t *openTask) lostAt(a *agent, before *openTask, ev *coordinator.TaskReturned) {
	var alone bool
	switch {
	case a == nil, before != nil && before.apart:
		alone = true // nothing is known of it, or it had nothing else of ours
	case before != nil && before.place >= 0:
		alone = len(a.open) == 1 && a.lost == 0
	default: // its reports have spoken for the dispatch
		alone = len(a.open) == 0 && a.lost == 0 && a.report.Active <= 1
	}
	if a != nil {
		a.lost++
	}
	if !alone {
		t.suspected = append(slices.Clip(t.suspected), ev.Agent) // there may be only one
		return
	}
	t.failed = with(with(t.failed, t.suspected...), ev.Agent)
	t.suspected = nil
}

// hasDoneAlone tells whether an agent that says no more than how many tasks it runs, and that has
// this one to itself, has none in hand any more: an idle agent takes what waits in its queue within
// an interval. made is when it said so.
func (e *Engine) hasDoneAlone(t *openTask, made time.Time) bool {
	a := t.agent
	return t.apart && !e.following && t.state == stateLeased && !a.tracked && !t.over && !t.unanswered &&
		a.report.Active == 0 && made.Sub(t.settled) >= a.spec.HealthCheckInterval
}

// freeFor are the agents that may be given the task now, if they are feasible for it.
func (e *Engine) freeFor(t *openTask) bitset {
	if t.alone {
		return e.fleet.vacant
	}
	return e.fleet.ready
}

// isVacant tells whether the agent has nothing in hand and could take a task, or claim one; why
// is what else keeps it from getting any.
func (f *fleet) isVacant(a *agent, why coordinator.Ineligibility) bool {
	if len(a.open) > 0 || a.inFlight() > 0 {
		return false
	}
	if why == coordinator.KeptFree {
		kept := f.kept
		f.kept = nil
		why = f.eligibility(a)
		f.kept = kept
	}
	return why == coordinator.Eligible || why == coordinator.Pulling
}

// serveIsolated gives tasks that must be alone to agents that have nothing else, and sees to it
// that one agent is kept free for the others.
func (e *Engine) serveIsolated(now time.Time) {
	if len(e.isolated.tasks) == 0 && e.fleet.kept == nil {
		return
	}
	e.leftIsolated()
	for _, t := range slices.Clone(e.isolated.tasks) {
		if e.fleet.vacant.empty() {
			break
		}
		if t.state == stateUnscored { // its class may have been forgotten
			_, _ = e.resolve(t)
		}
		a, d := e.choose(t)
		if a != nil && !e.waitsForQuota(t) {
			e.leavePending(t)
			e.assignBest(now, t, a, d)
		}
	}
	e.leftIsolated()
	e.keepFree(now)
}

// keepFree changes the agent that is kept free, if another should be.
func (e *Engine) keepFree(now time.Time) {
	f := &e.fleet
	former, next := f.kept, e.worthKeeping()
	if former == next {
		return
	}
	f.kept = next
	for _, a := range []*agent{former, next} {
		if a != nil {
			f.refresh(a)
		}
	}
	if former != nil {
		e.wake(now, former)
	}
}

// worthKeeping is the agent to keep free: the one that is, as long as it is there and a task
// waits that it could have, else the one with the least in hand; nil: none.
func (e *Engine) worthKeeping() (best *agent) {
	for _, t := range e.isolated.tasks {
		if e.waitsForQuota(t) {
			continue
		}
		usable := t.needs.class.usable
		if a := e.fleet.kept; a != nil && usable.has(a.number) && a.alone == 0 && e.fleet.presence(a) == coordinator.KeptFree {
			return a // as nearly always: no need to go through the fleet after each event
		}
		for _, a := range e.fleet.agents {
			if usable.has(a.number) && e.fleet.presence(a) == coordinator.Eligible && (best == nil || a.inFlight() < best.inFlight()) {
				best = a
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// claimAlone is the task that must be alone and may go to an agent that claims and has nothing
// in hand; nil: none, or it has.
func (e *Engine) claimAlone(a *agent) *openTask {
	if !e.connected || !e.fleet.isVacant(a, e.fleet.eligibility(a)) {
		return nil
	}
	e.leftIsolated()
	for _, t := range e.isolated.tasks {
		if t.state == stateUnscored { // its class may have been forgotten
			_, _ = e.resolve(t)
		}
		if t.alone && t.needs.class.usable.has(a.number) && !e.waitsForQuota(t) {
			return t
		}
	}
	return nil
}

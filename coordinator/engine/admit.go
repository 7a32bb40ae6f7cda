package engine

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/lanes"
)

// admit judges a task from scratch: refused for good, placed, or made to wait.
func (e *Engine) admit(now time.Time, t *openTask) {
	if t.attempt > dedupe.MaxAttempts {
		e.fail(now, t, coordinator.ReasonRetriesExhausted, fmt.Sprintf(
			"%d dispatches were made under this task_id, and no more can be told apart; submit it under another",
			dedupe.MaxAttempts), nil)
		return
	}
	if reason, text := e.resolve(t); reason != coordinator.ReasonNone {
		e.fail(now, t, reason, text, nil)
		return
	}
	if at := e.asksAll(now, t); !at.IsZero() {
		t.state = stateDelayed
		e.pending.count[t.task.Priority]++
		e.waitUntil(t, at)
		return
	}
	if len(t.tried) > 0 && !t.vain {
		e.chooseAgain(t)
		e.resolve(t) // which has an answer, as a moment ago
	}
	if !e.gather(now, t) {
		e.place(now, t)
	}
}

// place gives the task to an agent, or lets it wait behind its equals: then, or when
// it has failed, there is no agent.
func (e *Engine) place(now time.Time, t *openTask) (*agent, *coordinator.Decision) {
	if e.failHopeless(now, t) {
		return nil, nil
	}
	if t.needs.class.First() != nil || e.waitsForQuota(t) {
		if !e.exceedsQuota(now, t) {
			e.waitOrAside(now, t)
		}
		return nil, nil
	}
	a, d := e.choose(t)
	switch {
	case a == nil:
		e.waitOrAside(now, t)
	case !t.asks():
		return e.assignBest(now, t, a, d)
	case !e.mayGive(t):
		e.wait(now, t)
	default:
		e.give(now, t, a, d)
	}
	return nil, nil
}

// failHopeless fails a task that is too late, or that no agent can ever take.
func (e *Engine) failHopeless(now time.Time, t *openTask) bool {
	switch {
	case t.late(now):
		e.fail(now, t, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
		return true
	case t.needs.class.unserved():
		d := e.explain(now, t, false)
		reason, text := e.reasonOf(d, t)
		if reason != coordinator.ReasonNoAgentsOnline { // else an agent may come that can
			e.fail(now, t, reason, text+t.cameBefore(), d)
			return true
		}
	}
	return false
}

// waitOrAside lets the task wait in line, or aside if its strategy gives no score to the agents that could have it.
func (e *Engine) waitOrAside(now time.Time, t *openTask) {
	if e.wait(now, t); t.state != stateWaiting || !t.alone && !e.unscored(t) {
		return
	}
	if a, _ := e.choose(t); a == nil { // else others go first, or more is being sought than is free
		e.setAside(now, t)
	}
}

// choose finds the agent for a task that has been resolved; nil when there is none.
func (e *Engine) choose(t *openTask) (*agent, *coordinator.Decision) {
	return e.chooseAmong(t, t.needs.class.Usable)
}

// chooseAmong is choose among some of the agents that could have the task.
func (e *Engine) chooseAmong(t *openTask, able agentset.Set) (*agent, *coordinator.Decision) {
	q := e.question(t)
	q.Among = able
	winner, d := q.Choose()
	if d == nil {
		return nil, nil
	}
	return e.fleet.Agents[winner], d
}

// question is what is asked of the fleet for a task that has been resolved. It is
// valid until the next.
func (e *Engine) question(t *openTask) *choice.Question {
	n, q := &t.needs, &e.asking
	q.Case = coordinator.Case{Task: t.task, Required: len(n.required), MaxCost: e.fleet.MaxCost}
	q.Strategy, q.Kind, q.Attempt, q.Seed = n.strategy, n.kind, t.attempt, e.policy.Settings.Seed
	q.Met, q.Usable, q.Among, q.Preferred = &n.class.criteria, n.class.Usable, n.class.Usable, n.preferred
	q.Free, q.Alone = e.freeFor(t), t.alone
	q.Prepare()
	return q
}

// trackRecords are how well the agents do with such tasks as one that has been resolved.
func (e *Engine) trackRecords(t *openTask) choice.TrackRecords {
	return e.asking.Fleet.TrackRecords(t.task, t.attempt, t.needs.kind, t.needs.strategy, e.policy.Settings.Seed)
}

// noChoice is the decision for an agent that was the only one in question.
func (e *Engine) noChoice(strategy string, a *agent) *coordinator.Decision {
	return &coordinator.Decision{
		Strategy: strategy, Agent: a.Spec.ID, Fleet: len(e.fleet.Agents), Eligible: 1,
		Candidates: []coordinator.Candidate{{Agent: a.Spec.ID, Load: a.Load(), Free: a.Free()}},
	}
}

// needsRoom reports whether the task waits only if the backlog has room for it. What comes out of a
// lane has it, and what may be moved to one makes it.
func (e *Engine) needsRoom(t *openTask) bool { return t.from == "" && !e.mayMove(t) }

// failFull fails a task for which the backlog has no room.
func (e *Engine) failFull(now time.Time, t *openTask) {
	e.fail(now, t, coordinator.ReasonBacklogFull, fmt.Sprintf("%d tasks are waiting already (max_queue_size)",
		e.backlog()), nil)
}

// A strategy may give no score to any agent that could have a task: a formula that
// reads a label that the task does not have, or divides by what is zero everywhere.
// Such a task must not keep others waiting that need the same. It waits aside, and is
// looked at again from time to time: what a formula reads of agents changes.

// How long until a task is looked at again, doubled each time.
const (
	scoreFirst = time.Second
	scoreMax   = 8 * time.Second
)

// unscored reports, of a task for which no agent was chosen, whether there are some that could have it now.
func (e *Engine) unscored(t *openTask) bool {
	c := t.needs.class
	return c.Usable.Common(e.fleet.Ready) > 0
}

// setAside takes a waiting task out of its class's line. It goes on being pending.
func (e *Engine) setAside(now time.Time, t *openTask) {
	e.pending.take(t)
	t.state, t.scoreIn = stateUnscored, scoreFirst
	e.timers.schedule(&t.retry, now.Add(t.scoreIn))
}

// scoreAgain looks at it again. Its class may have been forgotten, because no task waits in its line: agents that are
// ejected meanwhile would not be from that.
func (e *Engine) scoreAgain(now time.Time, t *openTask) {
	_, _ = e.resolve(t) // it could be served under this policy: nothing else has changed
	a, d := e.choose(t)
	behind := a != nil && e.waitsForQuota(t) // others of its group go first
	if a != nil && !behind && e.mayGive(t) {
		e.leavePending(t)
		e.give(now, t, a, d)
		return
	}
	if t.alone {
		e.isolated.Add(t, t.needs.class, t.leaf, t.level)
	}
	if behind || !e.unscored(t) { // or the agents without a score are not free any more
		t.state = stateWaiting
		e.pending.push(now, t)
		e.wanted(t.needs.class)
		e.watchHeld(now, t)
		return
	}
	if t.lane.InLine() && !now.Before(t.came.Add(lanes.HeldLong)) {
		if _, moved := e.moveOn(now, t); moved {
			return
		}
	}
	t.scoreIn = min(2*t.scoreIn, scoreMax)
	e.timers.schedule(&t.retry, now.Add(t.scoreIn))
}

package engine

import (
	"time"

	"taskbus/coordinator/engine/internal/lanes"
)

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

package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// admitAgain judges tasks anew that waited under another policy. Whose turn it is shows only when all
// of them stand in line: what a reload adds would else go to the group whose tasks are the oldest.
func (e *Engine) admitAgain(now time.Time, tasks []*openTask) {
	sortByDue(tasks)
	e.rejudging = true
	for _, t := range tasks {
		e.lineUp(now, t)
	}
	if e.quotas.ledger.Installed() {
		e.serveQuotas(now)
	} else {
		for e.serveFirst(now, fairshare.AllLevels, 0) {
		}
	}
	e.rejudging = false
	e.failBeyondRoom(now, tasks)
}

// lineUp has a task that has waited wait in its class, unless there is no hope for it. (It gathers
// no others of its kind any more.)
func (e *Engine) lineUp(now time.Time, t *openTask) {
	reason, text := e.resolve(t)
	switch {
	case reason != coordinator.ReasonNone:
		e.fail(now, t, reason, text, nil)
	case e.failHopeless(now, t), e.exceedsQuota(now, t):
	default:
		e.wait(now, t)
	}
}

// failBeyondRoom fails those of the tasks, in the order of byDue, for which the backlog has no room, the
// last ones first.
func (e *Engine) failBeyondRoom(now time.Time, tasks []*openTask) {
	for i := len(tasks) - 1; i >= 0 && e.backlog() > e.policy.Settings.MaxQueueSize; i-- {
		t := tasks[i]
		if (t.state == stateWaiting || t.state == stateUnscored) && e.needsRoom(t) {
			e.leavePending(t)
			e.failFull(now, t)
		}
	}
}

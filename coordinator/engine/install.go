package engine

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/ejection"
	"taskbus/coordinator/fairshare"
)

// install replaces the policy. Every waiting task is judged again under the new
// one: it may be served, go on waiting, or have become impossible.
func (e *Engine) install(now time.Time, p *coordinator.Policy) {
	e.clearQuotaWaits()
	e.isolated.Clear()
	waiting := e.pending.Clear()
	var offered []*openTask
	for _, t := range e.inOrder() {
		switch t.state {
		case stateUnscored:
			e.timers.cancel(&t.retry)
			waiting = append(waiting, t)
		case stateBidding:
			offered = append(offered, t)
		}
	}
	e.policy = p
	e.calls.Under(p)
	if e.quotas.Install(e.quotaTime(now), p) {
		e.reviewQuotas(now)
	}
	e.controls.Under(e.quotas.Ledger.Quotas())
	e.scheduleDay()
	for _, t := range e.tasks.all {
		if t != nil && t.quota != nil && !t.quota.Open {
			t.quota = nil // to be estimated anew
		}
	}
	e.lanes.PolicyChanged()
	e.marketUnder(p)
	e.batches.Install(p.Routes)
	e.routes, e.types = make(map[string]*requirements, len(p.Routes)), nil
	e.setLearning(p.Settings.Learning)
	e.applyBreakers(e.ejections.SetRules(now, p.Settings.Breaker))
	e.adoptFleet(e.fleet.Specs(p), p.Settings)
	e.pending.Forget() // the classes of the old fleet
	e.renumber()
	e.claims.under(&e.fleet)
	offered = slices.DeleteFunc(offered, func(t *openTask) bool { return e.stillOffered(t) })
	for _, t := range offered { // before anything can decide them
		e.abandon(now, t)
	}
	for _, id := range slices.Sorted(maps.Keys(e.fleet.Left)) {
		e.left(e.fleet.Left[id])
	}
	for _, a := range e.fleet.Agents {
		if a.TakenQueue != a.Spec.Queue {
			e.leaveQueue(a) // it has another now
		}
		e.fleet.Obey(a)
		e.fleet.Refresh(a)
		e.watch(now, a) // the threshold may be another
		e.ramp(now, a)
	}
	for _, t := range waiting {
		t.state = stateDeciding // one that is refused now must not pass for one that waits
		e.pending.count[t.task.Priority]--
		e.timers.cancel(&t.expire)
		e.timers.cancel(&t.retry)
		e.forgetWish(t)
	}
	together := e.batches.CloseAll()
	for _, members := range together {
		e.endGathering(members)
	}
	e.admitAgain(now, append(waiting, offered...))
	for _, members := range together {
		e.decideBatch(now, members)
	}
	e.claimsUnder(now)
}

// left handles the work of an agent that the policy no longer lists. The reports that it may still send are waited
// for; the rest is let go.
func (e *Engine) left(a *agent) {
	e.leaveQueue(a) // another agent may use it by now
	for i := 0; i < len(a.Open); {
		switch t := a.Open[i]; {
		case t.state == stateLeased && t.Over:
			t.agent.Give(t)
		case e.mayLetGo(t):
			e.letGo(t)
		default:
			i++
		}
	}
	if len(a.Open) == 0 {
		delete(e.fleet.Left, a.Spec.ID)
	}
}

// admitAgain judges tasks anew that waited under another policy. Whose turn it is can be seen only when all of them
// stand in line: otherwise what a reload adds would go to the group whose tasks are the oldest.
func (e *Engine) admitAgain(now time.Time, tasks []*openTask) {
	sortByDue(tasks)
	e.rejudging = true
	for _, t := range tasks {
		e.lineUp(now, t)
	}
	if e.quotas.Installed() {
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

// failBeyondRoom fails the tasks, in the order of byDue, for which the backlog has no room, the last ones first.
func (e *Engine) failBeyondRoom(now time.Time, tasks []*openTask) {
	for i := len(tasks) - 1; i >= 0 && e.backlog() > e.policy.Settings.MaxQueueSize; i-- {
		t := tasks[i]
		if (t.state == stateWaiting || t.state == stateUnscored) && e.needsRoom(t) {
			e.leavePending(t)
			e.failFull(now, t)
		}
	}
}

// renumber has all that knows agents by their numbers follow a change of the fleet.
func (e *Engine) renumber() {
	e.learner.Renumber(len(e.fleet.Agents), e.fleet.Was)
	agents := make([]ejection.Agent, len(e.fleet.Agents))
	for i, a := range e.fleet.Agents {
		online := a.State == coordinator.AgentOnline
		agents[i] = ejection.Agent{ID: a.Spec.ID, Capabilities: a.Spec.Capabilities, Online: online}
	}
	e.timers.cancel(&e.breakerDue)
	e.applyBreakers(e.ejections.Renumber(e.now, agents, e.fleet.Was))
	e.weigh()
	f := &e.fleet
	e.asking.Fleet = choice.Fleet{Views: f.Views, Stated: f.Stated, Causes: f.Causes, ByCause: &f.ByCause, Tally: &f.Tally,
		Index: f.Index, Learner: e.learner}
}

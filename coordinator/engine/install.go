package engine

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/ejection"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/pull"
)

// install replaces the policy. Every waiting task is judged again under the new
// one: it may be served, go on waiting, or have become impossible.
func (k *kernel) install(now time.Time, p *coordinator.Policy) {
	k.Unpark(k.Quotas.Waits.Clear(), false)
	k.Isolated.Clear()
	waiting := k.Pending.Clear()
	var offered []*state.Task
	for _, t := range k.InOrder() {
		switch t.Stage {
		case state.Unscored:
			k.Timers.Cancel(&t.Retry)
			waiting = append(waiting, t)
		case state.Bidding:
			offered = append(offered, t)
		}
	}
	k.Policy = p
	k.Calls.Under(p)
	if k.Quotas.Install(k.QuotaTime(now), p) {
		k.ReviewQuotas(now)
	}
	k.Controls.Under(k.Quotas.Ledger.Quotas())
	k.scheduleDay()
	for _, t := range k.Tasks.All {
		if t != nil && t.Quota != nil && !t.Quota.Open {
			t.Quota = nil // to be estimated anew
		}
	}
	k.Lanes.PolicyChanged()
	k.Market.Install(p.Strategies)
	k.Batches.Install(p.Routes)
	k.Routes, k.Types = make(map[string]*state.Requirements, len(p.Routes)), nil
	k.SetLearning(p.Settings.Learning)
	k.ApplyBreakers(k.Ejections.SetRules(now, p.Settings.Breaker, k.Following))
	k.adoptFleet(k.Fleet.Specs(p), p.Settings)
	k.Pending.Forget() // the classes of the old fleet
	k.renumber()
	k.Claims.Reset(k.Fleet.Agents, k.ClaimView())
	offered = slices.DeleteFunc(offered, func(t *state.Task) bool { return k.stillOffered(t) })
	for _, t := range offered { // before anything can decide them
		k.abandon(now, t)
	}
	for _, id := range slices.Sorted(maps.Keys(k.Fleet.Left)) {
		k.left(k.Fleet.Left[id])
	}
	for _, a := range k.Fleet.Agents {
		k.agentsChanged(now, k.Fleet.Adopted(now, a))
	}
	for _, t := range waiting {
		t.Stage = state.Deciding // one that is refused now must not pass for one that waits
		k.Pending.Count[t.Task.Priority]--
		k.Timers.Cancel(&t.Expire)
		k.Timers.Cancel(&t.Retry)
		k.CancelWiden(t)
	}
	together := k.Batches.CloseAll()
	for _, members := range together {
		k.endGathering(members)
	}
	k.admitAgain(now, append(waiting, offered...))
	for _, members := range together {
		k.decideBatch(now, members)
	}
	for a := range k.Claims.All() {
		if a.Number < 0 || a.Spec.Pull == coordinator.PullOff {
			k.refuseClaim(now, a, pull.LimitUnknownAgent)
		}
	}
}

// left handles the work of an agent that the policy no longer lists. The reports that it may still send are waited
// for; the rest is let go.
func (k *kernel) left(a *state.Agent) {
	k.agentsChanged(k.Now, k.Fleet.Leaves(a))
	for i := 0; i < len(a.Open); {
		switch t := a.Open[i]; {
		case t.Stage == state.Leased && t.Over:
			t.Agent.Give(t)
		case k.MayLetGo(t):
			k.LetGo(t)
			k.Discharge(t)
		default:
			i++
		}
	}
	if len(a.Open) == 0 {
		delete(k.Fleet.Left, a.Spec.ID)
	}
}

// admitAgain judges tasks anew that waited under another policy. None is served before all of them wait again:
// otherwise capacity that a reload adds would go to the group with the oldest tasks.
func (k *kernel) admitAgain(now time.Time, tasks []*state.Task) {
	slices.SortFunc(tasks, state.ByDue)
	k.rejudging = true
	for _, t := range tasks {
		k.lineUp(now, t)
	}
	if k.Quotas.Installed() {
		k.serveQuotas(now)
	} else {
		for k.serveFirst(now, fairqueue.AllLevels, 0) {
		}
	}
	k.rejudging = false
	k.failBeyondRoom(now, tasks)
}

// lineUp has a task that has waited wait in its class, unless there is no hope for it. (It gathers
// no others of its kind any more.)
func (k *kernel) lineUp(now time.Time, t *state.Task) {
	reason, text := k.Resolve(t)
	switch {
	case reason != coordinator.ReasonNone:
		k.Fail(now, t, reason, text, nil)
	case k.failHopeless(now, t), k.exceedsQuota(now, t):
	default:
		k.wait(now, t)
	}
}

// failBeyondRoom fails the tasks, in the order of ByDue, for which the backlog has no room, the last ones first.
func (k *kernel) failBeyondRoom(now time.Time, tasks []*state.Task) {
	for i := len(tasks) - 1; i >= 0 && k.Backlog() > k.Policy.Settings.MaxQueueSize; i-- {
		t := tasks[i]
		if (t.Stage == state.Waiting || t.Stage == state.Unscored) && k.NeedsRoom(t) {
			k.leavePending(t)
			k.failFull(now, t)
		}
	}
}

// renumber has all that knows agents by their numbers follow a change of the fleet.
func (k *kernel) renumber() {
	k.Learner.Renumber(len(k.Fleet.Agents), k.Fleet.Was)
	agents := make([]ejection.Agent, len(k.Fleet.Agents))
	for i, a := range k.Fleet.Agents {
		online := a.State == coordinator.AgentOnline
		agents[i] = ejection.Agent{ID: a.Spec.ID, Capabilities: a.Spec.Capabilities, Online: online}
	}
	k.Timers.Cancel(&k.BreakerDue)
	k.ApplyBreakers(k.Ejections.Renumber(k.Now, agents, k.Fleet.Was))
	k.Fleet.Weigh()
	f := &k.Fleet
	k.Asking.Fleet = choice.Fleet{Views: f.Views, Stated: f.Stated, Causes: f.Causes, ByCause: &f.ByCause, Tally: &f.Tally,
		Index: f.Index, Learner: k.Learner}
}

package engine

import (
	"sort"

	"taskbus/coordinator"
)

// explain makes a full pass over the fleet and counts why each agent may not
// have the task. It is only done for refusals and for people who ask.
func (f *fleet) explain(t *openTask, r *requirements) *coordinator.Decision {
	d := &coordinator.Decision{Strategy: r.strategy.Name, Fleet: len(f.agents)}
	missing := make(map[string]int)
	var nearest coordinator.NearMiss
	for _, a := range f.agents {
		why := f.ineligibility(a, t, r, missing)
		if why == coordinator.Eligible {
			d.Eligible++
			continue
		}
		d.Refused[why]++
		if nearer(why, nearest.Why) {
			nearest = coordinator.NearMiss{Agent: a.spec.ID, Why: why}
		}
	}
	if nearest.Agent != "" {
		d.Nearest = &nearest
	}
	for c, n := range missing {
		d.Missing = append(d.Missing, coordinator.MissingCapability{Capability: c, Agents: n})
	}
	sort.Slice(d.Missing, func(i, j int) bool {
		a, b := d.Missing[i], d.Missing[j]
		if a.Agents != b.Agents {
			return a.Agents > b.Agents
		}
		return a.Capability < b.Capability
	})
	return d
}

// ineligibility is the first reason that holds, in the order of the constants.
func (f *fleet) ineligibility(a *agent, t *openTask, r *requirements, missing map[string]int) coordinator.Ineligibility {
	lacks := false
	for _, c := range r.required {
		if set := f.offering[c]; set == nil || !set.has(a.number) {
			missing[c]++
			lacks = true
		}
	}
	switch {
	case lacks:
		return coordinator.LacksCapability
	case contains(t.task.Excluded, a.spec.ID):
		return coordinator.ExcludedByTask
	case contains(t.tried, a.spec.ID):
		return coordinator.AlreadyTried
	}
	return f.eligibility(a)
}

// nearer says whether cause a is closer to eligible than b. The later a
// criterion is tested, the closer the agent came; one that cannot have the task
// at all is never "near".
func nearer(a, b coordinator.Ineligibility) bool {
	switch a {
	case coordinator.LacksCapability, coordinator.ExcludedByTask, coordinator.AlreadyTried:
		return false
	}
	return a > b
}

// reasonOf turns the explanation of a refusal into the reason the task fails with
// when it can wait no longer, and its text. What nobody of the fleet offers is not
// out of reach where an agent that does may join: it is not online, no more is known.
func (e *Engine) reasonOf(d *coordinator.Decision, t *openTask) (coordinator.Reason, string) {
	reason, text := countedReason(d), d.Text()
	if reason == coordinator.ReasonNoEligibleAgents && e.joining.mayBring(t.needs.required) {
		return coordinator.ReasonNoAgentsOnline, text + "; discovery admits agents that could take it, and none has joined"
	}
	return reason, text
}

// countedReason is the reason by the counts alone.
func countedReason(d *coordinator.Decision) coordinator.Reason {
	capable := d.Fleet - d.Refused[coordinator.LacksCapability] - d.Refused[coordinator.ExcludedByTask]
	if capable == 0 {
		return coordinator.ReasonNoEligibleAgents
	}
	untried := capable - d.Refused[coordinator.AlreadyTried]
	if untried == 0 {
		return coordinator.ReasonRetriesExhausted
	}
	online := untried - d.Refused[coordinator.NotSeen] - d.Refused[coordinator.WentOffline] -
		d.Refused[coordinator.WentStale] - d.Refused[coordinator.WentGone]
	switch online {
	case 0:
		return coordinator.ReasonNoAgentsOnline
	case d.Refused[coordinator.QueueMissing]:
		return coordinator.ReasonAgentQueueMissing
	}
	return coordinator.ReasonAllAgentsAtCapacity
}

// contains looks an agent up in a short list.
func contains(list []coordinator.AgentID, id coordinator.AgentID) bool {
	for _, x := range list {
		if x == id {
			return true
		}
	}
	return false
}

package views

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/nearest"
	"taskbus/coordinator/view"
)

// CheckAgents judges the fleet; away: there is no session, and no agent can be given anything.
//
// Work is in good hands while an agent can take a task now, waits to claim one, or works on
// some and will have a free slot when they end. Where none does, no agent is eligible.
// heard are the ids under which heartbeats came that agents.yaml did not list then.
func CheckAgents(snap coordinator.Snapshot, away bool, heard []SenderCount) view.Check {
	var why [coordinator.NumIneligibilities]int // of the agents online
	online, ejected, serving, troubled := 0, 0, 0, 0
	var shared, stray []string
	for i := range snap.Agents {
		a := &snap.Agents[i]
		if a.State != coordinator.AgentOnline {
			continue
		}
		online++
		why[a.Eligibility]++
		if len(a.EjectedFrom) > 0 {
			ejected++
		}
		if serves(a) {
			serving++
		}
		if a.Instances > 1 {
			shared = append(shared, fmt.Sprintf("%s (%d)", a.Spec.ID, a.Instances))
		}
		if a.Strays > 0 {
			stray = append(stray, fmt.Sprintf("%s (%d of %d)", a.Spec.ID, a.Strays, a.Slots))
		}
		if len(a.EjectedFrom) > 0 || a.Eligibility.Trouble() {
			troubled++
		}
	}
	if away {
		return view.Check{Status: view.Critical, Advice: "see what keeps the broker away: `taskbus doctor`",
			Detail: fmt.Sprintf("%d of %d agents online, 0 can take a task now: "+
				"there is no session with the broker, and this is what was known when there was one", online, len(snap.Agents))}
	}
	var parts []string
	for w := coordinator.Eligible + 1; w < coordinator.NumIneligibilities; w++ {
		if why[w] > 0 {
			parts = append(parts, fmt.Sprint(why[w], " ", w.Phrase()))
		}
	}
	if ejected > 0 {
		parts = append(parts, fmt.Sprint(ejected, " ", coordinator.Ejected.Phrase()))
	}
	c := view.Check{Status: view.Healthy, Detail: fmt.Sprintf(
		"%d of %d agents online, %d can take a task now", online, len(snap.Agents), why[coordinator.Eligible])}
	if len(parts) > 0 {
		c.Detail += ": " + strings.Join(parts, ", ")
	}
	if len(shared) > 0 {
		c.Detail += "; several processes report as " + SomeAgents(shared) + ": give each its own agent_id"
	}
	if len(stray) > 0 {
		c.Detail += "; slots are taken by nothing that was given to the agent at " + SomeAgents(stray)
	}
	unlisted := notListed(snap, heard)
	if len(unlisted) > 0 {
		c.Detail += "; heartbeats of the last minute name ids that agents.yaml does not list: " + SomeAgents(unlisted)
	}
	switch {
	case serving == 0 && snap.InGrace && online < len(snap.Agents):
		c.Status = view.Degraded
		c.Detail += "; just started, waiting for their first heartbeats"
	case serving == 0:
		c.Status = view.Critical
	case online < len(snap.Agents) || troubled > 0 || len(shared) > 0 || len(stray) > 0 || len(unlisted) > 0:
		c.Status = view.Degraded
	}
	if c.Status != view.Healthy {
		c.Advice = fleetAdvice(snap, online, ejected, troubled, why[coordinator.Cordoned], why[coordinator.Full], len(stray),
			len(unlisted))
	}
	return c
}

// notListed names the ids among heard that are not listed by now, how many heartbeats named each, and which listed one
// was probably meant: one that is not online, if any comes near.
func notListed(snap coordinator.Snapshot, heard []SenderCount) (names []string) {
	if len(heard) == 0 {
		return nil
	}
	var all, missing []string
	listed := make(map[string]bool, len(snap.Agents))
	for i := range snap.Agents {
		id := string(snap.Agents[i].Spec.ID)
		all, listed[id] = append(all, id), true
		if snap.Agents[i].State != coordinator.AgentOnline {
			missing = append(missing, id)
		}
	}
	for _, h := range heard {
		if listed[h.ID] {
			continue
		}
		near := ""
		if len(names) < coordinator.MaxCandidates { // the others are only counted
			if near = cmp.Or(nearest.DidYouMean(h.ID, missing), nearest.DidYouMean(h.ID, all)); near != "" {
				near = ", " + near
			}
		}
		names = append(names, fmt.Sprintf("%s (%d%s)", h.ID, h.N, near))
	}
	return names
}

// fleetAdvice is what to do about a fleet of which too little can work: first about what is wrong with agents that are
// there; troubled are those of which Eligibility says it. That others are away may be meant.
func fleetAdvice(snap coordinator.Snapshot, online, ejected, troubled, cordoned, full, stray, unlisted int) string {
	var do []string
	if ejected > 0 {
		do = append(do,
			"see why the ejected agents fail (`taskbus agents` shows from what they are ejected and until when; their logs "+
				"say why)")
	}
	if stray > 0 {
		do = append(do, StrayAdvice)
	}
	if unlisted > 0 {
		do = append(do,
			"list the agents that report under other ids in agents.yaml, or correct the agent_id that they are started "+
				"with: they get no task")
	}
	if cordoned == online && online > 0 {
		do = append(do, "give agents work again: `taskbus agents uncordon AGENT`")
	}
	if len(do) == 0 && (troubled > 0 || online == len(snap.Agents)) {
		do = append(do, "`taskbus agents` shows what keeps each agent from work")
	}
	if len(do) == 0 && full == online && online > 0 {
		do = append(do, "all agents online are at work: if tasks wait for long, add agents or slots")
	}
	if online < len(snap.Agents) {
		do = append(do,
			"start the agents that are away, or take them out of agents.yaml (`taskbus agents` shows when each was heard last)")
	}
	return strings.Join(do, "; ")
}

// StrayAdvice is what to do about agents with slots that are taken by nothing that was given to them.
const StrayAdvice = "see whether the handlers of the agents with such slots hang after the timeout of their task, " +
	"and start these agents again (`taskbus agents` names them); work from elsewhere lowers available_capacity, and " +
	"does not belong in active_tasks"

// SomeAgents names the first of them.
func SomeAgents(names []string) string {
	text := strings.Join(names[:min(len(names), coordinator.MaxCandidates)], ", ")
	if more := len(names) - coordinator.MaxCandidates; more > 0 {
		text += fmt.Sprintf(" and %d more agents", more)
	}
	return text
}

// serves reports whether tasks get to an agent that is online, now or when what it works on has
// ended. One that is ejected from all that it offers is left with what requires nothing.
func serves(a *coordinator.AgentSnapshot) bool {
	return a.Eligibility.Serves() && (len(a.EjectedFrom) == 0 || len(a.EjectedFrom) < len(a.Spec.Capabilities))
}

// SlowPending is how long a task may wait before assignments count as delayed.
const SlowPending = 10 * time.Second

// criticalFailures is how many failures in a minute, more than the successes, are
// critical: one hopeless task in a quiet minute is not.
const criticalFailures = 5

// CheckAssignments judges how tasks get to agents. recent are the counts of so many seconds; unread
// wait in task.assign and in lanes.
func CheckAssignments(snap coordinator.Snapshot, recent RecentCounts, span float64, unread int) view.Check {
	ok, failed := recent[RecentAssigned], recent[RecentRefused]
	c := view.Check{Status: view.Healthy, Detail: fmt.Sprintf(
		"last minute: %d assigned, %d failed; oldest waits %s", ok, failed, snap.OldestPending.Round(time.Millisecond))}
	switch {
	case failed > ok && failed >= criticalFailures:
		c.Status = view.Critical
	case failed > 0, snap.OldestPending > SlowPending:
		c.Status = view.Degraded
	}
	if c.Status != view.Healthy {
		shows := "`taskbus tasks --state pending` shows for what each waits"
		if failed > 0 {
			shows = "`taskbus tasks --state failed` shows what failed, and why"
		}
		c.Advice = cmp.Or(WaitAdvice(&snap, float64(ok)/span, unread), shows)
	}
	return c
}

// CheckResults judges how tasks end at agents. Some may fail by their own fault, and be no
// reason for alarm; not most of them. failing are the agents of which most fail (see agentResults.failing).
// invalid results were ignored, as by has them by agent.
func CheckResults(recent RecentCounts, failing []string, invalid uint64, by []SenderCount) view.Check {
	ok, failed := recent[RecentSucceeded], recent[RecentBroken]
	c := view.Check{Status: view.Healthy, Detail: fmt.Sprintf(
		"last minute: %d succeeded at agents, %d failed there or were not done in time", ok, failed)}
	switch {
	case failed > ok && failed >= criticalFailures:
		c.Status = view.Critical
	case failed > ok, invalid > 0:
		c.Status = view.Degraded
	}
	var do []string
	if failed > ok {
		if len(failing) > 0 {
			c.Detail += "; in ten minutes most failed at " + SomeAgents(failing)
		}
		do = append(do,
			"see which agents fail (`taskbus agents`: FAILED) and why (`taskbus tasks --state failed`, and the agents' logs)")
	}
	if invalid > 0 {
		names := make([]string, len(by))
		for i, b := range by {
			names[i] = fmt.Sprintf("%s (%d)", cmp.Or(b.ID, "an agent_id that cannot be read"), b.N)
		}
		c.Detail += fmt.Sprintf("; %d invalid and ignored, of %s", invalid, SomeAgents(names))
		do = append(do, "correct the task.result of the agents whose results are invalid: their tasks end as task_timeout "+
			"(the log says what is wrong: `invalid result ignored`; docs/reference/messages.md has the fields)")
	}
	c.Advice = strings.Join(do, "; ")
	return c
}

package views

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
)

// Of tasks that wait for long, or fail because none could take them, the reasons say what would help: agents,
// slots, quota, lanes. The same words are in /health, `taskbus status` and `taskbus doctor`.

// maxCures bounds the kinds of waiting tasks for which one advice says what to do.
const maxCures = 3

// Drain returns how long it takes until what waits is assigned, and how many tasks these are: those that wait here for
// an agent that is there, at the pace of all that compete for the same agents, and then unread, in task.assign and in
// lanes, at perSecond, that of all of late, which soon after a start is too little. 0: there is no pace to go by.
func Drain(snap *coordinator.Snapshot, unread int, perSecond float64) (in time.Duration, n int) {
	n = unread
	known := true
	for i := range snap.Waits {
		w := &snap.Waits[i]
		if w.Reason != coordinator.ReasonAllAgentsAtCapacity && w.Reason != coordinator.ReasonNotClaimed {
			continue
		}
		n += w.Tasks
		if w.PerSecond > 0 {
			in = max(in, inSeconds(float64(w.Among)/w.PerSecond))
			perSecond = max(perSecond, w.PerSecond)
		} else {
			known = false
		}
	}
	switch {
	case n == 0 || !known:
		return 0, n
	case unread == 0:
		return in, n
	case perSecond <= 0:
		return 0, n
	}
	return in + inSeconds(float64(unread)/perSecond), n
}

// WaitAdvice is what to do about tasks that wait. unread wait in task.assign and in lanes; assigned are so many in a
// second. Empty: it is none of what is known here.
func WaitAdvice(snap *coordinator.Snapshot, assigned float64, unread int) string {
	var do []string
	for i := range snap.Waits {
		if w := &snap.Waits[i]; len(do) < maxCures && w.Oldest > SlowPending {
			do = append(do, cure(snap, w))
		}
	}
	if n := snap.PendingReasons[coordinator.ReasonQuotaExhausted]; n > 0 {
		do = append(do,
			fmt.Sprintf(
				"%s for quota: `taskbus quota` shows which limit is used up and when there is more; raise it in quotas.yaml, or "+
					"for a while with `taskbus quota boost`", wait(n)))
	}
	if blocked(snap) && unread > 0 && len(snap.Lanes) == 0 {
		do = append(do,
			"agents are free while tasks wait in task.assign behind those that none can take: let lanes keep them apart "+
				"(lanes in agents.yaml)")
	}
	if in, n := Drain(snap, unread, assigned); in > 0 {
		do = append(do, fmt.Sprintf("what can be assigned (%s) is in about %s, if it goes on as now", tasks(n),
			coordinator.Roughly(in)))
	}
	return strings.Join(do, "; ")
}

// blocked reports whether agents could take a task now although tasks wait.
func blocked(snap *coordinator.Snapshot) bool {
	for i := range snap.Agents {
		if snap.Agents[i].Eligibility == coordinator.Eligible {
			return len(snap.Waits) > 0
		}
	}
	return false
}

// cure returns what helps tasks of one kind.
func cure(snap *coordinator.Snapshot, w *coordinator.WaitSnapshot) string {
	what := "that require no capability"
	if len(w.Required) > 0 {
		what = "for " + strings.Join(quoted(w.Required), " and ")
	}
	waiting := fmt.Sprintf("%s %s", wait(w.Tasks), what)
	switch w.Reason {
	case coordinator.ReasonNoEligibleAgents:
		return waiting +
			", and no agent has all of that: add one to agents.yaml, or correct the task type's required_capabilities"
	case coordinator.ReasonNoAgentsOnline:
		return waiting + ", and the agents that could are away: start them (`taskbus agents`)"
	case coordinator.ReasonAgentQueueMissing:
		return waiting + ", and the queues of the agents that could do not exist: `taskbus topology apply`"
	case coordinator.ReasonNotClaimed:
		return waiting + ", and the agents that could claim their tasks and do not ask for these: see that they run and claim"
	case coordinator.ReasonAllAgentsAtCapacity:
		return waiting + capacityCure(snap, w)
	}
	return fmt.Sprintf("%s: %s", waiting, cmp.Or(w.Text, w.Reason.SuggestedAction()))
}

// capacityCure returns advice for a lack of slots. It distinguishes agents that are at their limit from those that are
// kept from work otherwise.
func capacityCure(snap *coordinator.Snapshot, w *coordinator.WaitSnapshot) string {
	slots, free, stray, online, failing, kept := 0, 0, 0, 0, 0, make(map[coordinator.Ineligibility]int)
	for _, i := range w.Able {
		a := &snap.Agents[i]
		if a.State != coordinator.AgentOnline {
			continue
		}
		online++
		if a.Eligibility.Withheld() {
			kept[a.Eligibility]++
			continue
		}
		if ejectedFromAny(a, w.Required) {
			kept[coordinator.Ejected]++
			continue
		}
		slots, free, stray = slots+a.Slots, free+a.Free, stray+a.Strays
		if len(fails(a)) > 0 {
			failing++
		}
	}
	var parts []string
	for why := coordinator.Eligible; why < coordinator.NumIneligibilities; why++ {
		if kept[why] > 0 {
			parts = append(parts, fmt.Sprint(kept[why], " ", why.Phrase()))
		}
	}
	all, are := fmt.Sprintf("all %d slots", slots-free), "are"
	if slots-free == 1 {
		all, are = "the only slot", "is"
	}
	switch {
	case stray > 0:
		return fmt.Sprintf(
			", and %d of the %d slots of the agents that could are taken by nothing that was given to them: see the check "+
				"`agents`", stray, slots)
	case failing == 1 && online == 1:
		return ", and the only agent that could fails most of its tasks: see why (`taskbus agents`: FAILED, and its log)"
	case failing == online && online > 0:
		return fmt.Sprintf(
			", and all %d agents that could fail most of their tasks: see why (`taskbus agents`: FAILED, and their logs)",
			online)
	case len(parts) == online && online > 0, slots == 0 && len(parts) > 0:
		return fmt.Sprintf(
			", and the agents that could take nothing now (%s): `taskbus agents` shows each; give them work again, or add "+
				"others", strings.Join(parts, ", "))
	case len(parts) > 0:
		return fmt.Sprintf(
			", and %s of the agents that could %s in use (besides, %s): add agents or slots (max_concurrent_tasks)", all, are,
			strings.Join(parts, ", "))
	}
	whose := "the agent that could"
	if online > 1 {
		whose = fmt.Sprintf("the %d agents that could", online)
	}
	return fmt.Sprintf(", and %s of %s %s in use: add agents or slots (max_concurrent_tasks)", all, whose, are)
}

func ejectedFromAny(a *coordinator.AgentSnapshot, required []string) bool {
	if len(required) == 0 {
		return slices.Contains(a.EjectedFrom, "")
	}
	for _, c := range required {
		if slices.Contains(a.EjectedFrom, c) {
			return true
		}
	}
	return false
}

// quoted puts names between back quotes.
func quoted(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = "`" + n + "`"
	}
	return list
}

// wait is "1 task waits", "3 tasks wait".
func wait(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return tasks(n) + " wait"
}

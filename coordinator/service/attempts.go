package service

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
)

// What became of an attempt, beside the words of coordinator.Outcome and
// coordinator.ReturnCause.
const (
	attemptQueueMissing = "queue_missing"
	attemptQueueFull    = "queue_full"
	attemptUnconfirmed  = "unconfirmed" // the session ended before the broker answered
	attemptTimedOut     = "timed_out"
	attemptWithdrawn    = "withdrawn" // the result of an earlier attempt came
)

// maxPastAttempts is how many attempts before the latest are remembered of a task.
const maxPastAttempts = 32

// pastAttempts are what a task's record knows beyond its latest attempt. Nearly all
// tasks need but one: then it is empty.
type pastAttempts struct {
	// outcome and detail of the latest attempt, so far.
	outcome, detail string
	// earlier ones. Copies of the record share it: what is in it is never changed,
	// only replaced.
	earlier []attempt
}

// attempt is one dispatch as it is remembered.
type attempt struct {
	agent      coordinator.AgentID
	dispatchID string
	number     int
	at         time.Time
	outcome    string
	detail     string
}

// latest returns the attempt that the record's own fields speak of; false when there has
// been none.
func (r *taskRecord) latest() (attempt, bool) {
	return attempt{
		agent: r.agent, dispatchID: r.dispatchID, number: r.attempt, at: r.dispatchedAt,
		outcome: r.past.outcome, detail: r.past.detail,
	}, r.agent != ""
}

// is reports whether a is the attempt of this number with this agent.
func (a *attempt) is(agent coordinator.AgentID, number int) bool {
	return a.agent == agent && a.number == number
}

// shelve makes room for another attempt.
func (r *taskRecord) shelve() {
	a, ok := r.latest()
	if !ok {
		return
	}
	earlier := append(slices.Clone(r.past.earlier), a)
	r.past = pastAttempts{earlier: earlier[max(0, len(earlier)-maxPastAttempts):]}
}

// begin notes that an attempt is being published; it may be a repetition of the
// latest.
func (r *taskRecord) begin(d *coordinator.Dispatch) {
	switch {
	case r.agent == "":
		r.heardOf(d.Tried, d.Failed, "")
	case r.agent != d.Agent || r.dispatchID != d.DispatchID:
		r.shelve()
	}
	r.past.outcome, r.past.detail, r.dispatchedAt = "", "", d.At
}

// cameBack notes why a dispatch came back. Of a task that another coordinator gave away the header names
// the agents that have had it.
func (r *taskRecord) cameBack(ev *coordinator.TaskReturned) {
	if latest, ok := r.latest(); ok {
		if latest.is(ev.Agent, ev.Attempt) && latest.outcome == "" {
			r.past.outcome = cameBackAs(ev)
		}
		return
	}
	r.heardOf(ev.Tried, ev.Failed, ev.Agent)
	r.agent, r.attempt, r.dispatchID = ev.Agent, ev.Attempt, coordinator.DispatchID(ev.Task, ev.Attempt)
	r.past.outcome = cameBackAs(ev)
}

// heardOf notes earlier attempts of which nothing is known but which agents had the task: tried, but
// for one that is known, and on which of them it failed.
func (r *taskRecord) heardOf(tried, failed []coordinator.AgentID, but coordinator.AgentID) {
	for _, agent := range tried[:min(len(tried), maxPastAttempts)] {
		if agent == but {
			continue
		}
		a := attempt{agent: agent, outcome: coordinator.EndUnknown.String()}
		if slices.Contains(failed, agent) {
			a.outcome = coordinator.OutcomeFailed.String()
		}
		r.past.earlier = append(r.past.earlier, a)
	}
}

// cameBackAs returns the outcome of an attempt that came back. What the broker had handed to the
// agent before it was taken back was in its hand, and counts as tried.
func cameBackAs(ev *coordinator.TaskReturned) string {
	return coordinator.EndOf(ev.Cause, ev.Redelivered, false).String()
}

// endedBy notes the result that ends the task. When an earlier attempt has ended it,
// that becomes the latest, and the one after it is withdrawn.
func (r *taskRecord) endedBy(result *coordinator.Result, number int) {
	latest, ok := r.latest()
	if !ok {
		r.dispatchID = result.DispatchID
	} else if !latest.is(result.Agent, number) {
		if latest.outcome == "" {
			r.past.outcome = attemptWithdrawn
		}
		r.shelve()
		r.dispatchID, r.dispatchedAt = result.DispatchID, time.Time{}
		for i := range r.past.earlier {
			if a := r.past.earlier[i]; a.is(result.Agent, number) {
				r.dispatchID, r.dispatchedAt = a.dispatchID, a.at
				r.past.earlier = slices.Delete(r.past.earlier, i, i+1) // ours alone: shelve made it
				break
			}
		}
	}
	r.past.outcome, r.past.detail = result.Outcome.String(), result.Error
}

// undelivered notes that the broker did not take a dispatch.
func (h *history) undelivered(d *coordinator.Dispatch, outcome coordinator.PublishOutcome) {
	word := attemptUnconfirmed
	switch outcome {
	case coordinator.PublishUnroutable:
		word = attemptQueueMissing
	case coordinator.PublishRejected:
		word = attemptQueueFull
	}
	h.note(d.Task.ID, d.Agent, d.Attempt, word, "")
}

// givenBack notes that an agent refuses a task, with its words.
func (h *history) givenBack(g *coordinator.GivenBack) {
	h.note(g.Result.Task, g.Result.Agent, g.Attempt, coordinator.OutcomeRejected.String(), g.Result.Error)
}

// note keeps what became of the latest attempt, if it is this one.
func (h *history) note(id coordinator.TaskID, agent coordinator.AgentID, number int, outcome, detail string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.known(coordinator.KeyOf(id))
	if r == nil {
		return
	}
	if a, ok := r.latest(); ok && a.is(agent, number) && r.completedAt.IsZero() {
		r.past.outcome, r.past.detail = outcome, detail
	}
}

// attempts renders the dispatches of a task, the first one first. Those of which no
// number is known come before the others.
func attempts(r *taskRecord) []httpapi.Attempt {
	all := slices.Clone(r.past.earlier)
	if latest, ok := r.latest(); ok {
		all = append(all, latest)
	}
	slices.SortStableFunc(all, func(a, b attempt) int { return cmp.Compare(a.number, b.number) })
	list := make([]httpapi.Attempt, len(all))
	for i, a := range all {
		list[i] = httpapi.Attempt{
			Number: a.number, Agent: string(a.agent), DispatchID: a.dispatchID, At: a.at, Outcome: a.outcome, Detail: a.detail,
		}
	}
	return list
}

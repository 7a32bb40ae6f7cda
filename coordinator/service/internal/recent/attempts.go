package recent

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// What became of an attempt, beside the words of coordinator.Outcome and
// coordinator.ReturnCause.
const (
	attemptQueueMissing = "queue_missing"
	attemptQueueFull    = "queue_full"
	attemptUnconfirmed  = "unconfirmed" // the session ended before the broker answered
	TimedOut            = "timed_out"
	attemptWithdrawn    = "withdrawn" // the result of an earlier attempt came
)

// MaxPastAttempts is how many attempts before the latest are remembered of a task.
const MaxPastAttempts = 32

// Past are what a task's record knows beyond its latest attempt. Nearly all
// tasks need but one: then it is empty.
type Past struct {
	// Outcome and detail of the latest attempt, so far.
	Outcome, detail string
	// earlier ones. Copies of the record share it: what is in it is never changed,
	// only replaced.
	earlier []view.Attempt
}

// latest returns the attempt that the record's own fields speak of; false when there has
// been none.
func (r *Record) latest() (view.Attempt, bool) {
	return view.Attempt{
		Agent: string(r.Agent), DispatchID: r.DispatchID, Number: r.Attempt, At: r.dispatchedAt,
		Outcome: r.Past.Outcome, Detail: r.Past.detail,
	}, r.Agent != ""
}

// is reports whether a is the attempt of this number with this agent.
func is(a *view.Attempt, agent coordinator.AgentID, number int) bool {
	return a.Agent == string(agent) && a.Number == number
}

// shelve makes room for another attempt.
func (r *Record) shelve() {
	a, ok := r.latest()
	if !ok {
		return
	}
	earlier := append(slices.Clone(r.Past.earlier), a)
	r.Past = Past{earlier: earlier[max(0, len(earlier)-MaxPastAttempts):]}
}

// begin notes that an attempt is being published; it may be a repetition of the
// latest.
func (r *Record) begin(d *coordinator.Dispatch) {
	switch {
	case r.Agent == "":
		r.heardOf(d.Tried, d.Failed, "")
	case r.Agent != d.Agent || r.DispatchID != d.DispatchID:
		r.shelve()
	}
	r.Past.Outcome, r.Past.detail, r.dispatchedAt = "", "", d.At
}

// cameBack notes why a dispatch came back. Of a task that another coordinator gave away the header names
// the agents that have had it.
func (r *Record) cameBack(ev *coordinator.TaskReturned) {
	if latest, ok := r.latest(); ok {
		if is(&latest, ev.Agent, ev.Attempt) && latest.Outcome == "" {
			r.Past.Outcome = cameBackAs(ev)
		}
		return
	}
	r.heardOf(ev.Tried, ev.Failed, ev.Agent)
	r.Agent, r.Attempt, r.DispatchID = ev.Agent, ev.Attempt, coordinator.DispatchID(ev.Task, ev.Attempt)
	r.Past.Outcome = cameBackAs(ev)
}

// heardOf notes earlier attempts of which nothing is known but which agents had the task: tried, but
// for one that is known, and on which of them it failed.
func (r *Record) heardOf(tried, failed []coordinator.AgentID, but coordinator.AgentID) {
	for _, agent := range tried[:min(len(tried), MaxPastAttempts)] {
		if agent == but {
			continue
		}
		a := view.Attempt{Agent: string(agent), Outcome: coordinator.EndUnknown.String()}
		if slices.Contains(failed, agent) {
			a.Outcome = coordinator.OutcomeFailed.String()
		}
		r.Past.earlier = append(r.Past.earlier, a)
	}
}

// cameBackAs returns the outcome of an attempt that came back. What the broker had handed to the
// agent before it was taken back was in its hand, and counts as tried.
func cameBackAs(ev *coordinator.TaskReturned) string {
	return coordinator.EndOf(ev.Cause, ev.Redelivered, false).String()
}

// endedBy notes the result that ends the task. When an earlier attempt has ended it,
// that becomes the latest, and the one after it is withdrawn.
func (r *Record) endedBy(result *coordinator.Result, number int) {
	latest, ok := r.latest()
	if !ok {
		r.DispatchID = result.DispatchID
	} else if !is(&latest, result.Agent, number) {
		if latest.Outcome == "" {
			r.Past.Outcome = attemptWithdrawn
		}
		r.shelve()
		r.DispatchID, r.dispatchedAt = result.DispatchID, time.Time{}
		for i := range r.Past.earlier {
			if a := r.Past.earlier[i]; is(&a, result.Agent, number) {
				r.DispatchID, r.dispatchedAt = a.DispatchID, a.At
				r.Past.earlier = slices.Delete(r.Past.earlier, i, i+1) // ours alone: shelve made it
				break
			}
		}
	}
	r.Past.Outcome, r.Past.detail = result.Outcome.String(), result.Error
}

// unpublished is what became of an attempt that the broker did not take, for all that is known.
func unpublished(outcome coordinator.PublishOutcome) string {
	switch outcome {
	case coordinator.PublishUnroutable:
		return attemptQueueMissing
	case coordinator.PublishRejected:
		return attemptQueueFull
	}
	return attemptUnconfirmed
}

// undelivered notes that the broker did not take a dispatch: unless it may have, the task waits again.
func (h *Tasks) undelivered(d *coordinator.Dispatch, outcome coordinator.PublishOutcome) {
	word := unpublished(outcome)
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.note(d.Task.ID, d.Agent, d.Attempt, word, ""); r != nil && word != attemptUnconfirmed {
		r.waitsOn()
	}
}

// waitsOn notes that the latest dispatch was not published: for all that people see it waits as before.
func (r *Record) waitsOn() {
	if r.State == Dispatching {
		r.State = Pending
	}
}

// GivenBack notes that an agent refuses a task, with its words.
func (h *Tasks) GivenBack(g *coordinator.GivenBack) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(g.Result.Task, g.Result.Agent, g.Attempt, coordinator.OutcomeRejected.String(), g.Result.Error)
}

// note keeps what became of the latest attempt, if it is this one, and returns its record; nil: it is not.
func (h *Tasks) note(id coordinator.TaskID, agent coordinator.AgentID, number int, outcome, detail string) *Record {
	r := h.known(coordinator.KeyOf(id))
	if r == nil {
		return nil
	}
	if a, ok := r.latest(); !ok || !is(&a, agent, number) || !r.CompletedAt.IsZero() {
		return nil
	}
	r.Past.Outcome, r.Past.detail = outcome, detail
	return r
}

// Attempts returns the dispatches of a task, the first one first. Those of which no
// number is known come before the others.
func Attempts(r *Record) []view.Attempt {
	all := slices.Clone(r.Past.earlier)
	if latest, ok := r.latest(); ok {
		all = append(all, latest)
	}
	slices.SortStableFunc(all, func(a, b view.Attempt) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

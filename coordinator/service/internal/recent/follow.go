package recent

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/view"
)

// Follow takes over from the journal what another coordinator has done, so that one
// that stands by, or takes over, knows the story of recent tasks. at is when the records were
// written. A session that begins anew reads records that have known effects: they
// change nothing.
func (h *Tasks) Follow(at time.Time, records []coordinator.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range records {
		switch r := r.(type) {
		case *coordinator.TaskBefore:
			h.shown(r)
		case *coordinator.Assigned:
			h.assigned(r)
		case *coordinator.Settled:
			h.settled(r)
		case *coordinator.Owed:
			h.overdue(&r.Failure, r.Task.ID)
		case *coordinator.Remembered:
			h.remembered(at, r)
		}
	}
}

// assigned notes a decision.
func (h *Tasks) assigned(r *coordinator.Assigned) {
	if known := h.known(coordinator.KeyOf(r.Task.ID)); known != nil {
		if known.Task.AcceptedAt.After(r.Task.AcceptedAt) || known.had(r) {
			return
		}
	}
	d := &coordinator.Dispatch{
		Task: r.Task, Agent: r.Agent, DispatchID: coordinator.DispatchID(r.Task, r.Attempt), Attempt: r.Attempt,
		At: r.At, Timeout: r.Timeout, Tried: r.Tried, Failed: r.Failed,
	}
	if r.Strategy != "" { // else no more is known than that it was made
		d.Decision = &coordinator.Decision{Strategy: r.Strategy, Agent: r.Agent, Eligible: r.Eligible, Fleet: r.Fleet}
	}
	h.decided(d)
}

// had reports whether the attempt is known. One that no queue took may be made once more, later.
func (r *Record) had(a *coordinator.Assigned) bool {
	known := func(e view.Attempt) bool { return is(&e, a.Agent, a.Attempt) && !a.At.After(e.At) }
	latest, given := r.latest()
	return given && known(latest) || slices.ContainsFunc(r.Past.earlier, known)
}

// settled notes that the agent's queue has the latest dispatch.
func (h *Tasks) settled(s *coordinator.Settled) {
	r := h.known(s.Key)
	if r == nil || s.Nowhere || s.Attempt == 0 || r.Attempt != s.Attempt || s.At.Before(r.waitsFrom) {
		return
	}
	r.waitedUntil(s.At)
	if r.State == Dispatching {
		r.State = Dispatched
	}
}

// overdue notes that the end of a task was not reported in time.
func (h *Tasks) overdue(f *coordinator.Failure, id coordinator.TaskID) {
	if r := h.known(coordinator.KeyOf(id)); r != nil && !r.Ended() && !f.FailedAt.Before(r.dispatchedAt) {
		r.fails(*f, true)
	}
}

// OutcomeOf are what became of the latest attempt of a task with such a fate, by its agent's word.
var OutcomeOf = map[coordinator.Fate]string{
	coordinator.FateSucceeded: coordinator.OutcomeSucceeded.String(),
	coordinator.FateGaveUp:    coordinator.OutcomeFailed.String(),
	coordinator.FateCancelled: coordinator.OutcomeCancelled.String(),
}

// remembered notes what became of a task, if it is one that is remembered or the record says which it is.
func (h *Tasks) remembered(at time.Time, m *coordinator.Remembered) {
	r := h.known(m.Key)
	if r == nil && m.Task != nil {
		r = h.waiting(m.Task)
	}
	if r == nil || at.Before(r.Task.AcceptedAt) {
		return
	}
	a, given := r.latest()
	switch {
	case m.Unpublished != coordinator.PublishConfirmed:
		// It names the attempt before; if that may have been published as well, earlier, it names the latest.
		if given && r.State == Dispatching && m.Attempt >= a.Number-1 && !m.Seen.Before(a.At) {
			r.Past.Outcome = unpublished(m.Unpublished)
			r.waitsOn()
		}
		return
	case given && m.Attempt < a.Number && (StateOf(m.Fate) == "" || !at.After(a.At)): // a later one goes on
		return
	case m.ID == "" && r.Ended():
		return // in a snapshot: only what had not been carried out yet is news
	case m.Fate == coordinator.FateForgotten:
		h.cameBack(at, r, m)
		return
	}
	overdue, latest := engine.Overdue(m), given && a.Number == m.Attempt
	stopped := m.Fate == coordinator.FateCancelled && m.Agent != "" && !overdue // so its agent has said
	if state := StateOf(m.Fate); state == "" || state == r.State {
		if m.Late != nil {
			r.saidTooLate(*m.Late, at)
		}
		return
	}
	if latest && a.Outcome == "" && (stopped || m.Fate != coordinator.FateCancelled) {
		r.Past.Outcome = OutcomeOf[m.Fate]
	}
	if m.Fate == coordinator.FateSucceeded || m.Fate == coordinator.FateGaveUp || stopped {
		if r.State == Pending {
			r.waitedUntil(at)
		}
		r.State, r.CompletedAt, r.Failure = StateOf(m.Fate), at, coordinator.Failure{}
		r.Work = m.Work
		r.wordsElsewhere()
		return
	}
	f := coordinator.Failure{Reason: m.Why, Text: m.Text, Attempts: m.Attempt, FailedAt: at, Said: m.Said}
	switch m.Fate {
	case coordinator.FateCancelled:
		f.Reason = coordinator.ReasonCancelled
	case coordinator.FateTimedOut:
		f.Reason = coordinator.ReasonTaskTimeout
	}
	if f.Text == "" {
		f.Text = "as the journal says; its text is with the coordinator that led then"
	}
	r.fails(f, overdue && latest)
}

// wordsElsewhere says where an agent's words on why it failed are: they may quote the payload, and the
// journal keeps none of them.
func (r *Record) wordsElsewhere() {
	if r.State == Failed && !r.CompletedAt.IsZero() {
		r.WorkError = "see task.result: of errors the journal keeps no text"
	}
}

// StateOf returns how a task with such a fate has ended; empty: it has not.
func StateOf(f coordinator.Fate) string {
	switch f {
	case coordinator.FateSucceeded:
		return Succeeded
	case coordinator.FateGaveUp, coordinator.FateTimedOut, coordinator.FateFailed:
		return Failed
	case coordinator.FateCancelled:
		return Cancelled
	}
	return ""
}

// cameBack notes that the latest dispatch came back, or was given up.
func (h *Tasks) cameBack(at time.Time, r *Record, m *coordinator.Remembered) {
	a, given := r.latest()
	if !given || m.Attempt != a.Number || r.Ended() || at.Before(a.At) { // made once more since
		return
	}
	if a.Outcome == "" {
		r.Past.Outcome, r.Past.detail = m.End.String(), m.Said
	}
	if r.State != Pending {
		r.State = Pending
		r.waits(at)
	}
}

// shown takes over what a snapshot says of a task; what is known of it here is newer, or the same.
func (h *Tasks) shown(b *coordinator.TaskBefore) {
	if h.known(coordinator.KeyOf(b.Task.ID)) != nil || !slices.Contains(view.TaskStates(), b.State) {
		return
	}
	r := h.record(b.Task)
	for _, a := range b.Attempts {
		r.shelve()
		r.Agent, r.Attempt, r.dispatchedAt = a.Agent, a.Number, a.At
		r.DispatchID = coordinator.DispatchID(b.Task, a.Number)
		r.Past.Outcome, r.Past.detail = a.Outcome, a.Detail
	}
	r.State, r.DecidedAt, r.waited, r.waitsFrom = b.State, b.DecidedAt, b.Waited, b.WaitsFrom
	r.CompletedAt, r.Work, r.Failure = b.CompletedAt, b.Work, b.Failure
	r.wordsElsewhere()
	if b.Strategy != "" {
		r.Decision = &coordinator.Decision{Strategy: b.Strategy, Agent: r.Agent, Eligible: b.Eligible, Fleet: b.Fleet}
	}
}

// Before yields what a snapshot says of the tasks that are remembered, the oldest first, but for those
// that no agent has had yet: the broker has their messages, and delivers them.
func (h *Tasks) Before(yield func(*coordinator.TaskBefore) bool) {
	h.mu.Lock()
	first := h.next
	h.mu.Unlock()
	for i := range h.ring {
		h.mu.Lock() // for each by itself: the loop does not wait for all of them
		r := h.ring[(first+i)%len(h.ring)]
		h.mu.Unlock()
		if r.Task != nil && (r.Agent != "" || r.Ended()) && !yield(r.before()) {
			return
		}
	}
}

func (r *Record) before() *coordinator.TaskBefore {
	b := &coordinator.TaskBefore{
		Task: r.Task, State: r.State, DecidedAt: r.DecidedAt, Waited: r.waited, WaitsFrom: r.waitsFrom,
		CompletedAt: r.CompletedAt, Work: r.Work, Failure: r.Failure,
	}
	all := r.Past.earlier
	if latest, given := r.latest(); given {
		all = append(slices.Clip(all), latest)
	}
	for _, a := range all {
		if a.Outcome != TimedOut { // an agent's words
			a.Detail = ""
		}
		b.Attempts = append(b.Attempts, coordinator.AttemptBefore{
			Agent: coordinator.AgentID(a.Agent), Number: a.Number, At: a.At, Outcome: a.Outcome, Detail: a.Detail,
		})
	}
	if d := r.Decision; d != nil {
		b.Strategy, b.Eligible, b.Fleet = d.Strategy, d.Eligible, d.Fleet
	}
	return b
}

package reading

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/nearest"
	"taskbus/coordinator/service/internal/recent"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/schemas"
)

// judgement is how the engine would decide a task now.
type judgement struct {
	decision *coordinator.Decision
	// reason for which it would wait or fail; ReasonNone when an agent would get it.
	reason coordinator.Reason
	text   string
	// waits says for what it waits although an agent may be there; empty when it does
	// not.
	waits string
	// queued is where it stands while it waits for an agent or quota; nil when it does not.
	queued *view.Queued
}

// judge asks the engine how it would decide a task now.
func (r *Reader) judge(ctx context.Context, task *coordinator.Task, away error) (j judgement, err error) {
	if away != nil {
		return j, away
	}
	err = r.inTurn(ctx, func(now time.Time, e *engine.Engine) {
		j.decision, j.reason, j.text = e.Explain(now, task)
		j.waits, _ = waitsFor(now, e, e.Waiters(now), task)
		if p, waits := e.Place(now, task); waits {
			j.queued = views.Queued(&p)
		}
	})
	if err != nil {
		return judgement{}, err
	}
	return j, nil
}

// waitsForRetry explains a task that is delayed.
func waitsForRetry(now time.Time, why string, other, same time.Time) string {
	const budget = "then when the retry budget allows (a tenth of the first dispatches plus 10 a second)"
	switch {
	case !same.After(now):
		return fmt.Sprintf("waits to be tried again: %s; %s", why, strings.TrimPrefix(budget, "then "))
	case !other.Before(same):
		return fmt.Sprintf("waits to be tried again in about %s: %s; %s", coordinator.Roughly(same.Sub(now)), why, budget)
	}
	return fmt.Sprintf(
		"waits to be tried again: %s; in about %s by an agent that has not had it, else in about %s by one that had; %s",
		why, coordinator.Roughly(other.Sub(now)), coordinator.Roughly(same.Sub(now)), budget)
}

// waitsFor says for what a task waits that is no agent; empty when it does not. ok is false when another look has to
// say it (see engine.Waiters).
func waitsFor(now time.Time, e *engine.Engine, why *engine.Waiters, task *coordinator.Task) (text string, ok bool) {
	id := task.ID
	if why, other, same, ok := e.Delayed(id); ok {
		return waitsForRetry(now, why, other, same), true
	}
	if waiting, most, closes, ok := e.Gathering(id); ok {
		return fmt.Sprintf("waits for its batch: %d of at most %d, at most %s more", waiting, most,
			coordinator.Roughly(closes.Sub(now))), true
	}
	if asked, bidders, closes, ok := e.Bidding(id); ok {
		return fmt.Sprintf("is being offered (to %d), at most %s more; bids, best first: %s", asked,
			coordinator.Roughly(closes.Sub(now)), first(bidders)), true
	}
	if agents, until, ok := e.WaitsForPreferred(id); ok {
		text, ok = why.Why(task)
		return fmt.Sprintf("waits for its preferred agents alone (%s) for at most %s more, then for any: %s", first(agents),
			coordinator.Roughly(until.Sub(now)), text), ok
	}
	if lack, ok := e.LacksQuota(task); ok {
		return "waits for quota: " + lack, true
	}
	return "", true
}

// first names up to MaxCandidates agents; "none" of none.
func first(agents []coordinator.AgentID) string {
	if len(agents) == 0 {
		return "none"
	}
	names := make([]string, 0, coordinator.MaxCandidates+1)
	for _, a := range agents[:min(len(agents), coordinator.MaxCandidates)] {
		names = append(names, string(a))
	}
	if more := len(agents) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// awaited fills in why a task waits: a question of now. Where that is not known, the record stays as it is,
// and the error says why it is not.
func (r *Reader) awaited(ctx context.Context, of *recent.Record, away error) error {
	j, err := r.judge(ctx, of.Task, away)
	if err != nil {
		return err
	}
	of.Decision, of.Failure.Text, of.Queued = j.decision, j.waits, j.queued
	return nil
}

// find returns what is remembered of a task; of one that is not among the newest any more what the duplicate
// check knows of its id.
func (r *Reader) find(ctx context.Context, id coordinator.TaskID) (recent.Record, bool) {
	if found, ok := r.Recent.Find(id); ok {
		return found, true
	}
	var m *coordinator.Remembered
	if err := r.Query(ctx, func(now time.Time, e *engine.Engine) { m = e.Known(now, id) }); err != nil || m == nil {
		return recent.Record{}, false
	}
	return byDuplicateCheck(id, m)
}

// openStates are those of tasks that have not ended.
var openStates = map[coordinator.Fate]string{
	coordinator.FateOpen: recent.Pending, coordinator.FateLaned: recent.Pending,
	coordinator.FateUnsettled:  recent.Dispatching,
	coordinator.FateDispatched: recent.Dispatched, coordinator.FateLetGo: recent.Dispatched,
}

// byDuplicateCheck returns a task of which no more is known than that; false: its id alone.
func byDuplicateCheck(id coordinator.TaskID, m *coordinator.Remembered) (recent.Record, bool) {
	r := recent.Record{Task: m.Task, State: cmp.Or(recent.StateOf(m.Fate), openStates[m.Fate]), Agent: m.Agent,
		Attempt: m.Attempt}
	if r.State == "" {
		return r, false
	}
	if r.Task == nil {
		r.Task = &coordinator.Task{ID: id, Priority: messages.PriorityUnread}
	}
	r.Failure.Text = fmt.Sprintf("its details are not kept here: they are of the newest %d tasks; "+
		"`taskbus journal show %s` has what the journal says of it", recent.Size, id)
	if m.Fate == coordinator.FateTimedOut {
		r.Failure.Reason = coordinator.ReasonTaskTimeout
	}
	if outcome := recent.OutcomeOf[m.Fate]; r.Agent != "" {
		r.Past.Outcome = outcome
	}
	return r, true
}

// Story returns what is remembered of one task and its attempts, without the reason for which it waits.
func (r *Reader) Story(ctx context.Context, id string) (view.TaskStory, bool) {
	found, ok := r.find(ctx, coordinator.TaskID(id))
	if !ok {
		return view.TaskStory{}, false
	}
	return view.TaskStory{Task: taskStatus(&found, r.Now()), Attempts: recent.Attempts(&found)}, true
}

// Task returns what is remembered of one task; for one that waits, with the
// explanation of this moment, in brief.
func (r *Reader) Task(ctx context.Context, id string, away error) (view.Task, bool) {
	found, ok := r.find(ctx, coordinator.TaskID(id))
	if !ok {
		return view.Task{}, false
	}
	if found.State == recent.Pending && found.Task.Type != "" {
		// Where it is not known why it waits, what is remembered is shown all the same.
		_ = r.awaited(ctx, &found, away)
	}
	t := taskStatus(&found, r.Now())
	if x := t.Explanation; x != nil { // Explain has the rest
		x.Candidates, x.Refusals = x.Candidates[:min(len(x.Candidates), coordinator.MaxCandidates)], nil
	}
	return t, true
}

// Explain says why a task was decided as it was, and how it would be decided now
// (see httpapi.Source).
func (r *Reader) Explain(ctx context.Context, id string, away error) (view.TaskExplanation, bool) {
	found, ok := r.find(ctx, coordinator.TaskID(id))
	if !ok {
		return view.TaskExplanation{}, false
	}
	var now *view.Prospect
	var err error
	if found.Task.Type == "" { // nothing is known of it that could be decided
	} else if found.State == recent.Pending {
		err = r.awaited(ctx, &found, away)
		found.DecidedAt = time.Time{} // what was decided before did not last
	} else if found.Failure.Reason != coordinator.ReasonInvalidMessage { // else that message said something else
		var j judgement
		if j, err = r.judge(ctx, found.Task, away); err == nil {
			p := prospect(found.Task, &j)
			now = &p
		}
	}
	unknown := ""
	if err != nil {
		unknown = err.Error()
	}
	t := taskStatus(&found, r.Now())
	if none := r.noSuchAgents(ctx, found.Task.Preferred, away); none != "" {
		t.Reason = strings.TrimPrefix(t.Reason+"; "+none, "; ")
	}
	return explanation(&t, recent.Attempts(&found), now, unknown), true
}

// explanation returns what is told of a task that is explained, beside how it would be decided now.
func explanation(t *view.Task, attempts []view.Attempt, now *view.Prospect, unknown string) view.TaskExplanation {
	return view.TaskExplanation{
		ID: t.ID, Type: t.Type, Carried: t.Carried, State: t.State, Agent: t.Agent, Attempt: t.Attempt,
		ReasonCode: t.ReasonCode, Reason: t.Reason, Error: t.Error,
		DecidedAt: t.DecidedAt, Explanation: t.Explanation, Queued: t.Queued, Attempts: attempts, Now: now,
		NowUnknown: unknown,
	}
}

// noSuchAgents names the agents that a task prefers and that do not exist; empty: all exist, or nothing is
// known of the fleet. It is no reason to refuse the task: another agent gets it.
func (r *Reader) noSuchAgents(ctx context.Context, preferred []coordinator.AgentID, away error) string {
	if len(preferred) == 0 || away != nil {
		return ""
	}
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return ""
	}
	known := make([]string, len(snap.Agents))
	for i := range snap.Agents {
		known[i] = string(snap.Agents[i].Spec.ID)
	}
	var none []string
	for _, id := range preferred {
		if !slices.Contains(known, string(id)) {
			near := nearest.DidYouMean(string(id), known)
			none = append(none, strings.TrimSuffix(fmt.Sprintf("`%s` (%s)", id, near), " ()"))
		}
	}
	if len(none) == 0 {
		return ""
	}
	return "preferred_agents names agents that do not exist: " + views.SomeAgents(none)
}

// WhatIf says how a task would be decided now (see httpapi.Source).
func (r *Reader) WhatIf(ctx context.Context, body []byte, away error) (view.Prospect, error) {
	m, refusal := r.Decoder.DecodeTaskAssign(messages.Completed(body, messages.Missing{Name: "payload", Value: "{}"},
		messages.Missing{Name: "message_type", Value: `"` + schemas.TaskAssign + `"`},
		messages.Missing{Name: "task_id", Value: `"` + supposedID + `"`}))
	if refusal != nil {
		return view.Prospect{}, &httpapi.BadTask{Text: refusal.Text}
	}
	unknown := m.Unknown
	task := m.Task(messages.Arrival{Now: r.Now()}) // the trace id is not shown
	j, err := r.judge(ctx, task, away)
	if err != nil {
		return view.Prospect{}, err
	}
	p := prospect(task, &j)
	for _, field := range unknown {
		p.Unknown = append(p.Unknown, strings.TrimSpace(field+" "+r.Decoder.Nearest(schemas.TaskAssign, field)))
	}
	return p, nil
}

// supposedID is the task id of a question that names none.
const supposedID = "whatif"

// prospect renders a judgement.
func prospect(t *coordinator.Task, j *judgement) view.Prospect {
	p := view.Prospect{ID: string(t.ID), Type: t.Type, Agent: string(j.decision.Agent),
		Explanation: views.Explanation(j.decision),
		OfferedTo:   j.decision.Offers, BidWindowMS: views.Milliseconds(j.decision.Window),
	}
	if j.reason != coordinator.ReasonNone {
		p.ReasonCode, p.Reason, p.SuggestedAction = j.reason.String(), j.text, j.reason.SuggestedAction()
		if j.decision.Strategy == "" { // it could never be served, and no agent was looked at
			p.Explanation.Text = j.text
		}
	}
	return p
}

// Tasks lists recent tasks, the newest first.
func (r *Reader) Tasks(ctx context.Context, f view.TaskFilter, away error) []view.Task {
	if f.Limit <= 0 {
		f.Limit = httpapi.DefaultTaskLimit
	}
	records := r.Recent.Recent(f.Limit, func(one *recent.Record) bool {
		return (f.State == "" || f.State == one.State) && (f.Agent == "" || f.Agent == string(one.Agent))
	})
	if away == nil {
		r.sayWaits(ctx, records)
	}
	tasks, now := make([]view.Task, len(records)), r.Now()
	for i := range records {
		tasks[i] = taskStatus(&records[i], now)
		if x := tasks[i].Explanation; x != nil {
			x.Refusals, x.Routes, x.Routing = nil, nil, nil // Explain has them
		}
	}
	return tasks
}

// sayWaits fills in for what the tasks among records wait. What keeps tasks of one kind waiting is found out once for
// all of them in a look; tasks of many kinds take several, between which the engine decides. Nothing is said of those
// that are not answered before ctx ends.
func (r *Reader) sayWaits(ctx context.Context, records []recent.Record) {
	var open []*recent.Record
	for i := range records {
		if records[i].State == recent.Pending {
			open = append(open, &records[i])
		}
	}
	for len(open) > 0 {
		var texts []string // of those that were looked at, as far as they are answered
		var next []*recent.Record
		err := r.inTurn(ctx, func(now time.Time, e *engine.Engine) { texts, next = whyWaiting(now, e, open) })
		if err != nil {
			return
		}
		for i, text := range texts {
			if text != "" {
				open[i].Failure.Text = text
			}
		}
		open = next
	}
}

// whyWaiting is one look: what it says of each, and those that the next look has to answer.
func whyWaiting(now time.Time, e *engine.Engine, open []*recent.Record) (texts []string, next []*recent.Record) {
	texts = make([]string, len(open))
	why := e.Waiters(now)
	for i, r := range open {
		text, ok := waitsFor(now, e, why, r.Task)
		if ok && text == "" {
			text, ok = why.Why(r.Task)
		}
		if ok {
			texts[i] = text
		} else {
			next = append(next, r)
		}
	}
	return texts, next
}

func taskStatus(r *recent.Record, now time.Time) view.Task {
	t := view.Task{
		ID: string(r.Task.ID), Type: r.Task.Type, Priority: priorityOf(r.Task), Carried: r.Task.Carried,
		State: r.State, Agent: string(r.Agent), DispatchID: r.DispatchID, Attempt: r.Attempt,
		AcceptedAt: r.Task.AcceptedAt, DecidedAt: r.DecidedAt, CompletedAt: r.CompletedAt,
		DurationMS: views.Milliseconds(r.WaitedBy(now)), WorkMS: views.Milliseconds(r.Work), Error: r.WorkError,
		ReasonCode: r.Failure.Reason.String(), Reason: r.Failure.Full(), Queued: r.Queued, RetryAt: r.Failure.RetryAt,
	}
	if r.Task.AcceptedAt.IsZero() { // it was refused unread
		t.DecidedAt = r.Since()
	}
	if r.State == recent.Pending { // the agent that had it has it no more: Attempts shows that
		t.Agent, t.DispatchID, t.DecidedAt, t.WorkMS = "", "", time.Time{}, 0
	}
	if r.Decision != nil {
		t.Strategy = r.Decision.Strategy
		t.Explanation = views.Explanation(r.Decision)
		if r.State == recent.Pending && r.Failure.Text != "" && r.Decision.Lacks == nil {
			t.Explanation.Text = r.Failure.Text // that an agent could have it is not why it waits
		}
	}
	return t
}

// priorityOf returns a task's priority; -1 where its message could not be read as far as that.
func priorityOf(t *coordinator.Task) int {
	if t.Priority == messages.PriorityUnread {
		return -1
	}
	return int(t.Priority)
}

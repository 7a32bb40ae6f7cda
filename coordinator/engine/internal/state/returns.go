package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/queue"
)

// LastTry is how the latest dispatch of a task came back, and the text that its agent sent, if any.
type LastTry struct {
	Agent coordinator.AgentID
	End   coordinator.AttemptEnd
	Said  string
}

// CameBefore adds to a text how the task came back, if it did.
func (t *Task) CameBefore() string {
	if t.Tries == 0 || t.Last.Agent == "" {
		return ""
	}
	return fmt.Sprintf("; %s came back, the last one as %s: %s %s", Dispatches(t.Tries), t.Last.End, t.Last.Agent,
		t.Last.End.Phrase())
}

// Flags are what the agent has reported about giving it back, as far as that is known by now.
func (l *LastTry) Flags() dedupe.Flags {
	if l.End == coordinator.EndGivenUp {
		return dedupe.Returning | dedupe.Attempted
	}
	return dedupe.Returning
}

// MaxSaid is how many bytes of the text that an agent sent are stored at most.
const MaxSaid = 256

// Said cuts the text that an agent sent.
func Said(text string) string {
	if len(text) <= MaxSaid {
		return text
	}
	return strings.ToValidUTF8(text[:MaxSaid-len("…")], "") + "…"
}

// Lists reports whether the agent, if there is any, says that it runs the task.
func (a *Agent) Lists(task coordinator.TaskID) bool {
	if a == nil {
		return false
	}
	_, listed := a.Listed[task]
	return listed
}

// StillRuns reports whether the agent that has the dispatch says that it runs it.
func (t *Task) StillRuns() bool { return t.Listed && !t.Withdrawn && !t.Returning }

// isCopy reports whether what came back has been decided again already, or ended. A return may be faster than the
// broker's answer to the dispatch.
func (s *State) isCopy(r *dedupe.Record, before *Task, ev *coordinator.TaskReturned) bool {
	switch r.Fate {
	case coordinator.FateOpen, coordinator.FateDispatched:
		return before.Stage < Dispatching || !before.isDispatch(ev)
	case coordinator.FateUnsettled: // the message behind a newer dispatch comes again, too
		return before.Attempt <= ev.Attempt && !before.isDispatch(ev)
	case coordinator.FateLetGo:
		return int(r.Attempt) != ev.Attempt || s.Fleet.Named(r.Ref) != ev.Agent
	case coordinator.FateFailed: // delivered again: it is not known whether its outcome got through
		return !ev.Redelivered && ev.Attempt <= int(r.Attempt)
	case coordinator.FateCancelled:
		return !r.Unconfirmed(ev.Redelivered)
	case coordinator.FateSucceeded:
		return true
	}
	return r.Fate.HasEnded() && ev.Attempt <= int(r.Attempt)
}

// ReturnVerdict is what a dispatch that comes back means for its task.
type ReturnVerdict uint8

const (
	GoesOn      ReturnVerdict = iota // it is decided again
	AnotherTask                      // its id is that of another task by now
	CopyOfKnown                      // its task has ended, or goes on under another dispatch
)

// JudgeReturn returns what a dispatch that comes back means; r is the record of its task's id, and may be nil.
func (s *State) JudgeReturn(r *dedupe.Record, ev *coordinator.TaskReturned) ReturnVerdict {
	switch {
	case r == nil, r.Fate == coordinator.FateWithdrawn:
		return GoesOn
	case r.Content != ev.Task.ContentHash && r.Flags&dedupe.Adopted == 0 && !r.Fate.MayComeAgain():
		return AnotherTask
	case s.isCopy(r, s.Tasks.Of(r), ev):
		return CopyOfKnown
	}
	return GoesOn
}

// isDispatch reports whether it is this dispatch of the task that came back.
func (t *Task) isDispatch(ev *coordinator.TaskReturned) bool {
	return t.Attempt == ev.Attempt && t.Agent.Spec.ID == ev.Agent
}

// NoteTry notes which agents have had the task and on which it has failed, and reports whether this try counts
// among those after which the task fails. A dispatch that was taken out of an agent's queue before the agent had it
// in hand was never tried there; one that the agent had begun, or held when it went away, has failed on it.
//
// While a session has ended in which we consumed the agent's queue, it may be this coordinator that had it in hand.
func (s *State) NoteTry(now time.Time, t *Task, ev *coordinator.TaskReturned, from *Agent, before *Task,
	flags dedupe.Flags) (counts bool) {
	t.Tried, t.Failed, t.Suspected = slices.Clone(ev.Tried), slices.Clone(ev.Failed), slices.Clone(ev.Suspected)
	t.Tries = max(ev.Tries, len(Without(ev.Tried, ev.Agent)))
	begun, gaveUp, told, again := false, flags&dedupe.Attempted != 0, flags&dedupe.Returning != 0, false
	if before != nil {
		t.Untouched, t.Suspected, t.Holdoffs = before.Untouched, before.Suspected, before.Holdoffs
	}
	if before != nil && before.Attempt != ev.Attempt {
		before = nil // another dispatch says nothing of how this one came back
	}
	if before != nil {
		begun, gaveUp, told, again = before.Begun, before.Attempted, before.Returning, slices.Contains(before.Tried, ev.Agent)
		// Of two copies the older may have come back, which knows less.
		t.Tried, t.Failed, t.Tries = With(t.Tried, before.Tried...), With(t.Failed, before.Failed...),
			max(t.Tries, before.Tries)
	}
	inHand := begun || ev.Cause == coordinator.ReturnTakenBack && ev.Redelivered && (from == nil || !from.HeldByUs)
	if ev.Cause == coordinator.ReturnTakenBack && !inHand {
		if !again {
			t.Tried = Without(t.Tried, ev.Agent)
			t.Untouched = With(t.Untouched, ev.Agent)
		}
		return false
	}
	if ev.Cause == coordinator.ReturnRejected && before != nil && before.RetryAfter > 0 {
		s.HoldOff(now, t, ev.Agent, before.RetryAfter)
		if s.HoldsOffFreely(now, t) {
			if !again {
				t.Tried = Without(t.Tried, ev.Agent)
			}
			t.Untouched = With(t.Untouched, ev.Agent)
			return false
		}
		gaveUp = false
	}
	t.Tried = With(t.Tried, ev.Agent)
	t.Tries++
	switch ev.Cause {
	case coordinator.ReturnRejected:
		if !told {
			t.GaveBack = ev.Agent
		}
		inHand = gaveUp
	case coordinator.ReturnDeliveryLimit:
		inHand = true
	}
	switch {
	case inHand && ev.Cause != coordinator.ReturnRejected:
		// What went down with others and is to be alone next must have had that chance.
		return t.lostAt(from, before, ev) || !s.MustBeAlone(t)
	case inHand:
		t.Failed = With(t.Failed, ev.Agent)
	}
	return true
}

// Dispatches counts them for people.
func Dispatches(n int) string {
	if n == 1 {
		return "1 dispatch"
	}
	return fmt.Sprintf("%d dispatches", n)
}

// Without takes an agent out of a list.
func Without(list []coordinator.AgentID, gone coordinator.AgentID) []coordinator.AgentID {
	return slices.DeleteFunc(slices.Clone(list), func(id coordinator.AgentID) bool { return id == gone })
}

// With adds agents to a list, except those that are in it already.
func With(list []coordinator.AgentID, ids ...coordinator.AgentID) []coordinator.AgentID {
	for _, id := range ids {
		if id != "" && !slices.Contains(list, id) {
			list = append(slices.Clip(list), id)
		}
	}
	return list
}

// FreeHoldoffs is how long after a task was accepted what comes back so is no try. Later it is, so that what no agent
// will ever do has an end.
const FreeHoldoffs = 30 * time.Minute

// Barred are the agents that may not have the task because they had it.
func (t *Task) Barred() []coordinator.AgentID {
	if t.WaitedForOthers {
		return t.Holdoffs.Agents()
	}
	return t.Repeats.Barred(t.Tried, t.Last.Agent, t.Holdoffs)
}

// ChooseAgain decides which of the agents that had the task may have it again: an agent
// that is there and has not had it goes first, however busy it is; then one that had it before the last.
// The task has been resolved; it must be once more.
func (s *State) ChooseAgain(t *Task) {
	switch {
	case s.AnyThere(t, t.Tried):
		t.Repeats = queue.NoRepeat
	case t.Last.Agent != "" && s.AnyThere(t, []coordinator.AgentID{t.Last.Agent}):
		t.Repeats = queue.RepeatNotLast
	default:
		t.Repeats = queue.RepeatAny
	}
}

// AnyThere reports whether an agent that can do the task, and is none of these, is there for it now or when it has
// room. Agents that have asked not to be given it yet do not count.
func (s *State) AnyThere(t *Task, but []coordinator.AgentID) bool {
	f := &s.Fleet
	barred := coordinator.SortedUnique(slices.Clone(With(but, t.Holdoffs.Agents()...)))
	out := coordinator.MergeSorted(t.Task.Excluded, barred)
	met := f.Index.Meet(criteria.Needs{Task: t.Task, Required: t.Needs.Required, Barred: out})
	able := s.Ejections.Usable(met.Set, t.Needs.Required)
	there := false
	able.Each(func(i int) {
		why := f.Causes[i]
		there = there || !why.Absent() && (why.There() || why == coordinator.KeptFree)
	})
	return there
}

func (s *State) RetryRules() queue.RetryRules {
	rules := &s.Policy.Settings
	return queue.RetryRules{Waits: rules.AssignmentTimeout, Held: rules.MaxTimeout, Seed: rules.Seed}
}

// FindsBy is until when a returned task that may be given away again from then on has to find an agent.
func (s *State) FindsBy(from time.Time, t *Task) time.Time {
	return s.Within(t, s.RetryRules().FindsHeld(from, t.Came))
}

// HoldOff notes that an agent asks for so much time before it is given the task again.
func (s *State) HoldOff(now time.Time, t *Task, agent coordinator.AgentID, asked time.Duration) {
	t.Holdoffs = t.Holdoffs.With(agent, s.RetryRules().Holdoff(now, t.Task.ID, t.Tries, asked))
}

// HoldsOffFreely reports whether what comes back so is no try yet.
func (s *State) HoldsOffFreely(now time.Time, t *Task) bool {
	return now.Sub(t.Task.AcceptedAt) < FreeHoldoffs
}

package engine

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/queue"
)

// A task that came back is tried again by an agent that has not had it, if one is there, else by the agents that
// had it, after a longer wait: what prevented an agent from running it (a rate limit, a start that takes a while)
// is rarely over in a quarter of a second. Which of the two it is, is decided when the first wait is over, and once
// more if it waits for such an agent without success.

// Back-off of a dispatch that came back, until another agent may have the task, or the same.
var (
	backoffOther = queue.Backoff{First: 250 * time.Millisecond, Factor: 2, Most: 10 * time.Second}
	backoffSame  = queue.Backoff{First: 2 * time.Second, Factor: 4, Most: time.Minute}
)

const (
	// maxRetryAfter bounds how long an agent may ask not to be given a task again: its message is held meanwhile.
	maxRetryAfter = 10 * time.Minute
	// retryPatience is the least time that a returned task has to find an agent.
	retryPatience = 10 * time.Second
)

// again says which of the agents that have had a task may have it again.
type again uint8

const (
	notAgain     again = iota // none: there is one that has not had it
	notTheLast                // all but the one that had it last
	anybodyAgain              // all
)

// lastTry is how the latest dispatch of a task came back, and the text that its agent sent, if any.
type lastTry struct {
	agent coordinator.AgentID
	end   coordinator.AttemptEnd
	said  string
}

// cameBefore adds to a text how the task came back, if it did.
func (t *openTask) cameBefore() string {
	if t.tries == 0 || t.last.agent == "" {
		return ""
	}
	return fmt.Sprintf("; %s came back, the last one as %s: %s %s", dispatches(t.tries), t.last.end, t.last.agent,
		t.last.end.Phrase())
}

// word returns what the agent has reported about giving it back, as far as that is known by now.
func (l *lastTry) word() dedupe.Flags {
	if l.end == coordinator.EndGivenUp {
		return dedupe.Returning | dedupe.Attempted
	}
	return dedupe.Returning
}

// maxSaid is how many bytes of the text that an agent sent are stored at most.
const maxSaid = 256

// said cuts the text that an agent sent.
func said(words string) string {
	if len(words) <= maxSaid {
		return words
	}
	end := maxSaid - len("…")
	for end > 0 && !utf8.RuneStart(words[end]) {
		end--
	}
	return words[:end] + "…"
}

// barred are the agents that may not have the task because they had it.
func (t *openTask) barred() []coordinator.AgentID {
	switch {
	case t.vain, t.again == anybodyAgain:
		return t.askedBy()
	case t.again == notTheLast:
		return with(t.askedBy(), t.last.agent)
	}
	return with(t.tried, t.askedBy()...)
}

// chooseAgain decides which of the agents that had the task may have it again: an agent
// that is there and has not had it goes first, however busy it is; then one that had it before the last.
// The task has been resolved; it must be once more.
func (e *Engine) chooseAgain(t *openTask) {
	switch {
	case e.anyThere(t, t.tried):
		t.again = notAgain
	case t.last.agent != "" && e.anyThere(t, []coordinator.AgentID{t.last.agent}):
		t.again = notTheLast
	default:
		t.again = anybodyAgain
	}
}

// anyThere reports whether an agent that can do the task, and is none of these, is there for it now or when it has
// room. Agents that have asked not to be given it yet do not count.
func (e *Engine) anyThere(t *openTask, but []coordinator.AgentID) bool {
	f := &e.fleet
	out := coordinator.MergeSorted(t.task.Excluded, coordinator.SortedUnique(slices.Clone(with(but, t.askedBy()...))))
	met := f.Index.Meet(criteria.Needs{Task: t.task, Required: t.needs.required, Barred: out})
	able := e.ejections.Usable(met.Set, t.needs.required)
	there := false
	able.Each(func(i int) {
		why := f.Causes[i]
		there = there || !why.Absent() && (why.There() || why == coordinator.KeptFree)
	})
	return there
}

// asksUntil is until when an agent that asks for time is not given the task again: no earlier than any would be.
func (e *Engine) asksUntil(now time.Time, t *openTask, retryAfter time.Duration) time.Time {
	longest := maxRetryAfter
	if held := e.policy.Settings.MaxTimeout; held > 0 {
		longest = min(longest, held/2) // the other half is for finding an agent
	}
	return now.Add(max(min(retryAfter, longest), backoffSame.After(t.task.ID, t.tries, e.policy.Settings.Seed)))
}

// delay lets a returned task wait for its back-off, then for the budget if an agent has refused it, then for
// an agent: for that as long as any other task may wait, but at least retryPatience, and all in all no
// longer than its message may be held.
func (e *Engine) delay(now time.Time, t *openTask) {
	s := &e.policy.Settings
	due := now.Add(backoffOther.After(t.task.ID, t.tries, s.Seed))
	t.mayAgain = later(t.mayAgain, now.Add(backoffSame.After(t.task.ID, t.tries, s.Seed)))
	t.state = stateDelayed
	e.pending.count[t.task.Priority]++
	t.until = later(e.findsBy(due, t), e.heldUntil(t, e.findsBy(t.mayAgain, t)))
	if t.refused && !t.exhausted {
		t.until = later(t.until, now.Add(s.MaxTimeout))
	}
	t.until = e.within(t, t.until)
	e.timers.schedule(&t.retry, due)
	e.timers.schedule(&t.expire, t.until)
}

// findsBy is until when a returned task that may be given away again from then on has to find an agent.
func (e *Engine) findsBy(from time.Time, t *openTask) time.Time {
	return e.within(t, from.Add(max(e.policy.Settings.AssignmentTimeout, retryPatience)))
}

// heldUntil is the given time, but no later than the message of the task may be held.
func (e *Engine) heldUntil(t *openTask, until time.Time) time.Time {
	if longest := e.policy.Settings.MaxTimeout; longest > 0 {
		return earlier(until, t.came.Add(longest))
	}
	return until
}

// retryDue queues a returned task whose back-off is over for the retry budget. A task that its agent did not take
// in time, or lost, is placed at once: what a dead agent leaves behind is no storm of refusals, and is spread by
// the accept timeout.
func (e *Engine) retryDue(now time.Time, t *openTask) {
	if t.exhausted {
		e.leavePending(t)
		e.failExhausted(now, t)
		return
	}
	reason, _ := e.resolve(t)
	if at := e.asksAll(now, t); reason == coordinator.ReasonNone && !at.IsZero() {
		e.waitUntil(t, at)
		return
	}
	if reason == coordinator.ReasonNone && now.Before(t.mayAgain) && !e.anyThere(t, t.tried) {
		e.timers.schedule(&t.retry, t.mayAgain)
		return
	}
	if !t.refused {
		e.leavePending(t)
		e.admit(now, t)
		return
	}
	e.retries.Add(t)
	e.retryAffordable(now)
}

// triesAgain has a task that has waited for an agent that has not had it go to any, if one that
// had it is there; false, and nothing has happened: none is, or the task is none of these.
func (e *Engine) triesAgain(now time.Time, t *openTask) bool {
	until := e.heldUntil(t, e.findsBy(now, t))
	if t.vain || len(t.barred()) == 0 || now.Before(t.mayAgain) || !until.After(now) || !e.anyThere(t, nil) {
		return false
	}
	e.leavePending(t)
	t.vain, t.until = true, until
	e.admit(now, t)
	return true
}

// retryAffordable places returned tasks while the budget lasts.
func (e *Engine) retryAffordable(now time.Time) {
	for {
		t, wait, ok := e.retries.Next(now, func(t *openTask) bool { return t.state == stateDelayed })
		if !ok {
			if wait > 0 {
				e.timers.schedule(&e.retryEnd, now.Add(wait))
			}
			return
		}
		e.leavePending(t)
		t.until = earlier(t.until, e.findsBy(now, t))
		e.admit(now, t)
	}
}

package queue

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/hash"
)

// Backoff is how long a task waits that came back: First, multiplied by Factor with each try, Most at most.
type Backoff struct {
	First  time.Duration
	Factor time.Duration
	Most   time.Duration
}

// After returns how long to wait after so many tries: between half and all of min(Most, First × Factor^(tries−1)),
// by a hash of task and attempt, so that what came back together does not go out together.
func (b Backoff) After(id coordinator.TaskID, tries int, seed uint64) time.Duration {
	d := b.First
	for i := 1; i < tries && d < b.Most; i++ {
		d *= b.Factor
	}
	d = min(d, b.Most)
	h := hash.Of(coordinator.AttemptID(id, tries+1), seed)
	return d/2 + time.Duration(h%uint64(d/2+1))
}

// Back-off of a dispatch that came back, until another agent may have the task, or the same.
var (
	BackoffOther = Backoff{First: 250 * time.Millisecond, Factor: 2, Most: 10 * time.Second}
	BackoffSame  = Backoff{First: 2 * time.Second, Factor: 4, Most: time.Minute}
)

const (
	// maxHoldoff bounds how long an agent may ask not to be given a task again: its message is held meanwhile.
	maxHoldoff = 10 * time.Minute
	// leastToFind is the least time that a returned task has to find an agent.
	leastToFind = 10 * time.Second
	// sharedLimit is how many agents have to ask for time until the task waits.
	sharedLimit = 2
)

// RetryRules are what a policy says of tasks that came back.
type RetryRules struct {
	Waits time.Duration // how long any task may wait for an agent
	Held  time.Duration // how long a message may be held; 0: for as long as it takes
	Seed  uint64
}

// FindsBy returns until when a task that may be given away again from then on has to find an agent: that takes as long
// as any task may wait, but at least 10 s.
func (r RetryRules) FindsBy(from time.Time) time.Time { return from.Add(max(r.Waits, leastToFind)) }

// FindsHeld is FindsBy, but no later than a message may be held that came then.
func (r RetryRules) FindsHeld(from, came time.Time) time.Time {
	if held := came.Add(r.Held); r.Held > 0 && held.Before(r.FindsBy(from)) {
		return held
	}
	return r.FindsBy(from)
}

// Holdoff returns until when an agent is not given the task again that asked for so much time: no earlier than any
// would be after so many tries.
func (r RetryRules) Holdoff(now time.Time, id coordinator.TaskID, tries int, asked time.Duration) time.Time {
	if asked = min(asked, maxHoldoff); r.Held > 0 {
		asked = min(asked, r.Held/2) // the other half is for finding an agent
	}
	return now.Add(max(asked, BackoffSame.After(id, tries, r.Seed)))
}

// Delay returns from when on another agent may have the task, from when on the same may, which is not before former,
// and until when it waits: for the back-off, then for the budget if an agent has refused it, then for an agent.
func (r RetryRules) Delay(
	now time.Time, id coordinator.TaskID, tries int, came, former time.Time, refused bool,
) (other, same, until time.Time) {
	other = now.Add(BackoffOther.After(id, tries, r.Seed))
	same = coordinator.Later(former, now.Add(BackoffSame.After(id, tries, r.Seed)))
	until = coordinator.Later(r.FindsBy(other), r.FindsHeld(same, came))
	if refused {
		until = coordinator.Later(until, now.Add(r.Held))
	}
	return other, same, until
}

// Holdoffs are the agents that have asked not to be given one task before a time (retry_after_ms), the latest last. A
// list is never changed: the next dispatch of the task may share it.
type Holdoffs []holdoff

type holdoff struct {
	agent coordinator.AgentID
	until time.Time
}

// With returns the list with what an agent asks for, in the place of what it asked for before.
func (h Holdoffs) With(agent coordinator.AgentID, until time.Time) Holdoffs {
	others := slices.DeleteFunc(slices.Clone(h), func(o holdoff) bool { return o.agent == agent })
	return append(others, holdoff{agent, until})
}

// After returns those that are not over yet.
func (h Holdoffs) After(now time.Time) Holdoffs {
	return slices.DeleteFunc(slices.Clone(h), func(o holdoff) bool { return !o.until.After(now) })
}

// Agents returns which agents they are.
func (h Holdoffs) Agents() (ids []coordinator.AgentID) {
	for _, o := range h {
		ids = append(ids, o.agent)
	}
	return ids
}

// First returns when the first is over; zero: there is none.
func (h Holdoffs) First() (at time.Time) {
	for _, o := range h {
		if at.IsZero() || o.until.Before(at) {
			at = o.until
		}
	}
	return at
}

// Shared reports whether so many agents ask for time that the limit is likely that of all: the task waits for the first
// of their times instead of asking each in turn.
func (h Holdoffs) Shared() bool { return len(h) >= sharedLimit }

// Repeats says which of the agents that have had a task may have it again.
type Repeats uint8

const (
	NoRepeat      Repeats = iota // none: there is one that has not had it
	RepeatNotLast                // all but the one that had it last
	RepeatAny                    // all
)

// Barred returns the agents that may not have a task now that these have had, the last of them last: those, unless
// they may have it again, and those that have asked for time.
func (r Repeats) Barred(tried []coordinator.AgentID, last coordinator.AgentID, h Holdoffs) []coordinator.AgentID {
	switch r {
	case RepeatNotLast:
		return append(h.Agents(), last)
	case RepeatAny:
		return h.Agents()
	}
	return append(slices.Clip(tried), h.Agents()...)
}

package fleet

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// Task is the kernel's task, which embeds a Dispatch.
type Task interface {
	comparable
	Dispatched() *Dispatch
	// Try returns the id of the task, and the number of its dispatch, from 1.
	Try() (coordinator.TaskID, int)
}

// Dispatch is what an agent's account knows of one of its dispatches. The kernel sets what neither Take, Cover nor
// Give does.
type Dispatch struct {
	Settled  time.Time // when it was confirmed, or may have arrived; zero: on its way
	Unlisted time.Time // when the latest report was made that should have listed it and did not; zero: none
	place    int32     // on its agent's account, from 1; 0: it is not there
	Covered  bool      // the agent's reports speak for it: it is among their active tasks
	Listed   bool      // the latest report lists it
	Apart    bool      // it has its agent to itself
	// Over: its outcome has been announced. It is still on its way, or its agent has not reported yet that it has
	// stopped: it only counts against the agent's slots.
	Over bool
}

// On reports whether the dispatch is on its agent's account.
func (d *Dispatch) On() bool { return d.place > 0 }

// At returns its place there, from 0; below 0 when it is not there.
func (d *Dispatch) At() int { return int(d.place) - 1 }

// Dispatched returns the dispatch itself, for what embeds it.
func (d *Dispatch) Dispatched() *Dispatch { return d }

// Account is an agent and the dispatches that it has or may have, including those of which only its own reports can
// show that it has let go of them.
type Account[T Task] struct {
	Agent
	Open []T
}

// Core returns the account itself, for what embeds it.
func (a *Account[T]) Core() *Account[T] { return a }

// slots is how the slots of an agent are counted between two reports.
//
// A report's active_tasks speak for every dispatch that it covers. A dispatch that no report covers yet counts on
// top. A task that the agent has reported as ended since its latest report is taken off again: that is the credit.
type slots struct {
	Uncovered int // dispatches on the account that count on top of its active tasks
	// Alone counts those dispatches that must have the agent to themselves; Lost those in its hand that have come back
	// since it was given the latest.
	Alone, Lost int
	// Listed is what the latest report says it runs, when it says so; nil when not.
	Listed map[coordinator.TaskID]struct{}
	// Recent are the ends received since the latest report, or so shortly before it that it may not include them;
	// Credit is how many of them that report counts as active.
	Recent []Ending
	Credit int
	// Knows is the time up to which the latest report includes ends, by the agent's clock: when it was made.
	Knows time.Time
}

// Ending is a task that an agent has reported as ended.
type Ending struct {
	Task    coordinator.TaskID
	Stamp   time.Time // by the agent's clock
	Settled time.Time // when its dispatch was confirmed, by our clock; zero: long before
	Heard   time.Time // when its report arrived, by our clock
	// credited: the latest report counts it as active.
	credited bool
}

// Take counts a dispatch against the agent before it is published; alone: the task must have its agent to itself.
func (f *Fleet[T, A]) Take(m A, t T, alone bool) {
	a, d := m.Core(), t.Dispatched()
	f.Assignments++
	a.Open = append(a.Open, t)
	d.place, d.Covered = int32(len(a.Open)), false
	a.Uncovered++
	a.Lost = 0
	if d.Apart = alone && d.place == 1; d.Apart { // one that is resumed may have company: the policy was another
		a.Alone++
	}
	if a.Number >= 0 {
		f.Views[a.Number].LastAssigned = f.Assignments
	}
	f.Refresh(m)
}

// Cover notes that the agent's reports speak for the dispatch from now on.
func (f *Fleet[T, A]) Cover(m A, t T) {
	if d := t.Dispatched(); !d.Covered && d.place > 0 {
		d.Covered = true
		m.Core().Uncovered--
		f.Refresh(m)
	}
}

// Give takes a dispatch off the account. The caller refreshes the agent, since it may change more of it.
func (a *Account[T]) Give(t T) {
	d, last := t.Dispatched(), len(a.Open)-1
	var none T
	a.Open[d.place-1] = a.Open[last]
	a.Open[last].Dispatched().place = d.place
	a.Open[last] = none
	a.Open = a.Open[:last]
	d.place = 0
	if d.Apart {
		a.Alone--
	}
	if !d.Covered {
		a.Uncovered--
	}
}

// giveOver takes the dispatches off the account that are over, and not on their way.
func (a *Account[T]) giveOver() {
	for i := 0; i < len(a.Open); {
		if d := a.Open[i].Dispatched(); d.Over && !d.Settled.IsZero() {
			a.Give(a.Open[i])
			continue
		}
		i++
	}
}

// Find returns a dispatch of the task on the agent's account, of any attempt when that is 0; nil when it is not there.
func (a *Account[T]) Find(task coordinator.TaskID, attempt int) (found T) {
	for _, t := range a.Open {
		if id, n := t.Try(); id == task && (attempt == 0 || attempt == n) {
			return t
		}
	}
	return found
}

// Leased returns the number of dispatches that are not known to have ended.
func (a *Account[T]) Leased() int {
	n := 0
	for _, t := range a.Open {
		if !t.Dispatched().Over {
			n++
		}
	}
	return n
}

// works reports whether work is expected from the agent's queue.
func (a *Account[T]) works() bool { return a.InFlight() > 0 || len(a.Open) > 0 }

// Finished credits the end of a dispatch that is on the agent's account, if the latest report counts it as active.
func (a *Agent) Finished(now time.Time, d *Dispatch, r *coordinator.Result) {
	settled := d.Settled
	if settled.IsZero() {
		settled = now // it was faster than the broker's answer
	}
	a.Note(Ending{Task: r.Task, Stamp: a.Stamp(now, r), Settled: settled, Heard: now}, d.Covered)
}

// Stamp returns when the agent reported the end, by its own clock: not later than now by
// that clock, whatever the result says, or it would be credited for ever.
func (a *Agent) Stamp(now time.Time, r *coordinator.Result) time.Time {
	if latest := now.Add(-a.Clock.Offset); a.Clock.Known && latest.Before(r.Timestamp) {
		return latest
	}
	return r.Timestamp
}

// Note remembers an end until a report is known to have been made after it.
func (a *Agent) Note(end Ending, covered bool) {
	if end.credited = covered && a.CountsStill(&end); end.credited {
		a.Credit++
	}
	a.Recent = append(a.Recent, end)
}

// outlive forgets the ends received two health intervals before a report that arrives now: it was made after
// them. Otherwise a timestamp that is further behind with each report would have every end kept for good; if a
// report is longer on its way, only credit is lost, until the next. Unless it replaces the latest
// report, the ends that this one counts as active are kept.
func (a *Agent) outlive(now time.Time, replaces bool) {
	if len(a.Recent) == 0 { // as with most reports
		return
	}
	before := now.Add(-2 * a.Spec.HealthCheckInterval)
	a.Recent = slices.DeleteFunc(a.Recent, func(end Ending) bool {
		return (replaces || !end.credited) && !end.Heard.After(before)
	})
}

// CountsStill reports whether the latest report was made before the end and, where
// it says what the agent runs, lists the task.
func (a *Agent) CountsStill(end *Ending) bool {
	if end.Stamp.Before(a.Knows) {
		return false
	}
	if a.Listed == nil {
		return true
	}
	_, listed := a.Listed[end.Task]
	return listed
}

// list takes over what the agent says it runs.
func (a *Agent) list(ids []coordinator.TaskID) {
	if ids == nil {
		a.Listed = nil
		return
	}
	if a.Listed == nil {
		a.Listed = make(map[coordinator.TaskID]struct{}, len(ids))
	}
	clear(a.Listed)
	for _, id := range ids {
		a.Listed[id] = struct{}{}
	}
}

// recount counts again which of the recent ends the latest report counts as active; made is when that was made.
func (a *Agent) recount(made time.Time) {
	if a.Credit = 0; len(a.Recent) == 0 {
		return
	}
	exact := a.Listed != nil
	a.Recent = slices.DeleteFunc(a.Recent, func(end Ending) bool { return end.Stamp.Before(a.Knows) })
	for i := range a.Recent {
		end := &a.Recent[i]
		_, listed := a.Listed[end.Task]
		end.credited = exact && listed || !exact && !made.IsZero() && end.Settled.Before(made)
		if end.credited {
			a.Credit++
		}
	}
}

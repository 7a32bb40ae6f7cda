package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// account is what an agent has of ours: how its slots are counted between two
// reports.
//
// A report's active_tasks speak for every dispatch that it covers. A dispatch
// that no report covers yet counts on top. A task whose end the agent has told
// since its latest report is taken off again: that is the credit.
type account struct {
	// open are the dispatches that it has or may have, and those of which only its
	// own reports can tell that it has let go of them; uncovered of them count on
	// top of its active tasks.
	open      []*openTask
	uncovered int
	// alone counts those of open that must have the agent to themselves; lost the dispatches in
	// its hand that have come back since it was given the latest.
	alone, lost int
	// listed is what the latest report says it runs, when it says so; nil when not.
	listed map[coordinator.TaskID]struct{}
	// recent are the ends told since the latest report, or so short a time before it that it may not
	// know of them; credit how many of them that report counts as active.
	recent []ending
	credit int
	// knows is up to when the latest report knows of ends, by the agent's clock: when it
	// was made.
	knows time.Time
}

// ending is a task whose end an agent has told.
type ending struct {
	task    coordinator.TaskID
	stamp   time.Time // by the agent's clock
	settled time.Time // when its dispatch was confirmed, by ours; zero: long before
	heard   time.Time // when it was told, by ours
	// credited: the latest report counts it as active.
	credited bool
}

// reserve counts a dispatch against the agent before it is published.
func (f *fleet) reserve(a *agent, t *openTask) {
	f.assignments++
	t.agent, t.place, t.covered = a, len(a.open), false
	a.open = append(a.open, t)
	a.uncovered++
	a.lost = 0
	if t.apart = t.alone && t.place == 0; t.apart { // one that is resumed may have company: the policy was another
		a.alone++
	}
	if a.number >= 0 {
		f.views[a.number].LastAssigned = f.assignments
	}
	f.refresh(a)
}

// cover notes that the agent's reports speak for the dispatch from now on.
func (f *fleet) cover(t *openTask) {
	if !t.covered && t.place >= 0 {
		t.covered = true
		t.agent.uncovered--
		f.refresh(t.agent)
	}
}

// remove takes a dispatch off its agent's account.
func (f *fleet) remove(t *openTask) {
	a := t.agent
	last := len(a.open) - 1
	a.open[t.place] = a.open[last]
	a.open[t.place].place = t.place
	a.open[last] = nil
	a.open = a.open[:last]
	t.place = -1
	if t.apart {
		a.alone--
	}
	if !t.covered {
		a.uncovered--
	}
}

// find gives a dispatch of the task on the agent's account, of any attempt when
// that is 0; nil when it is not there.
func (a *agent) find(task coordinator.TaskID, attempt int) *openTask {
	for _, t := range a.open {
		if t.task.ID == task && (attempt == 0 || attempt == t.attempt) {
			return t
		}
	}
	return nil
}

// leased counts the dispatches whose end is not known.
func (a *agent) leased() int {
	n := 0
	for _, t := range a.open {
		if !t.over {
			n++
		}
	}
	return n
}

// finished credits the end of a dispatch that is on the agent's account, if the
// latest report counts it as active.
func (a *agent) finished(now time.Time, t *openTask, r *coordinator.Result) {
	settled := t.settled
	if settled.IsZero() {
		settled = now // it was faster than the broker's answer
	}
	a.note(ending{task: r.Task, stamp: a.stamp(now, r), settled: settled, heard: now}, t.covered)
}

// finishedPast credits the end of a dispatch that is not open any more: one that
// only the agent could free its slot of, one that was let go because a report had
// covered it, or one that the agent said it runs although it is nobody's.
func (e *Engine) finishedPast(now time.Time, a *agent, r *coordinator.Result, attempt int, letGo bool) {
	end := ending{task: r.Task, stamp: a.stamp(now, r), heard: now}
	_, listed := a.listed[r.Task]
	known := slices.ContainsFunc(a.recent, func(e ending) bool { return e.task == r.Task })
	switch t := a.find(r.Task, attempt); {
	case t != nil:
		a.finished(now, t, r)
		e.discharge(t)
	case letGo, listed && !known && a.countsStill(&end):
		a.note(end, true)
	}
	e.fleet.refresh(a)
}

// stamp is when the agent told the end, by its own clock: not later than now by
// that clock, whatever the result says, or it would be credited for ever.
func (a *agent) stamp(now time.Time, r *coordinator.Result) time.Time {
	if latest := now.Add(-a.clock.offset); a.clock.known && latest.Before(r.Timestamp) {
		return latest
	}
	return r.Timestamp
}

// note remembers an end until a report is known to have been made after it.
func (a *agent) note(end ending, covered bool) {
	if end.credited = covered && a.countsStill(&end); end.credited {
		a.credit++
	}
	a.recent = append(a.recent, end)
}

// outlive forgets the ends told two health intervals before a report that comes now: it was made after
// them. Else a timestamp that is further behind with each report would have every end kept for good; of a
// report that is longer on its way nothing is lost but credit, until the next. Unless it replaces the latest
// report, the ends that this one counts as active are kept.
func (a *agent) outlive(now time.Time, replaces bool) {
	before := now.Add(-2 * a.spec.HealthCheckInterval)
	a.recent = slices.DeleteFunc(a.recent, func(end ending) bool {
		return (replaces || !end.credited) && !end.heard.After(before)
	})
}

// countsStill tells whether the latest report was made before the end and, where
// it says what the agent runs, lists the task.
func (a *agent) countsStill(end *ending) bool {
	if end.stamp.Before(a.knows) {
		return false
	}
	if a.listed == nil {
		return true
	}
	_, listed := a.listed[end.task]
	return listed
}

// mayLetGo tells whether nobody will say how the dispatch ended, and nothing else
// needs it.
func (e *Engine) mayLetGo(t *openTask) bool {
	return !e.following && t.state == stateLeased && !t.agent.tracked && len(t.tried) == 0 && !t.apart && !t.over &&
		!t.unanswered
}

// audit is done with every report: what it covers, what it has begun, what it has
// let go of, and which ends told before it arrived it does not know of yet. made
// is when it was made, by our clock; zero when that is not known.
func (e *Engine) audit(now time.Time, a *agent, made time.Time) {
	exact := a.listed != nil
	for i := 0; i < len(a.open); {
		t := a.open[i]
		arrivedBefore := !t.settled.IsZero() && !made.IsZero() && t.settled.Before(made)
		_, listed := a.listed[t.task.ID]
		switch {
		case exact && t.over && t.state == stateLeased && (listed || arrivedBefore),
			!exact && t.over && arrivedBefore:
			e.fleet.remove(t) // its reports speak for it
			continue
		case exact && listed:
			e.fleet.cover(t)
			if !t.listed {
				e.renew(t)
			}
			if t.withdrawn && t.state == stateLeased && !t.returning {
				e.withdraw(t, t.cancelReason, 0) // it cannot have heard, or does not heed
			}
		case !exact && arrivedBefore && (e.mayLetGo(t) || e.hasDoneAlone(t, made)):
			e.letGo(t)
			continue
		case !exact && arrivedBefore:
			e.fleet.cover(t)
		case exact && arrivedBefore:
			t.unlisted = made
		}
		t.listed = listed
		i++
	}
	a.recent = slices.DeleteFunc(a.recent, func(end ending) bool { return end.stamp.Before(a.knows) })
	a.credit = 0
	for i := range a.recent {
		end := &a.recent[i]
		_, listed := a.listed[end.task]
		end.credited = exact && listed || !exact && !made.IsZero() && end.settled.Before(made)
		if end.credited {
			a.credit++
		}
	}
}

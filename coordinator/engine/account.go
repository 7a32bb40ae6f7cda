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
	// listed is what the latest report says it runs, when it says so; nil when not.
	listed map[coordinator.TaskID]struct{}
	// recent are the ends told since the latest report, credit how many of them that
	// report counts as active.
	recent []ending
	credit int
}

// ending is a task whose end an agent has told.
type ending struct {
	task    coordinator.TaskID
	stamp   time.Time // by the agent's clock
	settled time.Time // when its dispatch was confirmed, by ours; zero: long before
}

// reserve counts a dispatch against the agent before it is published.
func (f *fleet) reserve(a *agent, t *openTask) {
	f.assignments++
	t.agent, t.place, t.covered = a, len(a.open), false
	a.open = append(a.open, t)
	a.uncovered++
	f.views[a.number].LastAssigned = f.assignments
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
	if !t.covered {
		a.uncovered--
	}
}

// find gives a dispatch on the agent's account, nil when it is not there.
func (a *agent) find(dispatchID string) *openTask {
	for _, t := range a.open {
		if t.dispatchID == dispatchID {
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
func (a *agent) finished(now time.Time, t *openTask, stamp time.Time) {
	settled := t.settled
	if settled.IsZero() {
		settled = now // it was faster than the broker's answer
	}
	a.recent = append(a.recent, ending{t.task.ID, stamp, settled})
	if t.covered && a.countsStill(t.task.ID, stamp) {
		a.credit++
	}
}

// finishedLetGo does the same for a dispatch that was let go, because a report
// had covered it.
func (a *agent) finishedLetGo(task coordinator.TaskID, stamp time.Time) {
	a.recent = append(a.recent, ending{task: task, stamp: stamp})
	if a.countsStill(task, stamp) {
		a.credit++
	}
}

// finishedListed does the same for a dispatch that is on nobody's account any
// more, if the agent said that it runs it.
func (a *agent) finishedListed(r *coordinator.Result) {
	_, listed := a.listed[r.Task]
	known := slices.ContainsFunc(a.recent, func(e ending) bool { return e.task == r.Task })
	if listed && !known && a.countsStill(r.Task, r.Timestamp) {
		a.recent = append(a.recent, ending{task: r.Task, stamp: r.Timestamp})
		a.credit++
	}
}

// countsStill tells whether the latest report was made before the end and, where
// it says what the agent runs, lists the task.
func (a *agent) countsStill(task coordinator.TaskID, stamp time.Time) bool {
	if stamp.Before(a.report.Timestamp) {
		return false
	}
	if a.listed == nil {
		return true
	}
	_, listed := a.listed[task]
	return listed
}

// mayLetGo tells whether nobody will say how the dispatch ended, and nothing else
// needs it.
func (e *Engine) mayLetGo(t *openTask) bool {
	return t.state == stateLeased && !t.agent.tracked && len(t.tried) == 0 && !t.over && !t.unanswered
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
				e.renew(now, t)
			}
		case !exact && arrivedBefore && e.mayLetGo(t):
			e.letGo(t)
			continue
		case !exact && arrivedBefore:
			e.fleet.cover(t)
		}
		t.listed = listed
		i++
	}
	a.recent = slices.DeleteFunc(a.recent, func(end ending) bool { return end.stamp.Before(a.report.Timestamp) })
	a.credit = 0
	for _, end := range a.recent {
		_, listed := a.listed[end.task]
		if exact && listed || !exact && !made.IsZero() && end.settled.Before(made) {
			a.credit++
		}
	}
}

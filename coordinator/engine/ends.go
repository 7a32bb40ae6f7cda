package engine

import (
	"time"

	"taskbus/coordinator"
)

// An end may have to be told again, and a result may come for a dispatch of which nothing but
// the record of its id is left. What is told then is to be as whole as the first time: the tasks
// of the latest dispatches that were let go of are kept a while longer.

const (
	// maxEnds bounds them: more than can be under way to the broker at once.
	maxEnds = 8192
	// endsTold is how old those may be that a snapshot has: whoever reads the results anew does
	// not begin that far back, but where the broker was away, and no snapshot was written.
	endsTold = time.Minute
)

// recentEnds are those tasks, by their keys.
type recentEnds struct {
	tasks map[coordinator.TaskKey]endedTask
	ring  []coordinator.TaskKey // each once, in the order in which they came
	next  int                   // where the next goes once the ring is full
}

type endedTask struct {
	task *coordinator.Task
	at   time.Time // of its latest result; zero: shortly before the end of a term
}

func newRecentEnds() recentEnds {
	return recentEnds{tasks: make(map[coordinator.TaskKey]endedTask)}
}

// keep takes in a task; of one id the latest stays.
func (r *recentEnds) keep(now time.Time, key coordinator.TaskKey, t *coordinator.Task) {
	_, known := r.tasks[key]
	r.tasks[key] = endedTask{t, now}
	switch {
	case known:
	case len(r.ring) < maxEnds:
		r.ring = append(r.ring, key)
	default:
		delete(r.tasks, r.ring[r.next])
		r.ring[r.next] = key
		r.next = (r.next + 1) % maxEnds
	}
}

// heard notes that a result of the task has come once more: the next leader may read that
// one, too.
func (r *recentEnds) heard(now time.Time, key coordinator.TaskKey) {
	if end, known := r.tasks[key]; known {
		r.tasks[key] = endedTask{end.task, now}
	}
}

// of is what a task was accepted with; nil when that is not known any more.
func (r *recentEnds) of(key coordinator.TaskKey) *coordinator.Task { return r.tasks[key].task }

// succeeded notes that a term has ended, of which the latest record is of that time: what was told
// shortly before by its clock, which may be another, is young to whoever leads next.
func (r *recentEnds) succeeded(at time.Time) {
	for key, end := range r.tasks { // order does not matter: each by itself
		if at.Sub(end.at) < endsTold {
			r.tasks[key] = endedTask{end.task, time.Time{}}
		}
	}
}

// lead has what is young so be as of now.
func (r *recentEnds) lead(now time.Time) {
	for key, end := range r.tasks { // likewise
		if end.at.IsZero() {
			r.tasks[key] = endedTask{end.task, now}
		}
	}
}

// endsLate is what a task was accepted with whose end comes after its dispatch was let go of. A snapshot
// may have been without that: whoever reads the result once more has it from the record.
func (e *Engine) endsLate(now time.Time, key coordinator.TaskKey) *coordinator.Task {
	end, known := e.ends.tasks[key]
	if known && now.Sub(end.at) >= endsTold {
		e.record(&coordinator.EndedBefore{Task: end.task})
	}
	e.ends.heard(now, key)
	return end.task
}

// isForgotten tells whether nobody knows whether the task's dispatch has arrived: its agent may tell of it
// however late.
func (e *Engine) isForgotten(key coordinator.TaskKey) bool {
	r := e.dedupe.Peek(key)
	return r != nil && r.Fate == coordinator.FateForgotten
}

// imageEnds is what whoever reads the latest results again is to know of their tasks.
func (e *Engine) imageEnds(m *Image) {
	r := &e.ends
	for i := range r.ring {
		key := r.ring[(r.next+i)%len(r.ring)]
		if _, waits := m.last[key]; waits {
			continue // it is there, see imageLeases
		}
		if end := r.tasks[key]; end.at.IsZero() || m.at.Sub(end.at) < endsTold || e.isForgotten(key) {
			m.others = append(m.others, &coordinator.EndedBefore{Task: end.task})
		}
	}
}

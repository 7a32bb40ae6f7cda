package engine

import (
	"slices"

	"taskbus/coordinator"
)

// owed are the failures that no delivery stands behind: of tasks whose agent has not
// told in time how they ended. The broker would not remind us of them, so they are
// told again in every session until the shell says that the world knows.
type owed struct {
	fails []*coordinator.Fail // in the order in which they came
}

// owe tells of such a failure.
func (e *Engine) owe(f *coordinator.Fail) {
	e.owed.fails = append(e.owed.fails, f)
	e.record(&coordinator.Owed{Task: f.Task, Failure: f.Failure})
	if e.connected {
		e.emit(f)
	}
}

// paid hears that the world knows of the failure.
func (e *Engine) paid(id coordinator.TaskID) {
	if e.owed.drop(coordinator.KeyOf(id)) {
		e.record(&coordinator.Paid{Key: coordinator.KeyOf(id)})
	}
}

// drop takes the oldest failure of a task off; false when there is none.
func (o *owed) drop(key coordinator.TaskKey) bool {
	i := slices.IndexFunc(o.fails, func(f *coordinator.Fail) bool { return coordinator.KeyOf(f.Task.ID) == key })
	if i < 0 {
		return false
	}
	o.fails = slices.Delete(o.fails, i, i+1)
	return true
}

// payOwed tells, in a new session, what the one before may not have got through.
func (e *Engine) payOwed() {
	for _, f := range e.owed.fails {
		e.emit(f)
	}
}

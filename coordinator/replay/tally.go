package replay

import (
	"maps"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
)

// tally counts what becomes of the tasks that came in the recording; those that had
// come before are not counted. It sees the same of what truly happened and of a
// model: the engine's inputs and effects.
type tally struct {
	tasks map[coordinator.TaskID]*counted
	types map[string]*typeTally
}

// counted is one task.
type counted struct {
	of         *typeTally
	came       time.Time
	dispatched bool
	ended      bool
}

// typeTally is what is counted of one task type.
type typeTally struct {
	tasks, succeeded, failed, cancelled, cameBack int
	refused                                       map[coordinator.Reason]int
	given                                         map[coordinator.AgentID]int
	waits, totals                                 []float64 // seconds
}

func newTally() *tally {
	return &tally{tasks: make(map[coordinator.TaskID]*counted), types: make(map[string]*typeTally)}
}

// watch sees one input and its effects.
func (t *tally) watch(at time.Time, ev coordinator.Event, effects []coordinator.Effect) {
	switch ev := ev.(type) {
	case coordinator.TaskReceived:
		t.came(at, ev.Task)
	case coordinator.TaskReturned:
		t.came(at, ev.Task).of.cameBack++
	}
	for _, effect := range effects {
		switch f := effect.(type) {
		case *coordinator.Dispatch:
			t.dispatched(at, f)
		case *coordinator.Fail:
			if c := t.ending(f.Task.ID); c != nil && f.Failure.Reason != coordinator.ReasonDuplicateTask {
				c.ended = true
				c.of.refused[f.Failure.Reason]++
			}
		case *coordinator.Completed:
			t.completed(at, &f.Result)
		}
	}
}

// came counts a task when it comes for the first time.
func (t *tally) came(at time.Time, task *coordinator.Task) *counted {
	c := t.tasks[task.ID]
	if c == nil {
		of := t.types[task.Type]
		if of == nil {
			of = &typeTally{refused: make(map[coordinator.Reason]int), given: make(map[coordinator.AgentID]int)}
			t.types[task.Type] = of
		}
		of.tasks++
		c = &counted{of: of, came: at}
		t.tasks[task.ID] = c
	}
	return c
}

// ending is the task of that id, if it is counted and has not ended.
func (t *tally) ending(id coordinator.TaskID) *counted {
	if c := t.tasks[id]; c != nil && !c.ended {
		return c
	}
	return nil
}

func (t *tally) dispatched(at time.Time, f *coordinator.Dispatch) {
	c := t.tasks[f.Task.ID]
	if c == nil {
		return
	}
	c.of.given[f.Agent]++
	if !c.dispatched {
		c.dispatched = true
		c.of.waits = append(c.of.waits, at.Sub(c.came).Seconds())
	}
}

func (t *tally) completed(at time.Time, r *coordinator.Result) {
	c := t.ending(r.Task)
	if c == nil {
		return
	}
	c.ended = true
	switch r.Outcome {
	case coordinator.OutcomeSucceeded:
		c.of.succeeded++
		c.of.totals = append(c.of.totals, at.Sub(c.came).Seconds())
	case coordinator.OutcomeCancelled:
		c.of.cancelled++
	default:
		c.of.failed++
	}
}

// result is what is reported of the type. It sorts what was measured.
func (t *typeTally) result() Result {
	slices.Sort(t.waits)
	slices.Sort(t.totals)
	r := Result{
		Tasks: t.tasks, Succeeded: t.succeeded, Failed: t.failed, Cancelled: t.cancelled, CameBack: t.cameBack,
		WaitP50: quantile(t.waits, 0.5), WaitP99: quantile(t.waits, 0.99),
		TotalP50: quantile(t.totals, 0.5), TotalP99: quantile(t.totals, 0.99),
	}
	for _, reason := range slices.Sorted(maps.Keys(t.refused)) {
		n := t.refused[reason]
		r.Refused += n
		r.Reasons = append(r.Reasons, ReasonCount{reason.String(), n})
	}
	r.Open = r.Tasks - r.Succeeded - r.Failed - r.Cancelled - r.Refused
	return r
}

// quantile of sorted values: the smallest that at least the share q of them does not
// exceed; 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

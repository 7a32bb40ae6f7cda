package engine

import (
	"time"

	"taskbus/coordinator"
)

// standings is how well the agents do with one task's type, by their numbers.
type standings struct {
	agents []*agent
}

// standings looks up what is known for a task that has been resolved.
func (e *Engine) standings(*openTask) standings { return standings{agents: e.fleet.agents} }

// of is the standing of agent i.
func (s standings) of(i int, _ uint64) coordinator.Standing {
	if spec := &s.agents[i].spec; spec.SuccessStated {
		return coordinator.Standing{Success: spec.SuccessRate}
	}
	return coordinator.Standing{Success: 0.9}
}

// reference is how many seconds a task of the type takes on average; 0: not known.
func (s standings) reference() float64 { return 0 }

// draws tells whether success rates are draws for this task.
func (s standings) draws() bool { return false }

// freeIn is when the first slot of a full agent is expected to be free; 0 when
// nobody can tell.
func (e *Engine) freeIn(now time.Time, a *agent) time.Duration { return 0 }

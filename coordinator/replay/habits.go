package replay

import (
	"strconv"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/hash"
)

// borrowed is how many tasks the others' tasks of a type are worth beside an agent's
// own: with one task of its own an agent's next ends like one of the others' in three
// of four cases, with thirty in one of eleven.
const borrowed = 3

// source is where the ending of a modelled dispatch comes from.
type source uint8

const (
	asRecorded source = iota
	itsOwn            // another task of the type on the same agent
	ofOthers          // a task of the type on another agent
	ofAnyType
	numSources = iota
)

// habits are how tasks end on agents, as was recorded.
type habits struct {
	own   map[pair][]*ending // by agent and type
	typed map[string][]*ending
	all   []*ending
	pace  map[coordinator.AgentID]float64 // its times as multiples of the fleet's
}

func (f *facts) habits() *habits {
	h := &habits{own: make(map[pair][]*ending), typed: make(map[string][]*ending),
		pace: make(map[coordinator.AgentID]float64)}
	seconds, count := make(map[string]float64), make(map[string]float64)
	var sum, n float64
	for _, d := range f.made {
		if d.end == nil || d.end.manner >= unfinished {
			continue
		}
		kind := d.task.Type
		h.own[pair{d.agent, kind}] = append(h.own[pair{d.agent, kind}], d.end)
		h.typed[kind] = append(h.typed[kind], d.end)
		h.all = append(h.all, d.end)
		if d.end.manner == succeeded { // an agent that fails at once is not fast
			seconds[kind] += d.end.after.Seconds()
			count[kind]++
			sum += d.end.after.Seconds()
			n++
		}
	}
	if n == 0 || sum == 0 {
		return h
	}
	took, expected := make(map[coordinator.AgentID]float64), make(map[coordinator.AgentID]float64)
	for _, d := range f.made {
		if d.end != nil && d.end.manner == succeeded {
			took[d.agent] += d.end.after.Seconds()
			expected[d.agent] += seconds[d.task.Type] / count[d.task.Type]
		}
	}
	mean := borrowed * sum / n // an agent that has done little is taken to be like the others
	for id, s := range took {
		h.pace[id] = (s + mean) / (expected[id] + mean)
	}
	return h
}

// paceOf is 1 for an agent of which nothing is known.
func (h *habits) paceOf(id coordinator.AgentID) float64 {
	if p, known := h.pace[id]; known {
		return p
	}
	return 1
}

// ending draws how a task ends on an agent that truly never had it. A task and an
// agent always draw the same.
func (h *habits) ending(task *coordinator.Task, agent coordinator.AgentID, attempt int) (ending, source) {
	text := string(task.ID) + "\x00" + string(agent) + "\x00" + strconv.Itoa(attempt)
	own := h.own[pair{agent, task.Type}]
	n := float64(len(own))
	if hash.Unit(hash.Of(text, 1))*(n+borrowed) < n {
		return *own[pick(text, len(own))], itsOwn
	}
	pool, from := h.typed[task.Type], ofOthers
	if len(pool) == 0 {
		pool, from = h.all, ofAnyType
	}
	e := *pool[pick(text, len(pool))]
	if e.agent == agent {
		return e, min(from, itsOwn)
	}
	scale := h.paceOf(agent) / h.paceOf(e.agent)
	e.after, e.work = scaled(e.after, scale), scaled(e.work, scale)
	return e, from
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// pick draws one of n.
func pick(text string, n int) int {
	return min(int(hash.Unit(hash.Of(text, 2))*float64(n)), n-1)
}

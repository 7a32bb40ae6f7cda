package engine

import (
	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// serials number agents from 1, so that the record of a task id need not hold its agent's. Its
// zero value knows none.
type serials struct {
	of   map[coordinator.AgentID]uint32
	ids  []coordinator.AgentID // by serial; empty: it is free
	free []uint32
	// sweepAt is with how many agents those are looked for of which no record tells any more.
	sweepAt int
}

// leastSerials are known before any is looked for that could be forgotten.
const leastSerials = 4096

// serial stands for an agent's id; 0 for none.
func (s *serials) serial(id coordinator.AgentID) uint32 {
	if id == "" {
		return 0
	}
	if n := s.of[id]; n != 0 {
		return n
	}
	if s.of == nil {
		s.of, s.ids, s.sweepAt = make(map[coordinator.AgentID]uint32), make([]coordinator.AgentID, 1), leastSerials
	}
	n := uint32(len(s.ids))
	if last := len(s.free) - 1; last >= 0 {
		n, s.free = s.free[last], s.free[:last]
		s.ids[n] = id
	} else {
		s.ids = append(s.ids, id)
	}
	s.of[id] = n
	return n
}

// named is the agent of a serial; empty for 0.
func (s *serials) named(serial uint32) coordinator.AgentID {
	if serial == 0 {
		return ""
	}
	return s.ids[serial]
}

// forgetAgents frees the serials of agents that have left and of which no record tells any more,
// when there are twice as many as the last time. An agent may have a name of its own for every
// time that it starts.
func (e *Engine) forgetAgents() {
	s := &e.fleet.serials
	if s.of == nil || len(s.of) < s.sweepAt {
		return
	}
	used := agentset.New(len(s.ids))
	for _, a := range e.fleet.byID { // order does not matter: it is a set
		used.Add(int(a.serial))
	}
	for _, a := range e.fleet.left {
		used.Add(int(a.serial))
	}
	for r := range e.dedupe.Latest() {
		if !r.Fate.IsOpen() {
			used.Add(int(r.Ref))
		}
	}
	for _, t := range e.tasks.all {
		if t != nil && t.agent != nil {
			used.Add(int(t.agent.serial))
		}
	}
	for _, t := range e.held {
		if t.agent != nil {
			used.Add(int(t.agent.serial))
		}
	}
	for n := 1; n < len(s.ids); n++ {
		if id := s.ids[n]; id != "" && !used.Has(n) {
			delete(s.of, id)
			s.ids[n], s.free = "", append(s.free, uint32(n))
		}
	}
	s.sweepAt = max(leastSerials, 2*len(s.of))
}

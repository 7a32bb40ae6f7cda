package fleet

import (
	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// Serials number agents from 1, so that the record of a task id need not hold its agent's. Its zero value knows none.
type Serials struct {
	of   map[coordinator.AgentID]uint32
	ids  []coordinator.AgentID // by serial; empty: it is free
	free []uint32
	// sweepAt is the number of agents at which those are looked for that no record names any more.
	sweepAt int
}

// LeastSerials are known before any is looked for that could be forgotten.
const LeastSerials = 4096

// SerialOf returns what stands for an agent's id; 0 for none.
func (s *Serials) SerialOf(id coordinator.AgentID) uint32 {
	if id == "" {
		return 0
	}
	if n := s.of[id]; n != 0 {
		return n
	}
	if s.of == nil {
		s.of, s.ids, s.sweepAt = make(map[coordinator.AgentID]uint32), make([]coordinator.AgentID, 1), LeastSerials
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

// Named returns the agent of a serial; empty for 0.
func (s *Serials) Named(serial uint32) coordinator.AgentID {
	if serial == 0 {
		return ""
	}
	return s.ids[serial]
}

// Sweeps reports whether serials that stand for nothing any more are to be looked for: there are twice as many as the
// last time.
func (s *Serials) Sweeps() bool { return s.of != nil && len(s.of) >= s.sweepAt }

// Names returns the agents by serial; empty: it is free. The slice must not be changed.
func (s *Serials) Names() []coordinator.AgentID { return s.ids }

// Sweep frees the serials that are not used.
func (s *Serials) Sweep(used agentset.Set) {
	for n := 1; n < len(s.ids); n++ {
		if id := s.ids[n]; id != "" && !used.Has(n) {
			delete(s.of, id)
			s.ids[n], s.free = "", append(s.free, uint32(n))
		}
	}
	s.sweepAt = max(LeastSerials, 2*len(s.of))
}

package engine

import "taskbus/coordinator/agentset"

// forgetAgents frees the serials of agents that have left and of which no record tells any more,
// when there are twice as many as the last time. An agent may have a name of its own for every
// time that it starts.
func (e *Engine) forgetAgents() {
	s := &e.fleet.Serials
	if !s.Sweeps() {
		return
	}
	used := agentset.New(len(s.Names()))
	for _, a := range e.fleet.ByID { // order does not matter: it is a set
		used.Add(int(a.Serial))
	}
	for _, a := range e.fleet.Left {
		used.Add(int(a.Serial))
	}
	for r := range e.dedupe.Latest() {
		if !r.Fate.IsOpen() {
			used.Add(int(r.Ref))
		}
	}
	for _, t := range e.tasks.all {
		if t != nil && t.agent != nil {
			used.Add(int(t.agent.Serial))
		}
	}
	for _, t := range e.held {
		if t.agent != nil {
			used.Add(int(t.agent.Serial))
		}
	}
	s.Sweep(used)
}

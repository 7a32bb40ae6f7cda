package simulator

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// lookEvery is how often the shell looks at the queues that the engine watches,
// lookMost how many at once.
const (
	lookEvery = time.Second
	lookMost  = 256
)

// join has an agent come for the first time.
func (w *world) join(index int32) error {
	a := &w.agents[index]
	g := &w.scenario.Fleet[a.group]
	// Its further heartbeats are spread over the interval, as those of agents that
	// were started by hand are.
	phase := Draw(w.seed, drawPhase, uint64(index), 0)
	w.moments.Add(w.now+nanoseconds(phase*g.Heartbeat.Seconds()), moment{momentBeat, index, a.life})
	return w.come(index)
}

// come has an agent be there, with its first heartbeat.
func (w *world) come(index int32) error {
	a := &w.agents[index]
	g := &w.scenario.Fleet[a.group]
	w.account(a)
	a.up = true
	if g.MTBF > 0 {
		u := Draw(w.seed, drawCrash, uint64(index), uint64(a.life))
		w.moments.Add(w.now+nanoseconds(exponential(g.MTBF.Seconds(), u)), moment{momentCrash, index, a.life})
	}
	w.take(index)
	w.recount(index)
	return w.apply(w.report(a, g))
}

// beat sends an agent's heartbeat, unless it is lost, and schedules the next.
func (w *world) beat(index int32, life uint32) error {
	a := &w.agents[index]
	if a.life != life {
		return nil
	}
	g := &w.scenario.Fleet[a.group]
	w.moments.Add(w.now+int64(g.Heartbeat), moment{momentBeat, index, life})
	a.beats++
	silent := slices.ContainsFunc(g.Silent, func(s Window) bool { return s.contains(time.Duration(w.now)) })
	if silent || g.Loss > 0 && Draw(w.seed, drawLoss, uint64(index), a.beats) < g.Loss {
		return nil
	}
	return w.apply(w.report(a, g))
}

// report is what the agent says of itself.
func (w *world) report(a *agent, g *Group) coordinator.AgentReported {
	most, active := g.advertised(w.variant), a.inLine()
	r := coordinator.AgentReport{
		Agent: a.id, Status: coordinator.StatusReady, Load: min(1, float64(active)/float64(most)),
		Active: active, Available: max(0, most-active), MaxConcurrent: most,
		Timestamp: epoch.Add(time.Duration(w.now)),
	}
	if g.BusyWhenFull && r.Available == 0 {
		r.Status = coordinator.StatusBusy
	}
	if w.reports(a) == ReportFull {
		r.ActiveTasks = make([]coordinator.TaskID, 0, active)
		for _, line := range [...][]int32{a.running, a.queue} {
			for _, number := range line {
				r.ActiveTasks = append(r.ActiveTasks, w.tasks.at(number).task.ID)
			}
		}
	}
	return coordinator.AgentReported{Report: r, Live: true}
}

// crash ends an agent without a word. What it had in hand goes back to the head of
// its queue, or to the coordinator where the time to accept it is over: a broker
// does not deliver such a message again.
func (w *world) crash(index int32, life uint32) error {
	a := &w.agents[index]
	if a.life != life {
		return nil
	}
	g := &w.scenario.Fleet[a.group]
	w.account(a)
	a.up = false
	a.life++
	u := Draw(w.seed, drawRestart, uint64(index), uint64(a.life))
	w.moments.Add(w.now+nanoseconds(exponential(g.MTTR.Seconds(), u)), moment{momentRestart, index, a.life})
	var late []int32
	lost := a.running
	a.running = nil
	for _, number := range lost {
		t := w.tasks.at(number)
		t.place = inQueue
		t.life++
		w.tally.waiting(t.kind, +1)
		if deadline := t.queued + int64(g.AcceptTimeout); deadline > w.now {
			w.moments.Add(deadline, moment{momentExpiry, number, t.life})
		} else {
			late = append(late, number)
		}
	}
	a.queue = slices.Concat(lost, a.queue)
	w.recount(index)
	for _, number := range late {
		if err := w.giveBack(number, coordinator.ReturnExpired, true); err != nil {
			return err
		}
	}
	if !a.takenBack {
		return nil
	}
	return w.takeBack(index)
}

// restart has a crashed agent come back.
func (w *world) restart(index int32) error {
	a := &w.agents[index]
	a.life++
	w.moments.Add(w.now+int64(w.scenario.Fleet[a.group].Heartbeat), moment{momentBeat, index, a.life})
	return w.come(index)
}

// look says to the engine what the broker knows of the queues it watches.
func (w *world) look() error {
	w.moments.Add(w.now+int64(lookEvery), moment{momentLook, 0, 0})
	for _, q := range w.engine.Watched(epoch.Add(time.Duration(w.now)), lookMost) {
		a := &w.agents[w.byID[q.Agent]]
		seen := coordinator.QueueSeen{Agent: q.Agent, Ready: len(a.queue)}
		if a.up {
			seen.Consumers = 1
		}
		if err := w.apply(seen); err != nil {
			return err
		}
	}
	return nil
}

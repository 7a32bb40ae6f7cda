package engine

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
)

// agent is what the engine knows of one agent. It survives a change of policy
// as long as the new policy still lists the agent.
type agent struct {
	spec   coordinator.AgentSpec
	number int // place in the fleet, -1 when the policy no longer lists it

	state    coordinator.AgentState
	report   coordinator.AgentReport // the newest accepted
	heard    time.Time               // when that one arrived; zero: never
	clock    clockOffset
	open     []openDispatch // own dispatches that no report has covered, oldest first
	assigned uint64         // confirmed dispatches

	queueMissing bool
	queueFull    bool
	askedAt      time.Time // when the shell was last asked for the queue; zero: never

	stale, recheck, cool timer
}

// openDispatch is a dispatch that counts against the agent until a report that
// is newer than its confirm speaks for it.
type openDispatch struct {
	dispatchID string
	settled    time.Time // when it was confirmed (or may have arrived); zero: on its way
}

func (d openDispatch) hasArrived() bool { return !d.settled.IsZero() }

// fleet is all agents of the policy, with the indexes that make a choice cheap.
type fleet struct {
	agents []*agent                // sorted by id
	views  []coordinator.AgentView // views[i] is what strategies see of agents[i]
	byID   map[coordinator.AgentID]*agent
	// left holds agents that the policy dropped while dispatches were on their
	// way to them: when it lists one again, those must still count.
	left map[coordinator.AgentID]*agent
	// ready holds the agents that could take some task right now.
	ready bitset
	// offering holds, for each capability, the agents that have it.
	offering map[string]bitset
	// assignments numbers the dispatches, for "least recently assigned".
	assignments uint64
	settings    coordinator.Settings
}

// adopt replaces the fleet by the policy's agents. What is known of an agent
// that stays is kept, whatever the order in which they are listed; the timers of
// one that goes are cancelled. The caller sees to the staleness of those who stay.
func (f *fleet) adopt(p *coordinator.Policy, t *timers) {
	old, left := f.byID, f.left
	lastAssigned := make(map[coordinator.AgentID]uint64, len(f.views))
	for _, v := range f.views {
		lastAssigned[v.ID] = v.LastAssigned
	}
	n := len(p.Agents)
	f.settings = p.Settings
	f.agents = make([]*agent, n)
	f.views = make([]coordinator.AgentView, n)
	f.byID = make(map[coordinator.AgentID]*agent, n)
	f.ready = newBitset(n)
	f.offering = make(map[string]bitset)
	f.left = make(map[coordinator.AgentID]*agent)
	specs := slices.SortedFunc(slices.Values(p.Agents), func(a, b coordinator.AgentSpec) int { return cmp.Compare(a.ID, b.ID) })
	for i, spec := range specs {
		a := old[spec.ID]
		if a == nil {
			a = rejoin(left[spec.ID])
		} else if a.spec.Queue != spec.Queue {
			a.queueMissing, a.queueFull = false, false // said of another queue
		}
		a.spec, a.number = spec, i
		f.agents[i], f.byID[spec.ID] = a, a
		f.views[i].LastAssigned = lastAssigned[spec.ID]
		for _, c := range spec.Capabilities {
			if f.offering[c] == nil {
				f.offering[c] = newBitset(n)
			}
			f.offering[c].set(i)
		}
		f.refresh(a)
	}
	for id, a := range left { // order does not matter: it is a copy
		if a.onItsWay() && f.byID[id] == nil {
			f.left[id] = a
		}
	}
	for id, a := range old { // order does not matter: cancelling commutes
		if f.byID[id] == nil {
			a.number = -1
			t.cancel(&a.stale)
			t.cancel(&a.recheck)
			t.cancel(&a.cool)
			if a.onItsWay() {
				f.left[id] = a
			}
		}
	}
}

// rejoin makes an agent of which nothing is known but, if it was in the fleet
// before, the dispatches still on their way to it. For those that had arrived,
// the report that it must send before it is ready will speak.
func rejoin(before *agent) *agent {
	a := before
	if a == nil {
		a = &agent{}
	}
	*a = agent{open: slices.DeleteFunc(a.open, openDispatch.hasArrived)}
	a.stale = newTimer(dutyStale, nil, a)
	a.recheck = newTimer(dutyRecheck, nil, a)
	a.cool = newTimer(dutyCool, nil, a)
	return a
}

// onItsWay reports whether any dispatch to the agent is not settled.
func (a *agent) onItsWay() bool {
	return slices.ContainsFunc(a.open, func(d openDispatch) bool { return !d.hasArrived() })
}

// capable gives the agents that have every capability and are not barred.
func (f *fleet) capable(required []string, barred []coordinator.AgentID) bitset {
	set := newBitset(len(f.agents))
	for i := range f.agents {
		set.set(i)
	}
	for _, c := range required {
		offering := f.offering[c]
		if offering == nil {
			return newBitset(len(f.agents))
		}
		for i := range set {
			set[i] &= offering[i]
		}
	}
	for _, id := range barred {
		if a := f.byID[id]; a != nil {
			set.clear(a.number)
		}
	}
	return set
}

// inFlight is what the agent reported as running plus the dispatches that no
// report speaks for.
func (a *agent) inFlight() int { return a.report.Active + len(a.open) }

// maximum is how many tasks the agent may have: a report may lower the
// configured number, never raise it.
func (a *agent) maximum() int {
	if m := a.report.MaxConcurrent; m > 0 {
		return min(m, a.spec.MaxConcurrent)
	}
	return a.spec.MaxConcurrent
}

// free is how many more tasks the agent can take: bounded by the configured
// maximum and by what it said was available, less the dispatches since.
func (a *agent) free() int {
	return max(0, min(a.maximum()-a.inFlight(), a.report.Available-len(a.open)))
}

// load is what strategies compare: the reported load or the share of slots in
// use, whichever is larger, so that own dispatches count at once.
func (a *agent) load() float64 {
	return min(1, max(a.report.Load, float64(a.inFlight())/float64(a.maximum())))
}

// eligibility tests everything that does not depend on the task, in the order of
// the constants of coordinator.Ineligibility.
func (f *fleet) eligibility(a *agent) coordinator.Ineligibility {
	switch a.state {
	case coordinator.AgentNeverSeen:
		return coordinator.NotSeen
	case coordinator.AgentOffline:
		return coordinator.WentOffline
	case coordinator.AgentStale:
		return coordinator.WentStale
	}
	switch {
	case a.report.Status == coordinator.StatusBusy && !f.settings.BusyIsEligible:
		return coordinator.NotReady
	case a.free() == 0:
		return coordinator.Full
	case a.report.Load >= f.settings.MaxLoad:
		return coordinator.Overloaded
	case a.queueMissing:
		return coordinator.QueueMissing
	case a.queueFull:
		return coordinator.QueueFull
	}
	return coordinator.Eligible
}

// refresh recomputes what strategies see of the agent and whether it is ready.
// It must follow every change to an agent; one that has left the fleet is none
// of its business.
func (f *fleet) refresh(a *agent) {
	if a.number < 0 {
		return
	}
	v := &f.views[a.number]
	v.ID = a.spec.ID
	v.Load = a.load()
	v.InFlight = a.inFlight()
	v.Max = a.maximum()
	v.Free = a.free()
	v.Rank = a.spec.Rank
	v.Capabilities = len(a.spec.Capabilities)
	if f.eligibility(a) == coordinator.Eligible {
		f.ready.set(a.number)
	} else {
		f.ready.clear(a.number)
	}
}

// reserve counts a dispatch against the agent before it is published.
func (f *fleet) reserve(a *agent, dispatchID string) {
	f.assignments++
	a.open = append(a.open, openDispatch{dispatchID: dispatchID})
	f.views[a.number].LastAssigned = f.assignments
	f.refresh(a)
}

// arrived notes that the dispatch is in the agent's queue, or may be.
func (a *agent) arrived(dispatchID string, now time.Time) {
	if i := a.find(dispatchID); i >= 0 {
		a.open[i].settled = now
	}
}

// find gives the place of a dispatch on the agent's account, -1 when it is not
// there. The newest counts: a task that came again as if new has the dispatch id
// of its former life, which may still be there.
func (a *agent) find(dispatchID string) int {
	for i := len(a.open) - 1; i >= 0; i-- {
		if a.open[i].dispatchID == dispatchID {
			return i
		}
	}
	return -1
}

// release takes a dispatch off the agent's account; it did not reach the agent,
// or came back from it. A dispatch that a report has covered is not there any
// more, and nothing changes.
func (f *fleet) release(a *agent, dispatchID string) {
	if i := a.find(dispatchID); i >= 0 {
		a.open = slices.Delete(a.open, i, i+1)
		f.refresh(a)
	}
}

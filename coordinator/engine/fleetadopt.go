package engine

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/criteria"
)

// How a fleet takes over another configuration.

// adopt replaces the fleet by these agents. What is known of an agent that stays
// is kept, whatever the order in which they are listed; the timers of one that
// goes are cancelled. The caller sees to the staleness of those who stay and to
// the dispatches of those who have left.
func (f *fleet) adopt(specs []coordinator.AgentSpec, settings coordinator.Settings, t *timers) {
	old, left := f.byID, f.left
	lastAssigned := make(map[coordinator.AgentID]uint64, len(f.views))
	for _, v := range f.views {
		lastAssigned[v.ID] = v.LastAssigned
	}
	n := len(specs)
	f.settings, f.maxCost, f.stated = settings, 0, nil
	f.agents, f.was = make([]*agent, n), make([]int, n)
	f.views = make([]coordinator.AgentView, n)
	f.byID = make(map[coordinator.AgentID]*agent, n)
	f.byQueue = make(map[string]*agent, n)
	f.vacant, f.present, f.kept = agentset.New(n), agentset.New(n), nil
	f.causes, f.tally = make([]coordinator.Ineligibility, n), [coordinator.NumIneligibilities]int{}
	for why := range f.byCause {
		f.byCause[why] = agentset.New(n)
	}
	f.ready = f.byCause[coordinator.Eligible]
	f.left = make(map[coordinator.AgentID]*agent)
	specs = slices.SortedFunc(slices.Values(specs),
		func(a, b coordinator.AgentSpec) int { return cmp.Compare(a.ID, b.ID) })
	f.index = criteria.NewFleet(specs)
	for i, spec := range specs {
		a := old[spec.ID]
		f.was[i] = -1
		if a != nil {
			f.was[i] = a.number
		} else {
			a = rejoin(left[spec.ID])
		}
		if f.was[i] >= 0 && a.spec.Queue != spec.Queue {
			a.queueMissing, a.queueFull, a.askedAt = false, false, time.Time{} // said of another queue
			a.hadConsumer, a.seenConsumer, a.unattended = false, false, false
			a.missedAt, a.consumedTold = time.Time{}, time.Time{}
			t.cancel(&a.recheck)
			t.cancel(&a.cool)
		}
		a.spec, a.number, a.serial = spec, i, f.serial(spec.ID)
		a.bidding.ID = spec.ID
		f.agents[i], f.byID[spec.ID], f.byQueue[spec.Queue] = a, a, a
		f.views[i].LastAssigned, f.views[i].Hash = lastAssigned[spec.ID], coordinator.Hash(string(spec.ID), 0)
		if spec.SuccessStated {
			if f.stated == nil {
				f.stated = slices.Repeat([]float64{-1}, n)
			}
			f.stated[i] = spec.SuccessRate
		}
		f.ready.Add(i) // causes has it there, until refresh
		f.tally[coordinator.Eligible]++
		f.refresh(a)
	}
	for id, a := range left { // order does not matter: it is a copy
		if f.byID[id] == nil {
			f.left[id] = a
		}
	}
	for id, a := range old { // order does not matter: cancelling commutes
		if f.byID[id] == nil {
			a.number = -1
			for _, timer := range []*timer{&a.stale, &a.recheck, &a.cool, &a.steady, &a.forget, &a.ramping, &a.claimEnd} {
				t.cancel(timer)
			}
			f.left[id] = a
		}
	}
}

// rejoin makes an agent of which nothing is known but, if it was in the fleet
// before, the dispatches that it has or may have.
func rejoin(before *agent) *agent {
	a := before
	if a == nil {
		a = &agent{}
	}
	calibration := a.bidding.Calibration
	*a = agent{account: account{open: a.open, uncovered: a.uncovered, alone: a.alone}, tracked: a.tracked}
	a.bidding.Agent, a.bidding.Calibration = a, calibration
	a.stale = newTimer(dutyStale, nil, a)
	a.recheck = newTimer(dutyRecheck, nil, a)
	a.cool = newTimer(dutyCool, nil, a)
	a.steady = newTimer(dutySteady, nil, a)
	a.forget = newTimer(dutyForget, nil, a)
	a.ramping = newTimer(dutyRamp, nil, a)
	a.claimEnd = newTimer(dutyClaim, nil, a)
	return a
}

package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
	"taskbus/coordinator/capacity"
	"taskbus/coordinator/learning"
)

// How records about agents are folded.

// foldAgent takes over what is said of one agent, or owed.
func (e *Engine) foldAgent(at time.Time, r coordinator.Record) {
	switch r := r.(type) {
	case *coordinator.Ordered:
		if e.fleet.Order(r.Agent, r.Order); e.fleet.ByID[r.Agent] != nil {
			e.fleet.Refresh(e.fleet.ByID[r.Agent])
		}
	case *coordinator.Tracked:
		e.track(e.agentOf(r.Agent))
	case *coordinator.Consumed:
		a := e.agentOf(r.Agent)
		a.HadConsumer, a.ConsumedTold = r.Ever, r.Told
	case *coordinator.Doubted:
		e.messages.SetExpected(r.Key, r.Messages)
	case *coordinator.AgentBefore:
		a := e.agentOf(r.Agent)
		a.Assigned = r.Assigned
		a.Capacity = capacity.State{Items: r.Items, BusySeconds: r.BusySeconds, Samples: r.Samples}.Estimator()
		a.Capacity.InHand(at, len(a.Open))
		e.fleet.Assignments = max(e.fleet.Assignments, r.LastAssigned)
		if a.Number >= 0 {
			e.fleet.Views[a.Number].LastAssigned = r.LastAssigned
		}
	case *coordinator.Calibrated:
		e.agentOf(r.Agent).bidding.Calibration = auction.CalibrationState{
			Ratio: r.Ratio, Brier: r.Brier, Bias: r.Bias, Timed: r.Timed, Judged: r.Judged,
		}.Calibration()
	case *coordinator.Owed:
		e.ends.AddFailure(&coordinator.Fail{Task: r.Task, Failure: r.Failure})
	case *coordinator.EndedBefore:
		e.ends.Keep(at, coordinator.KeyOf(r.Task.ID), r.Task)
	case *coordinator.Paid:
		e.ends.AckFailure(r.Key)
	}
}

// foldLearnt learns what the leader has learnt.
func (e *Engine) foldLearnt(r *coordinator.Learnt) {
	a := e.fleet.ByID[r.Agent]
	if a == nil {
		return
	}
	e.learner.NotAfter(r.At) // what is learnt in one term is in order
	a.Capacity.NotAfter(r.At)
	o := learning.Outcome{Duration: r.Duration, CostUSD: r.CostUSD}
	switch r.Attribution {
	case coordinator.AttributedSuccess:
		o.Attribution = learning.Succeeded
		a.Capacity.Done(r.At)
	case coordinator.AttributedAgentFault:
		o.Attribution = learning.AgentFault
	case coordinator.AttributedTimeout:
		o.Attribution = learning.TimedOut
	}
	e.learner.Observe(r.At, a.Number, e.learner.Type(r.Type), o)
	if r.CostUSD > 0 {
		a.MeanCost, _ = e.learner.Cost(a.Number)
	}
	e.fleet.Refresh(a)
}

// foldJoined takes over which agents have joined by themselves, and which have left.
func (e *Engine) foldJoined(at time.Time, r *coordinator.Joined) {
	e.fleet.FoldJoined(r, e.policy)
	e.install(at, e.policy)
	e.out = nil // the world has heard of them
}

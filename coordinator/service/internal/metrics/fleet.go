package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// MaxAgents caps the label agent_id: a larger fleet has no series of single
// agents, or every scrape would carry tens of thousands.
const MaxAgents = 1000

// The metrics that are read off a snapshot.
var (
	descAgents = desc("agents",
		"Agents: never_seen, online, offline (it said so), stale (silent), gone (no consumer on its queue).", "state")
	descSlots    = desc("agent_slots", "Slots of all agents online: free, used.", "state")
	descPending  = desc("held", "Tasks that wait for an agent.", "priority")
	descLeases   = desc("leases", "Dispatches at agents, not known to have ended.")
	descInflight = desc("inflight", "Dispatches published and not yet confirmed.")
	descOldest   = desc("oldest_pending_seconds", "Age of the task that has waited longest.")
	descDepth    = desc("queue_ready",
		"Messages ready in Taskbus's own queues, read every 5 s.", "queue")
	descBidding   = desc("bidding", "Tasks on offer, among taskbus_held.")
	descBidWindow = desc("bid_window_seconds", "How long the next auction takes bids; 0 without a market.")
	descClaims    = desc("claims_waiting", "Claims of pulling agents that wait for work.")
	descLane      = desc("lane_tasks",
		"Tasks ready in the 100 lanes with most; others as (others).", "lane")
	descLanesRead = desc("lanes_read", "Lanes out of which tasks are being taken.")
	descMoving    = desc("moving", "Tasks on their way into their lanes.")
	descIDs       = desc("remembered_ids", "Task ids known to the duplicate check.")
	descEjected   = desc("agents_ejected",
		"Agents that get no work for some capability.")
	descCapacity    = desc("capacity_items_per_second", "Capacity of all agents online.")
	descGlobalDepth = desc("global_queue_depth",
		"Pending items of agents online, waiting tasks, and those ready in task.assign, task.assign.high and lanes.")
	descDropped = desc("agent_series_dropped",
		"1 while there are more than 1000 agents: then no metric has agent_id.")
	descConcentrated = desc("assignment_concentration",
		"Largest (s - w) / (1 - w) of an agent online over the latest 1000 tasks, s its share of tasks, w of "+
			"slots: 0 is fair (or below 50 tasks), 1 all to one agent.")
)

// The series of single agents.
var (
	descAgentLoad    = agentDesc("agent_load", "Load, 0 to 1: reported or own dispatches, the larger.")
	descAgentCurrent = agentDesc("agent_current_load",
		"Tasks in flight over slots.")
	descAgentFree     = agentDesc("agent_free_slots", "Free slots.")
	descAgentCordoned = agentDesc("agent_cordoned", "1 while it is cordoned.")
	descAgentAssigned = agentDesc("agent_assignments_total", "Dispatches that the broker has confirmed.")
	descAgentSuccess  = agentDesc("agent_success_rate",
		"The success rate by which it is chosen: the mean over its types of tasks.")
	descAgentCapacity = agentDesc("agent_capacity_items_per_second", "Its capacity, reported or measured.")
	descAgentDepth    = agentDesc("agent_queue_depth", "Its pending items: reported, or what it has in hand.")
	descAgentShare    = agentDesc("agent_load_factor",
		"Its share of taskbus_global_queue_depth; 0: not online.")
	descAgentTarget = agentDesc("agent_target_load_factor",
		"Its share of taskbus_capacity_items_per_second; 0: not online.")
	descAgentBrier = agentDesc("agent_bid_brier",
		"Mean of (claim - outcome)^2 over them: 0 is exact, 0.25 says nothing; absent before the first end.")
	descAgentBias = agentDesc("agent_bid_bias",
		"Mean of claim - outcome over tasks won by its bids: above 0 promises too much.")
	descAgentTrust = agentDesc("agent_bid_delta",
		"How far its claim moves the fitness of its bids: 0 to 0.2.")
	descAgentEstimate = agentDesc("agent_bid_duration_ratio",
		"Mean of actual by estimated durations over them.")

	agentDescs = []*prometheus.Desc{
		descAgentLoad, descAgentCurrent, descAgentFree, descAgentCordoned, descAgentAssigned, descAgentSuccess,
		descAgentCapacity, descAgentDepth, descAgentShare, descAgentTarget,
		descAgentBrier, descAgentBias, descAgentTrust, descAgentEstimate,
	}
)

func agentDesc(name, help string) *prometheus.Desc { return desc(name, help, "agent_id") }

// FleetDescs describe what [Fleet.Collect] gives.
var FleetDescs = append([]*prometheus.Desc{
	descAgents, descSlots, descPending, descInflight, descOldest, descDepth, descIDs, descLeases,
	descBidding, descBidWindow, descClaims, descLane, descLanesRead, descMoving,
	descEjected, descCapacity, descGlobalDepth, descDropped, descConcentrated,
}, agentDescs...)

// Fleet is a snapshot of the engine, and what else is known at that moment.
type Fleet struct {
	Snapshot      *coordinator.Snapshot
	Stats         view.AgentStats // the same agents in figures
	Ready         map[string]int  // messages in Taskbus's own queues, as far as known
	Concentration float64
}

// Collect gives it to a scrape. It reports whether the fleet is too large for series of single agents.
func (f *Fleet) Collect(ch chan<- prometheus.Metric) (dropped bool) {
	emit := emitTo(ch, descAgentAssigned)
	collectTasks(f.Snapshot, emit)
	collectLanes(f.Snapshot, emit)
	for name, n := range f.Ready {
		emit(descDepth, float64(n), name)
	}
	f.collectAgents(emit)
	emit(descConcentrated, f.Concentration)
	dropped = len(f.Snapshot.Agents) > MaxAgents
	emit(descDropped, Bool(dropped))
	if !dropped {
		for i := range f.Snapshot.Agents {
			collectAgent(&f.Snapshot.Agents[i], &f.Stats.Agents[i], emit)
		}
	}
	return dropped
}

func collectTasks(snap *coordinator.Snapshot, emit emitter) {
	for i, n := range snap.Pending {
		emit(descPending, float64(n), coordinator.Priority(i).String())
	}
	emit(descInflight, float64(snap.Dispatching))
	emit(descLeases, float64(snap.Leased))
	emit(descOldest, snap.OldestPending.Seconds())
	emit(descIDs, float64(snap.Remembered))
	emit(descBidding, float64(snap.Bidding))
	emit(descBidWindow, snap.BidWindow.Seconds())
	emit(descClaims, float64(snap.Claims))
}

// laneRest is the value of the label `lane` for all lanes beyond the bound.
const laneRest = "(others)"

// collectLanes has what waits in lanes for a scrape.
func collectLanes(snap *coordinator.Snapshot, emit emitter) {
	shown, rest := views.ShownLanes(snap)
	read := 0
	for _, l := range snap.Lanes {
		if l.Read {
			read++
		}
	}
	for _, l := range shown {
		emit(descLane, float64(l.Ready), l.Lane)
	}
	if rest > 0 {
		emit(descLane, float64(rest), laneRest)
	}
	emit(descLanesRead, float64(read))
	emit(descMoving, float64(snap.Moving))
}

// collectAgents gives what all agents are together.
func (f *Fleet) collectAgents(emit emitter) {
	states := make(map[coordinator.AgentState]int)
	free, used, ejected := 0, 0, 0
	for i := range f.Snapshot.Agents {
		a := &f.Snapshot.Agents[i]
		states[a.State]++
		if a.State == coordinator.AgentOnline {
			free += a.Free
			used += a.InFlight
		}
		if len(a.EjectedFrom) > 0 {
			ejected++
		}
	}
	for st := coordinator.AgentNeverSeen; st <= coordinator.AgentGone; st++ {
		emit(descAgents, float64(states[st]), st.String())
	}
	emit(descSlots, float64(free), "free")
	emit(descSlots, float64(used), "used")
	emit(descEjected, float64(ejected))
	emit(descCapacity, f.Stats.TotalCapacity)
	emit(descGlobalDepth, float64(f.Stats.GlobalQueueDepth))
}

func collectAgent(a *coordinator.AgentSnapshot, info *view.AgentInfo, emit emitter) {
	id := string(a.Spec.ID)
	emit(descAgentLoad, a.Load, id)
	emit(descAgentCurrent, currentLoad(a), id)
	emit(descAgentFree, float64(a.Free), id)
	emit(descAgentCordoned, Bool(a.Cordoned), id)
	emit(descAgentAssigned, float64(a.Assigned), id)
	emit(descAgentSuccess, info.SuccessRate, id)
	emit(descAgentCapacity, info.Capacity, id)
	emit(descAgentDepth, float64(info.Pending), id)
	emit(descAgentShare, info.LoadFactor, id)
	emit(descAgentTarget, info.TargetLoadFactor, id)
	if b := &a.Bidding; b.Outcomes > 0 {
		emit(descAgentBrier, b.Brier, id)
		emit(descAgentBias, b.Bias, id)
		emit(descAgentTrust, b.Delta, id)
		emit(descAgentEstimate, b.Ratio, id)
	}
}

// currentLoad is ADR-018's: tasks in flight over slots.
func currentLoad(a *coordinator.AgentSnapshot) float64 {
	if a.Slots <= 0 {
		return 0
	}
	return float64(a.InFlight) / float64(a.Slots)
}

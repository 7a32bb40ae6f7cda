package engine

import (
	"cmp"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/criteria"
)

// agent is what the engine knows of one agent. It survives a change of policy
// as long as the new policy still lists the agent.
type agent struct {
	spec   coordinator.AgentSpec
	number int    // place in the fleet, -1 when the policy no longer lists it
	serial uint32 // stands for its id in records of the dedupe window

	state  coordinator.AgentState
	report coordinator.AgentReport // the newest accepted
	heard  time.Time               // when that one arrived; zero: never
	beat   time.Time               // when that was for people: read from the past, it is its sender's time
	clock  clockOffset
	// tracked: it sends results or says exactly what it runs, so the end of its
	// dispatches is known. Nobody else's dispatches have a deadline.
	tracked bool

	account
	throughput
	assigned uint64    // confirmed dispatches
	given    time.Time // when the latest of them was; zero: not known
	moved    time.Time // likewise, or when a dispatch of its ended, or it became absent
	// strayed is since when its reports count more tasks than it has of ours; zero: they do not.
	strayed time.Time

	queueMissing bool
	queueFull    bool
	askedAt      time.Time // when the shell was last asked for the queue; zero: never
	otherQueue   string    // what it last announced in its place

	presence
	instances instances
	bidding   bidder
	claiming
	stale, recheck, cool, steady, forget, ramping timer
}

// fleet is all agents of the policy, with the indexes that make a choice cheap.
type fleet struct {
	agents []*agent                // sorted by id
	views  []coordinator.AgentView // views[i] is what strategies see of agents[i]
	byID   map[coordinator.AgentID]*agent
	// byQueue finds the owner of a queue.
	byQueue map[string]*agent
	// left holds agents that the policy dropped while dispatches were on their
	// way to them: when it lists one again, those must still count.
	left map[coordinator.AgentID]*agent
	// ready holds the agents that nothing in their own state keeps from work, vacant those that could take
	// one that must be alone, present those that may have work, when they have room for it.
	ready, vacant, present agentset.Set
	// causes is why each agent may not have work, whatever the task (see eligibility); byCause are the
	// agents of each cause, those of Eligible being ready, and tally is how many they are.
	causes  []coordinator.Ineligibility
	byCause [coordinator.NumIneligibilities]agentset.Set
	tally   [coordinator.NumIneligibilities]int
	kept    *agent // that gets nothing else until it is vacant for such a task; nil: none
	// index is the agents as criteria ask for them; its numbers are those of agents.
	index   *criteria.Fleet
	maxCost float64 // the largest of any view since the fleet last changed
	// stated are the success rates that agents.yaml states, below 0 where it does
	// not; nil when it states none.
	stated []float64
	was    []int // was[i] is the number that agent i had before the latest change; -1: it is new
	// assignments numbers the dispatches, for "least recently assigned".
	assignments uint64
	settings    coordinator.Settings
	claimants   bool // an agent that waits to be granted something has changed
	now         time.Time
	serials
}

// number is the agent's place in the fleet.
func (f *fleet) number(id coordinator.AgentID) (int, bool) {
	if a := f.byID[id]; a != nil {
		return a.number, true
	}
	return -1, false
}

// known is the agent of that id, also one that the policy no longer lists; nil when
// nothing is known of it.
func (f *fleet) known(id coordinator.AgentID) *agent {
	if a := f.byID[id]; a != nil {
		return a
	}
	return f.left[id]
}

// inFlight is what the agent reported as running, less what it has told the end of
// since, plus the dispatches that no report speaks for.
func (a *agent) inFlight() int { return max(0, a.report.Active-a.credit) + a.uncovered }

// strays is how many slots its reports say are taken, by no dispatch that it has. Of an agent that tells no ends
// nothing is known: its dispatches are let go once a report covers them.
func (a *agent) strays() int {
	if !a.tracked || a.state != coordinator.AgentOnline {
		return 0
	}
	return max(0, a.inFlight()-a.leased())
}

// lookForStrays is done with every report.
func (a *agent) lookForStrays(now time.Time) {
	switch {
	case a.strays() == 0:
		a.strayed = time.Time{}
	case a.strayed.IsZero():
		a.strayed = now
	}
}

// strayAfter is how long slots are taken by no dispatch until that is told of: a report that crossed a result, or a
// handler that stops a little after its task's timeout, is nothing to look at.
const strayAfter = time.Minute

// longStrays are the strays that have been there for long, by two reports at least.
func (a *agent) longStrays(now time.Time) int {
	if a.strayed.IsZero() || now.Sub(a.strayed) < max(strayAfter, 2*a.spec.HealthCheckInterval) {
		return 0
	}
	return a.strays()
}

// maximum is how many tasks the agent may have: a report may lower the
// configured number, never raise it.
func (a *agent) maximum() int {
	if m := a.report.MaxConcurrent; m > 0 {
		return min(m, a.spec.MaxConcurrent)
	}
	return a.spec.MaxConcurrent
}

// room is how many tasks the agent may have at the moment: fewer than its maximum
// while it is new.
func (a *agent) room() int {
	if a.slots > 0 {
		return min(a.slots, a.maximum())
	}
	return a.maximum()
}

// free is how many more tasks the agent can take: bounded by the configured
// maximum and by what it said was available, less the dispatches since and the slots
// that its bids hold, plus what it has told the end of since.
func (a *agent) free() int {
	return max(0, min(a.room()-a.inFlight(),
		a.report.Available+min(a.credit, a.report.Active)-a.uncovered)-a.bidding.Held())
}

// reportedLoad is the load that the agent reported, less the part of the tasks
// whose end it has told since: with 3 of 4 tasks ended, a load of 0.8 is 0.2.
func (a *agent) reportedLoad() float64 {
	if a.credit == 0 || a.report.Active == 0 {
		return a.report.Load
	}
	return a.report.Load * float64(max(0, a.report.Active-a.credit)) / float64(a.report.Active)
}

// load is what strategies compare: the reported load or the share of slots in
// use, whichever is larger, so that own dispatches count at once.
func (a *agent) load() float64 {
	return min(1, max(a.reportedLoad(), float64(a.inFlight())/float64(a.maximum())))
}

// presence tests whether the agent is there, and whether it may have work at all.
func (f *fleet) presence(a *agent) coordinator.Ineligibility {
	switch a.state {
	case coordinator.AgentNeverSeen:
		return coordinator.NotSeen
	case coordinator.AgentOffline:
		return coordinator.WentOffline
	case coordinator.AgentStale:
		return coordinator.WentStale
	case coordinator.AgentGone:
		return coordinator.WentGone
	}
	switch {
	case a.unattended:
		return coordinator.WentGone
	case a.cordoned:
		return coordinator.Cordoned
	case a.unsteady:
		return coordinator.Unsteady
	case a.suspect:
		return coordinator.Suspect
	case a.alone > 0 || f.kept == a:
		return coordinator.KeptFree
	}
	return coordinator.Eligible
}

// eligibility tests everything that does not depend on the task, in the order of
// the constants of coordinator.Ineligibility. An agent that claims knows itself how busy
// it is.
func (f *fleet) eligibility(a *agent) coordinator.Ineligibility {
	if why := f.presence(a); why != coordinator.Eligible {
		return why
	}
	switch pulls := a.spec.Pull != coordinator.PullOff; {
	case !pulls && a.report.Status == coordinator.StatusBusy && !f.settings.BusyIsEligible:
		return coordinator.NotReady
	case a.free() == 0:
		return coordinator.Full
	case !pulls && a.reportedLoad() >= f.settings.MaxLoad:
		return coordinator.Overloaded
	case !pulls && f.settings.RefuseBacklogged && a.backlogged():
		return coordinator.Backlogged
	case a.queueMissing:
		return coordinator.QueueMissing
	case a.queueFull:
		return coordinator.QueueFull
	case pulls:
		return coordinator.Pulling
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
	v.ReportedLoad = a.report.Load
	v.Capabilities = len(a.spec.Capabilities)
	v.Capacity, v.Pending = a.itemsPerSecond(), a.items()
	v.Cost = cmp.Or(a.spec.Cost, a.meanCost)
	f.maxCost = max(f.maxCost, v.Cost)
	v.Labels = a.spec.Labels
	if a.seat.Waits() {
		f.claimants = true
	}
	why := f.eligibility(a)
	if was := f.causes[a.number]; was != why {
		f.byCause[was].Remove(a.number)
		f.byCause[why].Add(a.number)
		f.tally[was]--
		f.tally[why]++
		f.causes[a.number] = why
		if why.Absent() && !was.Absent() {
			a.moved = f.now
		}
	}
	f.present.Put(a.number, why.There())
	f.vacant.Put(a.number, a.spec.Pull == coordinator.PullOff && f.isVacant(a, why))
}

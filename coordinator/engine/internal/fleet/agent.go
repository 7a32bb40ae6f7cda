package fleet

import (
	"time"

	"taskbus/coordinator"
)

// Agent is what is known of one agent. It survives a change of policy as long as the new policy still lists the
// agent. The kernel reads and sets what is exported, and refreshes it then (Fleet.Refresh).
type Agent struct {
	Spec   coordinator.AgentSpec
	Number int    // place in the fleet, -1 when the policy no longer lists it
	Serial uint32 // stands for its id in records of the dedupe window

	State  coordinator.AgentState
	Report coordinator.AgentReport // the newest accepted
	Heard  time.Time               // when that one arrived; zero: never
	Beat   time.Time               // when that was for people: read from the past, it is its sender's time
	Clock  Clock
	// Tracked: it sends results or says exactly what it runs, so the end of its dispatches is known. Dispatches of
	// other agents have no deadline.
	Tracked bool

	slots
	Throughput
	Assigned uint64    // confirmed dispatches
	Given    time.Time // when the latest of them was; zero: not known
	Moved    time.Time // likewise, or when a dispatch of its ended, or it became absent
	// strayed is since when its reports count more tasks than it has of ours; zero: they do not.
	strayed time.Time

	QueueMissing bool
	QueueFull    bool
	askedAt      time.Time // when the shell was last asked for the queue; zero: never
	otherQueue   string    // what it last announced in its place

	Presence
	Instances Instances
	kept      bool // for a task that must have an agent to itself
	held      int  // slots that are neither free nor in flight, at the latest refresh
}

// InFlight returns how many tasks the agent reported as running, less those that it has reported as ended since, plus
// the dispatches that no report covers.
func (a *Agent) InFlight() int { return max(0, a.Report.Active-a.Credit) + a.Uncovered }

// strays returns how many slots are taken according to its reports, but by no dispatch that it has. Of an agent that
// reports no ends nothing is known: its dispatches are let go once a report covers them.
func (a *Account[T]) strays() int {
	if !a.Tracked || a.State != coordinator.AgentOnline {
		return 0
	}
	return max(0, a.InFlight()-a.Leased())
}

// lookForStrays notes since when the agent has strays. It is called with every report.
func (a *Account[T]) lookForStrays(now time.Time) {
	switch {
	case a.strays() == 0:
		a.strayed = time.Time{}
	case a.strayed.IsZero():
		a.strayed = now
	}
}

// strayAfter is how long slots are taken by no dispatch until that is reported: a report that crossed a result, or a
// handler that stops a little after its task's timeout, is no reason to look.
const strayAfter = time.Minute

// LongStrays returns how many strays have been there for long, by two reports at least.
func (a *Account[T]) LongStrays(now time.Time) int {
	if a.strayed.IsZero() || now.Sub(a.strayed) < max(strayAfter, 2*a.Spec.HealthCheckInterval) {
		return 0
	}
	return a.strays()
}

// Maximum returns how many tasks the agent may have: a report may lower the configured number, never raise it.
func (a *Agent) Maximum() int {
	if m := a.Report.MaxConcurrent; m > 0 {
		return min(m, a.Spec.MaxConcurrent)
	}
	return a.Spec.MaxConcurrent
}

// Room returns how many tasks the agent may have at the moment: fewer than its maximum while it is new.
func (a *Agent) Room() int {
	if a.Slots > 0 {
		return min(a.Slots, a.Maximum())
	}
	return a.Maximum()
}

// Free returns how many more tasks the agent can take: bounded by the configured
// maximum and by what it said was available, less the dispatches since and the slots
// that its bids hold, plus the tasks that it has reported as ended since.
func (a *Agent) Free() int {
	return max(0, min(a.Room()-a.InFlight(),
		a.Report.Available+min(a.Credit, a.Report.Active)-a.Uncovered)-a.held)
}

// reportedLoad returns the load that the agent reported, less the part of the tasks
// that it has reported as ended since: with 3 of 4 tasks ended, a load of 0.8 is 0.2.
func (a *Agent) reportedLoad() float64 {
	if a.Credit == 0 || a.Report.Active == 0 {
		return a.Report.Load
	}
	return a.Report.Load * float64(max(0, a.Report.Active-a.Credit)) / float64(a.Report.Active)
}

// Load returns what strategies compare: the reported load or the share of slots in
// use, whichever is larger, so that own dispatches count at once.
func (a *Agent) Load() float64 {
	return min(1, max(a.reportedLoad(), float64(a.InFlight())/float64(a.Maximum())))
}

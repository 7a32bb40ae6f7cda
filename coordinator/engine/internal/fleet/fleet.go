package fleet

import (
	"cmp"
	"math/bits"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/criteria"
)

// Member is the kernel's agent, which embeds an Account.
type Member[T Task] interface {
	comparable
	Core() *Account[T]
	// Held returns how many slots of the agent are neither free nor in flight, at the moment; Waits reports whether it
	// waits to be granted something.
	Held() int
	Waits() bool
}

// Fleet is all agents of the policy, with the indexes that make a choice cheap. The kernel reads what is exported.
type Fleet[T Task, A Member[T]] struct {
	Agents []A                     // sorted by id
	Views  []coordinator.AgentView // Views[i] is what strategies see of Agents[i]
	ByID   map[coordinator.AgentID]A
	// ByQueue has the agent of a queue.
	ByQueue map[string]A
	// Left holds agents that the policy dropped while dispatches were on their way to them: when it lists one again,
	// those must still count.
	Left map[coordinator.AgentID]A
	// Ready holds the agents that may be given a task now, as far as their own state goes; Vacant those that may be
	// given one that must be alone; Present those that may when they have free slots.
	Ready, Vacant, Present agentset.Set
	// Causes is why each agent may not have work, whatever the task (see Eligibility); ByCause are the agents of each
	// cause, those of Eligible being Ready, and Tally is how many they are.
	Causes  []coordinator.Ineligibility
	ByCause [coordinator.NumIneligibilities]agentset.Set
	Tally   [coordinator.NumIneligibilities]int
	kept    A // that gets nothing else until it is vacant for such a task; nil: none
	// Index is the agents as criteria ask for them; its numbers are those of Agents.
	Index   *criteria.Fleet
	MaxCost float64 // the largest of any view since the fleet last changed
	// Stated are the success rates that agents.yaml states, below 0 where it does not; nil when it states none.
	Stated []float64
	Was    []int // Was[i] is the number that agent i had before the latest change; -1: it is new
	// Assignments numbers the dispatches, for "least recently assigned".
	Assignments uint64
	Claimants   bool // an agent that waits to be granted something has changed
	Now         time.Time
	TakeBacks   int // agents' queues that the shell consumes

	settings            coordinator.Settings
	watchFrom, idleFrom int // where the next looks at the queues begin, and those at queues of the idle
	orders              map[coordinator.AgentID]coordinator.Order
	changes             []Change[A] // of the latest call
	hearing
	demand
	Serials
	discovery
}

// New returns a fleet without agents.
func New[T Task, A Member[T]]() Fleet[T, A] {
	return Fleet[T, A]{Index: criteria.NewFleet(nil), orders: make(map[coordinator.AgentID]coordinator.Order),
		demand: demand{demanded: make(map[string]float64)}, discovery: newDiscovery()}
}

// Number returns the agent's place in the fleet.
func (f *Fleet[T, A]) Number(id coordinator.AgentID) (int, bool) {
	if m, ok := f.ByID[id]; ok {
		return m.Core().Number, true
	}
	return -1, false
}

// Known returns the agent of that id, also one that the policy no longer lists; nil when nothing is known of it.
func (f *Fleet[T, A]) Known(id coordinator.AgentID) A {
	if m, ok := f.ByID[id]; ok {
		return m
	}
	return f.Left[id]
}

// FreeBeyond reports whether those of these agents that are ready have more than n slots free.
func (f *Fleet[T, A]) FreeBeyond(of agentset.Set, n int) bool {
	for w, word := range of {
		for set := word & f.Ready[w]; set != 0; set &= set - 1 {
			if n -= f.Views[w<<6+bits.TrailingZeros64(set)].Free; n < 0 {
				return true
			}
		}
	}
	return false
}

// Kept returns the agent that is kept free for a task that must have it to itself; nil: none.
func (f *Fleet[T, A]) Kept() A { return f.kept }

// Keep keeps an agent free in place of the one that is; nil: none.
func (f *Fleet[T, A]) Keep(m A) {
	var none A
	former := f.kept
	if f.kept = m; former != none {
		former.Core().kept = false
		f.Refresh(former)
	}
	if m != none {
		m.Core().kept = true
		f.Refresh(m)
	}
}

// Refresh recomputes what strategies see of the agent's state, and whether it is ready. It must follow every change to
// an agent; nothing is kept of one that has left the fleet.
func (f *Fleet[T, A]) Refresh(m A) {
	a := m.Core()
	a.held = m.Held()
	if a.Number < 0 {
		return
	}
	v := &f.Views[a.Number]
	a.view(v)
	f.MaxCost = max(f.MaxCost, v.Cost)
	if m.Waits() {
		f.Claimants = true
	}
	why := a.cause(&f.settings, v.Free)
	if was := f.Causes[a.Number]; was != why {
		f.ByCause[was].Remove(a.Number)
		f.ByCause[why].Add(a.Number)
		f.Tally[was]--
		f.Tally[why]++
		f.Causes[a.Number] = why
		if why.Absent() && !was.Absent() {
			a.Moved = f.Now
		}
	}
	f.Present.Put(a.Number, why.There())
	f.Vacant.Put(a.Number, !a.pulls() && a.isVacant(&f.settings, why))
}

// view writes down what strategies see of the agent that reports and dispatches change.
func (a *Account[T]) view(v *coordinator.AgentView) {
	v.Load, v.ReportedLoad = a.Load(), a.Report.Load
	v.InFlight, v.Max, v.Free = a.InFlight(), a.Maximum(), a.Free()
	v.Capacity, v.Pending = a.ItemsPerSecond(), a.Items()
	v.Cost = cmp.Or(a.Spec.Cost, a.MeanCost)
}

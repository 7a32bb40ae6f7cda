package fleet

import (
	"time"

	"taskbus/coordinator"
)

// Presence is whether an agent is there for its work, beyond what it reports.
type Presence struct {
	Cordoned, Draining, Drained bool // an operator's orders; Drained: nothing is left
	// HadConsumer: its queue has been seen with a consumer; seenConsumer: in this session. One that never had any
	// fetches its messages one by one, and nothing follows from their absence.
	HadConsumer, seenConsumer bool
	ConsumedTold              time.Time // when its latest report before that was made, by its clock (see Consumed)
	missedAt                  time.Time // when a look found none; zero: it found one, or none was missed
	lookedAt                  time.Time // when the shell was last asked to look at its queue
	// Unattended: it had a consumer before this session, and has none now: it gets nothing until it has one again, or
	// is gone.
	Unattended bool
	// TakenQueue is the queue that the shell consumes for others: its own, or the one it had until a moment ago; empty
	// when none.
	TakenQueue string
	// HeldByUs: a session ended while we consumed its queue. What is redelivered from there may have been in our hands,
	// not in the agent's, until it has been empty.
	HeldByUs  bool
	unsteady  bool      // it has left too often a moment ago
	leftAt    time.Time // when it last left; zero: never
	leftCount int       // how often it has, with less than FlapMemory between two times
	Suspect   bool      // silent for a while, not for so long that it is stale
	Since     time.Time // when it came
	Slots     int       // how many tasks it may have for being new; 0: as many as it has room for
	announced coordinator.AgentState
	due       [NumTimers]time.Time // when Due is to be called; zero: never
}

// An agent that comes and goes gets no work until it has been steady for a while: from its third departure on, each
// less than FlapMemory after the one before, for flapFirst doubled with every further one, at most FlapMax. The first
// two cost it nothing: a restart is no fault.
const (
	FlapMemory = 30 * time.Second
	flapFree   = 2
	flapFirst  = time.Second
	FlapMax    = 30 * time.Second
)

// enter moves the agent to a state, announces that if it is a change, and begins or ends taking back what waits in
// its queue.
func (f *Fleet[T, A]) enter(now time.Time, m A, s coordinator.AgentState) {
	a := m.Core()
	if a.State == s {
		return
	}
	wasOnline, online := a.State == coordinator.AgentOnline, s == coordinator.AgentOnline
	isNew := !f.OpenedAt.IsZero() && (a.State != coordinator.AgentNeverSeen || !now.Before(f.GraceEnd))
	a.State, a.Suspect = s, false
	if online && isNew { // otherwise it is this coordinator that is new
		a.Since = now
		f.ramp(now, m)
	}
	if wasOnline != online {
		a.lookedAt = time.Time{} // only a consumer that has been seen can be missed
	}
	switch {
	case a.Number < 0:
	case online:
		f.add(CameOn, m)
	case wasOnline:
		f.add(WentOff, m)
	}
	if wasOnline {
		f.unset(m, Silence)
		f.departed(now, m)
		f.add(OffMarket, m)
	}
	if !a.Gone() {
		f.unset(m, Forget)
	}
	if !a.unsteady {
		f.announce(m)
	}
	switch {
	case a.Gone():
		a.giveOver() // whether they have stopped is of no interest any more
		f.takeBack(m)
		if f.HasJoined(a.Spec.ID) && a.due[Forget].IsZero() {
			f.set(m, Forget, now.Add(f.rules.ForgetAfter))
		}
	case a.LeftAlone() && !a.unsteady:
		f.leaveQueue(m)
	}
	f.Refresh(m)
}

// announce has the agent's state be announced if it differs from the one announced last.
func (f *Fleet[T, A]) announce(m A) {
	if a := m.Core(); a.announced != a.State {
		a.announced = a.State
		f.emit(coordinator.AgentChanged{Agent: a.Spec.ID, State: a.State, LastHeartbeat: a.Beat})
	}
}

// departed counts how often the agent has left of late.
func (f *Fleet[T, A]) departed(now time.Time, m A) {
	a := m.Core()
	if a.leftAt.IsZero() || now.Sub(a.leftAt) > FlapMemory {
		a.leftCount = 0
	}
	a.leftAt = now
	a.leftCount++
	if a.leftCount <= flapFree {
		return
	}
	hold := flapFirst
	for i := flapFree + 1; i < a.leftCount && hold < FlapMax; i++ {
		hold *= 2
	}
	if !a.unsteady && a.leftCount == flapFree+1 {
		f.announce(m) // the last announcement for a while
	}
	a.unsteady = true
	f.set(m, Steady, now.Add(min(hold, FlapMax)))
}

// comeBack handles the return of an agent without a consumer until now: its state follows from its reports.
func (f *Fleet[T, A]) comeBack(now time.Time, m A) {
	switch a := m.Core(); {
	case a.Report.Status == coordinator.StatusOffline:
		f.enter(now, m, coordinator.AgentOffline)
	case !f.silentAt(now, a).After(now):
		f.enter(now, m, coordinator.AgentStale)
	default:
		f.enter(now, m, coordinator.AgentOnline)
		f.watch(now, m)
		f.add(Wake, m)
	}
}

const (
	// rampFloor is the least share of its slots that an agent starts with.
	rampFloor = 0.1
	// rampSteps is how many steps an agent takes to all of its slots: one each five seconds of the usual minute.
	rampSteps = 12
)

// rampSlots returns how many of its slots an agent may use that has been there for that long (slow start):
//
//	max(1, ⌊slots · max(0.1, age/window)⌋)
//
// It bounds slots and is not a weight: a newcomer among newcomers gets work at once. A window of 0 switches it off.
func rampSlots(slots int, age, window time.Duration) int {
	if slots <= 1 || window <= 0 || age >= window {
		return slots
	}
	share := max(rampFloor, age.Seconds()/window.Seconds())
	return min(slots, max(1, int(float64(slots)*share+1e-9))) // 100 · 0.29 is 28.999999999999996
}

// ramp gives a new agent its part of its slots, until it has all of them. One that counts as new again begins anew.
func (f *Fleet[T, A]) ramp(now time.Time, m A) {
	a, window := m.Core(), f.settings.SlowStart
	if age := now.Sub(a.Since); window > 0 && !a.Since.IsZero() && age < window {
		a.Slots = rampSlots(a.Maximum(), age, window)
		f.set(m, SlowStart, coordinator.Earlier(now.Add(max(window/rampSteps, time.Millisecond)), a.Since.Add(window)))
	} else {
		a.Slots = 0
		f.unset(m, SlowStart)
	}
	f.Refresh(m)
}

// Gone reports whether the agent is known not to be there.
func (a *Agent) Gone() bool {
	switch a.State {
	case coordinator.AgentOffline, coordinator.AgentStale, coordinator.AgentGone:
		return true
	}
	return false
}

// LeftAlone reports whether its work is left to it: it is there, and not drained.
func (a *Agent) LeftAlone() bool { return a.State == coordinator.AgentOnline && !a.Draining }

// mayBeMissed reports whether the absence of the agent's consumer means that it is gone. After a session has been
// connected agents come back in their own time: one that had a consumer before gets nothing until it has one, but
// what it has is left to it within the grace that silence has, too.
func (a *Agent) mayBeMissed(now, from time.Time) bool {
	return a.seenConsumer || a.HadConsumer && !now.Before(from)
}

// Ordered carries out an operator's order.
func (f *Fleet[T, A]) Ordered(ev coordinator.AgentOrdered) []Change[A] {
	f.begin()
	if ev.Token != 0 {
		f.emit(coordinator.OrderStands{Token: ev.Token})
	}
	m, ok := f.ByID[ev.Agent]
	if !ok {
		return f.changes
	}
	f.Order(ev.Agent, ev.Order)
	f.write(&coordinator.Ordered{Agent: ev.Agent, Order: ev.Order})
	a := m.Core()
	if a.Cordoned {
		f.add(OffMarket, m)
	}
	if a.Draining {
		f.takeBack(m)
	} else if a.LeftAlone() && !a.unsteady {
		f.leaveQueue(m)
	}
	f.add(Wake, m)
	return f.changes
}

// Order notes an operator's order, which outlives the agent's own absence. The agent, if there is one, follows it.
func (f *Fleet[T, A]) Order(id coordinator.AgentID, order coordinator.Order) {
	if order == coordinator.OrderUncordon {
		delete(f.orders, id)
	} else {
		f.orders[id] = order
	}
	if m, ok := f.ByID[id]; ok {
		f.obey(m)
	}
}

// Orders returns the orders that stand. The map must not be changed.
func (f *Fleet[T, A]) Orders() map[coordinator.AgentID]coordinator.Order { return f.orders }

// obey gives the agent the orders that stand for it.
func (f *Fleet[T, A]) obey(m A) {
	a := m.Core()
	order, given := f.orders[a.Spec.ID]
	a.Cordoned = given
	a.Draining = given && order == coordinator.OrderDrain
	a.Drained = a.Drained && a.Draining
	f.Refresh(m)
}

package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/ejection"
	"taskbus/coordinator/engine/internal/ends"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/isolation"
	"taskbus/coordinator/engine/internal/lanes"
	"taskbus/coordinator/engine/internal/market"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/engine/internal/unresolved"
	"taskbus/coordinator/learning"
	"taskbus/coordinator/llmcalls"
	"taskbus/coordinator/quotacontrol"
)

// Engine is the state machine. It belongs to one goroutine; the zero value is
// not usable, see New.
type Engine struct {
	policy *coordinator.Policy
	routes map[string]*requirements // what a plain task of each type needs; filled on demand
	types  []string                 // of the policy's routes, sorted; nil: not asked for yet

	fleet    agents
	pending  pending
	dedupe   dedupe.Window
	timers   timers
	retries  queue.Retries[*openTask]
	retryEnd timer // of the time until the budget allows the next of them

	held     map[coordinator.Handle]*openTask // every task with a delivery that is not settled
	tasks    openTasks                        // those, and every task that an agent has
	arrivals uint64                           // numbers the tasks, to break ties

	connected bool      // a session stands, and is not draining
	openedAt  time.Time // when the latest session opened
	graceEnd  time.Time // until then agents that never reported are awaited
	stall     stall
	// unheardFrom is when an agent that has not reported counts as dead.
	unheardFrom time.Time
	takeBacks   int // agents' queues that the shell consumes
	demand      demand
	ejections   ejection.Table
	breakerDue  timer
	asking      choice.Question
	learner     *learning.Learner
	joinTurn    timer
	messages    unresolved.Messages
	isolated    isolation.Groups[*openTask, *class]
	ends        ends.Ends
	batches     queue.Batches[batchKey, *openTask]
	market      market.Market[*openTask, *agent]
	claims      claimLine
	quotas      quotas
	calls       llmcalls.Leases
	controls    quotacontrol.Controls
	controlsEnd timer // of the next that ends by itself
	dayEnd      timer
	lanes       *lanes.Planner
	// relieveAgain is when to go on with moves that were too many for one event, or when a lane has rested.
	relieveAgain timer
	recorder     recorder
	// following: another coordinator leads, and its records are folded.
	following bool
	// rejudging: tasks that waited under the policy before may wait again, however many they are.
	rejudging bool
	// learntBefore is what was learnt before, while its rows are folded; nil else.
	learntBefore *learning.State
	// adoptUntil and adoptFor: until then, results that are not older than this may
	// count although we never saw their tasks.
	adoptUntil time.Time
	adoptFor   time.Duration
	// replayed: this engine has folded the records of other leaders, so that a task of which it knows nothing was
	// not dispatched.
	replayed bool

	out     []coordinator.Effect // effects of the event being applied
	now     time.Time            // when that is
	applied uint64               // how many there were
	audited auditPlaces          // where the next Audit goes on
}

// New makes an engine. Its first event must be PolicyChanged.
func New() *Engine {
	q := quotas{Quotas: admission.NewQuotas(), due: newTimer(dutyQuota, nil, nil)}
	e := &Engine{
		fleet:     agents{fleet.New[*openTask, *agent]()},
		pending:   newPending(q.Shares),
		quotas:    q,
		timers:    newTimers(),
		retryEnd:  newTimer(dutyBudget, nil, nil),
		held:      make(map[coordinator.Handle]*openTask),
		tasks:     newOpenTasks(),
		joinTurn:  newTimer(dutyJoin, nil, nil),
		demand:    newDemand(),
		ejections: ejection.New(),
		messages:  unresolved.New(),
		isolated:  newIsolated(),
		ends:      ends.New(),
		batches:   queue.NewBatches[batchKey](byDue),
		claims:    claimLine{again: newTimer(dutyClaim, nil, nil)},
	}
	e.lanes, e.relieveAgain = lanes.New(q.Shares, (*laneView)(e)), newTimer(dutyLanes, nil, nil)
	e.breakerDue = newTimer(dutyBreaker, nil, nil)
	e.controlsEnd, e.dayEnd = newTimer(dutyControls, nil, nil), newTimer(dutyDay, nil, nil)
	e.calls = llmcalls.New(q.Ledger, q.Estimator, q.Waits)
	e.quotas.view, e.quotas.number = quotaView{e}, e.fleet.Number
	return e
}

// Apply advances the engine by one event and appends to dst what the shell must
// do, in order. It never blocks, reads no clock and keeps no reference to ev (a
// *Task it is handed becomes the engine's, immutable). Equal histories give
// equal effects. What was due before now happens first. now must not go back.
func (e *Engine) Apply(now time.Time, ev coordinator.Event, dst []coordinator.Effect) []coordinator.Effect {
	e.out, e.now, e.fleet.Now = dst, now, now
	e.applied++
	e.forgetAgents()
	e.runDue(now)
	e.relieve(now)
	e.wakeTrusted(now) // before the event: waiting tasks go before new ones
	switch ev := ev.(type) {
	case coordinator.TaskReceived:
		e.received(now, ev)
		if ev.Lane != "" {
			e.carryOut(e.lanes.TookOut(now, ev.Lane))
		}
	case coordinator.DispatchSettled:
		e.settled(now, ev)
	case coordinator.AgentReported:
		e.reported(now, ev)
	case coordinator.ResultReported:
		e.resulted(now, ev)
	case coordinator.TaskReturned:
		e.returned(now, ev)
	case coordinator.QueueSeen:
		e.queueSeen(now, ev)
	case coordinator.CancelRequested:
		e.cancel(now, ev)
	case coordinator.AgentOrdered:
		e.ordered(now, ev)
	case coordinator.QuotaControlsRequested:
		e.controlled(ev)
	case coordinator.TakeBackEnded:
		if a := e.fleet.ByID[ev.Agent]; a != nil {
			e.takeBackEnded(a)
		}
	case coordinator.QueueChecked:
		e.queueChecked(now, ev)
	case coordinator.BidReceived:
		e.bidReceived(now, ev)
	case coordinator.OfferUnheard:
		e.offerUnheard(now, ev)
	case coordinator.ClaimReceived:
		e.claimReceived(now, ev)
	case coordinator.CallAsked:
		e.callAsked(now, &ev)
	case coordinator.FailureTold:
		e.failureAcked(ev.Task)
	case coordinator.LaneMoved:
		e.laneMoved(now, ev)
	case coordinator.LaneSeen:
		e.carryOut(e.lanes.Seen(now, ev))
	case coordinator.LaneEnded:
		e.carryOut(e.lanes.Ended(now, ev.Lane))
	case coordinator.IntakeChanged:
		e.lanes.SetIntake(ev.Window)
	case coordinator.PolicyChanged:
		e.fleet.SetRules(ev.Policy)
		e.install(now, ev.Policy)
	case coordinator.SessionOpened:
		e.sessionOpened(now, ev)
	case coordinator.PublishingHeld:
		e.publishingHeld(now, ev)
	case coordinator.SessionLost:
		e.sessionLost(now)
	case coordinator.DrainBegan:
		e.drainClaims(now)
		e.connected = false // nothing new is begun
		e.endTakeBacks()
		e.giveUp()
	case coordinator.Tick:
	}
	e.wakeTrusted(now)
	if e.fleet.Claimants {
		e.fleet.Claimants = false
		e.claims.Changed()
	}
	// Where the first has left there may be another. It ends: what is refused is parked, and not tried again
	// before something is given back or given out (see nextAlone, retryOwn for claims).
	for again := true; again; again = e.quotas.pending() {
		e.serveQuotas(now)
		e.serveClaims(now)
		e.relieve(now)
	}
	e.serveIsolated(now)
	e.sealBatches()
	e.recordAssigned()
	out := e.out
	e.out = nil
	return out
}

// NextDeadline is when Apply wants to be called with a Tick if nothing else
// happens before; false when nothing is due at all.
func (e *Engine) NextDeadline() (time.Time, bool) { return e.timers.next() }

func (e *Engine) emit(f coordinator.Effect) { e.out = append(e.out, f) }

// runDue does what was scheduled for now or earlier.
func (e *Engine) runDue(now time.Time) {
	due := false
	for t := e.timers.popDue(now); t != nil; t = e.timers.popDue(now) {
		due = true
		switch t.duty {
		case dutyExpire:
			e.expired(now, t.task)
		case dutyRetry:
			switch t.task.state {
			case stateWaiting:
				e.heldTooLong(now, t.task)
			case stateUnscored:
				e.scoreAgain(now, t.task)
			case stateGathering:
				e.gathered(now, batchKeyOf(t.task))
			case stateBidding:
				e.consider(now, t.task.lot)
			default:
				e.retryDue(now, t.task)
			}
		case dutyStale:
			e.watch(now, t.agent)
		case dutyBudget:
			e.retryAffordable(now)
		case dutyRecheck:
			e.askForQueue(now, t.agent)
		case dutyBreaker:
			e.applyBreakers(e.ejections.Advance(now))
		case dutyRamp:
			e.ramp(now, t.agent)
			e.wake(now, t.agent)
		case dutySteady:
			e.becameSteady(now, t.agent)
		case dutyClaim:
			if t.agent == nil {
				e.claims.Changed() // served at the end of this Apply
			} else {
				e.claimOver(now, t.agent)
			}
		case dutyQuota:
			e.quotaDue(now)
		case dutyControls:
			e.controlsDue()
		case dutyDay:
			e.dayDue(now)
		case dutyWiden:
			e.widenDue(now, t.task)
		case dutyForget:
			e.forgetJoined(now, t.agent)
		case dutyJoin:
			e.join(now)
		case dutyLanes:
			e.relieve(now)
		case dutyCool:
			t.agent.QueueFull = false
			e.fleet.Refresh(t.agent)
			e.wake(now, t.agent)
		}
	}
	e.serveQuotas(now) // waiting tasks go before new ones
	if due {
		e.serveIsolated(now)
	}
	e.sealBatches()
}

// wake serves waiting tasks after an agent has changed, in their order (see queue.Queue), while it is ready. No
// other agent needs to be checked: an agent that was ready before could take none of the tasks, or they would not
// wait. But where there are quotas, what the agent has given back may be for other tasks: those whose turn it is go
// first, whichever agent serves them.
func (e *Engine) wake(now time.Time, a *agent) {
	if len(e.pending.Active()) == 0 || a.Number < 0 || !e.fleet.Ready.Has(a.Number) {
		return
	}
	if e.retryOwn(a.Number); e.quotas.Installed() {
		e.serveQuotas(now)
		return
	}
	next := e.pending.LineOf(a.Number)
	defer next.End()
	for e.fleet.Ready.Has(a.Number) && e.serveNext(now, &next) {
	}
}

// serveNext gives the first of a line that may go to an agent; false: there is none.
func (e *Engine) serveNext(now time.Time, next *line) bool {
	for {
		c, t, levels := next.Take()
		if c == nil {
			return false
		}
		a, d := e.choose(t)
		switch {
		case a == nil && !e.unscored(t), a != nil && !e.mayGive(t):
			continue
		case a == nil: // whoever stands behind it may be luckier
			e.setAside(now, t)
		default:
			e.leavePending(t)
			e.quotas.serving = levels
			e.give(now, t, a, d)
			e.quotas.serving = 0
		}
		next.Back(c)
		return true
	}
}

package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/claims"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/ejection"
	"taskbus/coordinator/engine/internal/ends"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/lanes"
	"taskbus/coordinator/engine/internal/market"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/engine/internal/unresolved"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/learning"
	"taskbus/coordinator/pull"
)

// What the tests of the kernel, which are of package engine_test, see of the inside of an engine, by the
// part that it is of. A new test asks what the engine exports (Snapshot, Explain, Audit) where that says it.

// The session and the policy.

func (e *Engine) IsConnected() bool { return e.connected }

// Policy is that in force.
func (e *Engine) Policy() *coordinator.Policy { return e.policy }

// SetPolicy has it be another without being installed.
func (e *Engine) SetPolicy(p *coordinator.Policy) { e.policy = p }

// Bounds and waits.
const (
	// Of tasks.
	QueueCool        = queueCool
	QueueRecheck     = queueRecheck
	LeaseMargin      = leaseMargin
	StateDeciding    = stateDeciding
	StateDelayed     = stateDelayed
	StateDispatching = stateDispatching
	StateGathering   = stateGathering
	StateLeased      = stateLeased
	StateMoving      = stateMoving
	StateWaiting     = stateWaiting

	// Of retries.
	FreeAsks   = freeAsks
	MaxSaid    = maxSaid
	RetryBurst = queue.RetryBurst
	RetryFloor = queue.RetryFloor

	// Of the queue, and looks at it.
	MaxIdleClasses = queue.MaxIdle
	MaxExplained   = maxExplained

	// Of what has been seen, and what is in doubt.
	AckDoubt     = unresolved.AckDoubt
	EndsTold     = ends.Young
	EvictStep    = dedupe.EvictStep
	LeastToTell  = leastToTell
	MaxReasons   = dedupe.MaxReasons
	ShortSession = unresolved.ShortSession

	// Of the fleet.
	ExactLimit   = choice.ExactLimit
	FlapMax      = flapMax
	FlapMemory   = flapMemory
	IdleLook     = fleet.IdleLook
	JoinDelay    = joinDelay
	LeastSerials = fleet.LeastSerials
	MaxInstances = fleet.MaxInstances
	MaxStrangers = fleet.MaxRefused
	MaxTakeBacks = maxTakeBacks
	MissedFor    = fleet.MissedFor
	PresentMost  = fleet.PresentMost
	SampleSize   = choice.SampleSize
	WorkLook     = fleet.WorkLook

	// Of the market, and claims.
	MaxOffers = market.MaxOffers
	PlansAge  = claims.MaxAge
	PulledBy  = pulledBy

	// Of quotas.
	AuditQuotasEvery = auditQuotasEvery
	MostRefused      = admission.MaxRefused

	// Of lanes.
	AsksAhead     = lanes.AsksAhead
	HeldAtOnce    = lanes.HeldAtOnce
	HeldLong      = lanes.HeldLong
	HeldMost      = lanes.HeldMost
	LaneLook      = lanes.LaneLook
	LaneQuiet     = lanes.LaneQuiet
	LaneRest      = lanes.LaneRest
	LaneTurn      = lanes.LaneTurn
	MaxLanes      = lanes.MaxLanes
	MaxLanesRead  = lanes.MaxLanesRead
	MaxMoving     = lanes.MaxMoving
	MovesPerEvent = lanes.MovesPerEvent
)

// What answers without an engine.
var (
	Without          = without
	Earlier          = earlier
	Later            = later
	BackoffFirst     = backoffOther.First
	BackoffMax       = backoffOther.Most
	BackoffSameFirst = backoffSame.First
	Said             = said
)

// Tasks.

// TaskState is what a task is in.
type TaskState = taskState

// OpenTask is a task that is open, as it is at the time of each question.
type OpenTask struct{ o *openTask }

func openTaskOf(o *openTask) *OpenTask {
	if o == nil {
		return nil
	}
	return &OpenTask{o}
}

func openTasksOf(list []*openTask) (all []*OpenTask) {
	for _, o := range list {
		if o != nil {
			all = append(all, &OpenTask{o})
		}
	}
	return all
}

// OpenTask finds an open task of the dedupe window; nil: there is none of that id.
func (e *Engine) OpenTask(id coordinator.TaskID) *OpenTask {
	return openTaskOf(e.taskOf(coordinator.KeyOf(id)))
}

// OpenTasks are all that are open, with agents or held.
func (e *Engine) OpenTasks() []*OpenTask { return openTasksOf(e.tasks.all) }

// HeldTask is the task of a delivery that is not settled; nil: there is none.
func (e *Engine) HeldTask(h coordinator.Handle) *OpenTask { return openTaskOf(e.held[h]) }

// HeldTasks are those of all deliveries that are not settled.
func (e *Engine) HeldTasks() map[coordinator.Handle]*OpenTask {
	all := make(map[coordinator.Handle]*OpenTask, len(e.held))
	for h, o := range e.held {
		all[h] = &OpenTask{o}
	}
	return all
}

// HeldInOrder are the same, in the order in which they came.
func (e *Engine) HeldInOrder() []*OpenTask { return openTasksOf(e.inOrder()) }

func (t *OpenTask) Task() *coordinator.Task          { return t.o.task }
func (t *OpenTask) Handle() coordinator.Handle       { return t.o.handle }
func (t *OpenTask) State() taskState                 { return t.o.state }
func (t *OpenTask) DispatchID() string               { return t.o.dispatchID }
func (t *OpenTask) Agent() *FleetAgent               { return fleetAgentOf(t.o.agent) }
func (t *OpenTask) Tried() []coordinator.AgentID     { return t.o.tried }
func (t *OpenTask) Barred() []coordinator.AgentID    { return t.o.barred() }
func (t *OpenTask) Untouched() []coordinator.AgentID { return t.o.untouched }
func (t *OpenTask) Suspected() []coordinator.AgentID { return t.o.suspected }
func (t *OpenTask) Alone() bool                      { return t.o.alone }
func (t *OpenTask) Over() bool                       { return t.o.Over }
func (t *OpenTask) Withdrawn() bool                  { return t.o.withdrawn }
func (t *OpenTask) Unanswered() bool                 { return t.o.unanswered }
func (t *OpenTask) Resumed() bool                    { return t.o.resumed }
func (t *OpenTask) Probe() bool                      { return t.o.probe }
func (t *OpenTask) Early() *coordinator.TaskReceived { return t.o.early }
func (t *OpenTask) FromLane() string                 { return t.o.from }
func (t *OpenTask) Arrival() uint64                  { return t.o.arrival }

// The queue of those that wait.

func (e *Engine) PendingTotal() int   { return e.pending.total() }
func (e *Engine) PendingClasses() int { return e.pending.Known() }
func (e *Engine) ActiveClasses() int  { return len(e.pending.Active()) }

// IdleClasses counts those of no route in which nothing waits.
func (e *Engine) IdleClasses() (n int) {
	for c := range e.pending.All() {
		if !c.routed && !c.IsActive() {
			n++
		}
	}
	return n
}

// FirstOfClass is the task that goes first of those that wait in this one's class.
func (e *Engine) FirstOfClass(t *OpenTask) *OpenTask { return openTaskOf(t.o.needs.class.First()) }

// ClassIsKnown reports whether the class of that key has not been forgotten; ClassOf is that of a task.
func (e *Engine) ClassIsKnown(key string) bool { return e.pending.Find([]byte(key)) != nil }
func (e *Engine) ClassOf(t *OpenTask) string   { return t.o.needs.class.Key }

// BatchCloses is when the only batch that gathers does; false: none gathers.
func (e *Engine) BatchCloses() (at time.Time, ok bool) {
	for key := range e.batches.All() {
		_, at = e.batches.Gathering(key)
		return at, true
	}
	return at, false
}

// NoRetryBudget has the retry budget earn nothing until then.
func (e *Engine) NoRetryBudget(until time.Time) { e.retries.EmptyUntil(until) }

// Explained counts the kinds of tasks that the look has explained.
func (w *Waiters) Explained() int { return w.explained }

// What has been seen, and what is in doubt.

func (e *Engine) RememberedIDs() int { return e.dedupe.Size() }

// RememberedAttempt is the latest attempt of a task, RememberedFate how it ended; false: it is not known.
func (e *Engine) RememberedAttempt(now time.Time, id coordinator.TaskID) int {
	return int(e.lookup(now, coordinator.KeyOf(id)).Attempt)
}

func (e *Engine) RememberedFate(now time.Time, id coordinator.TaskID) (coordinator.Fate, bool) {
	if r := e.dedupe.Lookup(now, coordinator.KeyOf(id), e.policy.Settings.DedupeWindow); r != nil {
		return r.Fate, true
	}
	return 0, false
}

// CancelReasons are the keys of those that are kept, in no order.
func (e *Engine) CancelReasons() (keys []coordinator.TaskKey) {
	for key := range e.dedupe.Image().Reasons {
		keys = append(keys, key)
	}
	return keys
}

// ForgetIDs has the dedupe window pass.
func (e *Engine) ForgetIDs() { e.dedupe = dedupe.Window{} }

// RecentEnd reports whether the end of the task was told so shortly before that its message is kept.
func (e *Engine) RecentEnd(id coordinator.TaskID) bool {
	return e.ends.Task(coordinator.KeyOf(id)) != nil
}

// OwedFailures are those that no delivery stands behind, and that are not acknowledged.
func (e *Engine) OwedFailures() (ids []coordinator.TaskID) {
	for _, o := range e.ends.Failures() {
		ids = append(ids, o.Task.ID)
	}
	return ids
}

// ForgetLoss has it be as in an engine that has only folded when its session was lost.
func (e *Engine) ForgetLoss() { e.stall.since = time.Time{} }

// RecallAll does with what was folded what the opening of a session does.
func (e *Engine) RecallAll() { e.recollect(); e.installFolded() }

// The fleet.

// FleetAgent is an agent, as it is at the time of each question.
type FleetAgent struct{ a *agent }

func fleetAgentOf(a *agent) *FleetAgent {
	if a == nil {
		return nil
	}
	return &FleetAgent{a}
}

// FleetAgent is an agent that the fleet lists or that has joined, KnownAgent also one that it listed;
// nil: there is none.
func (e *Engine) FleetAgent(id coordinator.AgentID) *FleetAgent {
	return fleetAgentOf(e.fleet.ByID[id])
}
func (e *Engine) KnownAgent(id coordinator.AgentID) *FleetAgent {
	return fleetAgentOf(e.fleet.Known(id))
}

// FleetAgents are all, sorted by id.
func (e *Engine) FleetAgents() (all []*FleetAgent) {
	for _, a := range e.fleet.Agents {
		all = append(all, &FleetAgent{a})
	}
	return all
}

func (a *FleetAgent) Spec() coordinator.AgentSpec     { return a.a.Spec }
func (a *FleetAgent) Number() int                     { return a.a.Number }
func (a *FleetAgent) State() coordinator.AgentState   { return a.a.State }
func (a *FleetAgent) Report() coordinator.AgentReport { return a.a.Report }
func (a *FleetAgent) Heard() time.Time                { return a.a.Heard }
func (a *FleetAgent) Tracked() bool                   { return a.a.Tracked }
func (a *FleetAgent) Maximum() int                    { return a.a.Maximum() }
func (a *FleetAgent) Room() int                       { return a.a.Room() }
func (a *FleetAgent) InFlight() int                   { return a.a.InFlight() }
func (a *FleetAgent) Uncovered() int                  { return a.a.Uncovered }
func (a *FleetAgent) Credit() int                     { return a.a.Credit }
func (a *FleetAgent) Open() []*OpenTask               { return openTasksOf(a.a.Open) }
func (a *FleetAgent) RecentEnds() int                 { return len(a.a.Recent) }
func (a *FleetAgent) TakenQueue() string              { return a.a.TakenQueue }
func (a *FleetAgent) HeldByUs() bool                  { return a.a.HeldByUs }
func (a *FleetAgent) Unattended() bool                { return a.a.Unattended }
func (a *FleetAgent) Suspect() bool                   { return a.a.Suspect }
func (a *FleetAgent) Since() time.Time                { return a.a.Since }
func (a *FleetAgent) Clock() (time.Duration, bool)    { return a.a.Clock.Offset, a.a.Clock.Known }
func (a *FleetAgent) Bids() int                       { return a.a.bidding.Held() }

// Find is the dispatch on the agent's account; nil: it has none of that attempt.
func (a *FleetAgent) Find(id coordinator.TaskID, attempt int) *OpenTask {
	return openTaskOf(a.a.Find(id, attempt))
}

// Eligibility is why the agent may have no work, whatever the task.
func (e *Engine) Eligibility(id coordinator.AgentID) coordinator.Ineligibility {
	return e.fleet.Eligibility(e.fleet.ByID[id])
}

// SeenByStrategies is what strategies see of the agent.
func (e *Engine) SeenByStrategies(id coordinator.AgentID) coordinator.AgentView {
	return e.fleet.Views[e.fleet.ByID[id].Number]
}

// Track has it be as if the agent had said exactly what it runs.
func (e *Engine) Track(id coordinator.AgentID) { e.track(e.fleet.ByID[id]) }

// AgentsLeft counts those that the policy dropped while dispatches were on their way to them.
func (e *Engine) AgentsLeft() int { return len(e.fleet.Left) }

// Serials counts the agents that records may name, and the names.
func (e *Engine) Serials() (known, names int) { return e.fleet.KnownSerials(), len(e.fleet.Names()) }

// IsKept reports whether the agent has a task that must be alone, or is kept for one; IsIsolating whether
// any has or is.
func (e *Engine) IsKept(id coordinator.AgentID) bool {
	a := e.fleet.ByID[id]
	return a.Alone > 0 || e.fleet.Kept() == a
}

func (e *Engine) IsIsolating() bool {
	return e.fleet.Kept() != nil || slices.ContainsFunc(e.fleet.Agents, func(a *agent) bool { return a.Alone > 0 })
}

// Suspects are the agents that have been silent for a while.
func (e *Engine) Suspects() map[coordinator.AgentID]bool {
	set := make(map[coordinator.AgentID]bool)
	for _, a := range e.fleet.Agents {
		if a.Suspect {
			set[a.Spec.ID] = true
		}
	}
	return set
}

// HasJoined reports whether the agent has joined by itself; Strangers counts those that did not.
func (e *Engine) HasJoined(id coordinator.AgentID) bool { return e.fleet.HasJoined(id) }
func (e *Engine) Strangers() int                        { return e.fleet.RefusedSenders() }

// TakeBacks counts the queues that are taken back; SetTakeBacks has there be so many.
func (e *Engine) SetTakeBacks(n int) { e.takeBacks = n }

// Trust, and what was learnt.

func (e *Engine) Learner() *learning.Learner            { return e.learner }
func (e *Engine) KindOf(taskType string) *learning.Type { return e.kind(taskType) }

// Ejected are the agents that are ejected from each capability.
func (e *Engine) Ejected() map[string][]coordinator.AgentID {
	all := make(map[string][]coordinator.AgentID)
	for i, a := range e.fleet.Agents {
		from, _ := e.ejections.List(e.now, i)
		for _, c := range from {
			all[c] = append(all[c], a.Spec.ID)
		}
	}
	return all
}

// Trip ejects the agent from a capability, if that may be.
func (e *Engine) Trip(now time.Time, id coordinator.AgentID, capability string) {
	d := ejection.Dispatch{Agent: e.fleet.ByID[id].Number, Required: []string{capability}}
	d.Generation, _, _ = e.ejections.Begin(now, d)
	e.applyBreakers(e.ejections.Fault(now, d, "trip", true))
}

// Chooser decides a task, as of another id each time, without what surrounds a decision; text is why it
// cannot.
func (e *Engine) Chooser(task coordinator.Task) (choose func(coordinator.TaskID) bool, text string) {
	o := &openTask{attempt: 1, task: &task}
	if reason, text := e.resolve(o); reason != coordinator.ReasonNone {
		return nil, text
	}
	return func(id coordinator.TaskID) bool {
		task.ID = id
		a, _ := e.choose(o)
		return a != nil
	}, ""
}

// Refuser says of the agents that are out of a choice why they are; ready of those that are able to do the
// task are not.
func (e *Engine) Refuser(task coordinator.Task) (refuse func(), ready, able int, text string) {
	o := &openTask{attempt: 1, task: &task}
	if reason, text := e.resolve(o); reason != coordinator.ReasonNone {
		return nil, 0, 0, text
	}
	ready, d := o.needs.class.Usable.Common(e.fleet.Ready), &choice.Kept{}
	q := e.question(o)
	return func() {
		d.Decision = coordinator.Decision{}
		q.Refuse(d, ready)
	}, ready, o.needs.class.criteria.Able, ""
}

// CheckRefused compares what a choice of such a task says of the agents that are out with a full pass over
// the fleet.
func CheckRefused(t failer, e *Engine, task *coordinator.Task, tried []coordinator.AgentID, alone bool) {
	t.Helper()
	o := &openTask{task: task, supposed: true, attempt: 1, tried: tried}
	if reason, text := e.resolve(o); reason != coordinator.ReasonNone {
		t.Fatalf("%s", text)
	}
	o.alone = alone
	checkRefused(t, e, o)
}

// ExplainAlone explains a task as if it had to be alone.
func (e *Engine) ExplainAlone(now time.Time, task *coordinator.Task) (*coordinator.Decision, string) {
	o := &openTask{task: task, supposed: true, attempt: 1}
	if reason, text := e.resolve(o); reason != coordinator.ReasonNone {
		return nil, text
	}
	o.alone = true
	return e.explain(now, o, false), ""
}

// The market, and claims.

func (e *Engine) AuctionWindow() time.Duration { return e.market.Length() }
func (e *Engine) OpenAuctions() int            { return len(e.market.Lots()) }
func (e *Engine) Backlog() int                 { return e.backlog() }

// ClaimPlans are the plans by which claims are granted.
func (e *Engine) ClaimPlans() (all []*ClaimPlan) {
	for p := range e.claims.Plans {
		all = append(all, p)
	}
	return all
}

// ClaimPlan is one of them.
type ClaimPlan = claimPlan

// AnswerClaims answers all that wait.
func (e *Engine) AnswerClaims(now time.Time) { e.drainClaims(now) }

// IdleClaimant is an agent whose claim waits, that holds nothing, and that could have some of what waits;
// empty: there is none.
func (e *Engine) IdleClaimant() coordinator.AgentID {
	for a := range e.claims.All() {
		if (*claimView)(e).Limit(a, e.reach(a.Number)) == pull.LimitNone && a.seat.Member(e.now, a.InFlight(), 0).Pending == 0 {
			return a.Spec.ID
		}
	}
	return ""
}

// Quotas.

func (e *Engine) Ledger() *fairshare.Ledger       { return e.quotas.Ledger }
func (e *Engine) Shares() *fairshare.Shares       { return e.quotas.Shares }
func (e *Engine) Estimator() *fairshare.Estimator { return e.quotas.Estimator }

// Refusals counts those for want of quota, by limit and dimension.
func (e *Engine) Refusals(l fairshare.Limit, d coordinator.Dimension) int64 {
	return int64(e.quotas.Refused[l][d])
}

// AllRefusals is their sum.
func (e *Engine) AllRefusals() (n uint64) {
	for _, by := range e.quotas.Refused {
		for _, refused := range by {
			n += refused
		}
	}
	return n
}

// DayStart is when the day began whose use is counted, DayUse what the nodes have used of it that have used
// something.
func (e *Engine) DayStart() time.Time { return e.controls.DayStart() }

// DayUse is what nodes have used on the day, but for those that have used nothing.
func (e *Engine) DayUse() map[string]coordinator.QuotaUse {
	uses := make(map[string]coordinator.QuotaUse)
	for _, r := range e.controls.DayRecords() {
		for _, u := range r.(*coordinator.QuotaControlled).Uses {
			if u != (coordinator.QuotaUse{Node: u.Node}) {
				uses[u.Node] = u
			}
		}
	}
	return uses
}

// IsParked reports whether the task waits for quota, LacksTogether whether all of its class do.
func (e *Engine) IsParked(t *OpenTask) bool {
	return e.waitAt(t.o.needs.class, t.o.leaf) != nil
}
func (e *Engine) LacksTogether(t *OpenTask) bool { return t.o.needs.class.lacks.Whole != nil }

// SetAside is what the dispatch of a held task is charged to; false: nothing is set aside for it.
func (e *Engine) SetAside(h coordinator.Handle) (fairshare.Charge, bool) {
	if o := e.held[h]; o != nil && o.quota != nil && o.quota.Open {
		return o.quota.Charge, true
	}
	return fairshare.Charge{}, false
}

// KeptFrom is what is kept from a task that waits for quota.
func (e *Engine) KeptFrom(t *OpenTask) any {
	return e.waitAt(t.o.needs.class, t.o.leaf).Lacks.Kept
}

// Affordable reports whether there is quota for the task with the agent, ExceedsQuota whether there is none
// with any.
func (e *Engine) ExceedsQuota(now time.Time, t *OpenTask) bool { return e.exceedsQuota(now, t.o) }
func (e *Engine) Affordable(now time.Time, t *OpenTask, id coordinator.AgentID) bool {
	return e.affordable(now, t.o, id)
}

// WaitingOf counts the tasks of a group that wait.
func (e *Engine) WaitingOf(group string) (n int) {
	at := e.quotas.Shares.Leaf(group)
	for _, c := range e.pending.Active() {
		c.Waiting.Leaves(func(leaf, _, waiting int, _ bool) {
			if leaf == at {
				n += waiting
			}
		})
	}
	return n
}

// CallCharge is what a call is charged for.
func (e *Engine) CallCharge(c *coordinator.Call) fairshare.Charge {
	charge, guessed, _ := e.quotas.Ledger.ForCall(c, e.quotas.Estimator)
	e.quotas.Ledger.Bound(&charge, guessed)
	return charge
}

// FoldQuota and FoldJoined take over what a record says, of quotas and of an agent that joined.
func (e *Engine) FoldQuota(r coordinator.Record)                 { e.foldQuota(r) }
func (e *Engine) FoldJoined(at time.Time, j *coordinator.Joined) { e.foldJoined(at, j) }

// Lanes.

// Lane is the lane of a key; nil: there is none.
func (e *Engine) Lane(key string) *lanes.Lane {
	for l := range e.lanes.All() {
		if l.Key == key {
			return &l
		}
	}
	return nil
}

// LaneKeys are the keys of all, in their order.
func (e *Engine) LaneKeys() (keys []string) {
	for l := range e.lanes.All() {
		keys = append(keys, l.Key)
	}
	return keys
}

// KnowLane has the lane of a key be known to hold something.
func (e *Engine) KnowLane(key string) { e.lanes.Fold(&coordinator.LaneKnown{Lane: key, Known: true}) }

// Moving counts the tasks that are on their way to lanes.
func (e *Engine) Moving() (n int) {
	for l := range e.lanes.All() {
		n += l.Moving
	}
	return n
}

// IsInLine reports whether a task of the group waits that may be moved to a lane.
func (e *Engine) IsInLine(group string) bool {
	return e.lanes.MakesRoom(group)
}

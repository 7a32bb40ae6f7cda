package engine

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/audit"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/claims"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/ejection"
	"taskbus/coordinator/engine/internal/ends"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/lanes"
	"taskbus/coordinator/engine/internal/market"
	"taskbus/coordinator/engine/internal/questions"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/engine/internal/unresolved"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/estimates"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/learning"
	"taskbus/coordinator/pull"
)

// What the tests of the kernel, which are of package engine_test, see of the inside of an engine, by the
// part that it is of. A new test asks what the engine exports (Snapshot, Explain, Audit) where that says it.

// The session and the policy.

func (e *Engine) IsConnected() bool { return e.k.Fleet.Connected }

// Policy is that in force.
func (e *Engine) Policy() *coordinator.Policy { return e.k.Policy }

// SetPolicy has it be another without being installed.
func (e *Engine) SetPolicy(p *coordinator.Policy) { e.k.Policy = p }

// Bounds and waits.
const (
	// Of tasks.
	QueueCool        = fleet.QueueCool
	QueueRecheck     = fleet.QueueRecheck
	LeaseMargin      = state.LeaseMargin
	StateDeciding    = state.Deciding
	StateDelayed     = state.Delayed
	StateDispatching = state.Dispatching
	StateGathering   = state.Gathering
	StateLeased      = state.Leased
	StateMoving      = state.Moving
	StateWaiting     = state.Waiting

	// Of retries.
	FreeAsks   = state.FreeHoldoffs
	MaxSaid    = state.MaxSaid
	RetryBurst = queue.RetryBurst
	RetryFloor = queue.RetryFloor

	// Of the queue, and looks at it.
	MaxIdleClasses = queue.MaxIdle
	MaxExplained   = questions.MaxExplained

	// Of what has been seen, and what is in doubt.
	AckDoubt     = unresolved.AckDoubt
	EndsTold     = ends.Young
	EvictStep    = dedupe.EvictStep
	LeastToTell  = fleet.LeastToTell
	MaxReasons   = dedupe.MaxReasons
	ShortSession = unresolved.ShortSession

	// Of the fleet.
	ExactLimit   = choice.ExactLimit
	FlapMax      = fleet.FlapMax
	FlapMemory   = fleet.FlapMemory
	IdleLook     = fleet.IdleLook
	JoinDelay    = joinDelay
	LeastSerials = fleet.LeastSerials
	MaxInstances = fleet.MaxInstances
	MaxStrangers = fleet.MaxRefused
	MaxTakeBacks = fleet.MaxTakeBacks
	MissedFor    = fleet.MissedFor
	PresentMost  = fleet.PresentMost
	SampleSize   = choice.SampleSize
	WorkLook     = fleet.WorkLook

	// Of the market, and claims.
	MaxOffers = market.MaxOffers
	PlansAge  = claims.MaxAge
	PulledBy  = pulledBy

	// Of quotas.
	AuditWholeEvery = audit.WholeEvery
	MostRefused     = admission.MaxRefused

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
	Without          = state.Without
	BackoffFirst     = queue.BackoffOther.First
	BackoffMax       = queue.BackoffOther.Most
	BackoffSameFirst = queue.BackoffSame.First
	Said             = state.Said
)

// Tasks.

// TaskState is what a task is in.
type TaskState = state.Stage

// OpenTask is a task that is open, as it is at the time of each question.
type OpenTask struct{ o *state.Task }

func openTaskOf(o *state.Task) *OpenTask {
	if o == nil {
		return nil
	}
	return &OpenTask{o}
}

func openTasksOf(list []*state.Task) (all []*OpenTask) {
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

func (e *Engine) taskOf(key coordinator.TaskKey) *state.Task {
	return e.k.Tasks.Of(e.k.Dedupe.Peek(key))
}

// OpenTasks are all that are open, with agents or held.
func (e *Engine) OpenTasks() []*OpenTask { return openTasksOf(e.k.Tasks.All) }

// HeldTask is the task of a delivery that is not settled; nil: there is none.
func (e *Engine) HeldTask(h coordinator.Handle) *OpenTask { return openTaskOf(e.k.Held[h]) }

// HeldTasks are those of all deliveries that are not settled.
func (e *Engine) HeldTasks() map[coordinator.Handle]*OpenTask {
	all := make(map[coordinator.Handle]*OpenTask, len(e.k.Held))
	for h, o := range e.k.Held {
		all[h] = &OpenTask{o}
	}
	return all
}

// HeldInOrder are the same, in the order in which they came.
func (e *Engine) HeldInOrder() []*OpenTask { return openTasksOf(e.k.InOrder()) }

func (t *OpenTask) Task() *coordinator.Task          { return t.o.Task }
func (t *OpenTask) Handle() coordinator.Handle       { return t.o.Handle }
func (t *OpenTask) State() state.Stage               { return t.o.Stage }
func (t *OpenTask) DispatchID() string               { return t.o.DispatchID }
func (t *OpenTask) Agent() *FleetAgent               { return fleetAgentOf(t.o.Agent) }
func (t *OpenTask) Tried() []coordinator.AgentID     { return t.o.Tried }
func (t *OpenTask) Barred() []coordinator.AgentID    { return t.o.Barred() }
func (t *OpenTask) Untouched() []coordinator.AgentID { return t.o.Untouched }
func (t *OpenTask) Suspected() []coordinator.AgentID { return t.o.Suspected }
func (t *OpenTask) Alone() bool                      { return t.o.Alone }
func (t *OpenTask) Over() bool                       { return t.o.Over }
func (t *OpenTask) Withdrawn() bool                  { return t.o.Withdrawn }
func (t *OpenTask) Unanswered() bool                 { return t.o.Unanswered }
func (t *OpenTask) Resumed() bool                    { return t.o.Resumed }
func (t *OpenTask) Probe() bool                      { return t.o.Probe }
func (t *OpenTask) Early() *coordinator.TaskReceived { return t.o.Early }
func (t *OpenTask) FromLane() string                 { return t.o.From }
func (t *OpenTask) Arrival() uint64                  { return t.o.Arrival }
func (t *OpenTask) Deadline() time.Time              { return t.o.Deadline }

// The queue of those that wait.

func (e *Engine) PendingTotal() int   { return e.k.Pending.Total() }
func (e *Engine) PendingClasses() int { return len(slices.Collect(e.k.Pending.All())) }
func (e *Engine) ActiveClasses() int  { return len(e.k.Pending.Active()) }

// IdleClasses counts those of no route in which nothing waits.
func (e *Engine) IdleClasses() (n int) {
	for c := range e.k.Pending.All() {
		if !c.Routed && c.Waiting.Len() == 0 {
			n++
		}
	}
	return n
}

// FirstOfClass is the task that goes first of those that wait in this one's class.
func (e *Engine) FirstOfClass(t *OpenTask) *OpenTask { return openTaskOf(t.o.Needs.Class.First()) }

// ClassIsKnown reports whether the class of that key has not been forgotten; ClassOf is that of a task.
func (e *Engine) ClassIsKnown(key string) bool { return e.k.Pending.Find([]byte(key)) != nil }
func (e *Engine) ClassOf(t *OpenTask) string   { return t.o.Needs.Class.Key }

// BatchCloses is when the only batch that gathers does; false: none gathers.
func (e *Engine) BatchCloses() (at time.Time, ok bool) {
	for _, t := range e.k.Held {
		if t.Stage == state.Gathering {
			_, at = e.k.Batches.Gathering(state.BatchKeyOf(t))
			return at, true
		}
	}
	return at, false
}

// NoRetryBudget has the retry budget earn nothing until then.
func (e *Engine) NoRetryBudget(until time.Time) {
	waiting := slices.Clone(e.k.Retries.All())
	e.k.Retries.Clear()
	for ok := true; ok; {
		e.k.Retries.Add(nil)
		_, _, ok = e.k.Retries.Next(until, func(*state.Task) bool { return true })
	}
	e.k.Retries.Clear()
	for _, t := range waiting {
		e.k.Retries.Add(t)
	}
}

// What has been seen, and what is in doubt.

func (e *Engine) RememberedIDs() int { return e.k.Dedupe.Size() }

// RememberedAttempt is the latest attempt of a task, RememberedFate how it ended; false: it is not known.
func (e *Engine) RememberedAttempt(now time.Time, id coordinator.TaskID) int {
	return int(e.k.Lookup(now, coordinator.KeyOf(id)).Attempt)
}

func (e *Engine) RememberedFate(now time.Time, id coordinator.TaskID) (coordinator.Fate, bool) {
	if r := e.k.Dedupe.Lookup(now, coordinator.KeyOf(id), e.k.Policy.Settings.DedupeWindow); r != nil {
		return r.Fate, true
	}
	return 0, false
}

// CancelReasons are the keys of those that are kept, in no order.
func (e *Engine) CancelReasons() (keys []coordinator.TaskKey) {
	for key := range e.k.Dedupe.Image().Reasons {
		keys = append(keys, key)
	}
	return keys
}

// ForgetIDs has the dedupe window pass.
func (e *Engine) ForgetIDs() { e.k.Dedupe = dedupe.Window{} }

// RecentEnd reports whether the end of the task was told so shortly before that its message is kept.
func (e *Engine) RecentEnd(id coordinator.TaskID) bool {
	return e.k.Ends.Task(coordinator.KeyOf(id)) != nil
}

// OwedFailures are those that no delivery stands behind, and that are not acknowledged.
func (e *Engine) OwedFailures() (ids []coordinator.TaskID) {
	for _, o := range e.k.Ends.Failures() {
		ids = append(ids, o.Task.ID)
	}
	return ids
}

// ForgetLoss has it be as in an engine that has only folded when its session was lost.
func (e *Engine) ForgetLoss() { e.k.Fleet.DeafSince = time.Time{} }

// RecallAll does with what was folded what the opening of a session does.
func (e *Engine) RecallAll() {
	e.k.Recollect()
	if e.k.Quotas.InstallFolded() {
		e.k.ForgetClasses()
	}
}

// The fleet.

// FleetAgent is an agent, as it is at the time of each question.
type FleetAgent struct{ a *state.Agent }

func fleetAgentOf(a *state.Agent) *FleetAgent {
	if a == nil {
		return nil
	}
	return &FleetAgent{a}
}

// FleetAgent is an agent that the fleet lists or that has joined, KnownAgent also one that it listed;
// nil: there is none.
func (e *Engine) FleetAgent(id coordinator.AgentID) *FleetAgent {
	return fleetAgentOf(e.k.Fleet.ByID[id])
}
func (e *Engine) KnownAgent(id coordinator.AgentID) *FleetAgent {
	return fleetAgentOf(e.k.Fleet.Known(id))
}

// FleetAgents are all, sorted by id.
func (e *Engine) FleetAgents() (all []*FleetAgent) {
	for _, a := range e.k.Fleet.Agents {
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
func (a *FleetAgent) Bids() int                       { return a.a.Bidding.Held() }

// Find is the dispatch on the agent's account; nil: it has none of that attempt.
func (a *FleetAgent) Find(id coordinator.TaskID, attempt int) *OpenTask {
	return openTaskOf(a.a.Find(id, attempt))
}

// Eligibility is why the agent may have no work, whatever the task.
func (e *Engine) Eligibility(id coordinator.AgentID) coordinator.Ineligibility {
	return e.k.Fleet.Eligibility(e.k.Fleet.ByID[id])
}

// SeenByStrategies is what strategies see of the agent.
func (e *Engine) SeenByStrategies(id coordinator.AgentID) coordinator.AgentView {
	return e.k.Fleet.Views[e.k.Fleet.ByID[id].Number]
}

// Track has it be as if the agent had said exactly what it runs.
func (e *Engine) Track(id coordinator.AgentID) { e.k.Track(e.k.Fleet.ByID[id]) }

// AgentsLeft counts those that the policy dropped while dispatches were on their way to them.
func (e *Engine) AgentsLeft() int { return len(e.k.Fleet.Left) }

// Serials counts the agents that records may name, and the names.
func (e *Engine) Serials() (known, names int) {
	for _, id := range e.k.Fleet.Names() {
		if names++; id != "" {
			known++
		}
	}
	return known, names
}

// IsKept reports whether the agent has a task that must be alone, or is kept for one; IsIsolating whether
// any has or is.
func (e *Engine) IsKept(id coordinator.AgentID) bool {
	a := e.k.Fleet.ByID[id]
	return a.Alone > 0 || e.k.Fleet.Kept() == a
}

func (e *Engine) IsIsolating() bool {
	return e.k.Fleet.Kept() != nil || slices.ContainsFunc(e.k.Fleet.Agents,
		func(a *state.Agent) bool { return a.Alone > 0 })
}

// Suspects are the agents that have been silent for a while.
func (e *Engine) Suspects() map[coordinator.AgentID]bool {
	set := make(map[coordinator.AgentID]bool)
	for _, a := range e.k.Fleet.Agents {
		if a.Suspect {
			set[a.Spec.ID] = true
		}
	}
	return set
}

// HasJoined reports whether the agent has joined by itself; Strangers counts those that did not.
func (e *Engine) HasJoined(id coordinator.AgentID) bool { return e.k.Fleet.HasJoined(id) }
func (e *Engine) Strangers() int                        { return e.k.Fleet.RefusedSenders() }

// TakeBacks counts the queues that are taken back; SetTakeBacks has there be so many.
func (e *Engine) SetTakeBacks(n int) { e.k.Fleet.TakeBacks = n }

// Trust, and what was learnt.

func (e *Engine) Learner() *learning.Learner            { return e.k.Learner }
func (e *Engine) KindOf(taskType string) *learning.Type { return e.k.Kind(taskType) }

// Ejected are the agents that are ejected from each capability.
func (e *Engine) Ejected() map[string][]coordinator.AgentID {
	all := make(map[string][]coordinator.AgentID)
	for i, a := range e.k.Fleet.Agents {
		from, _ := e.k.Ejections.List(e.k.Now, i)
		for _, c := range from {
			all[c] = append(all[c], a.Spec.ID)
		}
	}
	return all
}

// Trip ejects the agent from a capability, if that may be.
func (e *Engine) Trip(now time.Time, id coordinator.AgentID, capability string) {
	d := ejection.Dispatch{Agent: e.k.Fleet.ByID[id].Number, Required: []string{capability}}
	d.Generation, _, _ = e.k.Ejections.Begin(now, d)
	e.k.ApplyBreakers(e.k.Ejections.Fault(now, d, "trip", true))
}

// Chooser decides a task, as of another id each time, without what surrounds a decision; text is why it
// cannot.
func (e *Engine) Chooser(task coordinator.Task) (choose func(coordinator.TaskID) bool, text string) {
	o := &state.Task{Attempt: 1, Task: &task}
	if reason, text := e.k.Resolve(o); reason != coordinator.ReasonNone {
		return nil, text
	}
	return func(id coordinator.TaskID) bool {
		task.ID = id
		a, _ := e.k.Choose(o)
		return a != nil
	}, ""
}

// Refuser says of the agents that are out of a choice why they are; ready of those that are able to do the
// task are not.
func (e *Engine) Refuser(task coordinator.Task) (refuse func(), ready, able int, text string) {
	o := &state.Task{Attempt: 1, Task: &task}
	if reason, text := e.k.Resolve(o); reason != coordinator.ReasonNone {
		return nil, 0, 0, text
	}
	ready, d := o.Needs.Class.Usable.Common(e.k.Fleet.Ready), &choice.Kept{}
	q := e.k.Question(o)
	return func() {
		d.Decision = coordinator.Decision{}
		q.Refuse(d, ready)
	}, ready, o.Needs.Class.Criteria.Able, ""
}

// CheckRefused compares what a choice of such a task says of the agents that are out with a full pass over
// the fleet.
func CheckRefused(t failer, e *Engine, task *coordinator.Task, tried []coordinator.AgentID, alone bool) {
	t.Helper()
	o := &state.Task{Task: task, Attempt: 1, Tried: tried}
	if reason, text := e.k.Resolve(o); reason != coordinator.ReasonNone {
		t.Fatalf("%s", text)
	}
	o.Alone = alone
	checkRefused(t, e, o)
}

// ExplainAlone explains a task as if it had to be alone.
func (e *Engine) ExplainAlone(now time.Time, task *coordinator.Task) (*coordinator.Decision, string) {
	o := &state.Task{Task: task, Attempt: 1}
	if reason, text := e.k.Resolve(o); reason != coordinator.ReasonNone {
		return nil, text
	}
	o.Alone = true
	return e.k.Explain(now, o, false), ""
}

// The market, and claims.

func (e *Engine) AuctionWindow() time.Duration { return e.k.Market.Length() }
func (e *Engine) OpenAuctions() int            { return len(e.k.Market.Lots()) }
func (e *Engine) Backlog() int                 { return e.k.Backlog() }

// ClaimPlans are the plans by which claims are granted.
func (e *Engine) ClaimPlans() []*ClaimPlan {
	return slices.Collect(maps.Values(e.k.Claims.Plans))
}

// ClaimPlan is one of them.
type ClaimPlan = claims.Plan[*state.Class]

// AnswerClaims answers all that wait.
func (e *Engine) AnswerClaims(now time.Time) { e.k.drainClaims(now) }

// IdleClaimant is an agent whose claim waits, that holds nothing, and that could have some of what waits;
// empty: there is none.
func (e *Engine) IdleClaimant() coordinator.AgentID {
	for a := range e.k.Claims.All() {
		if claims.Limit(a, e.k.Reach(a.Number), e.k.ClaimView()) == pull.LimitNone &&
			a.Seat.Member(e.k.Now, a.InFlight(), 0).Pending == 0 {
			return a.Spec.ID
		}
	}
	return ""
}

// Quotas.

func (e *Engine) Ledger() *fairshare.Ledger       { return e.k.Quotas.Ledger }
func (e *Engine) Shares() *fairqueue.Shares       { return e.k.Quotas.Shares }
func (e *Engine) Estimator() *estimates.Estimator { return e.k.Quotas.Estimator }

// Refusals counts those for want of quota, by limit and dimension.
func (e *Engine) Refusals(l fairshare.Limit, d coordinator.Dimension) int64 {
	return int64(e.k.Quotas.Refused[l][d])
}

// AllRefusals is their sum.
func (e *Engine) AllRefusals() (n uint64) {
	for _, by := range e.k.Quotas.Refused {
		for _, refused := range by {
			n += refused
		}
	}
	return n
}

// DayStart is when the day began whose use is counted, DayUse what the nodes have used of it that have used
// something.
func (e *Engine) DayStart() time.Time { return e.k.Controls.DayStart() }

// DayUse is what nodes have used on the day, but for those that have used nothing.
func (e *Engine) DayUse() map[string]coordinator.QuotaUse {
	uses := make(map[string]coordinator.QuotaUse)
	for _, r := range e.k.Controls.DayRecords() {
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
	return e.k.WaitAt(t.o.Needs.Class, t.o.Leaf) != nil
}
func (e *Engine) LacksTogether(t *OpenTask) bool { return t.o.Needs.Class.Lacks.Whole != nil }

// SetAside is what the dispatch of a held task is charged to; false: nothing is set aside for it.
func (e *Engine) SetAside(h coordinator.Handle) (fairshare.Charge, bool) {
	if o := e.k.Held[h]; o != nil && o.Quota != nil && o.Quota.Open {
		return o.Quota.Charge, true
	}
	return fairshare.Charge{}, false
}

// KeptFrom is what is kept from a task that waits for quota.
func (e *Engine) KeptFrom(t *OpenTask) any {
	return e.k.WaitAt(t.o.Needs.Class, t.o.Leaf).Lacks.Kept
}

// Affordable reports whether there is quota for the task with the agent, ExceedsQuota whether there is none
// with any.
func (e *Engine) ExceedsQuota(now time.Time, t *OpenTask) bool { return e.k.exceedsQuota(now, t.o) }
func (e *Engine) Affordable(now time.Time, t *OpenTask, id coordinator.AgentID) bool {
	return e.k.Quotas.Affords(now, t.o.Task, e.k.QuotaDemand(t.o), id)
}

// WaitingOf counts the tasks of a group that wait.
func (e *Engine) WaitingOf(group string) (n int) {
	at := e.k.Quotas.Shares.Leaf(group)
	for _, c := range e.k.Pending.Active() {
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
	charge, guessed, _ := e.k.Quotas.Ledger.ForCall(c, e.k.Quotas.Estimator)
	e.k.Quotas.Ledger.Bound(&charge, guessed)
	return charge
}

// FoldQuota and FoldJoined take over what a record says, of quotas and of an agent that joined.
func (e *Engine) FoldQuota(r coordinator.Record)                 { e.k.fold(e.k.Now, r) }
func (e *Engine) FoldJoined(at time.Time, j *coordinator.Joined) { e.k.fold(at, j) }

// Lanes.

// Lane is the lane of a key; nil: there is none.
func (e *Engine) Lane(key string) *lanes.Lane {
	for l := range e.k.Lanes.All() {
		if l.Key == key {
			return &l
		}
	}
	return nil
}

// LaneKeys are the keys of all, in their order.
func (e *Engine) LaneKeys() (keys []string) {
	for l := range e.k.Lanes.All() {
		keys = append(keys, l.Key)
	}
	return keys
}

// KnowLane has the lane of a key be known to hold something.
func (e *Engine) KnowLane(key string) { e.k.Lanes.Fold(&coordinator.LaneKnown{Lane: key, Known: true}) }

// Moving counts the tasks that are on their way to lanes.
func (e *Engine) Moving() (n int) {
	for l := range e.k.Lanes.All() {
		n += l.Moving
	}
	return n
}

// IsInLine reports whether a task of the group waits that may be moved to a lane.
func (e *Engine) IsInLine(group string) bool {
	for _, t := range e.k.Held {
		if t.From == "" && t.Lane.InLine() && e.k.LaneKind(t).Group == group {
			return true
		}
	}
	return false
}

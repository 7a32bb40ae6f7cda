// How a test of the kernel is written: events in, effects out. A policy, a rig in virtual time, and one line
// for each effect that an event has (see describe):
//
//	r := ready(t, policyOf(worker("a").can("go"), worker("b").can("go")).route("build", "go"))
//	want(t, r.assign(job("t").kind("build")), "dispatch t.1 a")
//	r.confirm(r.last)                                                  // the broker's answer
//	want(t, r.tell(says("a", "t").but(coordinator.OutcomeRejected)), "given back t.1 a")
//	want(t, r.pass(10*time.Second))                                    // deadlines on the way are kept
//	engine.CheckIndexes(t, r.Engine)                                   // the books balance
//
// It asks what the engine exports: Snapshot, Explain, Audit, Place. Where that does not say it there are
// accessors in export_test.go, by the part that they look into; a field of a part is for a test beside that
// part, in its package. The ledger, the model and the histories (property_test.go, takeover_test.go) judge
// the effects of random events; the referee compares them with those of the commit before.
package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/strategy"
)

// epoch is where virtual time begins in every test.
var epoch = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

const (
	interval   = 30 * time.Second  // health_check_interval of every test agent
	staleAfter = 120 * time.Second // COORDINATOR's default threshold
)

// specBuilder describes one agent: worker("a1").can("go").slots(2).
type specBuilder struct{ coordinator.AgentSpec }

func worker(id coordinator.AgentID) *specBuilder {
	return &specBuilder{coordinator.AgentSpec{
		ID: id, Queue: "agent." + string(id), MaxConcurrent: 1, Rank: 3,
		HealthCheckInterval: interval, Timeout: 5 * time.Minute, AcceptTimeout: time.Minute,
	}}
}

func (b *specBuilder) can(capabilities ...string) *specBuilder {
	b.Capabilities = coordinator.SortedUnique(capabilities)
	return b
}
func (b *specBuilder) slots(n int) *specBuilder { b.MaxConcurrent = n; return b }
func (b *specBuilder) rank(n int) *specBuilder  { b.Rank = n; return b }

// policyBuilder describes a configuration: policyOf(worker("a1"), …).route(…).
type policyBuilder struct{ coordinator.Policy }

func policyOf(workers ...*specBuilder) *policyBuilder {
	b := &policyBuilder{coordinator.Policy{
		Version: "test", Strategy: "capability_match",
		Strategies: strategy.All(),
		Routes:     map[string]coordinator.Route{"any": {}},
		Settings: coordinator.Settings{
			MaxRetryAttempts: 3, PoisonedAfter: 3, StaleAfter: staleAfter, MaxQueueSize: 100,
			AssignmentTimeout: 30 * time.Second, MaxLoad: 0.9,
			DedupeWindow: time.Hour, DedupeMaxIDs: 1000, Seed: 1,
		},
	}}
	for _, w := range workers {
		b.Agents = append(b.Agents, w.AgentSpec)
	}
	return b
}

// route adds a task type of that name which requires these capabilities.
func (b *policyBuilder) route(taskType string, required ...string) *policyBuilder {
	b.Routes[taskType] = coordinator.Route{Required: required}
	return b
}

func (b *policyBuilder) set(change func(*coordinator.Settings)) *policyBuilder {
	change(&b.Settings)
	return b
}

// taskBuilder describes a task: job("t1").prio(3).needs("go").
type taskBuilder struct{ coordinator.Task }

func job(id coordinator.TaskID) *taskBuilder {
	return &taskBuilder{coordinator.Task{ID: id, Type: "any", Priority: coordinator.PriorityNormal, ContentHash: 1}}
}

func (b *taskBuilder) kind(taskType string) *taskBuilder           { b.Type = taskType; return b }
func (b *taskBuilder) prio(p coordinator.Priority) *taskBuilder    { b.Priority = p; return b }
func (b *taskBuilder) needs(capabilities ...string) *taskBuilder   { b.Required = capabilities; return b }
func (b *taskBuilder) by(strategy string) *taskBuilder             { b.Strategy = strategy; return b }
func (b *taskBuilder) not(ids ...coordinator.AgentID) *taskBuilder { b.Excluded = ids; return b }
func (b *taskBuilder) answers(queue string) *taskBuilder           { b.ReplyTo = queue; return b }
func (b *taskBuilder) content(hash uint64) *taskBuilder            { b.ContentHash = hash; return b }
func (b *taskBuilder) prefers(ids ...coordinator.AgentID) *taskBuilder {
	b.Preferred = ids
	return b
}

func (b *taskBuilder) accepted(at time.Time) *taskBuilder { b.AcceptedAt = at; return b }

// widens has it wait for its preferred agents alone for so long.
func (b *taskBuilder) widens(after time.Duration) *taskBuilder { b.WidenAfter = after; return b }

// reportBuilder describes a heartbeat; without more it says "ready and idle".
type reportBuilder struct {
	coordinator.AgentReport
	past bool
}

func beat(id coordinator.AgentID) *reportBuilder {
	return &reportBuilder{AgentReport: coordinator.AgentReport{Agent: id, Status: coordinator.StatusReady, Available: 100}}
}

func (b *reportBuilder) load(l float64) *reportBuilder                   { b.Load = l; return b }
func (b *reportBuilder) active(n int) *reportBuilder                     { b.Active = n; return b }
func (b *reportBuilder) available(n int) *reportBuilder                  { b.Available = n; return b }
func (b *reportBuilder) status(s coordinator.AgentStatus) *reportBuilder { b.Status = s; return b }
func (b *reportBuilder) stamped(t time.Time) *reportBuilder              { b.Timestamp = t; return b }
func (b *reportBuilder) fromPast() *reportBuilder                        { b.past = true; return b }

// running says exactly what the agent runs; without ids: nothing.
func (b *reportBuilder) running(ids ...coordinator.TaskID) *reportBuilder {
	b.ActiveTasks = append([]coordinator.TaskID{}, ids...)
	b.Active = len(ids)
	return b
}

// resultBuilder describes a task.result: says("a", "t1").failed().
type resultBuilder struct{ coordinator.Result }

// says is the word of an agent that it has done its latest attempt of the task.
func says(agent coordinator.AgentID, task coordinator.TaskID) *resultBuilder {
	return &resultBuilder{coordinator.Result{Task: task, Agent: agent}}
}

func (b *resultBuilder) of(dispatchID string) *resultBuilder      { b.DispatchID = dispatchID; return b }
func (b *resultBuilder) stamped(t time.Time) *resultBuilder       { b.Timestamp = t; return b }
func (b *resultBuilder) but(o coordinator.Outcome) *resultBuilder { b.Outcome = o; return b }

// gaveUp: it had begun, could not go on, and gives it back.
func (b *resultBuilder) gaveUp() *resultBuilder {
	b.Outcome, b.Attempted = coordinator.OutcomeRejected, true
	return b
}

// rig drives an engine in virtual time. Its methods return what the engine
// asked for, one line for each effect (see describe).
type rig struct {
	*engine.Engine
	t    testing.TB
	now  time.Time
	last coordinator.Handle // handles are given out as 1, 2, 3, …
	// dispatches are all that were made, newest last.
	dispatches []coordinator.Dispatch
	failures   []coordinator.Fail
	// auctions are the latest of each task.
	auctions map[coordinator.TaskID]string
	opened   []string // what followed from it when it took over, and its session opened
}

// boot starts an engine at epoch with this policy and an open session, and lets
// the start-up grace pass. No agent has reported.
func boot(t testing.TB, p *policyBuilder) *rig {
	t.Helper()
	r := &rig{Engine: engine.New(), t: t, now: epoch, auctions: map[coordinator.TaskID]string{}}
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	r.apply(coordinator.SessionOpened{})
	r.now = r.now.Add(interval)
	return r
}

// ready is boot with a heartbeat from every agent, idle.
func ready(t testing.TB, p *policyBuilder) *rig {
	t.Helper()
	r := boot(t, p)
	for _, a := range p.Agents {
		r.hear(beat(a.ID))
	}
	return r
}

func (r *rig) apply(ev coordinator.Event) []string {
	effects := r.Apply(r.now, ev, nil)
	lines := make([]string, len(effects))
	for i, f := range effects {
		lines[i] = describe(f)
		switch f := f.(type) {
		case *coordinator.Dispatch:
			r.dispatches = append(r.dispatches, *f)
		case *coordinator.Fail:
			r.failures = append(r.failures, *f)
		case *coordinator.Offer:
			r.auctions[f.Task.ID] = f.AuctionID
		}
	}
	return lines
}

// pass lets time go by, stopping at every deadline on the way as a shell would.
func (r *rig) pass(d time.Duration) []string {
	r.t.Helper()
	end := r.now.Add(d)
	var lines []string
	for {
		at, ok := r.NextDeadline()
		if !ok || at.After(end) {
			break
		}
		if at.After(r.now) {
			r.now = at
		}
		lines = append(lines, r.apply(coordinator.Tick{})...)
		if again, ok := r.NextDeadline(); ok && !again.After(r.now) {
			r.t.Fatalf("deadline %v is still due after a tick at %v", again, r.now)
		}
	}
	r.now = end
	return append(lines, r.apply(coordinator.Tick{})...)
}

func (r *rig) hear(b *reportBuilder) []string {
	if b.Timestamp.IsZero() {
		b.Timestamp = r.now
	}
	return r.apply(coordinator.AgentReported{Report: b.AgentReport, Live: !b.past})
}

// assign delivers a task under the next handle.
func (r *rig) assign(b *taskBuilder) []string { return r.deliver(b, false) }

// redeliver is assign for a message that the broker has handed out before.
func (r *rig) redeliver(b *taskBuilder) []string { return r.deliver(b, true) }

func (r *rig) deliver(b *taskBuilder, again bool) []string {
	task := b.Task
	if task.AcceptedAt.IsZero() {
		task.AcceptedAt = r.now
	}
	r.last++
	return r.apply(coordinator.TaskReceived{Handle: r.last, Task: &task, Redelivered: again})
}

// giveBack delivers a dispatch that came back from its agent.
func (r *rig) giveBack(d coordinator.Dispatch) []string {
	r.last++
	return r.apply(coordinator.TaskReturned{
		Handle: r.last, Task: d.Task, Agent: d.Agent, Attempt: d.Attempt, Tried: d.Tried, Tries: d.Tries,
		Cause: coordinator.ReturnRejected,
	})
}

// returns delivers a dispatch that came back for that cause; again: the broker had
// handed it out before.
func (r *rig) returns(d coordinator.Dispatch, cause coordinator.ReturnCause, again bool) []string {
	r.last++
	return r.apply(coordinator.TaskReturned{
		Handle: r.last, Task: d.Task, Agent: d.Agent, Attempt: d.Attempt, Tried: d.Tried, Tries: d.Tries, Failed: d.Failed,
		Suspected: d.Suspected,
		Cause:     cause, Redelivered: again, MaybeDuplicate: d.MaybeDuplicate,
	})
}

// tell is a result that arrives at this moment.
func (r *rig) tell(b *resultBuilder) []string {
	if b.Timestamp.IsZero() {
		b.Timestamp = r.now
	}
	return r.apply(coordinator.ResultReported{Result: b.Result, Live: true})
}

// give assigns a task and confirms its dispatch.
func (r *rig) give(b *taskBuilder) coordinator.Dispatch {
	r.t.Helper()
	before := len(r.dispatches)
	r.assign(b)
	if len(r.dispatches) == before {
		r.t.Fatalf("%s was not dispatched", b.ID)
	}
	r.confirm(r.latest().Handle)
	return r.latest()
}

// look is what the broker says of the agent's queue.
func (r *rig) look(id coordinator.AgentID, ready, consumers int) []string {
	return r.apply(coordinator.QueueSeen{Agent: id, Ready: ready, Consumers: consumers})
}

// miss is two looks at the agent's queue that find no consumer; the first one alone
// means nothing.
func (r *rig) miss(id coordinator.AgentID, ready int) []string {
	r.t.Helper()
	want(r.t, r.look(id, ready, 0))
	return r.look(id, ready, 0)
}

// order is an operator's order.
func (r *rig) order(id coordinator.AgentID, o coordinator.Order) []string {
	return r.apply(coordinator.AgentOrdered{Agent: id, Order: o})
}

// withdraw asks to cancel a task.
func (r *rig) withdraw(id coordinator.TaskID) []string {
	return r.apply(coordinator.CancelRequested{Task: id, Reason: "not wanted", Token: 7})
}

// seen is the agent as operators see it.
func (r *rig) seen(id coordinator.AgentID) coordinator.AgentSnapshot {
	r.t.Helper()
	for _, a := range r.Snapshot(r.now).Agents {
		if a.Spec.ID == id {
			return a
		}
	}
	r.t.Fatalf("no agent %s", id)
	return coordinator.AgentSnapshot{}
}

// slots fails the test unless the agent has so many tasks and so many free slots.
func (r *rig) slots(id coordinator.AgentID, inFlight, free int) {
	r.t.Helper()
	if a := r.seen(id); a.InFlight != inFlight || a.Free != free {
		r.t.Fatalf("%s has %d in flight and %d free, want %d and %d", id, a.InFlight, a.Free, inFlight, free)
	}
	engine.CheckIndexes(r.t, r.Engine)
}

func (r *rig) settle(h coordinator.Handle, o coordinator.PublishOutcome) []string {
	return r.apply(coordinator.DispatchSettled{Handle: h, Outcome: o})
}

func (r *rig) confirm(h coordinator.Handle) []string {
	return r.settle(h, coordinator.PublishConfirmed)
}

// latest is the newest dispatch.
func (r *rig) latest() coordinator.Dispatch {
	r.t.Helper()
	if len(r.dispatches) == 0 {
		r.t.Fatal("nothing was dispatched")
	}
	return r.dispatches[len(r.dispatches)-1]
}

// whyNot is the agent's eligibility as operators see it.
func (r *rig) whyNot(id coordinator.AgentID) coordinator.Ineligibility {
	return r.Eligibility(id)
}

// describe renders an effect: "dispatch t1.1 a1", "fail t2 backlog_full",
// "ack 3", "duplicate t1", "ensure agent.a1", "agent a1 stale",
// "refused a1 out_of_order". A marked dispatch ends in " again?".
func describe(f coordinator.Effect) string {
	switch f := f.(type) {
	case *coordinator.Dispatch:
		s := fmt.Sprintf("dispatch %s %s", coordinator.AttemptID(f.Task.ID, f.Attempt), f.Agent)
		if f.MaybeDuplicate {
			s += " again?"
		}
		return s
	case *coordinator.Fail:
		return fmt.Sprintf("fail %s %s", f.Task.ID, f.Failure.Reason)
	case coordinator.Ack:
		return fmt.Sprintf("ack %d", f.Handle)
	case *coordinator.Asked:
		return fmt.Sprintf("asked %d %s.%d %s %s to %s", f.Handle, f.Task.ID, f.Attempt, f.Agent, f.Outcome, f.Task.ReplyTo)
	case coordinator.Duplicate:
		return fmt.Sprintf("duplicate %s", f.Task.ID)
	case *coordinator.Completed:
		s := fmt.Sprintf("completed %s.%d %s %s", f.Result.Task, f.Attempt, f.Result.Agent, f.Result.Outcome)
		if f.Late {
			s += " late"
		}
		return s
	case coordinator.GivenBack:
		return fmt.Sprintf("given back %s.%d %s", f.Result.Task, f.Attempt, f.Result.Agent)
	case coordinator.ResultRefused:
		return fmt.Sprintf("result of %s by %s: %s", f.Task, f.Agent, f.Refusal)
	case *coordinator.Progressed:
		return fmt.Sprintf("progress of %s by %s", f.Task.ID, f.Progress.Agent)
	case coordinator.ProgressRefused:
		return fmt.Sprintf("progress of %s by %s: %s", f.Task, f.Agent, f.Refusal)
	case coordinator.Withdraw:
		return fmt.Sprintf("withdraw %s %s", brief(f.Task, f.DispatchID), f.Agent)
	case coordinator.CancelAnswered:
		return fmt.Sprintf("cancel %s: %s", f.Task, [...]string{"done", "asked", "noted", "too late"}[f.State])
	case coordinator.TakeBack:
		return "take back " + f.Queue
	case coordinator.LeaveQueue:
		return "leave " + f.Queue
	case coordinator.EnsureQueue:
		return "ensure " + f.Queue
	case *coordinator.Offer:
		return fmt.Sprintf("offer %s %s", coordinator.AttemptID(f.Task.ID, f.Attempt), f.Agent)
	case coordinator.Award:
		return fmt.Sprintf("award %s %s", brief(f.Task, f.DispatchID), f.Agent)
	case coordinator.RejectBid:
		return fmt.Sprintf("bid of %s for %s: %s", f.Agent, f.Task, f.Reason)
	case *coordinator.AuctionEnded:
		if f.AuctionID == "" {
			return fmt.Sprintf("no auction of %s: %s", f.Task.ID, f.Outcome)
		}
		return fmt.Sprintf("auction of %s %s by %s", f.Task.ID, f.Outcome, f.Closing)
	case coordinator.ClaimAnswered:
		return fmt.Sprintf("granted %d to %s %s", f.Granted, f.Agent, f.Limit)
	case coordinator.ClaimsForgotten:
		return fmt.Sprintf("claims of %s forgotten", f.Agent)
	case coordinator.QuotaReached:
		return fmt.Sprintf("quota %s %s %d%%", f.Node, f.Dimension, f.Percent)
	case *coordinator.CallAnswered:
		s := "calls"
		for _, a := range f.Answers {
			s += " " + a.State.String()
			if a.Standing {
				s += " again"
			}
		}
		return s
	case coordinator.ModelUnpriced:
		became := map[bool]string{true: "refused", false: "admitted"}[f.Refused]
		return fmt.Sprintf("unpriced %s/%s %s", f.Service.Provider, f.Service.Model, became)
	case coordinator.UsageExcessive:
		return fmt.Sprintf("%s says that %s of %q took %d of %s, estimated %d, charged %d", f.Agent, f.Task, f.Group,
			f.Reported, f.Dimension, f.Estimated, f.Charged)
	case coordinator.MoveToLane:
		return fmt.Sprintf("move %s to %s", f.Task.ID, f.Lane)
	case coordinator.ReadLane:
		return fmt.Sprintf("read %s: %d", f.Lane, f.Window)
	case coordinator.DropLane:
		return "drop " + f.Lane
	case coordinator.AgentChanged:
		return fmt.Sprintf("agent %s %s", f.Agent, f.State)
	case coordinator.AgentTrusted:
		if f.Trusted {
			return fmt.Sprintf("%s is trusted again with %s", f.Agent, f.Capability)
		}
		return fmt.Sprintf("%s is ejected from %s", f.Agent, f.Capability)
	case coordinator.AgentShared:
		return fmt.Sprintf("%d processes are %s", f.Instances, f.Agent)
	case coordinator.OtherQueue:
		return fmt.Sprintf("%s consumes %s, not %s", f.Agent, f.Announced, f.Listed)
	case coordinator.StatusRefused:
		s := fmt.Sprintf("refused %s %s", f.Agent, f.Refusal)
		if f.First {
			s += " first"
		}
		return s
	}
	return fmt.Sprintf("%T", f)
}

// brief is a dispatch id without the life that it is of.
func brief(task coordinator.TaskID, id string) string {
	if _, attempt, ok := coordinator.ParseDispatchID(task, id); ok {
		return coordinator.AttemptID(task, attempt)
	}
	return id
}

// briefBatch is the batch of a dispatch without the life that its first task is of.
func briefBatch(d coordinator.Dispatch) string {
	parts := strings.Split(d.BatchID, ".")
	return strings.Join(slices.Delete(parts, len(parts)-2, len(parts)-1), ".")
}

// want fails the test unless the lines are exactly these, in this order.
func want(t testing.TB, got []string, expected ...string) {
	t.Helper()
	if !slices.Equal(got, expected) {
		t.Fatalf("effects:\n  got  %s\n  want %s", strings.Join(got, " | "), strings.Join(expected, " | "))
	}
}

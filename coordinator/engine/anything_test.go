package engine_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/strategy"
)

// anything is one random run in which everything meets everything: agents that are pushed to, that
// claim and that join by themselves; auctions, batches, lanes and quotas; strategies that give no
// score; other policies at any moment, with other agents, queues and routes; a standby, with
// a file of its own; clocks that jump.
type anything struct {
	t       *rapid.T
	e       *engine.Engine
	now     time.Time
	policy  *coordinator.Policy
	open    bool // its session is
	handle  coordinator.Handle
	content map[coordinator.TaskID]uint64

	journal    []entry
	dispatches []*coordinator.Dispatch
	moves      []coordinator.MoveToLane
	offers     []*coordinator.Offer
	fails      []coordinator.TaskID
}

// TestAnythingMeetsAnything: whatever comes, in whatever order, the engine neither fails nor goes
// on for ever, and its books balance; and so do those of the next leader. What becomes of tasks
// the other histories tell.
func TestAnythingMeetsAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &anything{t: t, now: epoch, content: make(map[coordinator.TaskID]uint64)}
		x.begin()
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {
				engine.CheckIndexes(t, x.e)
				if found := x.e.Audit(x.now); len(found) > 0 {
					t.Fatalf("%+v", found)
				}
			},
			"policy":  func(*rapid.T) { x.policy = x.drawPolicy(); x.do(coordinator.PolicyChanged{Policy: x.policy}) },
			"session": func(*rapid.T) { x.changeSession() }, "take over": func(*rapid.T) { x.takeOver() },
			"time": func(*rapid.T) { x.pass() }, "task": func(*rapid.T) { x.task() },
			"tasks":  func(*rapid.T) { x.task(); x.task(); x.task() },
			"report": func(*rapid.T) { x.report() }, "reports": func(*rapid.T) { x.report(); x.report(); x.report() },
			"settle": func(*rapid.T) { x.settle() }, "settle again": func(*rapid.T) { x.settle() },
			"result": func(*rapid.T) { x.result() }, "return": func(*rapid.T) { x.comeBack() },
			"move": func(*rapid.T) { x.moved() },
			"bid":  func(*rapid.T) { x.bid() }, "bid again": func(*rapid.T) { x.bid() }, "claim": func(*rapid.T) { x.claim() },
			"alarm": func(*rapid.T) { x.do(coordinator.PublishingHeld{Held: rapid.Bool().Draw(x.t, "held")}) },
			"kill":  func(*rapid.T) { x.kill() },
			"other": func(*rapid.T) { x.other() }, "questions": func(*rapid.T) { x.questions() },
		})
	})
}

func (x *anything) n(name string, most int) int { return rapid.IntRange(0, most).Draw(x.t, name) }

func (x *anything) agent() coordinator.AgentID {
	return rapid.SampledFrom([]coordinator.AgentID{"a", "b", "c", "d", "x1", "x2", "x3"}).Draw(x.t, "agent")
}

func (x *anything) taskID() coordinator.TaskID { return rapid.SampledFrom(taskIDs).Draw(x.t, "task") }

func (x *anything) drawPolicy() *coordinator.Policy {
	p := &coordinator.Policy{
		Strategy: rapid.SampledFrom(append(slices.Clone(strategies), strategy.MarketName)).Draw(x.t, "strategy"),
		Routes: map[string]coordinator.Route{
			"any": {Batch: rapid.SampledFrom(batchings).Draw(x.t, "batches")},
			"one": {Required: someOf(x.t, "required", capabilities, 2),
				Strategy: rapid.SampledFrom([]string{"", "", "round_robin"}).Draw(x.t, "strategy of one")},
		},
		Settings: coordinator.Settings{
			MaxRetryAttempts: x.n("max_retry_attempts", 3), PoisonedAfter: 1 + x.n("poisoned after", 2),
			StaleAfter:        seconds(x.t, "stale", 20, 60),
			MaxQueueSize:      rapid.SampledFrom([]int{1, 3, 50}).Draw(x.t, "max_queue_size"),
			AssignmentTimeout: seconds(x.t, "assignment timeout", 0, 5, 30, 900),
			MaxLoad:           0.9, Priorities: drawPriorities(x.t), DedupeWindow: seconds(x.t, "window", 1, 60, 3600),
			DedupeMaxIDs: rapid.SampledFrom([]int{1, 5, 1000}).Draw(x.t, "ids"), RefuseBacklogged: rapid.Bool().
					Draw(x.t, "backlogged"),
			MaxTimeout:    seconds(x.t, "longest timeout", 0, 0, 60),
			CountsWaiting: rapid.Bool().Draw(x.t, "counts waiting"),
			Breaker: coordinator.Breaker{Consecutive: x.n("consecutive faults", 2),
				Off: x.n("no breaker at 0", 3) == 0},
			SuspectIntervals: x.n("suspect", 2), DeadIntervals: rapid.SampledFrom([]int{0, 0, 3}).Draw(x.t, "dead"),
			SlowStart: seconds(x.t, "slow start", 0, 20),
		},
		Strategies: x.drawStrategies(), Quotas: drawQuotas(x.t),
	}
	if p.Lanes = rapid.SampledFrom([][]string{nil, {}, {"g1"}, {"g1", "g2"}}).Draw(x.t, "lanes"); p.Lanes != nil {
		p.LaneRoom = x.n("room", 2)
	}
	for _, id := range []coordinator.AgentID{"a", "b", "c", "d", "x1"} {
		if x.n("left out at 0", 3) == 0 {
			continue
		}
		spec := coordinator.AgentSpec{
			ID: id, Queue: rapid.SampledFrom([]string{"agent.", "work."}).Draw(x.t, "queue") + string(id),
			MaxConcurrent: 1 + x.n("slots", 2), Rank: 3,
			HealthCheckInterval: 10 * time.Second, Timeout: seconds(x.t, "timeout", 5, 60), AcceptTimeout: time.Minute,
			Pull: rapid.SampledFrom([]coordinator.PullMode{coordinator.PullOff, coordinator.PullOff, coordinator.PullShared,
				coordinator.PullLiteral}).Draw(x.t, "pull"),
		}
		criteria.DrawAgent(oneOf(x.t), &spec)
		p.Agents = append(p.Agents, spec)
	}
	if rapid.Bool().Draw(x.t, "discovery") {
		p.Discovery = &coordinator.Discovery{
			Agents: []string{"x*"}, Capabilities: capabilities[:1+x.n("admitted", 3)], Queues: []string{"q*"},
			MaxAgents: 1 + x.n("joined", 2), MaxConcurrent: 2,
			ForgetAfter: seconds(x.t, "forget after", 1, 60),
			Template: coordinator.AgentSpec{Rank: 3, HealthCheckInterval: 10 * time.Second, Timeout: time.Minute,
				AcceptTimeout: time.Minute},
		}
	}
	return p
}

// drawStrategies may change the market, and has a formula that gives some no score.
func (x *anything) drawStrategies() []coordinator.Strategy {
	never := x.n("odd priorities have no score at 0", 1) == 0
	s, err := strategy.Build(strategy.ExpressionName,
		strategy.Options{FormulaText: "f", Formula: func(c *coordinator.Case, _ *coordinator.AgentView,
			_ *coordinator.Standing) (float64, error) {
			if never && c.Task.Priority%2 == 1 {
				return 0, fmt.Errorf("odd")
			}
			return 1, nil
		}})
	if err != nil {
		x.t.Fatal(err)
	}
	all := append(slices.Clone(strategy.All()), s)
	for i := range all {
		if all[i].Market != nil {
			own := *all[i].Market
			own.FirstMatch, own.InviteAll = rapid.Bool().Draw(x.t, "first match"), rapid.Bool().Draw(x.t, "invite all")
			all[i].Market = &own
		}
	}
	slices.SortFunc(all, func(a, b coordinator.Strategy) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (x *anything) begin() {
	x.e = engine.New()
	x.e.Record(true)
	x.policy = x.drawPolicy()
	x.do(coordinator.PolicyChanged{Policy: x.policy})
	x.open = true
	x.do(coordinator.SessionOpened{})
	x.report()
	x.report()
}

// do applies an event, and what is due by then.
func (x *anything) do(ev coordinator.Event) {
	x.t.Logf("%s  %#v", x.now.Format("06-01-02 15:04:05"), ev)
	for _, f := range x.e.Apply(x.now, ev, nil) {
		switch f := f.(type) {
		case *coordinator.Dispatch:
			x.dispatches = append(x.dispatches, f)
		case coordinator.MoveToLane:
			x.moves = append(x.moves, f)
		case *coordinator.Offer:
			x.offers = append(x.offers, f)
		case *coordinator.Fail:
			x.fails = append(x.fails, f.Task.ID)
		}
	}
	for _, r := range x.e.Records(nil) {
		x.journal = append(x.journal, entry{x.now, copied(r)})
	}
	if at, due := x.e.NextDeadline(); due && !at.After(x.now) {
		if _, tick := ev.(coordinator.Tick); tick {
			x.t.Fatalf("%v is due still at %v", at, x.now)
		}
		x.do(coordinator.Tick{})
	}
}

// kill has an agent be there, and then its queue have no consumer in two looks.
func (x *anything) kill() {
	id := x.agent()
	for _, consumers := range []int{1, 0, 0} {
		x.do(coordinator.QueueSeen{Agent: id, Consumers: consumers, Ready: x.n("ready", 1)})
	}
}

func (x *anything) changeSession() {
	if !x.open {
		x.open = true
		x.do(coordinator.SessionOpened{
			Lost: rapid.SampledFrom([]time.Time{{}, x.now, x.now.Add(-time.Hour), x.now.Add(time.Hour)}).Draw(x.t, "lost"),
			Connected: rapid.SampledFrom([]time.Time{{}, x.now, x.now.Add(-time.Minute), x.now.Add(time.Hour)}).
				Draw(x.t, "connected"),
		})
		return
	}
	if x.n("drained at 0", 1) == 0 {
		x.do(coordinator.DrainBegan{})
	}
	x.open, x.moves, x.dispatches = false, nil, nil
	x.do(coordinator.SessionLost{})
}

// takeOver has an engine lead that has folded all of it, or an image, with another clock and file.
func (x *anything) takeOver() {
	journal, at := x.journal, x.now
	if rapid.Bool().Draw(x.t, "by a snapshot") {
		journal = nil
		x.e.Image(x.now).Records(func(r coordinator.Record) bool {
			journal = append(journal, entry{at, copied(r)})
			return true
		})
		x.journal = journal
	}
	x.now = x.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour, -time.Hour, 365 * 24 * time.Hour,
		-365 * 24 * time.Hour}).Draw(x.t, "another clock"))
	x.e = engine.New()
	if x.n("another file at 0", 2) == 0 {
		x.policy = x.drawPolicy()
	}
	x.e.Follow()
	x.e.Apply(x.now, coordinator.PolicyChanged{Policy: x.policy}, nil)
	for i, r := range journal {
		x.e.Fold(r.at, r.record)
		if x.n("a report at 0", 60) == 0 {
			x.report()
		}
		if i == len(journal)/2 && x.n("reloaded at 0", 3) == 0 {
			x.policy = x.drawPolicy()
			x.e.Apply(x.now, coordinator.PolicyChanged{Policy: x.policy}, nil)
		}
	}
	x.e.Succeed(at, time.Minute)
	x.e.Lead(x.now)
	x.e.Record(true)
	x.moves, x.dispatches = nil, nil
	x.open = true
	x.do(coordinator.SessionOpened{})
}

func (x *anything) pass() {
	end := x.now.Add(rapid.SampledFrom([]time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second,
		7 * time.Second, 31 * time.Second, 10 * time.Minute, 30 * 24 * time.Hour}).Draw(x.t, "time"))
	for range 2000 { // stopping at what is due, as a shell would
		at, due := x.e.NextDeadline()
		if !due || at.After(end) {
			break
		}
		if at.After(x.now) {
			x.now = at
		}
		x.do(coordinator.Tick{})
	}
	x.now = end
	x.do(coordinator.Tick{})
}

func (x *anything) task() {
	if !x.open {
		return
	}
	id := x.taskID()
	task := &coordinator.Task{
		ID: id, Type: rapid.SampledFrom([]string{"any", "one", "strange"}).Draw(x.t, "type"),
		Priority: coordinator.Priority(x.n("priority", 3)),
		Strategy: rapid.SampledFrom([]string{"", "", "", strategy.ExpressionName, strategy.MarketName, "nothing"}).
			Draw(x.t, "strategy"),
		Group:       rapid.SampledFrom([]string{"", "g1", "g2", "g3"}).Draw(x.t, "group"),
		NoBorrowing: x.n("borrows not at 0", 4) == 0,
		Timeout:     seconds(x.t, "timeout", 0, 0, 30, 604_800), MaxWait: seconds(x.t, "waits at most", 0, 0, 10, 604_800),
		ContentHash: uint64(x.n("content", 1)),
		AcceptedAt:  x.now.Add(-seconds(x.t, "accepted ago", 0, 0, 100)),
	}
	criteria.DrawTask(oneOf(x.t), &criteria.Needs{Task: task}, agentIDs[:4])
	if x.n("deadline at 0", 3) == 0 {
		task.Deadline = rapid.SampledFrom([]time.Time{x.now, x.now.Add(5 * time.Second),
			time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Unix(0, 0)}).Draw(x.t, "deadline")
	}
	x.content[id] = task.ContentHash
	x.handle++
	ev := coordinator.TaskReceived{Handle: x.handle, Task: task, Redelivered: x.n("again at 0", 3) == 0}
	if x.n("out of a lane at 0", 5) == 0 {
		ev.Lane = rapid.SampledFrom([]string{coordinator.LaneHeld, coordinator.LaneOther, "g1", "g1~1", "gone"}).
			Draw(x.t, "lane")
	}
	x.do(ev)
}

func (x *anything) report() {
	id := x.agent()
	r := coordinator.AgentReport{
		Agent: id, Status: rapid.SampledFrom([]coordinator.AgentStatus{coordinator.StatusReady, coordinator.StatusReady,
			coordinator.StatusReady, coordinator.StatusBusy, coordinator.StatusOffline}).Draw(x.t, "status"),
		Load: rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(x.t, "load"), Active: rapid.SampledFrom([]int{0, 0, 1, 1_000_000}).
			Draw(x.t, "active"),
		Available: rapid.SampledFrom([]int{3, 3, 0, 1_000_000}).Draw(x.t, "available"), MaxConcurrent: x.n("most", 2),
		Queue:       rapid.SampledFrom([]string{"", "q1", "q2", "agent.a"}).Draw(x.t, "consumes"),
		HasCapacity: rapid.Bool().Draw(x.t, "says its capacity"), Capacity: rapid.SampledFrom([]float64{0, 1e-300, 0.1, 1e9}).
				Draw(x.t, "capacity"),
		HasPending: rapid.Bool().Draw(x.t, "says what is pending"), Pending: rapid.SampledFrom([]int{0, 1, 1_000_000_000}).
				Draw(x.t, "pending"),
		Relayed: x.n("relayed at 0", 6) == 0,
		Timestamp: rapid.SampledFrom([]time.Time{x.now, x.now, x.now.Add(-time.Minute), x.now.Add(time.Hour), time.Unix(0, 0),
			time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}).Draw(x.t, "stamp"),
	}
	var announced coordinator.AgentSpec
	criteria.DrawAgent(oneOf(x.t), &announced)
	r.Capabilities, r.Labels = announced.Capabilities, announced.Labels
	if id != "b" && id != "d" { // one that no longer says what it runs is watched for what it had
		r.ActiveTasks = someOf(x.t, "runs", taskIDs, 3)
		if r.ActiveTasks == nil {
			r.ActiveTasks = []coordinator.TaskID{}
		}
	}
	x.do(coordinator.AgentReported{Report: r, Live: x.n("past at 0", 5) != 0})
}

// given is one of the latest dispatches; nil: there is none.
func (x *anything) given() *coordinator.Dispatch {
	if len(x.dispatches) == 0 {
		return nil
	}
	return x.dispatches[len(x.dispatches)-1-x.n("dispatches ago", min(9, len(x.dispatches)-1))]
}

func (x *anything) settle() {
	if d := x.given(); d != nil {
		x.do(coordinator.DispatchSettled{Handle: d.Handle, Outcome: rapid.SampledFrom(outcomes).Draw(x.t, "outcome")})
	}
}

func (x *anything) result() {
	r := coordinator.Result{
		Task: x.taskID(), Agent: x.agent(),
		Outcome: rapid.SampledFrom([]coordinator.Outcome{coordinator.OutcomeSucceeded, coordinator.OutcomeSucceeded,
			coordinator.OutcomeFailed, coordinator.OutcomeRejected, coordinator.OutcomeCancelled}).Draw(x.t, "outcome"),
		Attempted: rapid.Bool().Draw(x.t, "attempted"), Duration: rapid.SampledFrom([]time.Duration{0, time.Second, 1e18}).
				Draw(x.t, "took"), Timestamp: x.now,
	}
	if x.n("cost at 0", 3) == 0 {
		r.Usage = &coordinator.Usage{InputTokens: 1e15, OutputTokens: 1, CostUSD: 1e15}
	}
	if d := x.given(); d != nil && x.n("made up at 0", 5) != 0 {
		r.Task, r.Agent = d.Task.ID, d.Agent
		r.DispatchID = rapid.SampledFrom([]string{d.DispatchID, d.DispatchID, "", string(r.Task) + ".7"}).Draw(x.t, "names")
	}
	past := x.n("past at 0", 7) == 0
	x.do(coordinator.ResultReported{Result: r, Live: !past, Untold: past})
}

func (x *anything) comeBack() {
	d := x.given()
	if !x.open {
		return
	}
	x.handle++
	ev := coordinator.TaskReturned{
		Handle: x.handle, Agent: x.agent(), Attempt: rapid.SampledFrom([]int{1, 2, 65_535, 1_000_000}).Draw(x.t, "attempt"),
		Redelivered: x.n("again at 0", 3) == 0,
		Cause: rapid.SampledFrom([]coordinator.ReturnCause{coordinator.ReturnRejected, coordinator.ReturnExpired,
			coordinator.ReturnDeliveryLimit, coordinator.ReturnTakenBack}).Draw(x.t, "cause"),
	}
	if d != nil && x.n("made up at 0", 9) != 0 {
		ev.Task, ev.Agent, ev.Attempt, ev.Tried, ev.Failed = d.Task, d.Agent, d.Attempt, d.Tried, d.Failed
	} else {
		ev.Task = &coordinator.Task{ID: x.taskID(), Type: "any", Priority: 1, AcceptedAt: x.now}
	}
	x.do(ev)
}

func (x *anything) moved() {
	if len(x.moves) > 0 {
		m := x.moves[0]
		x.moves = x.moves[1:]
		x.do(coordinator.LaneMoved{Handle: m.Handle, Outcome: rapid.SampledFrom(outcomes).Draw(x.t, "outcome")})
	}
}

func (x *anything) bid() {
	if len(x.offers) == 0 {
		return
	}
	o := x.offers[len(x.offers)-1-x.n("offers ago", min(9, len(x.offers)-1))]
	x.do(coordinator.BidReceived{
		Agent: rapid.SampledFrom([]coordinator.AgentID{o.Agent, o.Agent, "a", "x1"}).Draw(x.t, "bidder"), Task: o.Task.ID,
		AuctionID: o.AuctionID,
		Fitness:   rapid.SampledFrom([]float64{0, 0.5, 1, math.NaN()}).Draw(x.t, "fitness"), Active: x.n("active", 2),
		Duration: rapid.SampledFrom([]time.Duration{0, time.Second, 1e18}).Draw(x.t, "duration"), Relevance: math.NaN(),
	})
}

func (x *anything) claim() {
	x.do(coordinator.ClaimReceived{
		Agent: x.agent(), ClaimID: "c", MaxItems: 1 + x.n("items", 3), Pending: rapid.SampledFrom([]int{0, 2, 1_000_000_000}).
			Draw(x.t, "pending"),
		Capacity: rapid.SampledFrom([]float64{0, 0.1, 1e9}).Draw(x.t, "capacity"), Wait: seconds(x.t, "wait", 0, 1, 60),
	})
}

func (x *anything) other() {
	switch x.n("what", 9) {
	case 0:
		x.do(coordinator.QueueSeen{Agent: x.agent(), Ready: x.n("ready", 2), Consumers: x.n("consumers", 1)})
	case 1:
		x.do(coordinator.CancelRequested{Task: x.taskID(), Reason: "why not", Token: 1})
	case 2:
		x.do(coordinator.AgentOrdered{Agent: x.agent(),
			Order: rapid.SampledFrom([]coordinator.Order{coordinator.OrderCordon, coordinator.OrderDrain,
				coordinator.OrderUncordon}).Draw(x.t, "order"), Token: 1})
	case 3:
		x.do(coordinator.TakeBackEnded{Agent: x.agent()})
	case 4:
		x.do(coordinator.QueueChecked{Agent: x.agent(), Exists: rapid.Bool().Draw(x.t, "exists")})
	case 5:
		x.do(coordinator.OfferUnheard{Agent: x.agent()})
	case 6:
		if len(x.fails) > 0 {
			x.do(coordinator.FailureTold{Task: x.fails[0]})
			x.fails = x.fails[1:]
		}
	case 7:
		x.do(coordinator.LaneSeen{Lane: rapid.SampledFrom([]string{coordinator.LaneHeld, coordinator.LaneOther, "g1", "g1~1",
			"gone"}).Draw(x.t, "lane"), Ready: x.n("ready", 3), Missing: x.n("missing at 0", 5) == 0})
	case 8:
		x.do(coordinator.LaneEnded{Lane: rapid.SampledFrom([]string{coordinator.LaneHeld, coordinator.LaneOther, "g1"}).
			Draw(x.t, "lane")})
	default:
		x.do(coordinator.IntakeChanged{Window: x.n("window", 4)})
	}
}

// questions are all that readers ask.
func (x *anything) questions() {
	x.e.Snapshot(x.now)
	x.e.Capabilities(x.now)
	x.e.Watched(x.now, x.n("most", 3))
	x.e.LanesWatched(x.now, x.n("most", 3))
	for _, id := range taskIDs {
		task := &coordinator.Task{ID: id, Type: "any", Priority: 2, AcceptedAt: x.now, ContentHash: x.content[id]}
		x.e.Explain(x.now, task)
		x.e.Place(x.now, task)
		x.e.LacksQuota(task)
		x.e.Delayed(id)
		x.e.Gathering(id)
		x.e.Bidding(id)
	}
}

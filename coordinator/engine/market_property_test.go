package engine_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// bazaar is a random history of a fleet that bids.
type bazaar struct {
	*rig
	t       *rapid.T
	agents  []coordinator.AgentID
	tasks   int
	offered []*coordinator.Offer
	// fate of each task: how often it was dispatched, and is not known to have ended.
	live, ended map[coordinator.TaskID]int
	award       *coordinator.Award // its dispatch has to follow
}

// TestAuctions: whatever agents bid, or do instead, every task is awarded once, or waits,
// or fails with a reason; no agent has more than it has slots for; no auction outlives its
// window; and the books balance.
func TestAuctions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		crew := make([]*specBuilder, rapid.IntRange(1, 5).Draw(rt, "agents"))
		b := &bazaar{t: rt, live: map[coordinator.TaskID]int{}, ended: map[coordinator.TaskID]int{}}
		for i := range crew {
			crew[i] = worker(coordinator.AgentID(fmt.Sprint("a", i))).slots(rapid.IntRange(1, 3).Draw(rt, "slots"))
			if rapid.Bool().Draw(rt, "can") {
				crew[i].can("go")
			}
			b.agents = append(b.agents, crew[i].ID)
		}
		limited := rapid.Bool().Draw(rt, "quotas")
		policy := func() *policyBuilder {
			p := policyOf(crew...).route("go", "go").market(func(m *coordinator.Market) {
				m.InviteAll, m.Reported = rapid.Bool().Draw(rt, "all"), rapid.Bool().Draw(rt, "reported")
				m.FirstMatch = rapid.Bool().Draw(rt, "first match")
			})
			if limited {
				p.Quotas = drawQuotas(rt)
			}
			return p
		}
		b.rig = ready(t, policy())
		rt.Repeat(map[string]func(*rapid.T){
			"task": func(rt *rapid.T) {
				b.tasks++
				j := job(coordinator.TaskID(fmt.Sprint("t", b.tasks)))
				if rapid.Bool().Draw(rt, "go") {
					j.kind("go")
				}
				if rapid.IntRange(0, 3).Draw(rt, "pushed at 0") == 0 {
					j.by("least_loaded")
				}
				if rapid.IntRange(0, 9).Draw(rt, "urgent at 0") == 0 {
					j.Deadline = b.now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "deadline")) * time.Millisecond)
				}
				if limited {
					j.Group, j.EstimatedUsage = rapid.SampledFrom(quotaGroups).Draw(rt, "group"), drawUsage(rt)
				}
				j.AcceptedAt = b.now
				b.last++
				b.do(coordinator.TaskReceived{Handle: b.last, Task: &j.Task})
			},
			"bid":  func(rt *rapid.T) { b.bids(rt) },
			"bid2": func(rt *rapid.T) { b.bids(rt) },
			"time": func(rt *rapid.T) {
				b.now = b.now.Add(time.Duration(rapid.SampledFrom([]int{1, 3, 20, 100, 400, 600, 31_000}).
					Draw(rt, "ms")) * time.Millisecond)
				b.do(coordinator.Tick{})
			},
			"settle": func(rt *rapid.T) {
				for _, h := range b.dispatching() {
					outcome := rapid.SampledFrom([]coordinator.PublishOutcome{
						coordinator.PublishConfirmed, coordinator.PublishConfirmed, coordinator.PublishConfirmed,
						coordinator.PublishRejected,
					}).Draw(rt, "outcome")
					if outcome == coordinator.PublishRejected { // it is nowhere
						b.live[b.HeldTask(h).Task().ID]--
					}
					b.do(coordinator.DispatchSettled{Handle: h, Outcome: outcome})
				}
			},
			"result": func(rt *rapid.T) {
				d := b.some(rt)
				if d == nil {
					return
				}
				result := says(d.Agent, d.Task.ID).of(d.DispatchID).stamped(b.now)
				if rapid.Bool().Draw(rt, "failed") {
					result.but(coordinator.OutcomeFailed)
				}
				result.Usage = drawUsage(rt)
				b.do(coordinator.ResultReported{Result: result.Result, Live: true})
			},
			"return": func(rt *rapid.T) {
				if d := b.some(rt); d != nil {
					b.last++
					b.live[d.Task.ID]--
					b.do(coordinator.TaskReturned{Handle: b.last, Task: d.Task, Agent: d.Agent, Attempt: d.Attempt, Tried: d.Tried,
						Cause: coordinator.ReturnExpired})
				}
			},
			"unheard": func(rt *rapid.T) {
				b.do(coordinator.OfferUnheard{Agent: rapid.SampledFrom(b.agents).Draw(rt, "agent")})
			},
			"cancel": func(rt *rapid.T) {
				if b.tasks > 0 {
					b.do(coordinator.CancelRequested{
						Task: coordinator.TaskID(fmt.Sprint("t", rapid.IntRange(1, b.tasks).Draw(rt, "which")))})
				}
			},
			"report": func(rt *rapid.T) {
				r := beat(rapid.SampledFrom(b.agents).Draw(rt, "agent")).stamped(b.now)
				if rapid.IntRange(0, 4).Draw(rt, "offline at 0") == 0 {
					r.status(coordinator.StatusOffline)
				}
				var running []coordinator.TaskID
				for _, d := range b.FleetAgent(r.Agent).Open() {
					running = append(running, d.Task().ID)
				}
				b.do(coordinator.AgentReported{Report: r.running(running...).AgentReport, Live: true})
			},
			"policy": func(rt *rapid.T) {
				if rapid.IntRange(0, 3).Draw(rt, "at 0") == 0 {
					b.do(coordinator.PolicyChanged{Policy: &policy().Policy})
				}
			},
			"": func(*rapid.T) {
				engine.CheckIndexes(rt, b.Engine)
				engine.CheckHolds(rt, b.Engine)
				engine.CheckParked(rt, b.Engine)
			},
		})
	})
}

// do applies an event and judges what follows.
func (b *bazaar) do(ev coordinator.Event) {
	for _, f := range b.Apply(b.now, ev, nil) {
		switch f := f.(type) {
		case *coordinator.Offer:
			b.offered = append(b.offered, f)
		case coordinator.Award:
			b.award = &f
			continue
		case *coordinator.Dispatch:
			if b.award != nil && (b.award.Agent != f.Agent || b.award.DispatchID != f.DispatchID) {
				b.t.Fatalf("%s was awarded to %s, and %s goes to %s", b.award.DispatchID, b.award.Agent, f.DispatchID, f.Agent)
			}
			if b.live[f.Task.ID]++; b.live[f.Task.ID] > 1 && f.Attempt == 1 {
				b.t.Fatalf("%s is dispatched twice", f.Task.ID)
			}
			a := b.FleetAgent(f.Agent)
			if n := len(a.Open()); n > a.Maximum() {
				b.t.Fatalf("%s has %d tasks, and %d slots", f.Agent, n, a.Maximum())
			}
			b.dispatches = append(b.dispatches, *f)
		case *coordinator.Fail:
			if b.ended[f.Task.ID]++; b.ended[f.Task.ID] > 1 || f.Failure.Reason == coordinator.ReasonNone {
				b.t.Fatalf("%s fails (%s), for the %dth time", f.Task.ID, f.Failure.Reason, b.ended[f.Task.ID])
			}
		}
		if b.award != nil {
			if d, is := f.(*coordinator.Dispatch); !is || d.DispatchID != b.award.DispatchID {
				b.t.Fatalf("%s was awarded to %s, and then came %s", b.award.DispatchID, b.award.Agent, describe(f))
			}
			b.award = nil
		}
	}
	for _, a := range b.FleetAgents() {
		if held := a.Bids(); held > 0 && held > a.Maximum()-len(a.Open()) &&
			held > max(0, a.Report().Available-a.Uncovered()) {
			// It may report that it has less room than when it bid; never may it have bid beyond.
			if a.Heard().Before(b.now) {
				b.t.Fatalf("%s has %d of %d slots, and %d are held", a.Spec().ID, len(a.Open()), a.Maximum(), held)
			}
		}
	}
	if v := b.Audit(b.now); v != nil {
		b.t.Fatalf("the books do not balance: %+v", v)
	}
}

func (b *bazaar) bids(rt *rapid.T) {
	if len(b.offered) == 0 {
		return
	}
	o := b.offered[len(b.offered)-1-rapid.IntRange(0, min(len(b.offered)-1, 12)).Draw(rt, "which of the latest")]
	one := bid(o.Agent, o.Task.ID).inAuction(o.AuctionID)
	one.Fitness = rapid.SampledFrom([]float64{0, 0.3, 0.5, 0.5, 0.9, 1, 1.5, math.NaN()}).Draw(rt, "fitness")
	one.Active = rapid.IntRange(0, 2).Draw(rt, "active")
	if rapid.IntRange(0, 9).Draw(rt, "other agent at 0") == 0 {
		one.Agent = rapid.SampledFrom(b.agents).Draw(rt, "agent")
	}
	b.do(one.BidReceived)
}

func (b *bazaar) dispatching() (handles []coordinator.Handle) {
	for h, t := range b.HeldTasks() {
		if t.State() == engine.StateDispatching {
			handles = append(handles, h)
		}
	}
	slices.Sort(handles)
	return handles
}

// some draws a dispatch that its agent has.
func (b *bazaar) some(rt *rapid.T) *coordinator.Dispatch {
	var can []*coordinator.Dispatch
	for i := range b.dispatches {
		d := &b.dispatches[i]
		if a := b.FleetAgent(d.Agent); a != nil {
			if t := a.Find(d.Task.ID, d.Attempt); t != nil && t.State() == engine.StateLeased {
				can = append(can, d)
			}
		}
	}
	if len(can) == 0 {
		return nil
	}
	return rapid.SampledFrom(can).Draw(rt, "dispatch")
}

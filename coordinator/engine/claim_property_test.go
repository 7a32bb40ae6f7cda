package engine_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestClaims: whatever is claimed, when, and by which agent: every claim is answered once, in its
// time, with as many dispatches as it says; no agent gets more than its slots, nor a
// pulling agent anything that it did not ask for; nothing waits that a claim waits for,
// unless that has its fair part; and the books balance.
func TestClaims(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		crew := make([]*specBuilder, rapid.IntRange(1, 5).Draw(rt, "agents"))
		ids := make([]coordinator.AgentID, len(crew))
		for i := range crew {
			crew[i] = worker(coordinator.AgentID(fmt.Sprint("a", i))).slots(rapid.IntRange(1, 6).Draw(rt, "slots")).
				pulls(rapid.SampledFrom([]coordinator.PullMode{coordinator.PullShared, coordinator.PullShared,
					coordinator.PullLiteral, coordinator.PullOff}).Draw(rt, "mode"))
			if rapid.Bool().Draw(rt, "can") {
				crew[i].can("go")
			}
			ids[i] = crew[i].ID
		}
		limited := rapid.Bool().Draw(rt, "quotas")
		policy := func() *policyBuilder {
			p := policyOf(crew...).route("go", "go")
			if limited {
				p.Quotas = drawQuotas(rt)
			}
			return p
		}
		r := ready(t, policy())
		asked, tasks := map[uint64]coordinator.ClaimReceived{}, 0
		var token uint64
		due := map[uint64]time.Time{}
		do := func(ev coordinator.Event) {
			handed := map[coordinator.AgentID]int{}
			for _, f := range r.Apply(r.now, ev, nil) {
				switch f := f.(type) {
				case *coordinator.Dispatch:
					a := r.FleetAgent(f.Agent)
					handed[f.Agent]++
					if len(a.Open()) > a.Maximum() {
						rt.Fatalf("%s has %d tasks, and %d slots", f.Agent, len(a.Open()), a.Maximum())
					}
					if pulls := a.Spec().Pull != coordinator.PullOff; pulls != (f.Decision.Strategy == engine.PulledBy) {
						rt.Fatalf("%s goes to %s by %s", f.DispatchID, f.Agent, f.Decision.Strategy)
					}
					r.dispatches = append(r.dispatches, *f)
				case coordinator.ClaimAnswered:
					claim, open := asked[f.Token]
					if !open || claim.Agent != f.Agent || claim.ClaimID != f.ClaimID {
						rt.Fatalf("%+v answers no claim", f)
					}
					if a := r.FleetAgent(f.Agent); a.Spec().Pull != coordinator.PullOff && f.Granted != handed[f.Agent] ||
						f.Granted > claim.MaxItems {
						rt.Fatalf("%d of %d were granted to %s, and it got %d", f.Granted, claim.MaxItems, f.Agent, handed[f.Agent])
					}
					if (f.Limit == "") != (f.Granted == claim.MaxItems) {
						rt.Fatalf("%d of %d granted: %q", f.Granted, claim.MaxItems, f.Limit)
					}
					handed[f.Agent] = 0
					delete(asked, f.Token)
					delete(due, f.Token)
				}
			}
			for id, n := range handed {
				if n > 0 && r.FleetAgent(id).Spec().Pull != coordinator.PullOff {
					rt.Fatalf("%s got %d that it was not told of", id, n)
				}
			}
			for token, at := range due {
				if !r.now.Before(at) {
					rt.Fatalf("claim %d was to be answered by %v", token, at)
				}
			}
			if id := r.IdleClaimant(); id != "" {
				rt.Fatalf("%s waits, holds nothing, and could have some of what waits", id)
			}
			if v := r.Audit(r.now); v != nil {
				rt.Fatalf("the books do not balance: %+v", v)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"task": func(rt *rapid.T) {
				tasks++
				j := job(coordinator.TaskID(fmt.Sprint("t", tasks)))
				if rapid.Bool().Draw(rt, "go") {
					j.kind("go")
				}
				if limited {
					j.Group, j.EstimatedUsage = rapid.SampledFrom(quotaGroups).Draw(rt, "group"), drawUsage(rt)
				}
				j.AcceptedAt = r.now
				r.last++
				do(coordinator.TaskReceived{Handle: r.last, Task: &j.Task})
			},
			"claim": func(rt *rapid.T) {
				token++
				ev := coordinator.ClaimReceived{
					Agent: rapid.SampledFrom(ids).Draw(rt, "agent"), ClaimID: fmt.Sprint("c", token), Token: token,
					MaxItems: rapid.IntRange(1, 5).Draw(rt, "items"), Pending: rapid.IntRange(0, 8).Draw(rt, "pending"),
					Capacity: rapid.SampledFrom([]float64{0, 0.05, 4, 16}).Draw(rt, "rate"),
					Wait:     time.Duration(rapid.SampledFrom([]int{0, 500, 5000}).Draw(rt, "wait")) * time.Millisecond,
				}
				asked[token] = ev
				if ev.Wait > 0 {
					due[token] = r.now.Add(ev.Wait)
				}
				do(ev)
				if _, open := asked[token]; open && ev.Wait == 0 {
					rt.Fatal("a claim that does not wait was not answered")
				}
			},
			"time": func(rt *rapid.T) {
				r.now = r.now.Add(time.Duration(rapid.SampledFrom([]int{1, 100, 700, 31_000}).Draw(rt, "ms")) * time.Millisecond)
				do(coordinator.Tick{})
			},
			"result": func(rt *rapid.T) {
				for i := range r.dispatches {
					d := &r.dispatches[i]
					if o := r.FleetAgent(d.Agent).Find(d.Task.ID, d.Attempt); o != nil && rapid.Bool().Draw(rt, "ends") {
						if o.State() == engine.StateDispatching {
							do(coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishConfirmed})
						}
						result := says(d.Agent, d.Task.ID).of(d.DispatchID).stamped(r.now)
						result.Usage = drawUsage(rt)
						do(coordinator.ResultReported{Result: result.Result, Live: true})
					}
				}
			},
			"report": func(rt *rapid.T) {
				b := beat(rapid.SampledFrom(ids).Draw(rt, "agent")).stamped(r.now)
				var running []coordinator.TaskID
				for _, d := range r.FleetAgent(b.Agent).Open() {
					running = append(running, d.Task().ID)
				}
				do(coordinator.AgentReported{Report: b.running(running...).AgentReport, Live: true})
			},
			"session": func(rt *rapid.T) {
				if rapid.IntRange(0, 5).Draw(rt, "at 0") == 0 {
					clear(asked)
					clear(due)
					do(coordinator.SessionLost{})
					do(coordinator.SessionOpened{})
				}
			},
			"offline": func(rt *rapid.T) {
				do(coordinator.AgentReported{Report: beat(rapid.SampledFrom(ids).Draw(rt, "agent")).stamped(r.now).
					status(coordinator.StatusOffline).AgentReport, Live: true})
			},
			"policy": func(rt *rapid.T) {
				if rapid.IntRange(0, 3).Draw(rt, "at 0") == 0 {
					do(coordinator.PolicyChanged{Policy: &policy().Policy})
				}
			},
			"": func(*rapid.T) {
				engine.CheckIndexes(rt, r.Engine)
				engine.CheckHolds(rt, r.Engine)
				engine.CheckParked(rt, r.Engine)
			},
		})
	})
}

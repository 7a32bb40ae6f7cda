package agent_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent"
	"taskbus/agent/balance"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// pullConfig is balance's default in this mode.
func pullConfig(mode string, enabled bool) *balance.Config {
	c := balance.Default()
	c.LoadBalancing.Mode, c.LoadBalancing.Enabled = mode, enabled
	return &c
}

func (r *rig) pulling(slots int, pull *balance.Config, handle agent.Handler) *running {
	r.t.Helper()
	c := r.config()
	c.Slots, c.Pull = slots, pull
	return r.runWith(c, handle)
}

func (r *rig) claims() []request[*messages.TaskClaim] {
	r.t.Helper()
	return requests[*messages.TaskClaim](r)
}

// lastClaim is the latest of so many.
func (r *rig) lastClaim(n int) request[*messages.TaskClaim] {
	r.t.Helper()
	all := r.claims()
	if len(all) != n {
		r.t.Fatalf("%d claims, want %d", len(all), n)
	}
	return all[n-1]
}

// grant answers a claim: so many items, of which so many are the agent's fair part.
func (r *rig) grant(claim string, items, fair int) {
	r.t.Helper()
	r.tell(messages.AppendTaskGranted(nil, &messages.TaskGranted{
		AgentID: "a1", ClaimID: claim, Granted: items,
		Fleet: messages.GrantFleet{Agents: 3, PendingItems: 30, UnclaimedItems: 10, CapacityItemsPerSecond: 2,
			TargetDrainSeconds: 20, FairShareItems: fair},
	}))
}

// awaitClaim lets at most so much time pass until there are n claims.
func (r *rig) awaitClaim(n int, limit time.Duration) request[*messages.TaskClaim] {
	r.t.Helper()
	over := time.After(limit)
	for len(r.claims()) < n {
		select {
		case <-r.came:
		case <-over:
			if had := len(r.claims()); had < n {
				r.t.Fatalf("%d claims after %v, want %d", had, limit, n)
			}
		}
	}
	return r.lastClaim(n)
}

// Claims ask for what balance.Equal says, and come when it says: a twin of the agent's
// own foretells them, as the same id and seed give the same jitter.
func TestClaimsFollowTheBalancer(t *testing.T) {
	inRig(t, func(r *rig) {
		twin, err := balance.NewEqual(*pullConfig(balance.ModeEqual, true), "a1", 0)
		if err != nil {
			t.Fatal(err)
		}
		// The capacity is a guess, (1+0)/(2+busy) items/s, of which the claims are independent
		// while pending/capacity is longer than the interval.
		local := balance.Local{Free: 8, Capacity: balance.DefaultCapacity, WarmUp: true}
		from := time.Now()
		r.pulling(8, pullConfig(balance.ModeEqual, true), work(time.Hour))
		for i, granted := range []int{1, 0, 0, 1, 2} {
			interval := twin.Interval(time.Now(), local)
			at := from.Add(interval)
			r.pass(time.Until(at) - time.Nanosecond)
			if n := len(r.claims()); n != i {
				t.Fatalf("%d claims before the interval of %v, want %d", n, interval, i)
			}
			r.pass(time.Nanosecond)
			got := r.lastClaim(i + 1)
			if want := twin.Claim(at, local); got.said.MaxItems != want || got.said.PendingItems != local.Pending {
				t.Errorf("claim %d asks for %d with %d pending, want %d and %d", i+1, got.said.MaxItems, got.said.PendingItems,
					want, local.Pending)
			}
			from = at
			if granted > 0 { // the next interval is counted from the answer
				r.pass(10 * time.Millisecond)
				from = time.Now()
				for n := range granted {
					r.give(fmt.Sprintf("t%d-%d", i, n))
				}
			}
			local.Pending, local.Free = local.Pending+granted, local.Free-granted
			r.grant(got.said.ClaimID, granted, 8)
			twin.Granted(time.Now(), granted, balance.View{Agents: 3, Pending: 30, Unclaimed: 10, Capacity: 2, FairShare: 8})
		}
	})
}

// Each computation of the interval is a line of the log, at level Debug: with the load factors once
// the fleet is known.
func TestComputationsAreLogged(t *testing.T) {
	inRig(t, func(r *rig) {
		r.pulling(8, pullConfig(balance.ModeEqual, false), work(time.Hour))
		r.expectLog("load balanced", 1)
		r.expectLog("target=", 0)
		first := r.awaitClaim(1, 1100*time.Millisecond)
		r.give("t")
		r.grant(first.said.ClaimID, 1, 8)
		r.pass(0)
		// 1 of 30 + 10 tasks, and the 0.5 items/s of an agent that has shown none, of 2.
		r.expectLog(`level=DEBUG msg="load balanced" agent_id=a1 interval=`, 2)
		r.expectLog("pending=1 local=0.025 target=0.25", 1)
	})
}

// What a claim says, with nothing in hand and with two tasks.
func TestClaim(t *testing.T) {
	inRig(t, func(r *rig) {
		pull := pullConfig(balance.ModeEqual, true)
		pull.LoadBalancing.CapacityWindowSize = 1 // one task ends the warm-up
		r.pulling(8, pull, asLongAsItIsCalled)
		first := r.awaitClaim(1, 1100*time.Millisecond) // 1 s ± 10 %
		want := messages.TaskClaim{AgentID: "a1", ClaimID: first.said.ClaimID, MaxItems: 1, WaitSeconds: 10}
		if !reflect.DeepEqual(*first.said, want) || !messages.ValidID(first.said.ClaimID) {
			t.Errorf("claim %+v\nwant %+v", *first.said, want)
		}
		// what expires on task.request is parked in task.dead
		if p := first.Properties; p.Type != "task.claim" || p.UserID != "a1" || p.MessageID != first.said.ClaimID ||
			p.Expiration != 0 {
			t.Errorf("properties %+v", p)
		}
		r.give("4s")
		r.pass(4 * time.Second)
		r.give("40s", "41s")
		r.grant(first.said.ClaimID, 3, 8)
		second := r.awaitClaim(2, time.Second) // half a second ± 10 %
		// One item and 4 s in hand: (1 + n)/(2 + s), where the weights of both halve in each
		// second in hand (the window), say for d after the item: n = 2^−d, and s tends to
		// 1/ln 2 = 1.443.
		if c := second.said.CapacityItemsPerSecond; c < 2/3.45 && c < 0.4 || c > 2/3.3 {
			t.Errorf("capacity %v, want 1/3.44 to 2/3.35", c)
		}
		if second.said.PendingItems != 2 || second.said.WaitSeconds != 0 || second.said.ClaimID == first.said.ClaimID {
			t.Errorf("claim %+v: want 2 pending, no wait, and an id of its own", second.said)
		}
	})
}

// A claim that waits for work may take 10 s, and its answer 5 s more. Then comes the
// next, twice the interval after the first: at once. A late answer to the first is not
// taken for one to the second.
func TestUnansweredClaim(t *testing.T) {
	inRig(t, func(r *rig) {
		pull := pullConfig(balance.ModeEqual, true)
		r.pulling(8, pull, work(time.Hour))
		first := r.awaitClaim(1, 1100*time.Millisecond)
		r.pass(15*time.Second - time.Nanosecond - time.Since(first.at))
		r.lastClaim(1)
		r.expectLog("a claim was not answered in time", 0)
		second := r.awaitClaim(2, time.Millisecond)
		r.expectLog("a claim was not answered in time", 1)
		r.grant(first.said.ClaimID, 5, 8)
		r.expectLog("an answer to a claim that is not open", 1)
		r.pass(15*time.Second - time.Nanosecond - time.Since(second.at))
		r.lastClaim(2) // it goes on waiting
		third := r.awaitClaim(3, time.Millisecond)
		r.expectLog("a claim was not answered in time", 1) // told once
		if third.said.MaxItems != 1 {                      // the window of the blind: nothing was taken
			t.Errorf("the third claim asks for %d, want 1", third.said.MaxItems)
		}
	})
}

// A coordinator that has begun anew knows of no claim: an agent that waits asks it at once, for the same,
// and what it is then granted counts.
func TestClaimIsForgotten(t *testing.T) {
	inRig(t, func(r *rig) {
		r.pulling(8, pullConfig(balance.ModeEqual, true), work(time.Hour))
		first := r.awaitClaim(1, 1100*time.Millisecond)
		r.pass(3 * time.Second)
		r.grant(messages.AnyClaim, 0, 0)
		second := r.awaitClaim(2, 0)
		if second.said.ClaimID == first.said.ClaimID || second.said.MaxItems != first.said.MaxItems ||
			second.said.WaitSeconds != 10 {
			t.Errorf("claim %+v after %+v", second.said, first.said)
		}
		r.give("t")
		r.grant(second.said.ClaimID, 1, 8)
		r.grant(messages.AnyClaim, 0, 0) // no claim waits
		r.pass(100 * time.Millisecond)
		r.lastClaim(2)
		r.expectLog("a claim was not answered in time", 0)
	})
}

// An agent that works waits 5 s for an answer, and without one, while it is blind, twice
// as long each time before it asks again: 1, 2, 4, 8, 10, 10 s, ± 10 %, from claim to claim,
// or 5 s where that is longer.
func TestIntervalsGrowWithoutAnswers(t *testing.T) {
	inRig(t, func(r *rig) {
		r.pulling(8, pullConfig(balance.ModeEqual, true), stubborn(time.Hour))
		r.give("t")
		var at time.Time
		for i, want := range []time.Duration{time.Second, 5 * time.Second, 5 * time.Second, 8 * time.Second, 10 * time.Second,
			10 * time.Second} {
			claim := r.awaitClaim(i+1, 12*time.Second)
			if got := claim.at.Sub(at); i > 0 && (got < want-want/10 || got > want+want/10) {
				t.Errorf("claim %d comes %v after the one before, want %v ± 10 %%", i+1, got, want)
			}
			if claim.said.WaitSeconds != 0 {
				t.Errorf("claim %d may wait %v s although there is work", i+1, claim.said.WaitSeconds)
			}
			at = claim.at
		}
	})
}

// Without balancing, and as BALANCING's pseudocode has it, no claim waits; the former
// come every second, for as many as there are slots.
func TestPlainPolling(t *testing.T) {
	inRig(t, func(r *rig) {
		r.pulling(8, pullConfig(balance.ModeEqual, false), work(time.Hour))
		for i := range 4 {
			r.pass(time.Second)
			claim := r.lastClaim(i + 1)
			if claim.said.MaxItems != 8 || claim.said.WaitSeconds != 0 {
				t.Errorf("claim %+v, want 8 items and no wait", claim.said)
			}
			r.grant(claim.said.ClaimID, 0, 8)
		}
	})
	// Idle, with (1+0)/(2+0) = 0.5 of the fleet's 2 items/s: 0 − 0.5/2 = −0.25, so 1000·1.25.
	inRig(t, func(r *rig) {
		r.pulling(8, pullConfig(balance.ModeLiteral, true), work(time.Hour))
		r.pass(time.Second)
		claim := r.lastClaim(1)
		r.grant(claim.said.ClaimID, 0, 8)
		r.pass(1250*time.Millisecond - time.Nanosecond)
		r.lastClaim(1)
		r.pass(time.Nanosecond)
		if claim = r.lastClaim(2); claim.said.WaitSeconds != 0 {
			t.Errorf("claim %+v, want no wait", claim.said)
		}
	})
}

// Where all slots are taken there is nothing to ask for.
func TestFullAgentClaimsNothing(t *testing.T) {
	inRig(t, func(r *rig) {
		r.pulling(2, pullConfig(balance.ModeEqual, true), work(10*time.Second-time.Millisecond))
		r.give("t", "u")
		r.pass(9 * time.Second)
		r.expectNoClaims()
		r.awaitClaim(1, 12*time.Second)
	})
}

func (r *rig) expectNoClaims() {
	r.t.Helper()
	if n := len(r.claims()); n != 0 {
		r.t.Errorf("%d claims, want none", n)
	}
}

// Whatever the answers are like, and whenever they come, no claim is made before the
// one before it was answered, or its time was over; no two have one id; and none comes
// less than 200 ms, the least interval, after another.
func TestNeverTwoClaims(t *testing.T) {
	for seed := range uint64(8) {
		inRig(t, func(r *rig) {
			dice := rand.New(rand.NewPCG(seed, 1))
			r.pulling(8, pullConfig(balance.ModeEqual, true), work(time.Duration(dice.IntN(3000))*time.Millisecond))
			var answered time.Time // when the latest claim was
			ids := map[string]bool{}
			for n, given := 1, 0; n <= 40; n++ {
				claim := r.awaitClaim(n, 20*time.Second)
				if ids[claim.said.ClaimID] {
					t.Fatalf("seed %d: two claims are called %s", seed, claim.said.ClaimID)
				}
				ids[claim.said.ClaimID] = true
				if n > 1 {
					before := r.claims()[n-2]
					over := before.at.Add(time.Duration(before.said.WaitSeconds*float64(time.Second)) + 5*time.Second)
					if claim.at.Before(over) && (answered.IsZero() || claim.at.Before(answered)) {
						t.Fatalf("seed %d: claim %d comes while %d is open", seed, n, n-1)
					}
					if gap := claim.at.Sub(before.at); gap < balance.MinInterval {
						t.Fatalf("seed %d: claim %d comes %v after the one before", seed, n, gap)
					}
				}
				answered = time.Time{}
				if dice.IntN(4) == 0 {
					continue // no answer
				}
				r.pass(time.Duration(dice.IntN(4000)) * time.Millisecond)
				r.lastClaim(n)
				items := dice.IntN(min(claim.said.MaxItems, 3) + 1)
				for range items {
					given++
					r.give(fmt.Sprint("t", given))
				}
				answered = time.Now()
				r.grant(claim.said.ClaimID, items, dice.IntN(9))
			}
		})
	}
}

// An agent that leaves makes no more claims, whether one is open or not; it neither waits
// for an answer.
func TestNoClaimsOnceTheAgentLeaves(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprint("open: ", open), func(t *testing.T) {
			inRig(t, func(r *rig) {
				a := r.pulling(2, pullConfig(balance.ModeEqual, true), work(9*time.Second))
				r.give("t")
				claim := r.awaitClaim(1, 1100*time.Millisecond)
				if !open {
					r.grant(claim.said.ClaimID, 0, 1)
				}
				a.stop()
				r.pass(7 * time.Second) // the drain goes on
				r.lastClaim(1)
				if got := r.active(); got != "offline [t]" {
					t.Errorf("the agent is %s", got)
				}
				r.pass(2 * time.Second)
				r.expect("t succeeded")
			})
		})
	}
}

// A new session begins anew: with the base interval, and a claim of its own though one
// was open.
func TestClaimsInANewSession(t *testing.T) {
	inRig(t, func(r *rig) {
		r.pulling(2, pullConfig(balance.ModeEqual, true), work(0))
		first := r.awaitClaim(1, 1100*time.Millisecond)
		r.cut()
		at := time.Now()
		second := r.awaitClaim(2, 1500*time.Millisecond)
		if gap := second.at.Sub(at); gap < 900*time.Millisecond || gap > 1100*time.Millisecond+reconnect {
			t.Errorf("the first claim of the session comes after %v, want 0.9 s to 1.1 s and the pause before it", gap)
		}
		r.grant(first.said.ClaimID, 1, 1)
		r.expectLog("an answer to a claim that is not open", 1)
	})
}

// Nothing is claimed without a queue for the answers, or for the tasks.
func TestNoClaimsWithoutQueues(t *testing.T) {
	t.Run("control", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "agent.a1")
			defer r.close()
			c := r.config()
			c.Pull = pullConfig(balance.ModeEqual, true)
			c.Bus = withoutControl{r.broker}
			r.runWith(c, nothing)
			r.pass(time.Minute)
			r.expectLog("no tasks are claimed", 1)
			r.expectNoClaims()
		})
	})
	t.Run("tasks", func(t *testing.T) {
		inRig(t, func(r *rig) {
			r.pulling(1, pullConfig(balance.ModeEqual, true), nothing)
			r.broker.DeleteQueue("agent.a1")
			r.pass(time.Minute)
			r.expectNoClaims()
			if _, err := r.outside.EnsureQueue(context.Background(), bus.AgentQueue(bus.ProfileQuorum, "agent.a1")); err != nil {
				t.Fatal(err)
			}
			r.awaitClaim(1, 10*time.Second)
		})
	})
}

// withoutControl refuses temporary queues, as RabbitMQ does for want of permission.
type withoutControl struct{ bus.Bus }

func (b withoutControl) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	for _, q := range spec.Topology.Queues {
		if q.Temporary {
			return nil, fmt.Errorf("declare %s: %w", q.Name, bus.ErrAccess)
		}
	}
	return b.Bus.Open(ctx, spec)
}

func TestPullThatCannotBeUsed(t *testing.T) {
	inRig(t, func(r *rig) {
		c := r.config()
		c.Pull = pullConfig("fair", true)
		err := agent.Run(context.Background(), c, nothing)
		if err == nil || !strings.Contains(err.Error(), `Pull: load-balancing.mode "fair"`) {
			t.Errorf("Run gives %v", err)
		}
	})
}

// Heartbeats come as often as the registry's heartbeat-interval-ms says, unless Interval does.
func TestHeartbeatsOfAPullingAgent(t *testing.T) {
	for _, tt := range []struct {
		registry int // ms
		interval time.Duration
		want     int // within 20 s, with the one at the start
	}{{10_000, 0, 3}, {10_000, time.Second, 21}, {0, 0, 5}} {
		inRig(t, func(r *rig) {
			c := r.config()
			c.Pull, c.Interval = pullConfig(balance.ModeEqual, true), tt.interval
			c.Pull.Registry.HeartbeatIntervalMS = tt.registry
			r.runWith(c, nothing)
			r.pass(20 * time.Second)
			if n := len(r.statuses()); n != tt.want {
				t.Errorf("%+v: %d heartbeats", tt, n)
			}
		})
	}
}

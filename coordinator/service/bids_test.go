package service

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/coordinator/service/internal/telemetry"
	"taskbus/messages"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

const bidOfA1 = `{"message_type":"task.bid","task_id":"t-1","auction_id":"t-1.1","agent_id":"a1","fitness":0.75,` +
	`"active_tasks":2,"estimated_duration_seconds":1.5%s}`

const claimOfA1 = `{"message_type":"task.claim","agent_id":"a1","claim_id":"c-1","max_items":28,"pending_items":3%s}`

// ask has the session take a delivery of task.request.
func (b *booth) ask(body, user string) {
	b.onRequest(bus.Delivery{Queue: bus.QueueRequest, Offset: -1, Body: []byte(body),
		Properties: bus.Properties{UserID: user}})
}

// What agents ask for becomes an event, and is done with for the broker.
func TestBidsAndClaimsReachTheEngine(t *testing.T) {
	bid := coordinator.BidReceived{
		Agent: "a1", Task: "t-1", AuctionID: "t-1.1", Fitness: 0.75, Active: 2, Duration: 1500 * time.Millisecond,
		Relevance: math.NaN(),
	}
	told, remembers, none, endless := bid, bid, bid, bid
	told.TraceID = "trace-1"
	remembers.Relevance = 0.5
	none.Relevance = 0
	endless.Duration = 1e9 * time.Second // 31 years: more than that is refused
	claim := coordinator.ClaimReceived{Agent: "a1", ClaimID: "c-1", MaxItems: 28, Pending: 3, Token: 1}
	patient := claim
	patient.Capacity, patient.Wait = 16, 2500*time.Millisecond
	other := bid
	other.Task, other.AuctionID = "t-2", "t-2.1"
	const both = `{"message_type":"task.bids","agent_id":"a1","bids":[` +
		`{"task_id":"t-1","auction_id":"t-1.1","fitness":0.75,"active_tasks":2,"estimated_duration_seconds":1.5},` +
		`{"task_id":"t-2","auction_id":"t-2.1","fitness":0.75,"active_tasks":2,"estimated_duration_seconds":1.5}]}`
	t.Run("bids", func(t *testing.T) {
		b := newBooth(t, fleet)
		b.ask(both, "")
		if got, want := fmt.Sprintf("%#v", b.posted()), fmt.Sprintf("%#v", []coordinator.Event{bid, other}); got != want ||
			len(b.acked) != 1 {
			t.Errorf("the engine hears\n%s\nwant\n%s\n%d acknowledgements, want 1", got, want, len(b.acked))
		}
	})
	for name, c := range map[string]struct {
		body string
		want coordinator.Event
	}{
		"bid":                     {fmt.Sprintf(bidOfA1, ""), bid},
		"bid with a trace id":     {fmt.Sprintf(bidOfA1, `,"correlation_id":"trace-1"`), told},
		"bid with a relevance":    {fmt.Sprintf(bidOfA1, `,"relevance":0.5`), remembers},
		"bid with a relevance: 0": {fmt.Sprintf(bidOfA1, `,"relevance":0`), none},
		"bid for 31 years":        {strings.Replace(fmt.Sprintf(bidOfA1, ""), "1.5", "1000000000", 1), endless},
		"claim":                   {fmt.Sprintf(claimOfA1, ""), claim},
		"claim that waits":        {fmt.Sprintf(claimOfA1, `,"capacity_items_per_second":16,"wait_seconds":2.5`), patient},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooth(t, fleet)
			b.ask(c.body, "")
			// As text, because NaN is not NaN.
			if got, want := fmt.Sprintf("%#v", b.posted()), fmt.Sprintf("%#v", []coordinator.Event{c.want}); got != want {
				t.Errorf("the engine hears\n%s\nwant\n%s", got, want)
			}
			if len(b.acked) != 1 {
				t.Errorf("%d acknowledgements, want 1 at once", len(b.acked))
			}
		})
	}
}

// Each claim has a token of its own.
func TestTokensOfClaims(t *testing.T) {
	b := newBooth(t, fleet)
	b.ask(fmt.Sprintf(claimOfA1, ""), "")
	b.ask(fmt.Sprintf(claimOfA1, ""), "")
	events := b.posted()
	if one, two := events[0].(coordinator.ClaimReceived).Token, events[1].(coordinator.ClaimReceived).Token; one == 0 ||
		one == two {
		t.Errorf("tokens %d and %d", one, two)
	}
}

// No agent bids or claims in another's name under agents.auth: strict, as none reports for it.
func TestSenderOfBidsAndClaimsIsChecked(t *testing.T) {
	for _, c := range []struct {
		mode, user string
		counts     bool
		suspected  float64 // of two messages
	}{
		{"off", "", true, 0}, {"off", "a2", true, 0},
		{"warn", "a1", true, 0}, {"warn", "", true, 2}, {"warn", "a2", true, 2},
		{"strict", "a1", true, 0}, {"strict", "", false, 2}, {"strict", "a2", false, 2},
	} {
		synctesting(t, c.mode+" "+c.user, func(t *testing.T) {
			b := newBooth(t, strings.Replace(fleet, "agents:\n", "agents:\n  auth: "+c.mode+"\n", 1))
			b.ask(fmt.Sprintf(bidOfA1, ""), c.user)
			b.ask(fmt.Sprintf(claimOfA1, ""), c.user)
			want, refused := 2, 0.
			if !c.counts {
				want, refused = 0, 1
			}
			if got := b.posted(); len(got) != want {
				t.Errorf("the engine hears %v, want %d events", got, want)
			}
			if len(b.acked) != 2 || b.outbox.Waiting() != 0 {
				t.Errorf("%d acknowledged, %d to be published; want both done with", len(b.acked), b.outbox.Waiting())
			}
			got := scraped(t, b.s.options.Registry)
			for name, want := range map[string]float64{
				`taskbus_bids_refused_total{reason="wrong_sender"}`:     refused,
				`taskbus_claims_total{limit="wrong_sender"}`:            refused,
				`taskbus_auth_rejections_total{mode="` + c.mode + `"}`:  c.suspected,
				`taskbus_messages_received_total{queue="task.request"}`: 2,
			} {
				if got[name] != want {
					t.Errorf("%s = %v, want %v", name, got[name], want)
				}
			}
		})
	}
}

// 200 auctions with 50 bidders each: none waits for another, nor behind the cancels that
// are held until they stand.
func TestManyBidsAtOnce(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == schemas.AssignmentFailed {
				return membus.Withhold
			}
			return membus.Answer
		})
		const cancels = prefetchHigh + 1
		for i := range cancels {
			id := fmt.Sprint("t-", i)
			r.task(id, "build", "") // waits: no agent has reported
			r.publish(bus.QueueRequest, fmt.Sprintf(`{"message_type":"task.cancel","task_id":%q}`, id))
		}
		for range 200 * 50 {
			r.send(bus.QueueRequest, fmt.Sprintf(bidOfA1, ""))
		}
		synctest.Wait()
		if ready, held := len(r.broker.Messages(bus.QueueRequest)), r.broker.Unacked(bus.QueueRequest); ready != 0 ||
			held != cancels {
			t.Errorf("%d bids wait and %d requests are held; want none, and the %d cancels", ready, held, cancels)
		}
		r.broker.ReleaseConfirms()
		r.settle()
		r.empty(bus.QueueRequest)
	})
}

// What agents are told of their bids and claims.
func TestRepliesToAgents(t *testing.T) {
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		effect      coordinator.Effect
		messageType string
		trace       string
		want        string
	}{
		{
			coordinator.Award{Agent: "a1", Task: "t-1", AuctionID: "t-1.1", DispatchID: "t-1.2", TraceID: "trace"},
			schemas.TaskAwarded, "trace",
			`{"message_type":"task.awarded","task_id":"t-1","auction_id":"t-1.1","agent_id":"a1","dispatch_id":"t-1.2",` +
				`"correlation_id":"trace"}`,
		},
		{
			coordinator.RejectBid{Agent: "a1", Task: "t-1", AuctionID: "t-1.1", TraceID: "trace",
				Reason: coordinator.BidNotInvited}, schemas.BidRejected, "trace",
			`{"message_type":"task.bid_rejected","task_id":"t-1","auction_id":"t-1.1","agent_id":"a1","reason":"not_invited",` +
				`"correlation_id":"trace"}`,
		},
		{
			coordinator.RejectBid{Agent: "a1", Task: "t-1", TraceID: "trace", Reason: coordinator.BidLate}, schemas.BidRejected,
			"trace",
			`{"message_type":"task.bid_rejected","task_id":"t-1","agent_id":"a1","reason":"late","correlation_id":"trace"}`,
		},
		{
			coordinator.ClaimAnswered{Agent: "a1", ClaimID: "c-1", Granted: 28, Limit: "fair_share",
				Fleet: coordinator.PullFleet{
					Agents: 3, Pending: 7, Unclaimed: 49, Capacity: 28.5, Target: 1500 * time.Millisecond, FairShare: 31,
				}}, schemas.TaskGranted, "",
			`{"message_type":"task.granted","agent_id":"a1","claim_id":"c-1","granted":28,"reason":"fair_share",` +
				`"fleet":{"agents":3,"pending_items":7,"unclaimed_items":49,"capacity_items_per_second":28.5,` +
				`"target_drain_seconds":1.5,"fair_share_items":31}}`,
		},
		{
			coordinator.ClaimsForgotten{Agent: "a1"}, schemas.TaskGranted, "",
			`{"message_type":"task.granted","agent_id":"a1","claim_id":"any","granted":0,"reason":"new_session",` +
				`"fleet":{"agents":0,"pending_items":0,"unclaimed_items":0,"capacity_items_per_second":0,` +
				`"target_drain_seconds":0,"fair_share_items":0}}`,
		},
	} {
		t.Run(c.messageType, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.perform(c.effect) // a1 has no control queue yet, which does no harm
				a1 := r.worker("a1", true)
				r.perform(c.effect)
				told := a1.told()
				if len(told) != 1 {
					t.Fatalf("a1 got %d messages, want 1", len(told))
				}
				m := told[0]
				if err := set.Validate(c.messageType, any(m.fields)); err != nil {
					t.Error(err)
				}
				if string(m.Body) != c.want {
					t.Errorf("a1 got %s\nwant   %s", m.Body, c.want)
				}
				if m.Type != c.messageType || m.Expiration != time.Minute || m.CorrelationID != c.trace || m.MessageID == "" {
					t.Errorf("properties %+v", m.Properties)
				}
				if n := scraped(t, r.service.options.Registry)[`taskbus_publish_outcomes_total{outcome="unroutable"}`]; n != 0 {
					t.Errorf("%v messages came back", n)
				}
			})
		})
	}
}

// Every refusal has a word that agents know.
func TestReasonsOfRefusedBids(t *testing.T) {
	var here []messages.BidReason
	for r := coordinator.BidLost; r < coordinator.NumBidRefusals; r++ {
		here = append(here, messages.BidReason(r.String()))
	}
	if bus := messages.BidReasons(); !slices.Equal(here, bus) {
		t.Errorf("%q on the bus, %q here", bus, here)
	}
}

// A broker that holds up publishers must not cost memory without bound, however often
// agents ask. What is awarded comes with a dispatch, and is told.
func TestRepliesAreBounded(t *testing.T) {
	synctesting(t, "blocked", func(t *testing.T) {
		b := newBooth(t, fleet)
		for range outbox.Most + 5 {
			b.perform(coordinator.RejectBid{Agent: "a1", Task: "t-1", AuctionID: "t-1.1", Reason: coordinator.BidLate})
		}
		b.perform(coordinator.ClaimAnswered{Agent: "a1", ClaimID: "c-1"})
		b.perform(coordinator.Award{Agent: "a1", Task: "t-1", AuctionID: "t-1.1", DispatchID: "t-1.1"})
		if n := b.outbox.Waiting(); n != outbox.Most+1 {
			t.Errorf("%d wait, want %d and the award", n, outbox.Most)
		}
		got := scraped(t, b.s.options.Registry)
		if n := got["taskbus_events_dropped_total"]; n != 6 { // 5 refusals and the claim's answer
			t.Errorf("%v dropped, want 6", n)
		}
	})
}

// synctesting is a part of a test in virtual time: a scrape that finds the loop idle
// waits for its answer.
func synctesting(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// What people see of a market.
func TestMetricsOfTheMarket(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		task := taskNamed("t-1", time.Now())
		task.CorrelationID = "trace-1"
		ended := func(outcome coordinator.AuctionOutcome, bids int, took time.Duration) *coordinator.AuctionEnded {
			return &coordinator.AuctionEnded{Task: task, AuctionID: "t-1.1", Outcome: outcome, Closing: "window", Invited: 7,
				Bids: bids, Window: 500 * time.Millisecond, Took: took, Fallback: "first_match"}
		}
		r.perform(
			ended(coordinator.AuctionAwarded, 3, 20*time.Millisecond),
			ended(coordinator.AuctionNoBids, 0, 500*time.Millisecond),
			ended(coordinator.AuctionAllFull, 2, 80*time.Millisecond),
			ended(coordinator.AuctionUnheard, 0, 0),
			ended(coordinator.AuctionAbandoned, 1, 0),
			coordinator.RejectBid{Agent: "a1", Reason: coordinator.BidLost},
			coordinator.RejectBid{Agent: "a1", Reason: coordinator.BidLost},
			coordinator.RejectBid{Agent: "a1", Reason: coordinator.BidLate},
			coordinator.ClaimAnswered{Agent: "a1", Granted: 28},
			coordinator.ClaimAnswered{Agent: "a1", Granted: 4, Limit: "fair_share"},
			coordinator.ClaimAnswered{Agent: "a1", Limit: "no_unclaimed_items"},
		)
		got := scraped(t, r.service.options.Registry)
		for name, want := range map[string]float64{
			`taskbus_auctions_total{outcome="awarded"}`:        1,
			`taskbus_auctions_total{outcome="no_bids"}`:        1,
			`taskbus_auctions_total{outcome="all_full"}`:       1,
			`taskbus_auctions_total{outcome="unheard"}`:        1,
			`taskbus_auctions_total{outcome="abandoned"}`:      1,
			`taskbus_auction_duration_seconds_count`:           5,
			`taskbus_auction_duration_seconds_sum`:             0.6, // 0.02 + 0.5 + 0.08
			`taskbus_auction_bids_sum`:                         6,   // 3 + 2 + 1
			`taskbus_auction_bids_bucket{le="0"}`:              2,
			`taskbus_bids_refused_total{reason="lost"}`:        2,
			`taskbus_bids_refused_total{reason="late"}`:        1,
			`taskbus_bids_refused_total{reason="duplicate"}`:   0,
			`taskbus_claims_total{limit="none"}`:               1,
			`taskbus_claims_total{limit="fair_share"}`:         1,
			`taskbus_claims_total{limit="no_unclaimed_items"}`: 1,
			`taskbus_granted_items_total`:                      32, // 28 + 4
		} {
			if v, ok := got[name]; !ok || math.Abs(v-want) > 1e-9 {
				t.Errorf("%s = %v (there: %v), want %v", name, v, ok, want)
			}
		}
		log := r.log.String()
		for text, want := range map[string]int{
			"the strategy's fallback decides":                           1, // unheard
			"no bidder can take the task now":                           1,
			"No bids received for task t-1, using first-match fallback": 1,
			`"outcome":"no_bids"`:                                       1,
			`"trace_id":"trace-1","task_id":"t-1"`:                      3,
			`"invited":7`:                                               3,
			`"window_ms":500`:                                           3,
		} {
			if n := strings.Count(log, text); n != want {
				t.Errorf("%q is logged %d times, want %d", text, n, want)
			}
		}
	})
}

// A fleet that is away must not flood the log.
func TestAuctionsWithoutBidsAreGated(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		for range 100 {
			r.perform(&coordinator.AuctionEnded{Task: taskNamed("t-1", time.Now()), Outcome: coordinator.AuctionNoBids})
		}
		if n := strings.Count(r.log.String(), "No bids received for task t-1, using "); n != telemetry.LinesPerSecond {
			t.Errorf("%d lines within a second, want %d", n, telemetry.LinesPerSecond)
		}
	})
}

package integration

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// mute is an agent of bare AMQP with a control queue that consumes nothing.
func (r *rig) mute(id string) (h *hand, control string) {
	r.t.Helper()
	h = &hand{client: connect(r.t, r.broker), r: r, id: id}
	return h, h.control()
}

// offer waits until the agent is offered one task.
func (h *hand) offer(control string) messages.TaskOffer {
	h.r.t.Helper()
	m, refusal := newDecoder(h.t).DecodeTaskAvailable(receive(h.r.t, h.client, control).Body)
	if refusal != nil || string(m.AgentID) != h.id || len(m.Offers) != 1 {
		h.t.Fatalf("%s was told no offer: %+v, %+v", h.id, refusal, m)
	}
	return m.Offers[0]
}

// bidFor is a bid for what was offered.
func bidFor(id string, o messages.TaskOffer, fitness float64) []byte {
	return messages.AppendTaskBid(nil, &messages.TaskBid{
		TaskID: o.TaskID, AuctionID: o.AuctionID, AgentID: coordinator.AgentID(id), Fitness: fitness,
		EstimatedDurationSeconds: 1, CorrelationID: o.CorrelationID,
	})
}

// bid sends one.
func (h *hand) bid(o messages.TaskOffer, fitness float64) {
	h.t.Helper()
	h.asked(h.id, "task.bid", "", bidFor(h.id, o, fitness))
}

// The award is lost, as the winner's control queue was unbound between its bid and the
// award: the dispatch comes all the same.
func TestMarketLostAward(t *testing.T) {
	t.Parallel()
	r := newRig(t, onlyFirst(t, 2))
	b := r.open()
	c := r.start()
	r.online(c, "a1", "a2")
	one, two := r.hand("a1", 2), r.hand("a2", 2)
	control1, control2 := one.control(), two.control()
	b.offer(r.client, task("t-1", "build"))
	offer1, offer2 := one.offer(control1), two.offer(control2)
	one.bid(offer1, 0.9) // the best, and a2's is waited for
	if err := one.channel.QueueUnbind(control1, "a1", bus.ExchangeControl, nil); err != nil {
		t.Fatal(err)
	}
	two.bid(offer2, 0.5)
	d := one.take()
	if attemptID(d.DispatchID) != "t-1.1" {
		t.Errorf("dispatched: %s", d.amqp.Body)
	}
	b.enter(d)
	rejected, refusal := newDecoder(t).DecodeBidRejected(receive(t, two.client, control2).Body)
	if refusal != nil || rejected.Reason != messages.BidLost {
		t.Errorf("a2 was told %+v, %+v", rejected, refusal)
	}
	one.complete(d)
	if e := b.end(t, "t-1"); e.What != "succeeded" || e.Agent != "a1" || e.Attempt != 1 {
		t.Errorf("%+v", e)
	}
	if d, any, err := one.channel.Get(control1, true); err != nil || any {
		t.Errorf("the award was not lost, or cannot be looked for: %s, %v", d.Body, err)
	}
	r.close(c, b, nil)
}

// The award comes again, while the task is worked on and when it is done: nothing is
// done twice, and the agent's only slot is free for the next task.
func TestMarketDuplicateAward(t *testing.T) {
	t.Parallel()
	r := newRig(t, onlyFirst(t, 1))
	b := r.open()
	c := r.start()
	o := r.overhear("a1")
	release := make(chan struct{})
	a1 := r.bidder(b, "a1", 1, func(ctx context.Context, _ *agent.Task) (agent.Result, error) {
		select {
		case <-release:
			return agent.Result{}, nil
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
	}, "code", "go")
	c.awaitEligible("a1")
	b.offer(r.client, task("t-1", "build"))
	b.runs(t, "t-1", 1)
	award := awaitTold[*messages.TaskAwarded](t, o, 1)[0]
	again := func() {
		r.broker.Publish(t, bus.ExchangeControl, "a1", amqp.Publishing{ContentType: "application/json", Type: "task.awarded",
			Body: messages.AppendTaskAwarded(nil, award)})
	}
	again()
	again()
	awaitTold[*messages.TaskAwarded](t, o, 3)
	close(release)
	if e := b.end(t, "t-1"); e.Agent != "a1" || e.Attempt != 1 {
		t.Errorf("%+v", e)
	}
	again()
	awaitTold[*messages.TaskAwarded](t, o, 4)
	// What comes by the control queue comes in order: when a1 is offered the next task,
	// it has read all of them.
	offered := time.Now()
	b.offer(r.client, task("t-2", "build"))
	if e := b.end(t, "t-2"); e.Agent != "a1" || e.Attempt != 1 {
		t.Errorf("%+v", e)
	}
	if took := time.Since(offered); took > atOnceThere {
		t.Errorf("the next took %v: the slot of the one that was awarded again is not free", took)
	}
	if n := c.auctions(coordinator.AuctionAwarded); n != 2 {
		t.Errorf("%v auctions awarded, want 2", n)
	}
	a1.retire()
	r.close(c, b, nil)
	for _, id := range []string{"t-1", "t-2"} {
		if by := b.begunBy(id); len(by) != 1 {
			t.Errorf("%s was begun by %v", id, by)
		}
	}
}

// The winner does not take the task in time: the next best bid gets it, without another
// auction.
func TestMarketSilentWinner(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, bazaar, "a1: {", "a1: {accept_timeout_seconds: 1, "))
	b := r.open()
	c := r.start()
	o := r.overhear("a1", "a2", "a3")
	r.reported(c, tracked("a1", 2)) // online, and its queue has no consumer
	a1, control := r.mute("a1")
	a2 := r.bidder(b, "a2", 2, lasting(0), "code", "go") // fitness 2/4
	a3 := r.bidder(b, "a3", 2, lasting(0), "code")       // 1/4
	c.awaitEligible("a1", "a2", "a3")
	b.offer(r.client, task("t-1", "build"))
	a1.bid(a1.offer(control), 0.9)
	if e := b.end(t, "t-1"); e.What != "succeeded" || e.Agent != "a2" || e.Attempt != 2 ||
		attemptID(e.Dispatch) != "t-1.2" {
		t.Errorf("%+v", e)
	}
	awards := awaitTold[*messages.TaskAwarded](t, o, 2)
	if first, second := awards[0], awards[1]; len(awards) != 2 || first.AgentID != "a1" ||
		attemptID(first.DispatchID) != "t-1.1" ||
		second.AgentID != "a2" || attemptID(second.DispatchID) != "t-1.2" || second.AuctionID != first.AuctionID {
		t.Errorf("awarded: %+v, then %+v", awards[0], awards[1])
	}
	if n := len(of[*messages.TaskAvailable](o)); n != 3 {
		t.Errorf("%d offers, want one to each", n)
	}
	if n := c.metric(`taskbus_returned_total{cause="expired"}`); n != 1 {
		t.Errorf("%v expired dispatches counted, want 1", n)
	}
	a2.retire()
	a3.retire()
	r.close(c, b, nil)
	if by := b.begunBy("t-1"); len(by) != 1 || by[0] != "a2" {
		t.Errorf("begun by %v", by)
	}
}

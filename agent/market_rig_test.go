package agent_test

import (
	"strings"
	"testing/synctest"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// tell publishes a control message to the agent.
func (r *rig) tell(body []byte) {
	r.t.Helper()
	r.publish(bus.Publication{Exchange: bus.ExchangeControl, Key: "a1", Body: body})
}

// offer offers tasks with a window of half a second, in one message.
func (r *rig) offer(tasks ...string) {
	r.t.Helper()
	var offers []messages.TaskOffer
	for _, task := range tasks {
		offers = append(offers, messages.TaskOffer{
			TaskID: messages.TaskID(task), AuctionID: task + ".1", TaskType: "sum", BidWindowMS: 500, Attempt: 1,
			CorrelationID: "trace-" + task,
		})
	}
	for len(offers) > 0 {
		var body []byte
		body, offers = messages.AppendTaskAvailable(nil, "a1", offers)
		r.tell(body)
	}
}

func (r *rig) award(task string) {
	r.t.Helper()
	r.tell(messages.AppendTaskAwarded(nil, &messages.TaskAwarded{TaskID: messages.TaskID(task), AuctionID: task + ".1",
		AgentID: "a1", DispatchID: task + ".1"}))
}

func (r *rig) rejectBid(task string, why messages.BidReason) {
	r.t.Helper()
	r.tell(messages.AppendBidRejected(nil, &messages.BidRejected{TaskID: messages.TaskID(task), AuctionID: task + ".1",
		AgentID: "a1", Reason: why}))
}

// request is what the agent has sent to task.request.
type request[M messages.Request] struct {
	said M
	at   time.Time // when it came
	bus.Properties
}

// requests are all of one type, each checked as results are.
func requests[M messages.Request](r *rig) (all []request[M]) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, d := range r.asked {
		m, refusal := r.decoder.DecodeRequest(d.Body)
		if refusal != nil {
			r.t.Fatalf("an invalid request: %s\n%s", refusal.Text, d.Body)
		}
		r.checkWay(d, bus.QueueRequest, "a1")
		if said, ok := m.(M); ok {
			all = append(all, request[M]{said, r.askedNow[i], d.Properties})
		}
	}
	return all
}

// bids are the tasks that were bid for, in order.
func (r *rig) bids() string {
	r.t.Helper()
	var tasks []string
	for _, m := range requests[messages.Request](r) {
		switch m := m.said.(type) {
		case *messages.TaskBid:
			tasks = append(tasks, string(m.TaskID))
		case *messages.TaskBids:
			for i := range m.Bids {
				tasks = append(tasks, string(m.Bids[i].TaskID))
			}
		}
	}
	return strings.Join(tasks, " ")
}

func (r *rig) expectBids(want string) {
	r.t.Helper()
	if got := r.bids(); got != want {
		r.t.Errorf("bids for %q, want %q", got, want)
	}
}

// bidding is a1 with so many slots and this Bidder.
func (r *rig) bidding(slots int, bidder agent.Bidder, handle agent.Handler) *running {
	r.t.Helper()
	c := r.config()
	c.Slots, c.Bidder = slots, bidder
	return r.runWith(c, handle)
}

package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// withdraw publishes a task.cancel to the agent.
func (s *site) withdraw(task string) {
	s.t.Helper()
	s.publish(bus.Publication{Exchange: bus.ExchangeControl, Key: "a1",
		Body: []byte(`{"message_type":"task.cancel","task_id":"` + task + `","reason":"over"}`)})
}

// giveLong gives the agent a task that it may work on for minutes.
func (s *site) giveLong(task string) {
	s.t.Helper()
	d := dispatch(task)
	d.Timeout = 10 * time.Minute
	s.publish(bus.Publication{Key: d.Queue, Properties: bus.Properties{Type: "task.dispatch", MessageID: d.DispatchID},
		Body: messages.AppendDispatch(nil, d, nil)})
}

// The exchange by which the coordinator speaks is deleted and declared anew: the agent
// binds its queue again, in the same session, and goes on with its work.
func TestBrokerControlExchangeComesAndGoes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	bids := make(chan struct{}, 10)
	s.subscribe(bus.Subscription{Queue: bus.QueueRequest}, func([]byte) { bids <- struct{}{} })
	var worked calls
	c := s.config()
	c.Bidder = wantsAll
	c.RebindWithin(time.Second)
	s.run(c, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
		worked.add(task.ID)
		return work(5*time.Minute)(ctx, task)
	})
	s.giveLong("t")
	s.awaitStatus("that t runs", func(m messages.AgentStatus) bool { return m.ActiveTasks == 1 })
	s.broker.DeleteExchange(t, bus.ExchangeControl)
	s.awaitLog(saysGone, 1)
	time.Sleep(3 * time.Second) // three more are refused
	s.broker.DeclareExchange(t, bus.ExchangeControl, "direct")
	s.awaitLog(saysBound, 1)
	body, _ := messages.AppendTaskAvailable(nil, "a1",
		[]messages.TaskOffer{{TaskID: "u", AuctionID: "u.1", TaskType: "sum", BidWindowMS: 500, Attempt: 1}})
	s.publish(bus.Publication{Exchange: bus.ExchangeControl, Key: "a1", Body: body})
	select {
	case <-bids:
	case <-time.After(patience):
		t.Fatalf("no bid; the agent's log:\n%s", s.log)
	}
	s.withdraw("t")
	s.expect("t", messages.Cancelled)
	if n := strings.Count(s.log.String(), "connected to the broker"); n != 1 || worked.of("t") != 1 {
		t.Errorf("%d sessions and %d runs, want 1 and 1:\n%s", n, worked.of("t"), s.log)
	}
}

// It was not there when the agent came.
func TestBrokerControlExchangeComesLate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.broker.DeleteExchange(t, bus.ExchangeControl)
	c := s.config()
	c.RebindWithin(time.Second)
	s.run(c, work(5*time.Minute))
	s.giveLong("t")
	s.awaitStatus("that t runs", func(m messages.AgentStatus) bool { return m.ActiveTasks == 1 })
	s.awaitLog(saysGone, 1)
	s.broker.DeclareExchange(t, bus.ExchangeControl, "direct")
	s.awaitLog("the agent has its control queue now", 1)
	s.withdraw("t")
	s.expect("t", messages.Cancelled)
	if n := strings.Count(s.log.String(), "connected to the broker"); n != 1 {
		t.Errorf("%d sessions, want 1:\n%s", n, s.log)
	}
}

package agent_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/agent/balance"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// An agent works all the same where its user may neither declare nor bind the control queue.
func TestBrokerWithoutPermissionForControl(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	user := s.broker.AddUser(t, "agent-plain")
	s.broker.SetPermissions(t, "agent-plain", "^$", `^taskbus\.agents$`, `^agent\.a1$`)
	c := s.config()
	c.URL = user.URL
	s.run(c, work(0))
	s.give("t")
	s.expect("t", messages.Succeeded)
	if !strings.Contains(s.log.String(), "no control queue") {
		t.Errorf("the log does not tell:\n%s", s.log)
	}
}

// permissions are those of one user in deploy/rabbitmq/definitions.json.
type permissions struct{ Configure, Write, Read, TopicWrite, TopicRead string }

// deployed reads the permissions of the agent a1, for an agent of another id: as
// deploy/README.md says, with that in place of a1.
func deployed(t *testing.T, id string) (p permissions) {
	t.Helper()
	text, err := os.ReadFile("../deploy/rabbitmq/definitions.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Permissions []struct{ User, Configure, Write, Read string }
		Topics      []struct{ User, Exchange, Write, Read string } `json:"topic_permissions"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer(`agent\.a1`, `agent\.`+id)
	for _, of := range all.Permissions {
		if of.User == "a1" {
			p.Configure, p.Write, p.Read = here.Replace(of.Configure), here.Replace(of.Write), here.Replace(of.Read)
		}
	}
	for _, of := range all.Topics {
		if of.User == "a1" && of.Exchange == bus.ExchangeAgents {
			p.TopicWrite, p.TopicRead = of.Write, of.Read
		}
	}
	if !strings.Contains(p.Read, id) || !strings.Contains(p.TopicWrite, "{username}") {
		t.Fatalf("definitions.json has no permissions for a1, or in another shape: %+v", p)
	}
	return p
}

// grant makes the user of an agent.
func (s *site) grant(id string, p permissions) (url string) {
	s.t.Helper()
	user := s.broker.AddUser(s.t, id)
	s.broker.SetPermissions(s.t, id, p.Configure, p.Write, p.Read)
	s.broker.SetTopicPermissions(s.t, id, bus.ExchangeAgents, p.TopicWrite, p.TopicRead)
	return user.URL
}

// What deploy/rabbitmq/definitions.json gives an agent is enough for all that the
// SDK does: it reports, works, acknowledges, gives back, and obeys a withdrawal.
func TestBrokerLeastPermissions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const id = "agent-least"
	if _, err := s.outside.EnsureQueue(t.Context(), bus.AgentQueue(bus.ProfileQuorum, "agent."+id)); err != nil {
		t.Fatal(err)
	}
	c := s.config()
	c.ID, c.URL = id, s.grant(id, deployed(t, id))
	s.run(c, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
		switch task.ID {
		case "no":
			return agent.Result{}, agent.Reject("not here")
		case "long":
			return work(time.Minute)(ctx, task)
		}
		return agent.Result{}, nil
	})
	s.awaitStatus("ready", func(m messages.AgentStatus) bool { return m.AgentID == id && m.Status == messages.Ready })
	s.giveTo(id, "t")
	s.expect("t", messages.Succeeded)
	s.giveTo(id, "no")
	s.expect("no", messages.Rejected)
	s.await(bus.QueueReassign, 1, 0)
	s.giveTo(id, "long")
	s.awaitStatus("that it runs", func(m messages.AgentStatus) bool { return m.ActiveTasks == 1 })
	s.publish(bus.Publication{Exchange: bus.ExchangeControl, Key: id,
		Body: []byte(`{"message_type":"task.cancel","task_id":"long"}`)})
	s.expect("long", messages.Cancelled)
	s.await("agent."+id, 0, 1)
	if strings.Contains(s.log.String(), "no control queue") || strings.Contains(s.log.String(), "level=WARN") {
		t.Errorf("the log warns:\n%s", s.log)
	}
}

// An agent that bids and claims needs the right to ask besides, as docs/howto/write-an-agent.md says,
// and no more than that.
func TestBrokerBidsAndClaims(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const id = "agent-asks"
	if _, err := s.outside.EnsureQueue(t.Context(), bus.AgentQueue(bus.ProfileQuorum, "agent."+id)); err != nil {
		t.Fatal(err)
	}
	decoder, err := standardDecoder()
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan messages.Request, 100)
	s.subscribe(bus.Subscription{Queue: bus.QueueRequest}, func(body []byte) {
		m, refusal := decoder.DecodeRequest(body)
		if refusal != nil {
			t.Errorf("an invalid request: %s", refusal.Text)
			return
		}
		asked <- m
	})
	p := deployed(t, id)
	p.TopicWrite = `^(agent\.status|task\.result|task\.request)\.{username}$`
	c := s.config()
	c.ID, c.URL, c.Bidder, c.Pull = id, s.grant(id, p), agent.DefaultBidder(0.5, time.Second), &balance.Config{}
	s.run(c, work(0))
	s.awaitStatus("ready", func(m messages.AgentStatus) bool { return m.AgentID == id && m.Status == messages.Ready })
	control := func(body []byte) { s.publish(bus.Publication{Exchange: bus.ExchangeControl, Key: id, Body: body}) }
	offer, _ := messages.AppendTaskAvailable(nil, id,
		[]messages.TaskOffer{{TaskID: "t", AuctionID: "t.1", TaskType: "sum", BidWindowMS: 60_000, Attempt: 1}})
	control(offer)
	bids, claims := 0, 0
	for late := time.After(patience); bids < 1 || claims < 2; {
		select {
		case m := <-asked:
			switch m := m.(type) {
			case *messages.TaskBid:
				bids++
			case *messages.TaskClaim:
				claims++
				control(messages.AppendTaskGranted(nil, &messages.TaskGranted{AgentID: id, ClaimID: m.ClaimID}))
			}
		case <-late:
			t.Fatalf("%d bids and %d claims; the log:\n%s", bids, claims, s.log)
		}
	}
	s.giveTo(id, "t")
	s.expect("t", messages.Succeeded)
	if strings.Contains(s.log.String(), "level=WARN") {
		t.Errorf("the log warns:\n%s", s.log)
	}
}

// To declare its own queue an agent needs more, as docs/howto/write-an-agent.md says: RabbitMQ
// wants the right to write to where a queue dead-letters, the default exchange.
func TestBrokerPermissionsToDeclare(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const id = "agent-declares"
	p := deployed(t, id)
	p.Configure, p.Write = `^agent\.`+id+`(\.control)?$`, `^(taskbus\.agents|amq\.default|agent\.`+id+`\.control)$`
	c := s.config()
	c.ID, c.URL, c.Declare = id, s.grant(id, p), true
	s.run(c, work(0))
	s.awaitLog("takes tasks", 1)
	s.giveTo(id, "t")
	s.expect("t", messages.Succeeded)
	if !s.outsideMatches("agent." + id) {
		t.Error("its queue is not what a coordinator would have declared")
	}
	if strings.Contains(s.log.String(), "level=WARN") {
		t.Errorf("the log warns:\n%s", s.log)
	}
}

// outsideMatches compares an agent's queue with what a coordinator would declare.
func (s *site) outsideMatches(queue string) bool {
	s.t.Helper()
	if _, err := s.outside.EnsureQueue(s.t.Context(), bus.AgentQueue(bus.ProfileQuorum, queue)); err != nil {
		s.t.Fatal(err)
	}
	return s.outside.Matches(queue)
}

// An agent that has no permission to report logs which one is missing; with it, reports arrive.
func TestBrokerWithoutPermissionToReport(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const id = "agent-mute"
	if _, err := s.outside.EnsureQueue(t.Context(), bus.AgentQueue(bus.ProfileQuorum, "agent."+id)); err != nil {
		t.Fatal(err)
	}
	p := deployed(t, id)
	p.TopicWrite = `^agent\.status\.somebody-else$`
	c := s.config()
	c.ID, c.URL = id, s.grant(id, p)
	s.run(c, work(0))
	s.awaitLog("access to topic 'agent.status.agent-mute' in exchange 'taskbus.agents'", 2)
	s.broker.SetTopicPermissions(t, id, bus.ExchangeAgents, deployed(t, id).TopicWrite, "^$")
	s.giveTo(id, "t")
	s.expect("t", messages.Succeeded)
}

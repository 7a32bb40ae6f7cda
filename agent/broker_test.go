package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/messages"
	"taskbus/tests/support/brokertest"
)

// The main things once more, on a real broker. patience is for its answers; where
// nothing must happen, a moment is waited for it.
const (
	patience = 20 * time.Second
	moment   = 300 * time.Millisecond
)

// site is a virtual host as a coordinator leaves it, with the agent a1 at work.
type site struct {
	t       *testing.T
	broker  brokertest.Broker
	outside bus.Session
	results chan messages.TaskResult
	status  chan messages.AgentStatus
	log     *lockedBuffer
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, broker: brokertest.Vhost(t), results: make(chan messages.TaskResult, 1000),
		status: make(chan messages.AgentStatus, 1000), log: &lockedBuffer{}}
	s.open()
	return s
}

// open connects the coordinator's side, and reads both streams from their beginning.
func (s *site) open() {
	s.t.Helper()
	decoder, err := standardDecoder()
	if err != nil {
		s.t.Fatal(err)
	}
	s.outside, err = amqpbus.New(amqpbus.Config{URL: s.broker.URL}).Open(s.t.Context(), bus.SessionSpec{
		Name: "coordinator", Topology: bus.Standard(bus.Declare, bus.ProfileQuorum, []string{"agent.a1"}),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	session := s.outside
	s.t.Cleanup(func() { _ = session.Close(context.Background()) })
	s.read(bus.StreamResult, func(body []byte) {
		var m messages.TaskResult
		if refusal := decoder.DecodeTaskResult(body, &m); refusal != nil {
			s.t.Errorf("an invalid task.result: %s", refusal.Text)
		}
		s.results <- m
	})
	s.read(bus.StreamStatus, func(body []byte) {
		var m messages.AgentStatus
		if refusal := decoder.DecodeAgentStatus(body, &m); refusal != nil {
			s.t.Errorf("an invalid agent.status: %s", refusal.Text)
		}
		s.status <- m
	})
}

func (s *site) read(stream string, take func(body []byte)) {
	s.t.Helper()
	s.subscribe(bus.Subscription{Queue: stream, From: bus.Ago(time.Nanosecond)}, take)
}

func (s *site) subscribe(sub bus.Subscription, take func(body []byte)) {
	s.t.Helper()
	session := s.outside
	sub.Prefetch, sub.Handle = 100, func(d bus.Delivery) {
		take(d.Body)
		session.Ack(d.Tag)
	}
	if err := session.Subscribe(s.t.Context(), sub); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) config() agent.Config {
	return agent.Config{ID: "a1", URL: s.broker.URL, Slots: 2, Interval: time.Second, DrainTimeout: 5 * time.Second,
		Logger: slog.New(slog.NewTextHandler(s.log, nil))}
}

// run starts an agent that is stopped, and must return nil, at the end of the test.
func (s *site) run(c agent.Config, handle agent.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, c, handle) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		select {
		case err := <-done:
			if err != nil {
				s.t.Errorf("Run gives %v", err)
			}
		case <-time.After(patience):
			s.t.Errorf("Run does not return; its log:\n%s", s.log)
		}
	}
	s.t.Cleanup(stop)
	return stop
}

func (s *site) give(task string) {
	s.t.Helper()
	s.giveTo("a1", task)
}

func (s *site) giveTo(id coordinator.AgentID, task string) {
	s.t.Helper()
	d := dispatch(task)
	d.Agent, d.Queue = id, "agent."+string(id)
	d.Timeout = 2 * time.Minute // rabbitmqctl alone may take ten seconds
	s.publish(bus.Publication{
		Key:        d.Queue,
		Properties: bus.Properties{Type: "task.dispatch", MessageID: d.DispatchID, CorrelationID: d.Task.CorrelationID},
		Body:       messages.AppendDispatch(nil, d, nil),
	})
}

func (s *site) publish(p bus.Publication) {
	s.t.Helper()
	if err := s.outside.Publish(p); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits for the result of a task.
func (s *site) expect(task coordinator.TaskID, want messages.Outcome) messages.TaskResult {
	s.t.Helper()
	select {
	case m := <-s.results:
		if m.TaskID != task || m.Outcome != want {
			s.t.Fatalf("result %s %s (%s), want %s %s", m.TaskID, m.Outcome, m.Error, task, want)
		}
		return m
	case <-time.After(patience):
		s.t.Fatalf("no result of %s; the agent's log:\n%s", task, s.log)
		return messages.TaskResult{}
	}
}

// awaitStatus waits for a heartbeat like this.
func (s *site) awaitStatus(what string, is func(messages.AgentStatus) bool) {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case m := <-s.status:
			if is(m) {
				return
			}
		case <-timeout:
			s.t.Fatalf("no heartbeat that says %s; the agent's log:\n%s", what, s.log)
		}
	}
}

// await polls what the broker says of a queue.
func (s *site) await(queue string, ready, consumers int) {
	s.t.Helper()
	var d bus.Depth
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if d, err = s.outside.Depth(s.t.Context(), queue); err == nil && d.Ready == ready && d.Consumers == consumers {
			return
		}
	}
	s.t.Fatalf("%s: %+v %v, want %d ready and %d consumers; the agent's log:\n%s", queue, d, err, ready, consumers, s.log)
}

// awaitLog waits for so many lines of the agent's log.
func (s *site) awaitLog(text string, lines int) {
	s.t.Helper()
	for end := time.Now().Add(patience); strings.Count(s.log.String(), text) < lines; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("fewer than %d lines with %q in the agent's log:\n%s", lines, text, s.log)
		}
	}
}

func TestBrokerOutcomes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run(s.config(), func(_ context.Context, task *agent.Task) (agent.Result, error) {
		switch task.ID {
		case "bad":
			return agent.Result{}, errors.New("the input is empty")
		case "no":
			return agent.Result{}, agent.Reject("no such model")
		case "boom":
			panic("boom")
		}
		return agent.Result{Usage: &agent.Usage{Requests: 1}}, nil
	})
	s.awaitStatus("ready and idle", func(m messages.AgentStatus) bool {
		return m.Status == messages.Ready && m.ActiveTaskIDs != nil && m.AvailableCapacity == 2 && m.Queue == "agent.a1"
	})
	s.give("good")
	if m := s.expect("good", messages.Succeeded); m.Usage == nil || m.DispatchID != "good.1" {
		t.Errorf("%+v", m)
	}
	s.give("bad")
	s.expect("bad", messages.Failed)
	s.await(bus.QueueReassign, 0, 0)
	s.give("no")
	s.expect("no", messages.Rejected)
	s.await(bus.QueueReassign, 1, 0)
	s.give("boom")
	if m := s.expect("boom", messages.Rejected); !m.Attempted {
		t.Error("a panic must count as an attempt")
	}
	s.await(bus.QueueReassign, 2, 0)
	s.publish(bus.Publication{Key: "agent.a1", Body: []byte("{}")})
	s.await(bus.QueueReassign, 3, 0)
	s.await("agent.a1", 0, 1)
}

func TestBrokerWithdraw(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run(s.config(), work(time.Minute))
	s.give("t")
	s.awaitStatus("that t runs", func(m messages.AgentStatus) bool { return m.ActiveTasks == 1 })
	body, err := json.Marshal(messages.TaskCancel{TaskID: "t", DispatchID: "t.1", Reason: "over"})
	if err != nil {
		t.Fatal(err)
	}
	s.publish(bus.Publication{Exchange: bus.ExchangeControl, Key: "a1", Body: body})
	if m := s.expect("t", messages.Cancelled); !strings.Contains(m.Error, "over") {
		t.Errorf("error %q", m.Error)
	}
	s.await(bus.QueueReassign, 0, 0)
}

// The connection is closed by the broker in mid-work.
func TestBrokerLostSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var worked calls
	over := make(chan struct{})
	s.run(s.config(), func(ctx context.Context, task *agent.Task) (agent.Result, error) {
		worked.add(task.ID)
		select {
		case <-over:
			return agent.Result{}, nil
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
	})
	s.give("t")
	s.awaitStatus("that t runs", func(m messages.AgentStatus) bool { return m.ActiveTasks == 1 })
	s.broker.CloseConnections(t)
	<-s.outside.Done()
	s.results, s.status = make(chan messages.TaskResult, 1000), make(chan messages.AgentStatus, 1000)
	s.open()
	s.awaitLog("connected to the broker", 2)
	s.await("agent.a1", 0, 1)
	time.Sleep(moment) // the dispatch comes again, and joins the run
	close(over)
	s.expect("t", messages.Succeeded)
	s.await("agent.a1", 0, 1) // recognised, acknowledged
	time.Sleep(moment)
	if n := worked.of("t"); n != 1 || len(s.results) != 0 {
		t.Errorf("%d runs and %d more results, want 1 and none", n, len(s.results))
	}
}

func TestBrokerDrain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	begun := make(chan struct{}, 10)
	stop := s.run(s.config(), func(ctx context.Context, task *agent.Task) (agent.Result, error) {
		begun <- struct{}{}
		if task.ID == "long" {
			return work(time.Minute)(ctx, task)
		}
		return work(time.Second)(ctx, task)
	})
	s.give("short")
	s.give("long")
	<-begun
	<-begun
	stopping := time.Now()
	stop()
	if took := time.Since(stopping); took < 5*time.Second || took > 7*time.Second {
		t.Errorf("the drain took %s, want DrainTimeout (5 s) and a little", took)
	}
	s.awaitStatus("offline, with what still runs", func(m messages.AgentStatus) bool {
		return m.Status == messages.Offline && m.ActiveTasks == 2
	})
	s.expect("short", messages.Succeeded)
	if m := s.expect("long", messages.Rejected); m.Attempted {
		t.Error("what the agent's end interrupts is no failure of the task")
	}
	s.await(bus.QueueReassign, 1, 0)
	s.await("agent.a1", 0, 0)
}

func TestBrokerSecondProcessWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stop := s.run(s.config(), work(0))
	s.awaitStatus("ready", func(messages.AgentStatus) bool { return true })
	second := s.config()
	s.run(second, func(context.Context, *agent.Task) (agent.Result, error) {
		return agent.Result{}, errors.New("the second")
	})
	s.awaitLog("another process works as this agent", 1)
	s.await("agent.a1", 0, 1)
	s.give("a")
	s.expect("a", messages.Succeeded)
	stop()
	s.await("agent.a1", 0, 1)
	s.give("b")
	s.expect("b", messages.Failed)
}

// Without a queue it waits; deleted in mid-work it comes back.
func TestBrokerQueueComesAndGoes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.broker.DeleteQueue(t, "agent.a1")
	s.run(s.config(), work(100*time.Millisecond))
	s.awaitStatus("ready although it has no queue",
		func(m messages.AgentStatus) bool { return m.Status == messages.Ready })
	for round, task := range []string{"a", "b"} {
		// A queue that is declared again within milliseconds of its deletion leaves its
		// old consumers unaware of either (RabbitMQ 3.10).
		s.awaitLog("cannot consume its queue", round+1)
		if _, err := s.outside.EnsureQueue(t.Context(), bus.AgentQueue(bus.ProfileQuorum, "agent.a1")); err != nil {
			t.Fatal(err)
		}
		s.await("agent.a1", 0, 1)
		s.give(task)
		s.expect(coordinator.TaskID(task), messages.Succeeded)
		s.broker.DeleteQueue(t, "agent.a1")
	}
	// RabbitMQ may close the connection of the consumer of a queue at the very moment in which it goes or
	// comes; the agent's own doing ends no session.
	lost := strings.Count(s.log.String(), "was lost: broker answered 541 INTERNAL_ERROR")
	if n := strings.Count(s.log.String(), "connected to the broker"); n != 1+lost {
		t.Errorf("%d sessions, want 1 and one for each of %d that RabbitMQ ended:\n%s", n, lost, s.log)
	}
}

// The exchange goes in mid-work and comes back, at first without its bindings: the
// work goes on, and its result arrives once there is a way for it.
func TestBrokerExchangeComesAndGoes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var worked calls
	gate := make(chan struct{})
	s.run(s.config(), func(_ context.Context, task *agent.Task) (agent.Result, error) {
		worked.add(task.ID)
		<-gate
		return agent.Result{}, nil
	})
	s.give("t")
	s.awaitStatus("that t runs", func(m messages.AgentStatus) bool { return m.ActiveTasks == 1 })
	s.broker.DeleteExchange(t, bus.ExchangeAgents)
	s.awaitLog("the exchange taskbus.agents, by which agents report, does not exist yet", 1)
	s.await("agent.a1", 1, 0) // it takes nothing
	s.broker.DeclareExchange(t, bus.ExchangeAgents, "topic")
	s.awaitLog("bound to the exchange taskbus.agents?", 1)
	close(gate)
	time.Sleep(moment)
	s.await("agent.a1", 0, 1) // it has it again; see what is unacknowledged below
	if len(s.results) != 0 {
		t.Error("a result arrived where nothing leads")
	}
	s.broker.Bind(t, bus.ExchangeAgents, bus.StreamResult, "task.result.#")
	s.expect("t", messages.Succeeded)
	s.broker.Bind(t, bus.ExchangeAgents, bus.StreamStatus, "agent.status.#")
	s.awaitStatus("idle", func(m messages.AgentStatus) bool { return m.ActiveTasks == 0 })
	if n := worked.of("t"); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
	// Had it been acknowledged before, or never, this would not be so.
	s.broker.CloseConnections(t)
	s.awaitLog("takes tasks", 3)
	if n := s.broker.QueueInfo(t, "agent.a1").Ready; n != 0 {
		t.Errorf("%d messages left", n)
	}
}

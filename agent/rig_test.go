package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/tests/support/membus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a broker in memory as a coordinator leaves it, with agents at work, in a
// bubble of virtual time.
type rig struct {
	t       *testing.T
	broker  *membus.Broker
	outside bus.Session // of the coordinator's side
	decoder *messages.Decoder
	log     *lockedBuffer
	agents  []*running

	mu       sync.Mutex
	asked    []bus.Delivery // all that came on task.request, where it may expire
	askedNow []time.Time    // when
	came     chan struct{}  // capacity 1: another has
}

// standardDecoder compiles the schemas once for all tests.
var standardDecoder = sync.OnceValues(func() (*messages.Decoder, error) { return messages.StandardDecoder(0) })

// running is a call of agent.Run.
type running struct {
	stop context.CancelFunc
	done chan error
}

// inRig runs a test in a bubble. At its end the agents are stopped and must return
// nil.
func inRig(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "agent.a1")
		defer r.close()
		test(r)
	})
}

func newRig(t *testing.T, queues ...string) *rig {
	t.Helper()
	decoder, err := standardDecoder()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, broker: membus.New(), decoder: decoder, log: &lockedBuffer{}, came: make(chan struct{}, 1)}
	r.broker.SetUser("a1")
	r.outside, err = r.broker.Open(context.Background(), bus.SessionSpec{
		Name: "coordinator", Topology: bus.Standard(bus.Declare, bus.ProfileQuorum, queues),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.readRequests()
	return r
}

// readRequests takes what comes on task.request, as long as the outside session lasts.
func (r *rig) readRequests() {
	r.t.Helper()
	session := r.outside
	err := session.Subscribe(context.Background(), bus.Subscription{Queue: bus.QueueRequest, Prefetch: 100,
		Handle: func(d bus.Delivery) {
			r.mu.Lock()
			r.asked, r.askedNow = append(r.asked, d), append(r.askedNow, time.Now())
			r.mu.Unlock()
			session.Ack(d.Tag)
			select {
			case r.came <- struct{}{}:
			default:
			}
		}})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) close() {
	for _, a := range r.agents {
		a.stop()
	}
	for _, a := range r.agents {
		if err := <-a.done; err != nil {
			r.t.Errorf("Run returned %v", err)
		}
	}
	_ = r.outside.Close(context.Background()) // a test may have cut it
	time.Sleep(3 * time.Hour)                 // for handlers that outlive Run
}

// config is that of the agent a1.
func (r *rig) config() agent.Config {
	return agent.Config{
		ID: "a1", Bus: r.broker,
		Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// run starts the agent a1 with so many slots.
func (r *rig) run(slots int, handle agent.Handler) *running {
	r.t.Helper()
	c := r.config()
	c.Slots = slots
	return r.runWith(c, handle)
}

func (r *rig) runWith(c agent.Config, handle agent.Handler) *running {
	r.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	a := &running{stop: stop, done: make(chan error, 1)}
	go func() { a.done <- agent.Run(ctx, c, handle) }()
	r.agents = append(r.agents, a)
	synctest.Wait()
	return a
}

// pass lets virtual time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// dispatch is the first attempt to give a task to a1, with 10 s for the work.
func dispatch(task string) *coordinator.Dispatch {
	return &coordinator.Dispatch{
		Task: &coordinator.Task{ID: coordinator.TaskID(task), Type: "sum",
			Carried:  coordinator.Carried{CorrelationID: "trace-" + task},
			Priority: coordinator.PriorityHigh},
		Agent: "a1", Queue: "agent.a1", DispatchID: task + ".1", Attempt: 1, Timeout: 10 * time.Second, At: time.Now(),
	}
}

// give publishes dispatches of these tasks.
func (r *rig) give(tasks ...string) {
	r.t.Helper()
	for _, task := range tasks {
		r.send(dispatch(task), nil)
	}
}

// giveAgain publishes copies of these dispatches, as a coordinator does that does not
// know whether the first have arrived.
func (r *rig) giveAgain(tasks ...string) {
	r.t.Helper()
	for _, task := range tasks {
		r.send(dispatch(task), map[string]any{"x-taskbus-maybe-duplicate": true})
	}
}

// giveAttempt publishes a later dispatch of a task.
func (r *rig) giveAttempt(task string, attempt int) {
	r.t.Helper()
	d := dispatch(task)
	d.Attempt, d.DispatchID = attempt, fmt.Sprintf("%s.%d", task, attempt)
	r.send(d, nil)
}

func (r *rig) send(d *coordinator.Dispatch, headers map[string]any) {
	r.t.Helper()
	r.publish(bus.Publication{
		Key: d.Queue,
		Properties: bus.Properties{Type: "task.dispatch", MessageID: d.DispatchID, CorrelationID: d.Task.CorrelationID,
			Headers: headers},
		Body: messages.AppendExplainedDispatch(nil, d, []byte(`{"n": 1}`)),
	})
}

// withdraw publishes a task.cancel to the agent.
func (r *rig) withdraw(m messages.TaskCancel) {
	r.t.Helper()
	body, err := json.Marshal(m)
	if err != nil {
		r.t.Fatal(err)
	}
	r.publish(bus.Publication{Exchange: bus.ExchangeControl, Key: "a1", Body: body})
}

func (r *rig) publish(p bus.Publication) {
	r.t.Helper()
	if err := r.outside.Publish(p); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// result is a task.result with its AMQP properties.
type result struct {
	messages.TaskResult
	bus.Properties
}

// results are all that have been published, in order; each must fit its schema and
// have come by the way that topic permissions leave to its agent.
func (r *rig) results() (all []result) {
	r.t.Helper()
	synctest.Wait()
	for _, d := range r.broker.Messages(bus.StreamResult) {
		var m messages.TaskResult
		if refusal := r.decoder.DecodeTaskResult(d.Body, &m); refusal != nil {
			r.t.Fatalf("an invalid task.result: %s\n%s", refusal.Text, d.Body)
		}
		r.checkWay(d, bus.StreamResult, m.AgentID)
		all = append(all, result{m, d.Properties})
	}
	return all
}

// checkWay: the exchange taskbus.agents, with the agent's own key.
func (r *rig) checkWay(d bus.Delivery, stream string, id messages.AgentID) {
	r.t.Helper()
	if want := stream + "." + string(id); d.Exchange != bus.ExchangeAgents || d.RoutingKey != want {
		r.t.Errorf("published to the exchange %q with the key %q, want %q and %q", d.Exchange, d.RoutingKey,
			bus.ExchangeAgents, want)
	}
}

// outcomes are the results in short: "task outcome", sorted.
func (r *rig) outcomes() string {
	var words []string
	for _, m := range r.results() {
		word := string(m.TaskID) + " " + string(m.Outcome)
		if m.Attempted {
			word += "+attempted"
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// expect compares the outcomes so far.
func (r *rig) expect(want string) {
	r.t.Helper()
	if got := r.outcomes(); got != want {
		r.t.Errorf("results %q, want %q", got, want)
	}
}

// settled checks what is left in the agent's queue, ready and unacknowledged, and
// what was given back.
func (r *rig) settled(ready, unacked int, returned ...string) {
	r.t.Helper()
	synctest.Wait()
	var back []string
	for _, d := range r.broker.Messages(bus.QueueReassign) {
		if d.Headers["x-first-death-reason"] == "rejected" {
			back = append(back, strings.TrimSuffix(d.MessageID, ".1"))
		}
	}
	if !slices.Equal(back, returned) {
		r.t.Errorf("given back %v, want %v", back, returned)
	}
	if n := len(r.broker.Messages("agent.a1")); n != ready {
		r.t.Errorf("%d ready in the agent's queue, want %d", n, ready)
	}
	if n := r.broker.Unacked("agent.a1"); n != unacked {
		r.t.Errorf("%d unacknowledged, want %d", n, unacked)
	}
}

// status is an agent.status with its AMQP properties.
type status struct {
	messages.AgentStatus
	bus.Properties
}

// statuses are all heartbeats so far, checked as results are.
func (r *rig) statuses() (all []status) {
	r.t.Helper()
	synctest.Wait()
	for _, d := range r.broker.Messages(bus.StreamStatus) {
		var m messages.AgentStatus
		if refusal := r.decoder.DecodeAgentStatus(d.Body, &m); refusal != nil {
			r.t.Fatalf("an invalid agent.status: %s\n%s", refusal.Text, d.Body)
		}
		r.checkWay(d, bus.StreamStatus, m.AgentID)
		all = append(all, status{m, d.Properties})
	}
	return all
}

// active is what the latest heartbeat lists, e.g. "ready [t1 t2]".
func (r *rig) active() string {
	all := r.statuses()
	if len(all) == 0 {
		return "none"
	}
	m := all[len(all)-1]
	ids := make([]string, len(m.ActiveTaskIDs))
	for i, id := range m.ActiveTaskIDs {
		ids[i] = string(id)
	}
	return m.Status.String() + " [" + strings.Join(ids, " ") + "]"
}

func (r *rig) expectActive(want string) {
	r.t.Helper()
	if got := r.active(); got != want {
		r.t.Errorf("the latest heartbeat says %s, want %s", got, want)
	}
}

// expectLog wants so many log lines with a text.
func (r *rig) expectLog(text string, lines int) {
	r.t.Helper()
	synctest.Wait()
	if got := strings.Count(r.log.String(), text); got != lines {
		r.t.Errorf("%d log lines with %q, want %d:\n%s", got, text, lines, r.log.String())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// withhold keeps back the confirms of what goes to a queue or stream.
func withhold(key string) func(bus.Publication) membus.Reply { return answer(key, membus.Withhold) }

// unroutable has the broker say that a queue or stream does not exist.
func unroutable(key string) func(bus.Publication) membus.Reply { return answer(key, membus.Return) }

// answer gives the reply to what goes to a queue or stream: by its name, or with the
// key of the agent a1.
func answer(key string, reply membus.Reply) func(bus.Publication) membus.Reply {
	return func(p bus.Publication) membus.Reply {
		if p.Key == key || p.Key == key+".a1" {
			return reply
		}
		return membus.Answer
	}
}

func busPublication(exchange, key, body string) bus.Publication {
	return bus.Publication{Exchange: exchange, Key: key, Body: []byte(body)}
}

func countLog(r *rig, text string) int {
	synctest.Wait()
	return strings.Count(r.log.String(), text)
}

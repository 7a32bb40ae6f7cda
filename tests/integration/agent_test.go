package integration

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// agentProcess is an agent with the SDK, seen by its supervisor.
type agentProcess struct {
	*process
	id    string
	stdin io.WriteCloser
	read  chan struct{} // closed when all that it said has been entered into the books
}

// agent starts an agent's process; what it begins goes into the books. It is ended
// with the test, if it still runs.
func (r *rig) agent(b *books, spec agentSpec) *agentProcess {
	r.t.Helper()
	return r.agentAt(r.broker.URL, b, spec)
}

// agentAt is agent with a broker URL of its own.
func (r *rig) agentAt(brokerURL string, b *books, spec agentSpec) *agentProcess {
	r.t.Helper()
	encoded, err := json.Marshal(spec)
	if err != nil {
		r.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	a := &agentProcess{
		process: &process{r.t, &running{name: "agent " + spec.ID, log: newLogBook(), exited: make(chan struct{})}},
		id:      spec.ID, read: make(chan struct{}),
	}
	a.cmd = exec.Command(self)
	a.cmd.Env = []string{agentEnv + "=" + string(encoded), "RABBITMQ_URL=" + brokerURL, raceOptions}
	a.cmd.Stderr = a.log
	// A pipe of our own: that of the command would be closed by its end, perhaps
	// before all of it has been read.
	said, writer, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	a.cmd.Stdout = writer
	if a.stdin, err = a.cmd.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	a.begin()
	_ = writer.Close() // the process has its own end
	go func() {
		defer close(a.read)
		defer said.Close()
		for lines := bufio.NewScanner(said); lines.Scan(); {
			b.begins(r.t, lines.Bytes())
		}
	}()
	r.t.Cleanup(func() {
		a.signal(syscall.SIGCONT) // a stopped process would not hear of its end
		a.inspect(r.broker, brokerURL)
		<-a.read
	})
	return a
}

// agents starts several, one second between their heartbeats, and waits until the
// coordinator takes them for eligible.
func (r *rig) agents(c *process, b *books, slots int, ids ...string) map[string]*agentProcess {
	r.t.Helper()
	all := map[string]*agentProcess{}
	for _, id := range ids {
		all[id] = r.agent(b, agentSpec{ID: id, Slots: slots})
	}
	c.awaitEligible(ids...)
	return all
}

// awaitEligible waits until these agents can be given work.
func (c *process) awaitEligible(ids ...string) {
	c.t.Helper()
	eventually(c.t, patience, strings.Join(ids, ", ")+" can be given work", func() (bool, string) {
		missing := ""
		eligible := map[string]bool{}
		for _, a := range c.status().Agents {
			eligible[a.ID] = a.Eligible
		}
		for _, id := range ids {
			if !eligible[id] {
				missing += id + " cannot; "
			}
		}
		return missing == "", missing
	})
}

// letGo ends what the agent holds of these tasks.
func (a *agentProcess) letGo(tasks ...string) {
	a.t.Helper()
	if _, err := io.WriteString(a.stdin, strings.Join(tasks, "\n")+"\n"); err != nil {
		a.t.Fatalf("tell %s to let go: %v", a.name, err)
	}
}

// retire ends the agent in order; its handlers must have returned.
func (a *agentProcess) retire() {
	a.t.Helper()
	a.stop()
	<-a.read
}

// begins enters a line of an agent's process.
func (b *books) begins(t testing.TB, line []byte) {
	var said begun
	if err := json.Unmarshal(line, &said); err != nil {
		t.Errorf("an agent said what cannot be read: %q", line)
		return
	}
	o := outcome{agent: said.Agent, dispatchID: said.Dispatch, marked: said.MaybeDuplicate}
	if n, err := hex.Decode(o.payload[:], []byte(said.Payload)); err != nil || n != len(o.payload) {
		t.Errorf("an agent said what cannot be read: %q", line)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dispatched[said.Task] = append(b.dispatched[said.Task], o)
}

// hand is an agent of bare AMQP whose every step the test takes itself.
type hand struct {
	*client
	r          *rig
	id         string
	work       *amqp.Channel
	deliveries <-chan amqp.Delivery
}

// hand makes an agent that consumes its queue, with this prefetch. It reports
// nothing by itself.
func (r *rig) hand(id string, prefetch int) *hand {
	r.t.Helper()
	h := &hand{client: connect(r.t, r.broker), r: r, id: id}
	var err error
	if h.work, err = h.conn.Channel(); err != nil {
		r.t.Fatal(err)
	}
	if err = h.work.Qos(prefetch, 0, false); err != nil {
		r.t.Fatal(err)
	}
	if h.deliveries, err = h.work.Consume("agent."+id, "", false, false, false, false, nil); err != nil {
		r.t.Fatal(err)
	}
	return h
}

// take waits for the next dispatch, which stays unacknowledged.
func (h *hand) take() dispatch {
	h.t.Helper()
	select {
	case d, open := <-h.deliveries:
		if !open {
			h.t.Fatalf("%s: its channel was closed", h.id)
		}
		return readDispatch(h.t, d)
	case <-time.After(patience):
		h.t.Fatalf("%s got nothing", h.id)
		return dispatch{}
	}
}

// ack acknowledges a dispatch.
func (h *hand) ack(d dispatch) {
	h.t.Helper()
	if err := d.amqp.Ack(false); err != nil {
		h.t.Fatalf("%s acknowledges %s: %v", h.id, d.DispatchID, err)
	}
}

// result is a task.result as an agent writes it; empty fields are left out.
type result struct {
	MessageType   string  `json:"message_type"`
	TaskID        string  `json:"task_id"`
	AgentID       string  `json:"agent_id"`
	Outcome       string  `json:"outcome"`
	Attempted     bool    `json:"attempted,omitempty"`
	CorrelationID string  `json:"correlation_id"`
	DispatchID    string  `json:"dispatch_id,omitempty"`
	DurationMS    float64 `json:"duration_ms,omitempty"`
	Timestamp     string  `json:"timestamp"`
}

// result is what the agent says of a task at this moment.
func (h *hand) result(task, dispatchID, outcome string) result {
	return result{
		MessageType: "task.result", TaskID: task, AgentID: h.id, Outcome: outcome,
		CorrelationID: "trace-" + task, DispatchID: dispatchID, DurationMS: 1.5,
		Timestamp: time.Now().UTC().Format(time.RFC3339Nano),
	}
}

func (m result) message() amqp.Publishing {
	body, err := json.Marshal(m)
	if err != nil {
		panic(err) // a fault of the test itself: every field can be marshalled
	}
	return amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: body}
}

// say publishes results.
func (c *client) say(results ...result) {
	c.t.Helper()
	c.publish(bus.StreamResult, inAMQP(results)...)
}

// complete says that a dispatch is done, and acknowledges it, as an agent should.
func (h *hand) complete(d dispatch) {
	h.t.Helper()
	h.say(h.result(string(d.TaskID), d.DispatchID, "succeeded"))
	h.ack(d)
}

// serve works from here on by itself, until the test ends: it enters each dispatch
// and does with it what act says.
func (h *hand) serve(l *ledger, act func(d dispatch) error) {
	decoder, done := newDecoder(h.t), make(chan struct{})
	go func() {
		defer close(done)
		for d := range h.deliveries {
			m, refusal := decoder.DecodeTaskDispatch(d.Body)
			if refusal != nil {
				h.t.Errorf("%s got what is no dispatch: %s", h.id, refusal.Text)
				return
			}
			l.enter(dispatch{m, d})
			if act(dispatch{m, d}) != nil {
				return // the connection has ended
			}
		}
	}()
	h.r.t.Cleanup(func() { _ = h.work.Close(); <-done })
}

// beats reports every 100 ms until the test ends.
func (h *hand) beats(report func() heartbeat) {
	done, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		beats := time.NewTicker(100 * time.Millisecond)
		defer beats.Stop()
		for {
			h.tryPublish(bus.StreamStatus, report().message())
			select {
			case <-beats.C:
			case <-stop:
				return
			}
		}
	}()
	h.r.t.Cleanup(func() { close(stop); <-done })
}

// control gives the agent a control queue of its own, as the SDK has.
func (h *hand) control() (queue string) {
	h.t.Helper()
	queue = fmt.Sprintf("agent.%s.control", h.id)
	if _, err := h.channel.QueueDeclare(queue, false, true, true, false, nil); err != nil {
		h.t.Fatal(err)
	}
	if err := h.channel.QueueBind(queue, h.id, bus.ExchangeControl, false, nil); err != nil {
		h.t.Fatal(err)
	}
	return queue
}

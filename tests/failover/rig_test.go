package failover

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

// patience is how long anything may take that should happen at once: the machine may
// be busy with other tests.
const patience = 30 * time.Second

// fleet is the agents.yaml of all tests. Two agents know the SDK, two know nothing but
// their queues; keeper holds what it gets until it is told; absent is never there, so
// that what only absent could do waits.
const fleet = `
agents:
  sdk-1: {capabilities: [code], max_concurrent_tasks: 40, health_check_interval: 1}
  sdk-2: {capabilities: [code], max_concurrent_tasks: 40, health_check_interval: 1}
  plain-1: {capabilities: [code], max_concurrent_tasks: 40, health_check_interval: 1}
  plain-2: {capabilities: [code], max_concurrent_tasks: 40, health_check_interval: 1}
  keeper: {capabilities: [keeping], max_concurrent_tasks: 8, health_check_interval: 1}
  absent: {capabilities: [absence], max_concurrent_tasks: 8, health_check_interval: 1}
task_routing:
  build: {required_capabilities: [code]}
  keep: {required_capabilities: [keeping]}
  wait: {required_capabilities: [absence]}
global_settings:
  assignment_timeout_seconds: 5
  stale_agent_threshold_seconds: 60
  max_queue_size: 100000
`

// rig is one virtual host of a broker, or a cluster, with all processes that work on it.
type rig struct {
	t      *testing.T
	url    string // where agents and producers connect
	config string // path of agents.yaml
	book   *book
	// agentsLived: no agent was ever cut off from the broker.
	agentsLived bool

	sdkLog  brokertest.LogBook // of the agents with the SDK
	witness witness

	living  context.Context // of agents, producers, observers
	helpers sync.WaitGroup

	processes []*process
}

// newRig sets up everything but the coordinators. The agents wait for the first of
// these to declare their queues.
func newRig(t *testing.T, url string) *rig {
	t.Helper()
	brokertest.DependOnProgram(t)
	r := &rig{t: t, url: url, config: filepath.Join(t.TempDir(), "agents.yaml"), book: newBook(), agentsLived: true}
	r.configure(fleet)
	var end context.CancelFunc
	r.living, end = context.WithCancel(context.Background())
	t.Cleanup(func() {
		end()
		r.helpers.Wait()
		if t.Failed() {
			t.Logf("the end of the log of the agents with the SDK:\n%s", r.sdkLog.Tail(25))
		}
	})
	r.helpers.Go(func() { r.witness.watch(r.living, url) })
	r.observe()
	return r
}

// configure writes agents.yaml; coordinators that are launched later read it.
func (r *rig) configure(content string) {
	r.t.Helper()
	if err := os.WriteFile(r.config, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) dial() *amqp.Connection {
	r.t.Helper()
	conn, err := amqp.Dial(r.url)
	if err != nil {
		r.t.Fatalf("connect to the broker: %v", err)
	}
	return conn
}

// observer is the queue by which the book hears of ends. It lasts: what is announced
// while its reader is away is read later.
const observer = "observer"

// observe begins to read what is announced.
func (r *rig) observe() {
	r.t.Helper()
	conn := r.dial()
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := ch.ExchangeDeclare(bus.ExchangeEvents, "topic", true, false, false, false, nil); err != nil {
		r.t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(observer, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		r.t.Fatal(err)
	}
	for _, key := range []string{"task.completed.#", "assignment.failed.#", "task.duplicate"} {
		if err := ch.QueueBind(observer, key, bus.ExchangeEvents, false, nil); err != nil {
			r.t.Fatal(err)
		}
	}
	r.helpers.Go(func() {
		for r.living.Err() == nil {
			r.hear()
			pause(r.living, 50*time.Millisecond)
		}
	})
}

// hear reads announcements until the connection or the test ends.
func (r *rig) hear() {
	conn, err := amqp.Dial(r.url)
	if err != nil {
		return
	}
	defer conn.CloseDeadline(time.Now().Add(patience))
	ch, err := conn.Channel()
	if err != nil || ch.Qos(500, 0, false) != nil {
		return
	}
	events, err := ch.Consume(observer, "", false, false, false, false, nil)
	if err != nil {
		return
	}
	for {
		select {
		case d, open := <-events:
			if !open {
				return
			}
			r.announced(d.Body, d.Redelivered)
			_ = d.Ack(false)
		case <-r.living.Done():
			return
		}
	}
}

// announced notes an announcement. again: it has been on its way before, and was seen then if
// its acknowledgement was lost, but not if the connection, or the queue's leader, was.
func (r *rig) announced(body []byte, again bool) {
	var m struct {
		MessageType string `json:"message_type"`
		Task        string `json:"task_id"`
		Agent       string `json:"agent_id"`
		Dispatch    string `json:"dispatch_id"`
		Outcome     string `json:"outcome"`
		Code        string `json:"reason_code"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		r.t.Errorf("an announcement cannot be read: %q", body)
		return
	}
	switch m.MessageType {
	case "task.completed":
		r.book.ends(m.Task, end{what: m.Outcome, agent: m.Agent, dispatch: m.Dispatch}, again)
	case "assignment.failed":
		if m.Code == "duplicate_task" { // of the copy, not of the task
			r.book.duplicate(m.Task+" refused", again)
			return
		}
		r.book.ends(m.Task, end{what: m.Code, failed: true}, again)
	case "task.duplicate":
		r.book.duplicate(m.Task, again)
	}
}

// drained waits until every accepted task has come out, and every end that is owed has
// been told.
func (r *rig) drained() {
	r.t.Helper()
	r.eventually(2*patience, "every accepted task comes out", func() (bool, string) {
		open, confirmed := r.book.open()
		return open == 0, fmt.Sprintf("%d of %d have not", open, confirmed)
	})
	r.eventually(2*patience, "the ends of what was begun are told", func() (bool, string) {
		r.book.mu.Lock()
		defer r.book.mu.Unlock()
		missing := 0
		var some []string
		for _, e := range r.book.tasks {
			if e.unfinished() {
				if missing++; missing <= 3 {
					some = append(some, fmt.Sprintf("%+v", *e))
				}
			}
		}
		return missing == 0, fmt.Sprintf("%d are missing, as these: %s", missing, strings.Join(some, "\n"))
	})
}

// eventually looks every 10 ms until the condition holds. It fails the test with what
// was seen last when that takes too long.
func (r *rig) eventually(within time.Duration, what string, holds func() (ok bool, seen string)) {
	r.t.Helper()
	late := time.Now().Add(within)
	for {
		ok, seen := holds()
		if ok {
			return
		}
		if time.Now().After(late) {
			r.t.Fatalf("not within %v: %s; last seen: %s", within, what, seen)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// pause waits, but not beyond the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

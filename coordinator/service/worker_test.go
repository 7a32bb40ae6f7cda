package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
)

// The orders, shorter.
const (
	orderCordon   = coordinator.OrderCordon
	orderDrain    = coordinator.OrderDrain
	orderUncordon = coordinator.OrderUncordon
)

func isNoAgent(err error) bool { return errors.Is(err, httpapi.ErrNoAgent) }

// worker is an agent on a connection of its own. It does nothing by itself: the
// test says what it reports, and when it settles what it holds.
type worker struct {
	r       *rig
	id      string
	session bus.Session

	mu      sync.Mutex
	held    []bus.Delivery // dispatches, unacknowledged
	cancels []message      // what came on its control queue
}

// worker connects an agent with a heartbeat that says what it runs (nothing), so
// that it is tracked. controlled gives it a control queue.
func (r *rig) worker(id string, controlled bool) *worker {
	r.t.Helper()
	w := r.consumer(id, controlled, 100)
	w.report()
	return w
}

// consumerOf connects an agent that takes so many at a time, and says nothing for it.
func (r *rig) consumerOf(id string, prefetch int) *worker {
	r.t.Helper()
	return r.consumer(id, false, prefetch)
}

func (r *rig) consumer(id string, controlled bool, prefetch int) *worker {
	r.t.Helper()
	w := &worker{r: r, id: id}
	topology := bus.Topology{Mode: bus.Off, Exchanges: bus.Standard(bus.Off, bus.ProfileQuorum, nil).Exchanges}
	control := "agent." + id + ".control"
	if controlled {
		topology.Queues = []bus.Queue{{Name: control, Temporary: true}}
		topology.Bindings = []bus.Binding{{Exchange: bus.ExchangeControl, Queue: control, Key: id}}
	}
	var err error
	w.session, err = r.broker.Open(context.Background(),
		bus.SessionSpec{Name: id, Topology: topology, OnSettled: func(uint64, bus.Outcome) {}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.others = append(r.others, w.session)
	w.subscribe("agent."+id, prefetch, func(d bus.Delivery) { w.held = append(w.held, d) })
	if controlled {
		w.subscribe(control, 100, func(d bus.Delivery) {
			m := message{Delivery: d}
			if err := json.Unmarshal(d.Body, &m.fields); err != nil {
				r.t.Errorf("%s got a cancel that is not JSON: %v", id, err)
			}
			w.cancels = append(w.cancels, m)
			w.session.Ack(d.Tag)
		})
	}
	synctest.Wait()
	return w
}

func (w *worker) subscribe(queue string, prefetch int, handle func(bus.Delivery)) {
	w.r.t.Helper()
	err := w.session.Subscribe(context.Background(),
		bus.Subscription{Queue: queue, Prefetch: prefetch, Handle: func(d bus.Delivery) {
			w.mu.Lock()
			defer w.mu.Unlock()
			handle(d)
		}})
	if err != nil {
		w.r.t.Fatal(err)
	}
}

// report sends a heartbeat that names what it runs.
func (w *worker) report(tasks ...string) {
	w.r.t.Helper()
	w.r.reportTasks(w.id, tasks...)
}

func (r *rig) reportTasks(agent string, tasks ...string) {
	r.t.Helper()
	if tasks == nil {
		tasks = []string{}
	}
	ids, _ := json.Marshal(tasks) // of strings: cannot fail
	r.publish(bus.StreamStatus, fmt.Sprintf(
		`{"message_type":"agent.status","agent_id":%q,"status":"ready","current_load":0.0,"active_tasks":%d,`+
			`"available_capacity":%d,"timestamp":%q,"active_task_ids":%s}`,
		agent, len(tasks), max(0, 10-len(tasks)), time.Now().Format(time.RFC3339Nano), ids))
}

// offline reports that the agent leaves.
func (r *rig) offline(agent string) {
	r.t.Helper()
	r.publish(bus.StreamStatus, fmt.Sprintf(
		`{"message_type":"agent.status","agent_id":%q,"status":"offline","current_load":0.0,"active_tasks":0,`+
			`"available_capacity":0,"timestamp":%q}`,
		agent, time.Now().Format(time.RFC3339Nano)))
}

// result publishes a task.result; extra fields begin with a comma.
func (r *rig) result(agent, task, outcome, extra string, properties ...func(*bus.Properties)) {
	r.t.Helper()
	r.publish(bus.StreamResult, resultBody(agent, task, outcome, extra), properties...)
}

func resultBody(agent, task, outcome, extra string) string {
	return fmt.Sprintf(
		`{"message_type":"task.result","task_id":%q,"agent_id":%q,"outcome":%q,"correlation_id":"trace-of-%s",`+
			`"timestamp":%q%s}`,
		task, agent, outcome, task, time.Now().Format(time.RFC3339Nano), extra)
}

// has lists the ids of the tasks that the agent holds.
func (w *worker) has() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for _, d := range w.held {
		ids = append(ids, fieldOf(d.Body, "task_id"))
	}
	return ids
}

// told lists the cancels that it was sent.
func (w *worker) told() []message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancels
}

// finish sends the result of the oldest task it holds, then acknowledges it; one
// that it gives back it rejects.
func (w *worker) finish(outcome, extra string) {
	w.r.t.Helper()
	d := w.take()
	w.r.result(w.id, fieldOf(d.Body, "task_id"), outcome, fmt.Sprintf(`,"dispatch_id":%q%s`, d.MessageID, extra))
	if outcome == "rejected" {
		w.session.Reject(d.Tag)
	} else {
		w.session.Ack(d.Tag)
	}
	synctest.Wait()
}

// take removes the oldest delivery it holds.
func (w *worker) take() bus.Delivery {
	w.r.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		w.r.t.Fatalf("agent %s holds nothing; log:\n%s", w.id, w.r.log)
	}
	d := w.held[0]
	w.held = w.held[1:]
	return d
}

// vanish ends the agent's connection: what it holds is the broker's again.
func (w *worker) vanish() {
	w.r.t.Helper()
	if err := w.session.Close(context.Background()); err != nil {
		w.r.t.Fatal(err)
	}
	synctest.Wait()
}

func fieldOf(body []byte, name string) string {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		return ""
	}
	text, _ := fields[name].(string)
	return text
}

// events lists the events of a type; bindAll must have been called before.
func (r *rig) events(messageType string) []message {
	r.t.Helper()
	var all []message
	for _, m := range r.in("everything") {
		if m.Type == messageType {
			all = append(all, m)
		}
	}
	return all
}

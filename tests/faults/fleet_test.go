package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

func newDecoder(t testing.TB) *messages.Decoder {
	t.Helper()
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return messages.NewDecoder(set, messages.Limits{})
}

// agent is a worker on a connection of its own, past any proxy. It connects again for
// as long as it takes.
type agent struct {
	r     *rig
	id    string
	slots int
	agentOptions

	mu      sync.Mutex
	held    map[string]bool // dispatches at work, by id
	done    map[string]bool // those it has ended: a copy is answered and not done again
	silent  bool            // does not report
	skew    time.Duration   // of its clock
	ended   context.CancelFunc
	stopped chan struct{}
}

// agentOptions say what kind of agent it is; the zero value is an agent with the
// manners of the SDK that is done at once.
type agentOptions struct {
	// plain agents know nothing of task.result: they acknowledge, and report.
	plain bool
	// work is how long a task takes.
	work time.Duration
	// refuse tells which dispatches it gives back; nil: none.
	refuse func(m *messages.TaskDispatch) bool
	// dies tells at which dispatches its process ends, with all that it has in hand; it comes back
	// a moment later. nil: at none.
	dies func(m *messages.TaskDispatch) bool
	// as is the broker's URL as its own user sees it, whose name is its id; it says so in
	// everything that it publishes. Empty: of no agent.
	as string
	// beats is the time between two reports; 0: half a second.
	beats time.Duration
}

// work starts agents a1, a2, … of the configuration, with their slots each.
func (r *rig) work(n, slots int, o agentOptions) {
	r.t.Helper()
	for i := range n {
		r.hire(fmt.Sprint("a", i+1), slots, o)
	}
}

// hire starts one agent.
func (r *rig) hire(id string, slots int, o agentOptions) *agent {
	if o.beats == 0 {
		o.beats = 500 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(r.stopping)
	a := &agent{
		r: r, id: id, slots: slots, agentOptions: o, held: map[string]bool{}, done: map[string]bool{},
		ended: cancel, stopped: make(chan struct{}),
	}
	r.agents[id] = a
	r.helpers.Go(func() {
		defer close(a.stopped)
		for ctx.Err() == nil {
			a.session(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return a
}

// fire ends the agent as a crash would.
func (a *agent) fire() {
	a.ended()
	<-a.stopped
}

func (a *agent) set(f func(*agent)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(a)
}

// session works on one connection until that ends or ctx does.
func (a *agent) session(ctx context.Context) {
	conn, err := amqp.Dial(cmp.Or(a.as, a.r.broker.URL))
	if err != nil {
		return // the broker is away
	}
	defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
	ch, err := conn.Channel()
	if err != nil || ch.Confirm(false) != nil {
		return
	}
	// More than its slots: what a coordinator sends beyond them must be seen.
	prefetch := a.slots + 50
	if ch.Qos(prefetch, 0, false) != nil {
		return
	}
	teller := newTeller(ch, prefetch)
	deliveries, err := ch.Consume("agent."+a.id, "", false, false, false, false, nil)
	if err != nil {
		return // its queue does not exist yet
	}
	var working sync.WaitGroup
	defer working.Wait()
	session, end := context.WithCancel(ctx)
	defer end()
	working.Go(func() { a.report(session, conn) })
	decoder := newDecoder(a.r.t)
	for {
		select {
		case d, open := <-deliveries:
			if !open {
				return
			}
			m, refusal := decoder.DecodeTaskDispatch(d.Body)
			if refusal != nil {
				a.r.book.mu.Lock()
				a.r.book.unreadable = append(a.r.book.unreadable, a.id+" got "+refusal.Text)
				a.r.book.mu.Unlock()
				_ = d.Ack(false)
				continue
			}
			o := a.begin(m, d)
			if a.dies != nil && a.dies(m) {
				a.r.book.givenBack(o)
				a.set(func(a *agent) { delete(a.held, m.DispatchID) })
				return
			}
			working.Go(func() {
				if !a.handle(session, teller, m, d, o) {
					end() // the broker delivers it again
				}
			})
		case <-session.Done():
			return
		}
	}
}

// begin notes a dispatch, and whether there are too many at once: S6. Marked copies
// do not count: nothing could tell that they had arrived before. Nor does what was done before
// and comes again because its connection was lost: its result may be in the stream.
func (a *agent) begin(m *messages.TaskDispatch, d amqp.Delivery) *run {
	o := a.r.book.enter(a.id, m, d)
	if o == nil || o.marked || a.r.book.hasFinished(o) {
		return o
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done[m.DispatchID] {
		return o
	}
	a.held[m.DispatchID] = true
	if n := len(a.held); n > a.slots {
		a.r.book.mu.Lock()
		a.r.book.overworked = append(a.r.book.overworked, fmt.Sprintf("%s has %d of %d with %s", a.id, n, a.slots,
			m.DispatchID))
		a.r.book.mu.Unlock()
	}
	return o
}

// handle does the work, tells the result, and acknowledges. It is false when the result is in no queue.
func (a *agent) handle(ctx context.Context, t *teller, m *messages.TaskDispatch, d amqp.Delivery, o *run) bool {
	a.mu.Lock()
	again := a.done[m.DispatchID]
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.held, m.DispatchID)
	}()
	if !again && a.work > 0 {
		select {
		case <-time.After(a.work):
		case <-ctx.Done():
			a.r.book.givenBack(o) // its connection is lost: the broker delivers it again
			return false
		}
	}
	refused := !again && a.refuse != nil && a.refuse(m)
	if !refused {
		a.r.book.finish(o)
	}
	if !a.plain {
		// The coordinator counts the slot as free as soon as it has the result.
		a.set(func(a *agent) { delete(a.held, m.DispatchID) })
		if !a.tell(ctx, t, m, refused) {
			if refused {
				a.r.book.givenBack(o)
			}
			return false
		}
		a.r.book.toldOf(o)
	}
	if refused {
		a.r.book.givenBack(o)
		_ = d.Reject(false) // if the connection has ended, it comes again
		return true
	}
	a.mu.Lock()
	a.done[m.DispatchID] = true
	a.mu.Unlock()
	_ = d.Ack(false) // likewise
	return true
}

// outputOf is what every agent finds out with a task.
func outputOf[S ~string](id S) string { return fmt.Sprintf("%q", "of "+id) }

// tell publishes the result and waits until it is in the stream.
func (a *agent) tell(ctx context.Context, t *teller, m *messages.TaskDispatch, refused bool) bool {
	result := messages.TaskResult{
		TaskID: m.TaskID, AgentID: m.AssignedAgent, Outcome: messages.Succeeded, CorrelationID: m.CorrelationID,
		Timestamp: a.now(), DispatchID: m.DispatchID, Attempt: m.Attempt, Output: json.RawMessage(outputOf(m.TaskID)),
	}
	if refused {
		result.Outcome, result.Error = messages.Rejected, "not for me"
	}
	body, err := json.Marshal(result)
	if err != nil {
		return false
	}
	p := a.signed(body)
	p.MessageId = m.DispatchID
	return t.publish(ctx, bus.StreamResult, p)
}

func persistent(body []byte) amqp.Publishing {
	return amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: body}
}

// signed is a message with the agent's user name, if it has one.
func (a *agent) signed(body []byte) amqp.Publishing {
	m := persistent(body)
	if a.as != "" {
		m.UserId = a.id
	}
	return m
}

func (a *agent) now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Add(a.skew)
}

// report publishes heartbeats until the session ends.
func (a *agent) report(ctx context.Context, conn *amqp.Connection) {
	ch, err := conn.Channel()
	if err != nil {
		return
	}
	beats := time.NewTicker(a.beats)
	defer beats.Stop()
	for {
		a.mu.Lock()
		silent := a.silent
		a.mu.Unlock()
		if !silent && ch.PublishWithContext(ctx, "", bus.StreamStatus, false, false, a.signed(a.heartbeat("ready"))) != nil {
			return
		}
		select {
		case <-beats.C:
		case <-ctx.Done():
			return
		}
	}
}

// heartbeat is its agent.status at this moment.
func (a *agent) heartbeat(status string) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	beat := map[string]any{
		"message_type": "agent.status", "agent_id": a.id, "status": status,
		"current_load": min(float64(len(a.held))/float64(max(a.slots, 1)), 1) * 0.8, "active_tasks": len(a.held),
		"available_capacity": max(a.slots-len(a.held), 0),
		"timestamp":          time.Now().Add(a.skew).UTC().Format(time.RFC3339Nano),
	}
	if !a.plain {
		ids := make([]string, 0, len(a.held))
		for dispatch := range a.held {
			ids = append(ids, taskOf(dispatch))
		}
		beat["active_task_ids"] = ids
	}
	body, err := json.Marshal(beat)
	if err != nil {
		panic(err) // a fault of the test itself: every field can be marshalled
	}
	return body
}

// taskOf is the task of a dispatch id, which is derived from it.
func taskOf(dispatch string) string {
	for i := len(dispatch) - 1; i > 0; i-- {
		if dispatch[i] == '.' {
			return dispatch[:i]
		}
	}
	return dispatch
}

package faults

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// book is what was offered, what the broker took, and what came of it.
type book struct {
	r  *rig
	mu sync.Mutex
	// tasks that were offered, by id.
	tasks   map[string]*entry
	listens time.Time // since when task.completed is heard; zero: it is not
	// strangers are outputs for what was never offered.
	strangers []string
	// dead are the bodies in task.dead that name no task, by their SHA-256.
	dead map[[32]byte]int
	// unreadable outputs: not by the published schema.
	unreadable []string
	// overworked are agents with more than their slots, unbalanced counters that do not
	// add up.
	overworked, unbalanced []string
}

// entry is one task.
type entry struct {
	id        string
	payload   [32]byte
	offered   time.Time
	confirmed bool // by the broker to its producer
	runs      []*run
	failures  []failure
	told      []told
	answers   []answer
	parked    int
	ended     time.Time // first output
}

// run is one delivery of one dispatch to an agent.
type run struct {
	agent, dispatch string
	attempt         int
	marked          bool // maybe a duplicate, by its header
	payload         [32]byte
	at              time.Time
	gaveBack        bool // the agent refused it, or lost it with its connection
	finished        bool // the work was done to its end: the broker may have the result, whatever comes after
	told            bool // the broker has the agent's result
}

type failure struct {
	code string
	at   time.Time
}

// told is a task.completed.
type told struct {
	kind, trace, by string
	attempt         int
	late            bool
	at              time.Time // by the coordinator's clock
}

// answer is what its producer was told of a task, in its own queue.
type answer struct {
	key    string // the message id
	output string // of a task.completed
}

func newBook(r *rig) *book {
	return &book{r: r, tasks: map[string]*entry{}, dead: map[[32]byte]int{}}
}

// offer notes a task before it is published.
func (b *book) offer(id string, payload json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks[id] == nil {
		b.tasks[id] = &entry{id: id, payload: sha256.Sum256(payload), offered: time.Now()}
	}
}

// confirm notes that the broker has it.
func (b *book) confirm(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[id].confirmed = true
}

// enter notes what an agent got. What the broker itself delivers again, because the
// agent's connection was lost, is the same run. nil: it was not offered.
func (b *book) enter(agent string, m *messages.TaskDispatch, d amqp.Delivery) *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.tasks[string(m.TaskID)]
	if e == nil {
		b.strangers = append(b.strangers, fmt.Sprintf("%s got %s", agent, m.TaskID))
		return nil
	}
	had := slices.IndexFunc(e.runs, func(o *run) bool { return o.dispatch == m.DispatchID && o.agent == agent })
	if d.Redelivered && had >= 0 {
		e.runs[had].gaveBack = false
		return e.runs[had]
	}
	o := &run{
		agent: agent, dispatch: m.DispatchID, attempt: m.Attempt, at: time.Now(),
		marked: d.Headers["x-taskbus-maybe-duplicate"] == true, payload: sha256.Sum256(m.Payload),
	}
	e.runs = append(e.runs, o)
	if e.ended.IsZero() {
		e.ended = o.at
	}
	return o
}

// givenBack notes that the agent refused it, or lost it before its end. A result that may have been
// published is not undone by a copy that is lost later.
func (b *book) givenBack(o *run) {
	if o == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o.gaveBack = !o.finished
}

// finish notes that the work has been done to its end, before the result is published.
func (b *book) finish(o *run) {
	if o == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o.finished = true
}

// hasFinished tells whether the work had been done before.
func (b *book) hasFinished(o *run) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return o.finished
}

// toldOf notes that the broker has the agent's result of it.
func (b *book) toldOf(o *run) {
	if o == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o.told = true
}

// executions are the runs that were not given back, in order.
func (e *entry) executions() (all []*run) {
	for _, o := range e.runs {
		if !o.gaveBack {
			all = append(all, o)
		}
	}
	return all
}

// settled tells whether the task has an end.
func (e *entry) settled() bool { return len(e.executions()) > 0 || len(e.failures) > 0 || e.parked > 0 }

func (e *entry) String() string {
	s := fmt.Sprintf("%s (confirmed %t, offered %s)", e.id, e.confirmed, e.offered.Format("05.000"))
	for _, o := range e.runs {
		s += fmt.Sprintf("; %s to %s at %s, marked %t, given back %t, finished %t, told %t",
			o.dispatch, o.agent, o.at.Format("05.000"), o.marked, o.gaveBack, o.finished, o.told)
	}
	for _, f := range e.failures {
		s += fmt.Sprintf("; failed %s at %s", f.code, f.at.Format("05.000"))
	}
	if e.parked > 0 {
		s += fmt.Sprintf("; parked %d times", e.parked)
	}
	return s
}

// collect reads assignment.failed and task.dead until the cell ends, over as many
// connections as it takes. The queues must exist.
func (b *book) collect() {
	b.r.helpers.Go(func() {
		for b.r.stopping.Err() == nil {
			b.session()
			b.r.pause(100 * time.Millisecond)
		}
	})
}

func (b *book) session() {
	conn, err := amqp.Dial(b.r.broker.URL)
	if err != nil {
		return // the broker is away
	}
	defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
	var failed, dead <-chan amqp.Delivery
	for { // until both are declared: a refusal ends the channel
		ch, err := conn.Channel()
		if err != nil {
			return
		}
		if failed, err = ch.Consume(bus.QueueFailed, "", false, false, false, false, nil); err == nil {
			if dead, err = ch.Consume(bus.QueueDead, "", false, false, false, false, nil); err == nil {
				break
			}
		}
		if b.r.pause(100 * time.Millisecond); b.r.stopping.Err() != nil {
			return
		}
	}
	decoder := newDecoder(b.r.t)
	for {
		var d amqp.Delivery
		var open bool
		select {
		case d, open = <-failed:
			if open {
				b.failed(decoder, d)
			}
		case d, open = <-dead:
			if open {
				b.parked(d)
			}
		case <-b.r.stopping.Done():
			return
		}
		if !open || d.Ack(false) != nil {
			return
		}
	}
}

func (b *book) failed(decoder *messages.Decoder, d amqp.Delivery) {
	m, refusal := decoder.DecodeAssignmentFailed(d.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if refusal != nil {
		b.unreadable = append(b.unreadable, fmt.Sprintf("assignment.failed: %s", refusal.Text))
		return
	}
	e := b.tasks[string(m.TaskID)]
	if e == nil {
		b.strangers = append(b.strangers, fmt.Sprintf("assignment.failed for %s", m.TaskID))
		return
	}
	if d.Redelivered && len(e.failures) > 0 {
		return
	}
	e.failures = append(e.failures, failure{m.ReasonCode, time.Now()})
	if e.ended.IsZero() {
		e.ended = time.Now()
	}
}

func (b *book) parked(d amqp.Delivery) {
	var named struct {
		TaskID string `json:"task_id"`
	}
	_ = json.Unmarshal(d.Body, &named) // what is parked may be anything
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.tasks[named.TaskID]; e != nil {
		e.parked++
		if e.ended.IsZero() {
			e.ended = time.Now()
		}
	}
	b.dead[sha256.Sum256(d.Body)]++
}

// open are the confirmed tasks without an end, sorted.
func (b *book) open() (ids []string, confirmed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, e := range b.tasks {
		if !e.confirmed {
			continue
		}
		if confirmed++; !e.settled() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, confirmed
}

// executed counts the tasks that an agent has had and not given back.
func (b *book) executed() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.tasks {
		if len(e.executions()) > 0 {
			n++
		}
	}
	return n
}

// each calls f for every task in order of id.
func (b *book) each(f func(e *entry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]string, 0, len(b.tasks))
	for id := range b.tasks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		f(b.tasks[id])
	}
}

// entry finds a task; a copy that may be read in peace.
func (b *book) entry(id string) (e entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found := b.tasks[id]; found != nil {
		e = *found
		e.failures = slices.Clone(found.failures)
		e.runs = make([]*run, len(found.runs))
		for i, o := range found.runs {
			copied := *o
			e.runs[i] = &copied
		}
	}
	return e
}

// runsOf counts what agents have got of one task, given back or not.
func (b *book) runsOf(id string) int {
	e := b.entry(id)
	return len(e.runs)
}

// endsQueue has a copy of each task.completed from listen on, answersQueue what producers are told from then on.
const (
	endsQueue    = "ends"
	answersQueue = "answers"
)

// listen has the cell hear of every task.completed, and name a queue for the answer to each task that is offered from
// now on, for endsAreTold and answersAreGiven. The exchange must exist.
func (r *rig) listen() {
	r.t.Helper()
	conn := r.broker.Dial(r.t)
	defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
	ch, err := conn.Channel()
	for _, queue := range []string{endsQueue, answersQueue} {
		if err == nil {
			_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		}
	}
	if err == nil {
		err = ch.QueueBind(endsQueue, "task.completed.#", bus.ExchangeEvents, false, nil)
	}
	if err != nil {
		r.t.Fatalf("listen to task.completed: %v", err)
	}
	r.book.listens = time.Now()
}

// answerTo is the queue that tasks name now; empty: none.
func (r *rig) answerTo() string {
	if r.book.listens.IsZero() {
		return ""
	}
	return answersQueue
}

// readEnds takes down what has been told by now.
func (r *rig) readEnds() {
	r.t.Helper()
	conn := r.broker.Dial(r.t)
	defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
	ch, err := conn.Channel()
	if err != nil {
		r.t.Fatalf("read what was told: %v", err)
	}
	r.takeDown(ch, endsQueue, func(d *amqp.Delivery) (id string, note func(e *entry)) {
		m, refusal := newDecoder(r.t).DecodeTaskCompleted(d.Body)
		if refusal != nil {
			r.t.Errorf("a task.completed cannot be read: %s", refusal.Text)
			return "", nil
		}
		return string(m.TaskID), func(e *entry) {
			e.told = append(e.told, told{m.TaskType, m.CorrelationID, string(m.AgentID), m.Attempt, m.Late, m.Timestamp})
		}
	})
	r.takeDown(ch, answersQueue, func(d *amqp.Delivery) (id string, note func(e *entry)) {
		var m struct {
			TaskID string `json:"task_id"`
			Output string `json:"output"`
		}
		if err := json.Unmarshal(d.Body, &m); err != nil {
			r.t.Errorf("an answer cannot be read: %v", err)
			return "", nil
		}
		return m.TaskID, func(e *entry) { e.answers = append(e.answers, answer{d.MessageId, m.Output}) }
	})
}

// takeDown notes what is in a queue, each with the task that it is about; an empty id: it was unreadable.
func (r *rig) takeDown(ch *amqp.Channel, queue string, read func(*amqp.Delivery) (id string, note func(*entry))) {
	r.t.Helper()
	for {
		d, some, err := ch.Get(queue, true)
		if err != nil {
			r.t.Fatalf("read what was told: %v", err)
		}
		if !some {
			return
		}
		id, note := read(&d)
		if id == "" {
			continue
		}
		r.book.mu.Lock()
		if e := r.book.tasks[id]; e != nil {
			note(e)
		} else {
			r.book.strangers = append(r.book.strangers, fmt.Sprintf("in %s: %s", queue, id))
		}
		r.book.mu.Unlock()
	}
}

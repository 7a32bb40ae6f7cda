package proxy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Trace takes down what passes through one or several proxies, and checks it.
//
//	S2   no basic.ack of a task before the broker has confirmed what it led to
//	S15  no basic.ack, nack or reject but for a delivery of the same channel
//	WAL  no dispatch before a journal message that was written after the task came
//
// A task that the client holds more than once (its producer has repeated it, or the
// broker has) may be acknowledged until one is left.
type Trace struct {
	// Journal tells that the client writes a journal: WAL is checked.
	Journal bool

	mu         sync.Mutex
	now        uint64 // counts what has been recorded
	journalled uint64 // when the newest confirmed journal message was published
	tasks      map[taskKey]*traceTask
	violations []Violation
	counts     Counts
	faults     []error
}

// Names of the queues in which tasks come, and of where the journal goes.
const (
	queueAssign     = "task.assign"
	queueAssignHigh = "task.assign.high"
	queueReassign   = "task.reassign"
	queueDead       = "task.dead"
	streamResult    = "task.result"
	streamJournal   = "coordinator.journal"
	exchangeEvents  = "taskbus.events"
	keyFailed       = "assignment.failed"
	prefixLane      = "task.lane."
)

// Violation is a promise that was broken on the wire.
type Violation struct{ Invariant, Text string }

// Counts is what has passed.
type Counts struct {
	Connections int
	Delivered   int // of tasks
	Acked       int // of tasks: acknowledged by the client
	Refused     int // of tasks: rejected, or given back
	Published   map[string]int
	Confirmed   map[string]int // by routing key: by the broker, and passed on
	Returned    int
	Nacked      int // by the broker
}

// taskKey is a task id, or the SHA-256 of a body in which there is none.
type taskKey string

// traceTask is what the wire has shown of a task.
type traceTask struct {
	outstanding int    // deliveries of it that are not settled, over all connections
	came        uint64 // when the first of them came
	dispatched  int    // highest attempt of a confirmed dispatch, 0: none
	failed      bool   // assignment.failed or task.dead is confirmed
	laned       int    // messages of it that were moved to a lane, and not acknowledged there since
	ended       bool   // a result of it has been delivered
}

// NewTrace begins a trace.
func NewTrace() *Trace {
	return &Trace{
		tasks:  map[taskKey]*traceTask{},
		counts: Counts{Published: map[string]int{}, Confirmed: map[string]int{}},
	}
}

// Violations are the broken promises so far, at most a hundred.
func (t *Trace) Violations() []Violation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.violations)
}

// Faults are those of the trace itself: what passed and was no AMQP.
func (t *Trace) Faults() []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.faults)
}

// Counts is what has passed so far.
func (t *Trace) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.Published, c.Confirmed = clone(c.Published), clone(c.Confirmed)
	return c
}

// Confirmed counts the confirmed messages whose routing key begins so.
func (c Counts) ConfirmedTo(prefix string) (n int) {
	for key, times := range c.Confirmed {
		if strings.HasPrefix(key, prefix) {
			n += times
		}
	}
	return n
}

func clone(m map[string]int) map[string]int {
	c := make(map[string]int, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

func (t *Trace) violated(invariant, format string, args ...any) {
	const most = 100
	if len(t.violations) < most {
		t.violations = append(t.violations, Violation{invariant, fmt.Sprintf(format, args...)})
	}
}

func (t *Trace) task(k taskKey) *traceTask {
	found := t.tasks[k]
	if found == nil {
		found = &traceTask{}
		t.tasks[k] = found
	}
	return found
}

// about reads of which task a body is. The hash is the key of a body without an id.
func about(body []byte) (key taskKey, attempt int) {
	var named struct {
		TaskID  string `json:"task_id"`
		Attempt int    `json:"attempt"`
	}
	if json.Unmarshal(body, &named) == nil && named.TaskID != "" {
		return taskKey(named.TaskID), named.Attempt
	}
	return hashKey(body), 0
}

func hashKey(body []byte) taskKey {
	sum := sha256.Sum256(body)
	return taskKey("sha256:" + string(sum[:]))
}

func (t *Trace) delivered(ch *channel, m *message) {
	d := &delivery{queue: m.method.Queue}
	ch.newest = max(ch.newest, m.method.Tag)
	ch.open[m.method.Tag] = d
	switch {
	case d.queue == streamResult:
		key, _ := about(m.body)
		t.task(key).ended = true
	case d.queue == queueAssign || d.queue == queueAssignHigh || d.queue == queueReassign || strings.HasPrefix(d.queue, prefixLane) || strings.HasPrefix(d.queue, "agent.") && d.queue != "agent.status":
		d.key, d.attempt = about(m.body)
		d.hash = hashKey(m.body)
		if d.queue == queueAssign || d.queue == queueAssignHigh || strings.HasPrefix(d.queue, prefixLane) {
			d.attempt = 0
		}
		task := t.task(d.key)
		if strings.HasPrefix(d.queue, prefixLane) { // if nobody has seen it being moved, it was
			task.laned = max(task.laned, 1)
		}
		if task.outstanding++; task.outstanding == 1 {
			task.came = t.now
		}
		t.counts.Delivered++
	}
}

func (t *Trace) publish(ch *channel, m *message) {
	f := m.method
	t.counts.Published[f.Key]++
	ch.published++
	p := &publication{exchange: f.Exchange, key: f.Key, id: m.header.MessageID, at: t.now}
	switch {
	case f.Exchange == "" && strings.HasPrefix(f.Key, prefixLane):
		p.task, _ = about(m.body)
	case f.Exchange == "" && f.Key == queueDead:
		p.task = hashKey(m.body)
	case f.Exchange == exchangeEvents && strings.HasPrefix(f.Key, keyFailed), f.Exchange == "" && f.Key == keyFailed,
		m.header.Type == "task.dispatch":
		p.task, p.attempt = about(m.body)
	}
	if m.header.Type == "task.dispatch" {
		t.checkJournal(p)
	}
	if ch.confirming {
		ch.waiting[ch.published] = p
	}
}

// checkJournal holds a dispatch to "no journal confirm, no dispatch": since the task
// came to the client something must have been written, and confirmed.
func (t *Trace) checkJournal(p *publication) {
	if !t.Journal {
		return
	}
	task := t.tasks[p.task]
	if task == nil || task.outstanding == 0 {
		return // decided for a lease that has no delivery behind it
	}
	if came := task.came; came >= t.journalled {
		t.violated("WAL", "%s was dispatched (attempt %d) and nothing that was written to the journal since it came had been confirmed", p.task, p.attempt)
	}
}

// confirm is the broker's answer to publications.
func (t *Trace) confirm(ch *channel, f *Frame) {
	first := f.Tag
	if f.Multiple {
		first = ch.oldest
	}
	last := f.Tag
	if f.Multiple && f.Tag == 0 {
		last = ch.published
	}
	for n := first; n <= last; n++ {
		p := ch.waiting[n]
		if p == nil {
			continue
		}
		delete(ch.waiting, n)
		switch {
		case f.Method == Nack:
			t.counts.Nacked++
		case !p.returned:
			t.confirmed(p)
		}
	}
	for ch.oldest <= ch.published && ch.waiting[ch.oldest] == nil {
		ch.oldest++
	}
}

func (t *Trace) confirmed(p *publication) {
	t.counts.Confirmed[p.key]++
	if p.key == streamJournal {
		t.journalled = max(t.journalled, p.at)
	}
	if p.task == "" {
		return
	}
	task := t.task(p.task)
	if strings.HasPrefix(p.key, prefixLane) {
		task.laned++
		return
	}
	if p.attempt > 0 && p.key != keyFailed && !strings.HasPrefix(p.key, keyFailed) {
		task.dispatched = max(task.dispatched, p.attempt)
	} else {
		task.failed = true
	}
}

// settle is the client's word on deliveries.
func (t *Trace) settle(ch *channel, f *Frame) {
	if _, open := ch.open[f.Tag]; !open && f.Tag != 0 {
		t.violated("S15", "%s of the delivery %d, which its channel does not hold (the newest was %d)", settling(f), f.Tag, ch.newest)
	}
	tags := []uint64{f.Tag}
	if f.Multiple {
		tags = tags[:0]
		for tag := range ch.open {
			if f.Tag == 0 || tag <= f.Tag {
				tags = append(tags, tag)
			}
		}
		slices.Sort(tags)
	}
	for _, tag := range tags {
		if d := ch.open[tag]; d != nil {
			delete(ch.open, tag)
			t.settled(d, f)
		}
	}
}

func (t *Trace) settled(d *delivery, f *Frame) {
	if d.key == "" {
		return
	}
	task := t.task(d.key)
	task.outstanding--
	if f.Method != Ack {
		t.counts.Refused++
		return
	}
	t.counts.Acked++
	if strings.HasPrefix(d.queue, prefixLane) {
		task.laned--
	}
	if task.settledFor(d) || task.outstanding > 0 {
		return
	}
	if parked := t.tasks[d.hash]; parked != nil && parked.failed {
		return
	}
	t.violated("S2", "%s of %s was acknowledged, and neither a dispatch of it beyond attempt %d nor a failure had been confirmed", printable(d.key), d.queue, d.attempt)
}

// settledFor tells whether a delivery has led to what the broker has confirmed.
func (t *traceTask) settledFor(d *delivery) bool {
	return t.failed || t.ended || t.dispatched > d.attempt || t.laned > 0
}

func settling(f *Frame) string {
	switch f.Method {
	case Ack:
		return "a basic.ack"
	case Nack:
		return "a basic.nack"
	default:
		return "a basic.reject"
	}
}

func printable(k taskKey) string {
	if body, ok := strings.CutPrefix(string(k), "sha256:"); ok {
		return fmt.Sprintf("the message with the SHA-256 %x…", body[:6])
	}
	return string(k)
}

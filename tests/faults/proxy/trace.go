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

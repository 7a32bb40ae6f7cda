package demo

import (
	"slices"
	"sort"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/messages"
)

// outcome is how one submitted line ended.
type outcome struct {
	task    coordinator.TaskID
	traceID string
	// Exactly one of agent, reason and duplicate is set: it ended by its agent's word
	// (result says how), it was not assigned, or it was dropped.
	agent     coordinator.AgentID
	result    messages.Outcome
	workMS    float64
	reason    string // reason code
	text      string
	duplicate bool
	at        time.Time
}

// ledger accounts for every line submitted: each must end in exactly one outcome.
// It is safe for concurrent use.
type ledger struct {
	mu        sync.Mutex
	submitted map[coordinator.TaskID]int // lines by task id
	unnamed   int                        // lines without a readable task id
	outcomes  []outcome
	surplus   []outcome // outcomes of this run's tasks beyond what was submitted
	begun     map[coordinator.TaskID]int
	again     []outcome // what was begun more often than submitted
	changed   chan struct{}
}

func newLedger() *ledger {
	return &ledger{
		submitted: make(map[coordinator.TaskID]int), begun: make(map[coordinator.TaskID]int),
		changed: make(chan struct{}, 1),
	}
}

// expect notes a line before it is published.
func (l *ledger) expect(id coordinator.TaskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == "" {
		l.unnamed++
		return
	}
	l.submitted[id]++
}

// expects reports whether a task is of this run.
func (l *ledger) expects(id coordinator.TaskID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.submitted[id] > 0
}

// began notes that an agent begins a task; it reports false for a task that is not
// of this run.
func (l *ledger) began(id coordinator.TaskID, by coordinator.AgentID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.submitted[id] == 0 {
		return false
	}
	l.begun[id]++
	if l.begun[id] > l.submitted[id] {
		l.again = append(l.again, outcome{task: id, agent: by})
	}
	return true
}

// record notes an outcome; it reports false for a task that is not of this run.
func (l *ledger) record(o outcome) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.submitted[o.task] == 0 {
		return false
	}
	if l.countLocked(o.task) < l.submitted[o.task] {
		l.outcomes = append(l.outcomes, o)
	} else {
		l.surplus = append(l.surplus, o)
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return true
}

func (l *ledger) countLocked(id coordinator.TaskID) int {
	n := 0
	for i := range l.outcomes {
		if l.outcomes[i].task == id {
			n++
		}
	}
	return n
}

// open lists the task ids that have fewer outcomes than lines.
func (l *ledger) open() []coordinator.TaskID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []coordinator.TaskID
	for id, lines := range l.submitted {
		if l.countLocked(id) < lines {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	return ids
}

// all returns the outcomes in the order of their arrival, and the surplus: what
// ended, or was begun, once too often.
func (l *ledger) all() (outcomes, surplus []outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.outcomes), slices.Concat(l.surplus, l.again)
}

package state

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/claims"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/ejection"
	"taskbus/coordinator/engine/internal/ends"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/isolation"
	"taskbus/coordinator/engine/internal/lanes"
	"taskbus/coordinator/engine/internal/market"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/engine/internal/unresolved"
	"taskbus/coordinator/learning"
	"taskbus/coordinator/llmcalls"
	"taskbus/coordinator/quotacontrol"
)

// State is what is known. It belongs to one goroutine; the zero value is not usable, see New.
type State struct {
	Policy *coordinator.Policy
	Routes map[string]*Requirements // what a plain task of each type needs; filled on demand
	Types  []string                 // of the policy's routes, sorted; nil: not asked for yet

	Fleet   agents
	Pending pending
	Dedupe  dedupe.Window
	Timers  timers
	Retries queue.Retries[*Task]

	Held     map[coordinator.Handle]*Task // every task with a delivery that is not settled
	Tasks    Table                        // those, and every task that an agent has
	arrivals uint64                       // numbers the tasks, to break ties

	Ejections  ejection.Table
	BreakerDue Timer
	Asking     choice.Question
	Learner    *learning.Learner
	Messages   unresolved.Messages
	Isolated   isolation.Groups[*Task, *Class]
	Ends       ends.Ends
	Batches    queue.Batches[BatchKey, *Task]
	Market     market.Market[*Task, *Agent]
	Claims     claims.Line[*Agent, *Class]
	Quotas     quotas
	Calls      llmcalls.Leases
	Controls   quotacontrol.Controls
	Lanes      *lanes.Planner
	Recorder   recorder
	// Following: another coordinator leads, and its records are folded.
	Following bool
	// learntBefore is what was learnt before, while its rows are folded; nil else.
	learntBefore []*coordinator.LearntBefore
	// Replayed: the records of other leaders have been folded, so that a task of which nothing is known was not
	// dispatched.
	Replayed bool

	Out []coordinator.Effect // effects of the event being applied
	Now time.Time            // when that is
}

// New makes one in which nothing is known.
func New() *State {
	q := newQuotas()
	s := &State{
		Fleet:      agents{fleet.New[*Task, *Agent]()},
		Pending:    pending{Queue: queue.New[*Class](q.Shares, Before, func(t *Task, i int) { t.Index = i })},
		Quotas:     q,
		Timers:     newTimers(),
		Held:       make(map[coordinator.Handle]*Task),
		Tasks:      Table{All: make([]*Task, 1)},
		Ejections:  ejection.New(),
		BreakerDue: NewTimer(DutyBreaker, nil, nil),
		Messages:   unresolved.New(),
		Isolated:   isolation.New(ByDue, func(t *Task) *isolation.Ticket[*Task, *Class] { return &t.Isolation }),
		Ends:       ends.New(),
		Batches:    queue.NewBatches[BatchKey](ByDue),
	}
	s.Lanes = lanes.New(q.Shares, s.laneView())
	s.Calls = llmcalls.New(q.Ledger, q.Estimator, q.Waits)
	s.Quotas.number = s.Fleet.Number
	return s
}

// NextDeadline is when Apply wants to be called with a Tick if nothing else
// happens before; false when nothing is due at all.
func (s *State) NextDeadline() (time.Time, bool) { return s.Timers.next() }

// Emit adds an effect of the event that is applied.
func (s *State) Emit(f coordinator.Effect) { s.Out = append(s.Out, f) }

// InOrder lists the tasks held in the order in which they came: what is done to
// each may show in the order of later effects.
func (s *State) InOrder() []*Task {
	return slices.SortedFunc(maps.Values(s.Held), func(a, b *Task) int { return cmp.Compare(a.Arrival, b.Arrival) })
}

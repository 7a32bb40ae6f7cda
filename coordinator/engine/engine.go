package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/audit"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/place"
	"taskbus/coordinator/engine/internal/questions"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/invariant"
)

// Engine is the state machine. It belongs to one goroutine; the zero value is not usable, see New.
type Engine struct {
	questions.Questions
	k     kernel
	audit audit.Auditor
}

// New makes an engine. Its first event must be PolicyChanged.
func New() *Engine {
	s := state.New()
	return &Engine{Questions: questions.Of(s), audit: audit.Of(s), k: kernel{
		State:        s,
		retryEnd:     state.NewTimer(state.DutyBudget, nil, nil),
		joinTurn:     state.NewTimer(state.DutyJoin, nil, nil),
		claimsAgain:  state.NewTimer(state.DutyClaim, nil, nil),
		relieveAgain: state.NewTimer(state.DutyLanes, nil, nil),
		controlsEnd:  state.NewTimer(state.DutyControls, nil, nil),
		dayEnd:       state.NewTimer(state.DutyDay, nil, nil),
	}}
}

// Apply advances the engine by one event and appends to dst what the shell must do, in order. It never blocks, reads
// no clock and keeps no reference to ev (a *Task it is handed becomes the engine's, immutable). Equal histories give
// equal effects. What was due before now happens first. now must not go back.
func (e *Engine) Apply(now time.Time, ev coordinator.Event, dst []coordinator.Effect) []coordinator.Effect {
	return e.k.apply(now, ev, dst)
}

// NextDeadline is when Apply wants to be called with a Tick if nothing else
// happens before; false when nothing is due at all.
func (e *Engine) NextDeadline() (time.Time, bool) { return e.k.NextDeadline() }

// Record switches on that every Apply leaves records. It is off in a new engine.
func (e *Engine) Record(on bool) { e.k.Record(on) }

// Records appends the records of everything applied since it was called last. The
// shell makes them last before it carries out any effect of the same Apply.
func (e *Engine) Records(dst []coordinator.Record) []coordinator.Record {
	return e.k.Records(dst)
}

// Follow has a new engine follow another, until Lead.
func (e *Engine) Follow() { e.k.Follow() }

// Fold takes over what a record says; at is when it was written. Records come in
// their order, before the first session opens.
func (e *Engine) Fold(at time.Time, r coordinator.Record) { e.k.fold(at, r) }

// FoldPolicy has an engine that follows another go on under a policy, as of when the record was
// written that changed it.
func (e *Engine) FoldPolicy(at time.Time, p *coordinator.Policy) { e.k.foldPolicy(at, p) }

// Succeed notes that a leader's term has ended: at is when the latest record of it was written, lasted how long it
// has led. What it acknowledged shortly before may be delivered again, and what it never answered.
func (e *Engine) Succeed(at time.Time, lasted time.Duration) { e.k.Succeed(at, lasted) }

// Lead ends following: from now on this engine decides. Results are read again, then SessionOpened comes: the usage
// that they report is charged to periods of now, whatever time records contain.
func (e *Engine) Lead(now time.Time) { e.k.lead(now) }

// Image copies the state. The task ids, which are many, are copied as they change later.
func (e *Engine) Image(now time.Time) *state.Image { return e.k.Image(now) }

// Audit checks that the books balance and gives what does not, at most one Violation
// for each invariant; nil as a rule. It is called between two events and may be at any
// time: with 4,000 tasks held it takes less than 2 ms, however many are with agents. A
// fault in what is seen in turns is found after a few calls.
func (e *Engine) Audit(now time.Time) []invariant.Violation {
	return e.audit.Run(now)
}

// Watched names the agents' queues at which the shell should look now, at most so many. What follows from a look comes
// as QueueSeen. It is called about twice a second, between two events.
func (e *Engine) Watched(now time.Time, most int) []coordinator.QueueWatch {
	return e.k.Fleet.Watched(now, most)
}

// LanesWatched returns the names of the lanes that the shell should check now, at most so many: lanes that may
// contain something, each about once a second.
func (e *Engine) LanesWatched(now time.Time, most int) []string { return e.k.Lanes.Watched(now, most) }

// What its methods answer with.
type (
	Image   = state.Image
	Place   = place.Place
	Waiters = questions.Waiters

	QuotaSnapshot = admission.Snapshot
	QuotaGroup    = admission.Group
	QuotaQuestion = admission.Question
	QuotaAnswer   = admission.Answer
)

// Overdue reports whether a task has ended because its agent had not reported in time how it ended, or that it has
// stopped.
func Overdue(r *coordinator.Remembered) bool {
	return r.Fate == coordinator.FateTimedOut ||
		r.Fate == coordinator.FateCancelled && dedupe.Flags(r.Flags)&dedupe.Overdue != 0
}

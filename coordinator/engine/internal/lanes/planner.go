package lanes

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/fairqueue"
)

// View is what the planner reads of the kernel. Nothing of it changes while the planner works.
type View interface {
	// Policy is that in force.
	Rules() *coordinator.Policy
	// TakesTurns reports whether there are quotas, and so groups that take turns.
	TakesTurns() bool
	// Connected reports whether there is a session in which something new may be begun.
	Connected() bool
	// Waiting is how many tasks wait in the window.
	Waiting() int
	// First is the place of the first task that waits for the same agents and in the same group as the
	// ticket's, of this level; ok is false where there is none.
	First(t *Ticket, level int) (first Place, ok bool)
	// Holds reports whether the delivery of any task is held that came out of the lane. It may be slow.
	Holds(lane string) bool
}

// Kind is what all tasks of a lane have in common, so that the order in which they came is that in which they
// are to go.
type Kind struct {
	Base  string // the lane that the policy has for them
	Group string // that has the turn they wait for; without quotas their own
	Class string // names the agents that could take them
	Level int    // of priority; MixedLevel: of any kind that is not worth a lane
}

// Place is where a task stands in its group.
type Place struct {
	Level   int
	Due     int64 // in nanoseconds
	Arrival uint64
}

// Entry is a task that begins to wait and may be moved.
type Entry struct {
	Handle  coordinator.Handle // of its delivery
	Kind    Kind
	Due     int64
	Arrival uint64
	From    string // the lane that it came out of; empty: none
}

// Ticket is what the planner knows of one task. Its owner keeps it where it is while it is in line or moves.
type Ticket struct {
	Handle  coordinator.Handle
	row     *row   // in which it waits, or the moves of a lane; nil: neither
	base    string // of its kind
	due     int64
	arrival uint64
	index   int32 // in its row
	level   int8
	kept    bool // it came out of LaneHeld
}

// InLine reports whether the task waits and may be moved.
func (t *Ticket) InLine() bool { return t.row != nil && !t.row.moves }

// Move is a task that goes to a lane.
type Move struct {
	Ticket *Ticket // nil: no task does now
	Lane   string
	lane   *lane
	kind   Kind
}

// Whereabouts is where a task is after its move has ended.
type Whereabouts uint8

// Where it is.
const (
	InLane      Whereabouts = iota // in the lane
	Interrupted                    // in the queue that it comes from, and the lane may have it, too
	Refused                        // here: the lane does not take any now
	Immovable                      // here: no lane can ever have it
)

// Verb is what the kernel does.
type Verb uint8

// What it does.
const (
	Read   Verb = iota // begins to read Lane, with Window
	Stop               // ends that
	Drop               // deletes the queue of Lane if it is empty
	Record             // writes down whether Lane may hold something, as Known says
	Wake               // calls Relieve at At at the latest; a later Wake replaces it
)

// Action is one of these.
type Action struct {
	Verb   Verb
	Lane   string
	Window int
	Known  bool
	At     time.Time
}

// Planner knows the lanes, and the tasks that wait and may be moved.
type Planner struct {
	view   View
	shares *fairqueue.Shares

	byKey map[string]*lane
	order []*lane // all of them, by their keys
	// recorded are the lanes of groups of which the journal says whether they may hold something.
	recorded map[string]struct{}
	// kinds are the lanes to which tasks of a kind are moved, while they may hold something.
	kinds map[Kind]*lane
	// backlog has the lanes that hold something, so that their groups count as waiting when
	// turns are counted, although nothing of theirs may be here.
	backlog *fairqueue.Backlog[*lane]
	lines   lines
	moving  int // tasks on their way to lanes
	known   int // lanes that may hold something
	// reads are the lanes that are read, but for LaneHeld, turns those that should be as soon as
	// one of these has had its turn.
	reads, turns []*lane
	intake       int       // how many tasks of task.assign are held at most; 0: that is not known
	paused       time.Time // until then none makes room: there was too much for one event
	next         int       // where the next look at the lanes begins

	actions []Action // the answer, used again for the next
}

// New returns a planner without lanes.
func New(s *fairqueue.Shares, v View) *Planner {
	return &Planner{
		view:     v,
		shares:   s,
		byKey:    make(map[string]*lane),
		recorded: make(map[string]struct{}),
		kinds:    make(map[Kind]*lane),
		lines:    newLines(),
		backlog: fairqueue.NewBacklog(s,
			func(a, b *lane) bool { return a.key < b.key }, func(l *lane, i int) { l.index = i }),
	}
}

// Empty reports whether no lane is known.
func (p *Planner) Empty() bool { return len(p.order) == 0 }

// SetIntake sets how many tasks of task.assign are held at most; 0: that is not known.
func (p *Planner) SetIntake(n int) { p.intake = n }

// PolicyChanged empties all lines: the tasks that wait begin anew under the policy of now. Lanes that belong to
// nothing any more are forgotten.
func (p *Planner) PolicyChanged() {
	p.clearLines()
	p.askNew()
	p.rebuildBacklog()
	for _, l := range slices.Clone(p.order) {
		p.setReady(l, l.ready) // its group may be another leaf, or none
		p.forget(l)
	}
}

// SessionOpened requests looks at all lanes.
func (p *Planner) SessionOpened() {
	p.rebuildBacklog() // shares may have been taken over
	for _, l := range p.order {
		l.lookedAt = time.Time{}
	}
	p.askNew()
}

// SessionClosed forgets what was read and seen in a session. No task waits any more, and none moves.
func (p *Planner) SessionClosed() {
	p.clearLines()
	for _, l := range slices.Clone(p.order) {
		p.setReady(l, 0)
		l.window, l.taken, l.head, l.waitsTurn, l.asked, l.dropping = 0, 0, nil, false, false, false
		l.rest, l.noReading = time.Time{}, time.Time{}
		p.forget(l)
	}
	p.reads, p.turns, p.paused = nil, nil, time.Time{}
}

// begin begins an answer.
func (p *Planner) begin() { p.actions = p.actions[:0] }

func (p *Planner) act(a Action) { p.actions = append(p.actions, a) }

// room returns how many tasks may wait before some are moved; false: as many as can.
func (p *Planner) room() (most int, bounded bool) {
	policy := p.view.Rules()
	if policy.Lanes == nil || policy.LaneRoom <= 0 {
		return 0, false
	}
	most = min(policy.LaneRoom, policy.Settings.MaxQueueSize/2) // beyond max_queue_size tasks fail
	if p.intake > 0 {
		most = min(most, p.intake/2)
	}
	return max(1, most), true
}

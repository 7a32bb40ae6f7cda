package journaling

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/failpoint"
)

// Commits hold effects back until what they follow from is in the journal. What the
// engine makes of one turn of the loop is one commit: its records are written
// together, and its effects carried out when the broker has them. Commits do not wait
// for each other to be confirmed, but there are no more than maxCommits on their way,
// and Pause between two; what comes meanwhile gathers for the next. So the journal
// is written at once while little happens, and in few messages under load: each costs
// the broker, the leader and every standby something.
//
// One for which nothing outside waits (an acknowledgement follows from it, or what was learnt) goes along
// with the next that is urgent, or is written after Linger.
//
// It belongs to the loop's goroutine.
type Commits struct {
	journal commitWriter
	perform func(coordinator.Effect)
	cursor  *Cursor
	backlog Backlog
	offset  int64 // of results, as written last
	sent    time.Time

	gathered *commit   // what the next one has so far
	open     []*commit // written and not confirmed, the oldest first
	answered uint64    // of those that were open
	spare    []*commit // to be used again
}

const (
	// maxCommits is how many commits may wait for the broker at one time. More would
	// make them smaller, not faster.
	maxCommits = 4
	// Pause is between two commits. At 1,000 tasks/s it halves the messages of the
	// journal, and the broker needs a tenth of a core less; a task waits 1 ms on average.
	Pause = 2 * time.Millisecond
	// Linger is how long records that are not urgent may gather. After the end of a process whatever
	// was not acknowledged by then is dispatched again.
	Linger = 10 * time.Millisecond
)

// commit is what is made to last together.
type commit struct {
	since        time.Time // when it began to gather; zero: no turn has ended since
	at           time.Time // when it was written
	resultOffset int64     // how far results had been dealt with
	records      []coordinator.Record
	effects      []coordinator.Effect
	after        []func() // to be called behind the effects
	urgent       bool     // an agent, producer or operator waits for its effects
}

// commitWriter takes a commit to the journal without blocking. confirmed is called on
// the loop's goroutine for each, in order.
type commitWriter interface{ write(c *commit) }

// Backlog counts what waits to be published; what waits here counts, too.
type Backlog interface {
	Hold(n int)
	Unhold(n int)
}

// NewCommits returns commits to a journal. perform carries out effects and must not block.
func NewCommits(j commitWriter, perform func(coordinator.Effect), c *Cursor, backlog Backlog) *Commits {
	return &Commits{journal: j, perform: perform, cursor: c, backlog: backlog, offset: c.Offset(), gathered: &commit{}}
}

// nothingOpen reports whether effects that follow from no record may be carried out at
// once: nothing before them waits.
func (c *Commits) nothingOpen() bool { return len(c.gathered.records) == 0 && len(c.open) == 0 }

// Take takes the engine's records of one event, and its effects.
func (c *Commits) Take(e *engine.Engine, effects []coordinator.Effect) {
	before := len(c.gathered.records)
	c.gathered.records = e.Records(c.gathered.records)
	if len(c.gathered.records) > before {
		failpoint.Hit(failpoint.AfterChoose)
	}
	if c.nothingOpen() {
		c.carryOut(effects)
		return
	}
	held := 0
	for _, f := range effects {
		if isFree(f) {
			c.perform(f)
			continue
		}
		c.gathered.urgent = c.gathered.urgent || isUrgent(f)
		c.gathered.effects = append(c.gathered.effects, f)
		held++
	}
	c.backlog.Hold(held)
}

// isFree reports whether the effect follows from no record, and need not keep its place among those that
// do. An offer's window runs already, and an agent that has lost an auction may bid in others: if the
// leader ends before the journal knows the winner, the task is offered anew. The winner gets the result
// with its dispatch, and an agent that claims with the tasks that it is granted. Progress that a next leader does not
// know of has been made all the same.
func isFree(f coordinator.Effect) bool {
	switch f := f.(type) {
	case *coordinator.CallAnswered:
		return !f.Changed
	case *coordinator.Offer, coordinator.RejectBid, coordinator.ClaimsForgotten, *coordinator.Progressed,
		coordinator.ProgressRefused:
		return true
	}
	return false
}

// isUrgent reports whether an agent or producer waits for the effect's message, or an operator for its
// answer.
func isUrgent(f coordinator.Effect) bool {
	switch f.(type) {
	case *coordinator.Dispatch, *coordinator.Fail, *coordinator.Completed, *coordinator.Asked, coordinator.CancelAnswered,
		coordinator.OrderStands, coordinator.Withdraw,
		coordinator.Award, coordinator.ClaimAnswered, coordinator.QuotaControlsStand, *coordinator.CallAnswered:
		return true
	}
	return false
}

// Afterwards calls f when all that was taken before will survive.
func (c *Commits) Afterwards(f func()) {
	if c.nothingOpen() {
		f()
		return
	}
	c.gathered.after = append(c.gathered.after, f)
}

// Flush writes what has gathered, if its turn has come. It is called after each turn
// of the loop.
func (c *Commits) Flush(now time.Time) {
	g := c.gathered
	switch {
	case len(g.records) > 0:
		if g.since.IsZero() {
			g.since = now
		}
		if due, ok := c.Due(); ok && !now.Before(due) {
			c.send(now)
		}
	case len(g.effects)+len(g.after) == 0:
	case len(c.open) == 0:
		c.gathered = c.fresh()
		c.done(g)
	default: // nothing of theirs is to be written, but the order counts
		last := c.open[len(c.open)-1]
		last.effects, last.after = append(last.effects, g.effects...), append(last.after, g.after...)
		c.gathered = c.fresh()
		c.recycle(g)
	}
}

// Due returns when flush writes what has gathered; false: not before something else happens.
func (c *Commits) Due() (time.Time, bool) {
	switch g := c.gathered; {
	case len(g.records) == 0, len(c.open) >= maxCommits:
		return time.Time{}, false
	case g.urgent:
		return c.sent.Add(Pause), true
	default:
		return g.since.Add(Linger), true
	}
}

// Rest writes all that has gathered, even if its turn has not come.
func (c *Commits) Rest(now time.Time) {
	if c.Flush(now); len(c.gathered.records) > 0 {
		c.send(now)
	}
}

// Mark writes a commit without records, for what its header says.
func (c *Commits) Mark(now time.Time) {
	if c.Flush(now); c.Idle() {
		c.send(now)
	}
}

func (c *Commits) send(now time.Time) {
	one := c.gathered
	c.gathered = c.fresh()
	c.sent, c.offset = now, c.cursor.Offset()
	one.at, one.resultOffset = now, c.offset
	c.open = append(c.open, one)
	c.journal.write(one)
}

// Confirmed carries out the effects of the oldest commit: its records will survive.
func (c *Commits) Confirmed(now time.Time) {
	one := c.open[0]
	c.answered++
	c.open = slices.Delete(c.open, 0, 1)
	c.done(one)
	c.Flush(now)
}

// done carries out a commit.
func (c *Commits) done(one *commit) {
	c.backlog.Unhold(len(one.effects))
	c.carryOut(one.effects)
	for _, f := range one.after {
		f()
	}
	c.recycle(one)
}

func (c *Commits) carryOut(effects []coordinator.Effect) {
	for _, f := range effects {
		c.perform(f)
	}
}

// Idle reports whether nothing waits for the journal.
func (c *Commits) Idle() bool {
	g := c.gathered
	return len(c.open) == 0 && len(g.records)+len(g.effects)+len(g.after) == 0
}

// Settle reports whether everything that is to last is in the journal, with how far results have been dealt with; if
// not, it sees to it.
func (c *Commits) Settle(now time.Time) bool {
	if c.Idle() && c.cursor.Offset() != c.offset {
		c.Mark(now)
	}
	return c.Idle()
}

// Open returns how many commits wait for the broker, and how many ever were answered.
func (c *Commits) Open() (open int, answered uint64) { return len(c.open), c.answered }

// fresh returns an empty commit, recycle takes one that is done with.
func (c *Commits) fresh() *commit {
	if n := len(c.spare); n > 0 {
		one := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return one
	}
	return &commit{}
}

func (c *Commits) recycle(one *commit) {
	clear(one.records)
	clear(one.effects)
	clear(one.after)
	*one = commit{records: one.records[:0], effects: one.effects[:0], after: one.after[:0]}
	c.spare = append(c.spare, one)
}

package service

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/failpoint"
)

// commits hold effects back until what they follow from is in the journal. What the
// engine makes of one turn of the loop is one commit: its records are written
// together, and its effects carried out when the broker has them. Commits do not wait
// for each other to be confirmed, but there are no more than maxCommits on their way,
// and commitPause between two; what comes meanwhile gathers for the next. So the journal
// is written at once while little happens, and in few messages under load: each costs
// the broker, the leader and every standby something.
//
// One for which nothing outside waits (an acknowledgement follows from it, or what was learnt) goes along
// with the next that is urgent, or is written after commitLinger.
//
// It belongs to the loop's goroutine.
type commits struct {
	journal   commitWriter
	performer performer
	cursor    *resultCursor
	backlog   *outbox // counts what waits here, too
	offset    int64   // of results, as written last
	sent      time.Time

	gathered *commit   // what the next one has so far
	open     []*commit // written and not confirmed, the oldest first
	answered uint64    // of those that were open
	spare    []*commit // to be used again
}

const (
	// maxCommits is how many commits may wait for the broker at one time. More would
	// make them smaller, not faster.
	maxCommits = 4
	// commitPause is between two commits. At 1,000 tasks/s it halves the messages of the
	// journal, and the broker needs a tenth of a core less; a task waits 1 ms on average.
	commitPause = 2 * time.Millisecond
	// commitLinger is how long records that are not urgent may gather. After the end of a process whatever
	// was not acknowledged by then is dispatched again.
	commitLinger = 10 * time.Millisecond
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

func newCommits(j commitWriter, p performer, t *resultCursor, backlog *outbox) *commits {
	return &commits{journal: j, performer: p, cursor: t, backlog: backlog, offset: t.offset(), gathered: &commit{}}
}

// nothingOpen reports whether effects that follow from no record may be carried out at
// once: nothing before them waits.
func (c *commits) nothingOpen() bool { return len(c.gathered.records) == 0 && len(c.open) == 0 }

// take takes the engine's records of one event, and its effects.
func (c *commits) take(e *engine.Engine, effects []coordinator.Effect) {
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
			c.performer.perform(f)
			continue
		}
		c.gathered.urgent = c.gathered.urgent || isUrgent(f)
		c.gathered.effects = append(c.gathered.effects, f)
		held++
	}
	c.backlog.hold(held)
}

// isFree reports whether the effect follows from no record, and need not keep its place among those that
// do. An offer's window runs already, and an agent that has lost an auction may bid in others: if the
// leader ends before the journal knows the winner, the task is offered anew. The winner gets the result
// with its dispatch, and an agent that claims with the tasks that it is granted.
func isFree(f coordinator.Effect) bool {
	switch f := f.(type) {
	case *coordinator.CallAnswered:
		return !f.Changed
	case *coordinator.Offer, coordinator.RejectBid, coordinator.ClaimsForgotten:
		return true
	}
	return false
}

// isUrgent reports whether an agent or producer waits for the effect's message, or an operator for its
// answer.
func isUrgent(f coordinator.Effect) bool {
	switch f.(type) {
	case *coordinator.Dispatch, *coordinator.Fail, *coordinator.Completed, coordinator.CancelAnswered,
		coordinator.OrderStands, coordinator.Withdraw,
		coordinator.Award, coordinator.ClaimAnswered, coordinator.QuotaControlsStand, *coordinator.CallAnswered:
		return true
	}
	return false
}

// afterwards calls f when all that was taken before will survive.
func (c *commits) afterwards(f func()) {
	if c.nothingOpen() {
		f()
		return
	}
	c.gathered.after = append(c.gathered.after, f)
}

// flush writes what has gathered, if its turn has come. It is called after each turn
// of the loop.
func (c *commits) flush(now time.Time) {
	g := c.gathered
	switch {
	case len(g.records) > 0:
		if g.since.IsZero() {
			g.since = now
		}
		if due, ok := c.due(); ok && !now.Before(due) {
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

// due returns when flush writes what has gathered; false: not before something else happens.
func (c *commits) due() (time.Time, bool) {
	switch g := c.gathered; {
	case len(g.records) == 0, len(c.open) >= maxCommits:
		return time.Time{}, false
	case g.urgent:
		return c.sent.Add(commitPause), true
	default:
		return g.since.Add(commitLinger), true
	}
}

// rest writes all that has gathered, even if its turn has not come.
func (c *commits) rest(now time.Time) {
	if c.flush(now); len(c.gathered.records) > 0 {
		c.send(now)
	}
}

// mark writes a commit without records, for what its header says.
func (c *commits) mark(now time.Time) {
	if c.flush(now); c.idle() {
		c.send(now)
	}
}

func (c *commits) send(now time.Time) {
	one := c.gathered
	c.gathered = c.fresh()
	c.sent, c.offset = now, c.cursor.offset()
	one.at, one.resultOffset = now, c.offset
	c.open = append(c.open, one)
	c.journal.write(one)
}

// confirmed carries out the effects of the oldest commit: its records will survive.
func (c *commits) confirmed(now time.Time) {
	one := c.open[0]
	c.answered++
	c.open = slices.Delete(c.open, 0, 1)
	c.done(one)
	c.flush(now)
}

// done carries out a commit.
func (c *commits) done(one *commit) {
	c.backlog.unhold(len(one.effects))
	c.carryOut(one.effects)
	for _, f := range one.after {
		f()
	}
	c.recycle(one)
}

func (c *commits) carryOut(effects []coordinator.Effect) {
	for _, f := range effects {
		c.performer.perform(f)
	}
}

// idle reports whether nothing waits for the journal.
func (c *commits) idle() bool {
	g := c.gathered
	return len(c.open) == 0 && len(g.records)+len(g.effects)+len(g.after) == 0
}

// fresh returns an empty commit, recycle takes one that is done with.
func (c *commits) fresh() *commit {
	if n := len(c.spare); n > 0 {
		one := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return one
	}
	return &commit{}
}

func (c *commits) recycle(one *commit) {
	clear(one.records)
	clear(one.effects)
	clear(one.after)
	*one = commit{records: one.records[:0], effects: one.effects[:0], after: one.after[:0]}
	c.spare = append(c.spare, one)
}

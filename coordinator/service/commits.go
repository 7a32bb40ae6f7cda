package service

import (
	"time"

	"taskbus/coordinator"
)

// commits hold effects back until what they follow from is in the journal. What the
// engine makes of one turn of the loop is one commit: its records are written
// together, and its effects carried out when the broker has them. Commits follow each
// other without waiting, up to maxCommits; what comes then gathers for the next. So
// the journal is written in small messages while little happens and in large ones
// under load.
//
// It belongs to the loop's goroutine.
type commits struct {
	journal   commitWriter
	performer performer
	told      *told
	offset    int64 // of results, as written last

	records []coordinator.Record // of the commit that is being gathered
	effects []coordinator.Effect
	open    []*commit // written and not confirmed, the oldest first
}

// maxCommits is how many commits may wait for the broker at one time. More would make
// them smaller, not faster.
const maxCommits = 4

// commit is what is made to last together.
type commit struct {
	at           time.Time
	resultOffset int64 // how far results had been dealt with
	records      []coordinator.Record
	effects      []coordinator.Effect
}

// commitWriter takes a commit to the journal without blocking. confirmed is called on
// the loop's goroutine for each, in order.
type commitWriter interface{ write(c *commit) }

// add takes over what one event has brought.
func (c *commits) add(effects []coordinator.Effect) {
	if len(c.records) == 0 && len(c.open) == 0 {
		c.carryOut(effects)
		clear(effects)
		return
	}
	c.effects = append(c.effects, effects...)
	clear(effects)
}

// flush writes what has gathered, if its turn has come. It is called after each turn
// of the loop.
func (c *commits) flush(now time.Time) {
	switch {
	case len(c.records) == 0 && len(c.effects) > 0: // nothing of theirs, but the order counts
		if len(c.open) == 0 {
			c.carryOut(c.effects)
		} else {
			last := c.open[len(c.open)-1]
			last.effects = append(last.effects, c.effects...)
		}
		clear(c.effects)
		c.effects = c.effects[:0]
	case len(c.records) > 0 && len(c.open) < maxCommits:
		c.send(&commit{at: now, records: c.records, effects: c.effects})
		c.records, c.effects = nil, nil
	}
}

// rest writes all that has gathered, even if its turn has not come.
func (c *commits) rest(now time.Time) {
	if c.flush(now); len(c.records) > 0 {
		c.send(&commit{at: now, records: c.records, effects: c.effects})
		c.records, c.effects = nil, nil
	}
}

// mark writes a commit without records, for what its header says.
func (c *commits) mark(now time.Time) {
	if c.flush(now); c.idle() {
		c.send(&commit{at: now})
	}
}

func (c *commits) send(one *commit) {
	c.offset = c.told.offset()
	one.resultOffset = c.offset
	c.open = append(c.open, one)
	c.journal.write(one)
}

// confirmed carries out the effects of the oldest commit: its records will survive.
func (c *commits) confirmed(now time.Time) {
	one := c.open[0]
	c.open[0] = nil
	c.open = c.open[1:]
	c.carryOut(one.effects)
	c.flush(now)
}

func (c *commits) carryOut(effects []coordinator.Effect) {
	for _, f := range effects {
		c.performer.perform(f)
	}
}

// idle tells whether nothing waits for the journal.
func (c *commits) idle() bool { return len(c.open) == 0 && len(c.records) == 0 && len(c.effects) == 0 }

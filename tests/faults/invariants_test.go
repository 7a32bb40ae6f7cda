package faults

import (
	"fmt"
	"math"
	"strings"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// invariant is one of the promises, by the name that it has everywhere. check looks
// after the drain, and says what it has seen that must not be.
type invariant struct {
	name, says string
	check      func(r *rig) []string
}

// The promises that are checked in the same way in every cell. Some are about one kind
// of message: their cells check them (S7, S8, S9, S10, S13, L3, L4), or about moments
// of a fault (L1, L2, L5).
var (
	s1NoLoss = invariant{"S1 NoLoss", "every confirmed task has an end", func(r *rig) (broken []string) {
		r.book.each(func(e *entry) {
			if e.confirmed && !e.settled() {
				broken = append(broken, "lost: "+e.String())
			}
		})
		return broken
	}}

	s2AckAfterConfirm = invariant{"S2 AckAfterConfirm", "no basic.ack of a task precedes the confirm of its outcome",
		func(r *rig) []string {
			return r.onTheWire("S2", "WAL")
		}}

	s3NoPhantom = invariant{"S3 NoPhantom",
		"every output is of an offered task, as it was sent, and of the kind that it should have",
		func(r *rig) (broken []string) {
			r.book.each(func(e *entry) {
				for _, o := range e.runs {
					if o.payload != e.payload {
						broken = append(broken, "another payload than was sent: "+e.String())
					}
				}
				if unexpected := r.unexpected(e); unexpected != "" {
					broken = append(broken, unexpected+": "+e.String())
				}
			})
			return append(append(broken, r.book.strangers...), r.book.unreadable...)
		}}

	s4OneTerminal = invariant{"S4 OneTerminal", "without a fault exactly one output for each task",
		func(r *rig) (broken []string) {
			r.book.each(func(e *entry) {
				n := len(e.executions()) + len(e.failures)
				if r.fateOf(e) != "any" && e.settled() && n != 1 && !(n == 0 && e.parked == 1) {
					broken = append(broken, fmt.Sprintf("%d outputs: %s", n, e))
				}
			})
			return broken
		}}

	s5DuplicateBound = invariant{"S5 DuplicateBound", "no more copies than faults in flight, and all marked",
		func(r *rig) (broken []string) {
			r.book.each(func(e *entry) {
				if problem := r.copies(e); problem != "" {
					broken = append(broken, problem+": "+e.String())
				}
			})
			return broken
		}}

	s5SameAgent = invariant{"S5 SameAgent", "a copy goes to the agent that has the first, under its dispatch id",
		func(r *rig) (broken []string) {
			r.book.each(func(e *entry) {
				runs := e.executions()
				for _, o := range runs[min(len(runs), 1):] {
					if o.dispatch != runs[0].dispatch || o.agent != runs[0].agent {
						broken = append(broken, "decided twice: "+e.String())
						return
					}
				}
			})
			return broken
		}}

	s6Capacity = invariant{"S6 Capacity", "no agent has more unmarked tasks than slots", func(r *rig) []string {
		return r.book.overworked
	}}

	s11NoSecrets = invariant{"S11 NoSecrets", "no password in logs or HTTP answers", func(r *rig) (broken []string) {
		for _, c := range r.processes {
			if r.secretIn(c.log.String()) {
				broken = append(broken, "the log of "+c.name+" tells a password")
			}
			c.mu.Lock()
			for path := range c.told {
				broken = append(broken, path+" of "+c.name+" tells a password")
			}
			c.mu.Unlock()
		}
		return broken
	}}

	s12Bounded = invariant{"S12 Bounded", "no panic; memory is bounded", func(r *rig) (broken []string) {
		for _, c := range r.processes {
			for _, never := range []string{"panic:", "fatal error:", "goroutine 1 ["} {
				if strings.Contains(strings.ReplaceAll(c.log.String(), "failpoint panic:", ""), never) {
					broken = append(broken, c.name+" wrote "+never)
				}
			}
			c.mu.Lock()
			if c.mostRSS > max(memoryBound, r.mayTake) {
				broken = append(broken, fmt.Sprintf("%s took %d MiB", c.name, c.mostRSS>>20))
			}
			c.mu.Unlock()
		}
		return broken
	}}

	s14Conservation = invariant{"S14 Conservation",
		"received + returned = dispatched + failed + parked + dropped + held + abandoned + moved; the auditor finds nothing",
		func(r *rig) (broken []string) {
			broken = append(broken, r.book.unbalanced...)
			for _, c := range r.processes {
				c.mu.Lock()
				if c.audited > 0 {
					broken = append(broken, fmt.Sprintf("the auditor of %s has found %v violations", c.name, c.audited))
				}
				c.mu.Unlock()
			}
			return broken
		}}

	s15Epoch = invariant{"S15 Epoch", "no ack or nack but for a delivery of the same channel", func(r *rig) []string {
		return r.onTheWire("S15")
	}}
)

// These are for those that listen: each time that an end is told it is whole, and, as long as the broker
// lives, each end is told.
var endsAreTold = invariant{"S16 EndsTold", "every task that its agent has ended is told to have ended",
	func(r *rig) (broken []string) {
		r.readEnds()
		return r.untold()
	}}

var endsAreWhole = invariant{"S17 EndsWhole", "every end is told with what the task was accepted with",
	func(r *rig) (broken []string) {
		r.readEnds()
		r.book.each(func(e *entry) {
			for _, end := range e.told {
				if end.kind != "build" && end.kind != "brief" || end.trace != "trace-"+e.id {
					broken = append(broken, fmt.Sprintf("told as %+v, of %+v: %s", end, e.told, e))
				}
			}
		})
		return broken
	}}

var answersAreGiven = invariant{"S18 AnswersGiven",
	"every task that has ended has its end in the queue that it names, an end by its agent's word with the output",
	func(r *rig) (broken []string) {
		r.readEnds()
		return append(r.misanswered(), r.unanswered()...)
	}}

// misanswered are the answers that say something else than became of their task.
func (r *rig) misanswered() (broken []string) {
	r.book.each(func(e *entry) {
		for _, a := range e.answers {
			if a.key != e.id+".failed" && (a.key != e.id+".completed" || fmt.Sprintf("%q", a.output) != outputOf(e.id)) {
				broken = append(broken, fmt.Sprintf("answered by %+v: %s", a, e))
			}
		}
	})
	return broken
}

// unanswered are the tasks that have ended without an answer to their producers.
func (r *rig) unanswered() (broken []string) {
	r.book.each(func(e *entry) {
		if e.offered.After(r.book.listens) && len(e.told)+len(e.failures) > 0 && len(e.answers) == 0 {
			broken = append(broken, "its producer was never told: "+e.String())
		}
	})
	return broken
}

// untold are the tasks of which an agent had a run and no end was announced.
func (r *rig) untold() (broken []string) {
	r.book.each(func(e *entry) {
		if e.confirmed && e.offered.After(r.book.listens) && len(e.executions()) > 0 && len(e.told)+len(e.failures) == 0 {
			broken = append(broken, "its end was never told: "+e.String())
		}
	})
	return broken
}

// awaitEnds gives what agents have in hand last the time to be told, in a cell that listens.
func (r *rig) awaitEnds() {
	r.t.Helper()
	if r.book.listens.IsZero() {
		return
	}
	for late := time.Now().Add(2 * unanswered); ; r.pause(300 * time.Millisecond) {
		if r.readEnds(); len(r.untold())+len(r.unanswered()) == 0 || time.Now().After(late) {
			return
		}
	}
}

// memoryBound is far above what any cell needs, and far below a leak's end.
const memoryBound = 400 << 20

// always are the promises that hold whatever happens.
var always = []invariant{
	s1NoLoss, s2AckAfterConfirm, s3NoPhantom, s5DuplicateBound, s6Capacity,
	s11NoSecrets, s12Bounded, s14Conservation, s15Epoch,
}

// decidedOnce are those of cells in which no agent is lost: what the journal has of a
// decision holds for the next leader.
var decidedOnce = append([]invariant{s5SameAgent}, always...)

// withoutFault are those of cells whose fault may double nothing.
var withoutFault = append([]invariant{s4OneTerminal}, always...)

// listening are those of cells that hear of every end (see listen).
var listening = append([]invariant{endsAreTold, endsAreWhole, answersAreGiven}, always...)

// without are all but one.
func without(one invariant, all []invariant) (rest []invariant) {
	for _, i := range all {
		if i.name != one.name {
			rest = append(rest, i)
		}
	}
	return rest
}

// onTheWire are the violations of these promises that the trace has found.
func (r *rig) onTheWire(names ...string) (broken []string) {
	for _, v := range r.trace.Violations() {
		for _, name := range names {
			if v.Invariant == name {
				broken = append(broken, v.Text)
			}
		}
	}
	for _, err := range r.trace.Faults() {
		broken = append(broken, "what passed could not be read: "+err.Error())
	}
	return broken
}

// fate is how tasks whose id begins so should end: "run", "fail" with any code, a
// reason code, "park", or "any".
type fate struct{ prefix, want string }

func (r *rig) fateOf(e *entry) string {
	want := "run"
	for _, f := range r.fates {
		if strings.HasPrefix(e.id, f.prefix) {
			want = f.want
		}
	}
	return want
}

// unexpected says what is wrong with how a task has ended; empty: nothing.
func (r *rig) unexpected(e *entry) string {
	want := r.fateOf(e)
	ran, failed := len(e.executions()) > 0, len(e.failures) > 0
	switch {
	case want == "any", !e.settled():
		return ""
	case want == "run" && failed:
		return "failed, and could have been done"
	case want == "park" && e.parked == 0:
		return "not parked in task.dead"
	case want == "run", want == "park":
		return ""
	case ran:
		return "run, and should have failed"
	}
	for _, f := range e.failures {
		if want != "fail" && f.code != want {
			return "failed with another reason than " + want
		}
	}
	return ""
}

// copies says what is wrong with how often a task was run; empty: nothing. The first
// copy is the one without a mark.
func (r *rig) copies(e *entry) string {
	runs := e.executions()
	if len(runs) < 2 {
		return ""
	}
	known, unmarked := map[string]bool{}, 0
	for _, o := range runs {
		if !o.marked && !known[o.dispatch] {
			unmarked++
		}
		known[o.dispatch] = true
	}
	if unmarked > 1 {
		return fmt.Sprintf("%d copies without a mark", unmarked)
	}
	faults := r.strikesDuring(e.offered, runs[len(runs)-1].at)
	if len(runs)-1 > faults {
		return fmt.Sprintf("%d copies by %d faults", len(runs), faults)
	}
	return ""
}

// strikesDuring counts the faults that a task has lived through.
func (r *rig) strikesDuring(from, to time.Time) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.strikes {
		if !s.from.After(to) && !s.to.Before(from) {
			n += max(s.fired, 1)
		}
	}
	return n
}

// duplicated counts the tasks that were run more than once, and those that came out
// although their producer was never told that they had gone in.
func (r *rig) duplicated() (duplicated, recovered int) {
	r.book.each(func(e *entry) {
		if len(e.executions()) > 1 {
			duplicated++
		}
		if !e.confirmed && e.settled() {
			recovered++
		}
	})
	return duplicated, recovered
}

// drain waits until every confirmed task has its end: what the invariants look at.
func (r *rig) drain() {
	r.t.Helper()
	for _, p := range r.producers {
		p.finish()
	}
	// An agent that gives a task back has it for a moment: the end must be one twice.
	for range 2 {
		if !r.allEnded() {
			return
		}
		r.balanced()
		r.pause(300 * time.Millisecond)
	}
	if !r.allEnded() {
		return
	}
	r.awaitEnds()
	r.balanced()
	for _, c := range r.processes {
		if c.running() {
			c.stop()
		}
	}
	r.nothingIsLeft()
}

// allEnded waits until every confirmed task has an end; false when for too long there was none.
func (r *rig) allEnded() bool {
	r.t.Helper()
	const enough = 90 * time.Second
	late, least := time.Now().Add(enough), math.MaxInt
	for {
		open, confirmed := r.book.open()
		if len(open) == 0 {
			return true
		}
		if len(open) < least {
			late, least = time.Now().Add(enough), len(open)
		}
		if time.Now().After(late) {
			r.t.Errorf("for %v none has ended, and %d of %d confirmed tasks have no end, such as %v", enough, len(open),
				confirmed, open[:min(len(open), 5)])
			return false
		}
		r.pause(20 * time.Millisecond)
	}
}

// balanced waits until the counters of each coordinator that leads add up: at rest
// they must (S14).
func (r *rig) balanced() {
	r.t.Helper()
	for _, c := range r.processes {
		if !c.running() || c.base == "" {
			continue
		}
		var s view.Status
		late := time.Now().Add(10 * time.Second)
		for {
			s = c.status()
			n := s.Counters
			if s.Readiness.State == "standby" ||
				n.Received+n.Returned == n.Dispatched+n.Failed+n.Parked+n.Dropped+uint64(n.Held)+n.Abandoned+n.Moved &&
					n.Held == 0 {
				break
			}
			if time.Now().After(late) {
				r.book.unbalanced = append(r.book.unbalanced, fmt.Sprintf("%s: %+v", c.name, n))
				break
			}
			r.pause(50 * time.Millisecond)
		}
		c.sample("/metrics")
	}
}

// nothingIsLeft looks into the queues after the last coordinator has stopped: what it
// held unacknowledged would be ready again.
func (r *rig) nothingIsLeft() {
	r.t.Helper()
	queues := []string{bus.QueueAssign, bus.QueueAssignHigh, bus.QueueReassign}
	for _, id := range r.agentIDs() {
		queues = append(queues, "agent."+id)
	}
	for _, q := range queues {
		var ready int
		late := time.Now().Add(patience)
		for {
			if ready = r.broker.Ready(r.t, q); ready == 0 {
				break
			}
			if time.Now().After(late) {
				r.t.Errorf("%d messages are left in %s", ready, q)
				break
			}
			r.pause(100 * time.Millisecond)
		}
	}
}

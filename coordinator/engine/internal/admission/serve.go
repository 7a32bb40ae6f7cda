package admission

import (
	"time"

	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/fairqueue"
)

// MaxRefused is how many may be refused at one time before the others of their round have to wait for
// roundPause: so that no event takes long.
const MaxRefused = 64

const roundPause = time.Millisecond

// View is what is read of the caller's state. Its methods change nothing.
type View interface {
	// Servable reports whether an agent could take tasks of the class now: one that is ready, or asks for work.
	Servable(c Class) bool
	// First returns the level that has its turn, among others and those of the tasks that wait for an agent alone and
	// have one that is ready; and the tenant queue of the first of these tasks there; false: there is none.
	First(others uint8) (level, leaf int, ok bool)
}

// Step is what the caller does next.
type Step struct {
	// Unpark are waits that have been removed: their tenant queues are to be unparked in their classes. Good
	// until the next call.
	Unpark []*Wait
	// Blocked is a wait that was refused again as before, without its task having been tried; nil: none.
	Blocked *Wait
	// Levels of which the first task is to be served, and Others at which something waits besides; a bit
	// each. 0: nothing is to be served.
	Levels, Others uint8
}

// stage is where a turn of the loop is. A turn wakes, then serves one task, or finds that none can be.
type stage uint8

const (
	stageWake  stage = iota
	stagePick        // what was woken has been unparked
	stageReady       // the first task that waits for an agent alone was to be served before round.next
	stageTry         // round.tried is being tried
	stageAny         // the first task that waits for an agent alone was to be served, of any level
)

// round is the state of the loop.
type round struct {
	now     time.Time
	stage   stage
	served  bool      // by the step before
	refused int       // turns with a refusal
	seq     uint64    // Waits.seq at the beginning of the turn
	soon    time.Time // when a round that took long goes on; zero: it need not
	next    candidate
	trying  uint8
	tried   *Wait
	unpark  []*Wait // room for Step.Unpark
}

// Begin begins a round: Next follows until it is over. It returns the waits that were removed since the round before
// because an agent might serve them (RetryWith): others may by now.
func (q *Waits) Begin(now time.Time) (retried []*Wait) {
	q.round = round{now: now, unpark: q.round.unpark}
	retried, q.retried = q.retried, nil
	return retried
}

// Pending reports whether something may try again although nothing was given back.
func (q *Waits) Pending() bool { return len(q.orphans) > 0 || len(q.retried) > 0 }

// Paused reports whether a round that took long is to go on in a moment.
func (q *Waits) Paused() bool { return !q.round.soon.IsZero() }

// Due returns when a round is to begin, whatever comes back; false: never.
func (q *Waits) Due() (at time.Time, ok bool) {
	at = q.round.soon
	if q.byTime.Len() > 0 {
		at = sooner(at, q.byTime.Items[0].at)
	}
	if q.due.Len() > 0 {
		at = sooner(at, q.due.Items[0].at)
	}
	return at, !at.IsZero()
}

// sooner returns the earlier of two moments; zero: never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Next returns the next step: one task at a time, the one that has its turn, of whatever class. What comes free so
// goes to the first of all that may have it, those among them that wait for an agent alone. Done follows each
// step. false: the round is over.
func (q *Waits) Next(v View) (Step, bool) {
	r := &q.round
	q.step++
	for {
		switch r.stage {
		case stageWake:
			r.stage = stagePick
			q.keepSeats(v)
			if woken := q.wake(); len(woken) > 0 {
				return Step{Unpark: woken}, true
			}
		case stagePick:
			if len(q.agents.woken) > 0 && r.refused >= MaxRefused {
				return q.end(v)
			}
			r.seq = q.seq
			if s, ok := q.pick(v); ok {
				return s, true
			}
			r.stage = stageAny
			return Step{Levels: fairqueue.AllLevels}, true
		case stageReady:
			switch {
			case r.served:
				q.endTurn()
			case r.next.wait == nil:
				r.stage = stageAny
				return Step{Levels: fairqueue.AllLevels}, true
			case !q.filed(r.next.wait): // what was tried has changed that
				q.endTurn()
			default:
				return q.try(), true
			}
		case stageTry:
			q.endTurn()
		case stageAny:
			if !r.served && !q.wakeHeadless() {
				return q.end(v)
			}
			q.endTurn()
		}
	}
}

// servable returns what View.Servable does, asked once in a step: nothing changes meanwhile.
func (q *Waits) servable(v View, c Class, s *ClassState) bool {
	if s.servableIn != q.step {
		s.servable, s.servableIn = v.Servable(c), q.step
	}
	return s.servable
}

// Done takes over how a step went: served, whether a task was given to an agent, or refused quota; reserved, whether
// quota was set aside for one.
func (q *Waits) Done(served, reserved bool) {
	r := &q.round
	r.served = served
	w := r.tried
	if r.tried = nil; w == nil || w.Lacks.Limit != fairshare.LimitSeats {
		return
	}
	q.ledger.Wait(&w.path, -1)
	if x := q.of[key{w.Class.Admission(), w.Leaf}]; !reserved && (x == nil || x.Lacks.Limit != fairshare.LimitSeats) {
		q.wakeForSeats(w) // it lacks something else
	}
}

// endTurn begins the next turn.
func (q *Waits) endTurn() {
	r := &q.round
	if r.stage = stageWake; q.seq > r.seq {
		r.refused++
	}
}

// end ends the round, and sets when it goes on if something is still to try.
func (q *Waits) end(v View) (Step, bool) {
	if len(q.agents.woken) > 0 || q.trying(v) != 0 {
		q.round.soon = q.round.now.Add(roundPause)
	}
	q.forgetUnparked()
	return Step{}, false
}

// forgetUnparked lets go of the waits that were removed, and of their tasks: else as many as were ever removed at
// once would stay in memory.
func (q *Waits) forgetUnparked() {
	if r := &q.round; cap(r.unpark) > MaxRefused {
		r.unpark = nil
	} else {
		clear(r.unpark[:cap(r.unpark)])
	}
}

// pick finds the first of the waits for which there may be quota, and of the tasks that wait for an agent
// alone; false: no wait may try.
func (q *Waits) pick(v View) (Step, bool) {
	r := &q.round
	if r.refused >= MaxRefused {
		return Step{}, false
	}
	if r.trying = q.trying(v); r.trying == 0 {
		return Step{}, false
	}
	level, leaf, ok := v.First(r.trying)
	r.next = q.next(v, level)
	r.next.level = level
	if ok && (r.next.wait == nil || !q.shares.Before(r.next.leaf, leaf)) {
		r.stage = stageReady
		return Step{Levels: 1 << level, Others: r.trying}, true
	}
	if r.next.wait == nil {
		return Step{}, false
	}
	return q.try(), true
}

// try lets the wait that is next try: its task is the first of its level then.
func (q *Waits) try() Step {
	r := &q.round
	r.stage = stageTry
	w := r.next.wait
	if w.Without == nil && q.stillBlocked(w) {
		return Step{Blocked: w}
	}
	q.Remove(w)
	if r.tried = w; w.Lacks.Limit == fairshare.LimitSeats {
		q.ledger.Wait(&w.path, 1) // what is kept for it stays so while it tries, see Done
	}
	r.unpark = append(r.unpark[:0], w)
	return Step{Unpark: r.unpark, Levels: 1 << r.next.level, Others: r.trying}
}

// stillBlocked reports whether one that waits is refused as before, without having its task tried: that takes
// a tenth of the time.
func (q *Waits) stillBlocked(w *Wait) bool {
	v := q.ledger.Ask(q.round.now, &w.path, w.Charge, true)
	switch {
	case v.OK, v.Permanent, lackOf(&v) != w.queue.key:
		return false
	case v.Node != w.Lacks.Node && v.Limit != fairshare.LimitSeats: // it is filed by that, too
		return false
	case w.Leaf < 0 && !v.Empty: // others of the class may need less
		return false
	}
	notAtOnce(q.round.now, &v)
	q.refusedAgain(w, &v)
	return true
}

// wake removes the waits for which something may have changed that is theirs, and opens the queues to which
// something may have come back.
func (q *Waits) wake() []*Wait {
	r := &q.round
	r.unpark = r.unpark[:0]
	take := func(w *Wait) {
		q.Remove(w)
		r.unpark = append(r.unpark, w)
	}
	q.ledger.Freed(func(n int32) {
		if len(q.of) == 0 {
			return
		}
		node := q.ledger.NodeID(n)
		for _, k := range q.behind[node] {
			q.openQueue(k)
		}
		for len(q.refused[node]) > 0 {
			take(q.refused[node][0])
		}
		q.agents.wake(q.ledger.GroupNode(node))
		for leaf := q.shares.Leaf(q.ledger.GroupOf(n)); len(q.deferred[leaf]) > 0; {
			q.resume(q.deferred[leaf][0]) // it may be below its share
		}
	})
	for range min(len(q.agents.woken), MaxRefused) {
		take(q.agents.next(q.shares))
	}
	for len(q.orphans) > 0 {
		w := q.orphans[len(q.orphans)-1]
		q.orphans = q.orphans[:len(q.orphans)-1]
		if q.filed(w) {
			take(w)
		}
	}
	for q.byTime.Len() > 0 && !q.byTime.Items[0].at.After(r.now) {
		take(q.byTime.Items[0])
	}
	for q.due.Len() > 0 && !q.due.Items[0].at.After(r.now) {
		q.openQueue(q.due.Items[0])
	}
	// One that waits alone need not be chosen among others of its queue: the class has its turn. So that ten
	// thousand groups with limits of their own are not ten thousand queues to look at. (Seats are kept for
	// what stands in a queue.)
	for i := 0; i < len(q.open); {
		if w := q.open[i].alone(); w != nil && w.Lacks.Limit != fairshare.LimitSeats {
			take(w)
		} else {
			i++
		}
	}
	return r.unpark
}

package engine

import (
	"time"

	"taskbus/coordinator"
)

// What the end of a session, or of a coordinator before this one, leaves in doubt:
// whether a message that we acknowledged will be delivered again, and how tasks
// stand that somebody else assigned.

// An acknowledgement may be under way for ackDoubt, or behind maxInDoubt others: a
// session that ends then may take it with it. They are sent in batches, and RabbitMQ
// keeps those of a quorum queue back that come too fast (see bus/amqpbus).
const (
	ackDoubt   = 2 * time.Second
	maxInDoubt = 8192
)

// ackInDoubt is a task whose message we acknowledged a moment ago.
type ackInDoubt struct {
	key idKey
	at  time.Time
}

// inDoubt is the latest acknowledgements, a ring.
type inDoubt struct {
	acks []ackInDoubt
	next int // where the next goes once the ring is full
}

func (d *inDoubt) acked(now time.Time, t *openTask) {
	ack := ackInDoubt{t.key, now}
	if len(d.acks) < maxInDoubt {
		d.acks = append(d.acks, ack)
		return
	}
	d.acks[d.next] = ack
	d.next = (d.next + 1) % maxInDoubt
}

// doubtAcks notes, at the end of a session, whose acknowledgements may be lost.
func (e *Engine) doubtAcks(now time.Time) {
	for _, ack := range e.inDoubt.acks {
		if now.Sub(ack.at) < ackDoubt {
			e.doubtSource(ack.key)
		}
	}
	e.inDoubt = inDoubt{}
}

// doubtSource notes that the broker has the task's message still, or may have: should
// it come after the task has ended, that is no new submission.
func (e *Engine) doubtSource(key idKey) {
	if number, ok := e.memory.lookup(key); ok {
		e.memory.at(number).letGo |= sourceInDoubt
	}
}

// isOwnSource tells whether a delivery is the message of a task that has ended,
// come again although we acknowledged it, or of one that an earlier coordinator
// assigned. More copies may follow.
func (r *record) isOwnSource(ev *coordinator.TaskReceived) bool {
	if !ev.Redelivered || r.letGo&(sourceInDoubt|adopted) == 0 || !r.fate.hasEnded() {
		return false
	}
	if r.letGo&adopted != 0 {
		r.content = ev.Task.ContentHash
	}
	r.letGo = r.letGo&^adopted | sourceInDoubt
	return true
}

// mayAdopt tells whether the result may be of a dispatch made by a coordinator
// before this one: its agent names a dispatch and is of the fleet, and either lists
// the task, or could have been given more time than has passed since it told and
// since we began.
func (e *Engine) mayAdopt(now time.Time, r *coordinator.Result, rec *record, attempt int) bool {
	a := e.fleet.byID[r.Agent]
	switch {
	case a == nil, attempt <= 0, r.Outcome == coordinator.OutcomeRejected: // what is given back comes back
		return false
	case rec != nil && rec.fate != fateForgotten && rec.fate != fateWithdrawn:
		return false
	}
	if _, listed := a.listed[r.Task]; listed {
		return true
	}
	told := r.Timestamp
	if a.clock.known {
		told = a.clock.ours(told)
	}
	return now.Before(e.adoptUntil) && now.Sub(told) < e.adoptFor
}

// adopt counts the end of a task that a coordinator before this one assigned. Its
// message, should the broker still have it, is then known to be done with. What the
// stream's past tells has been announced by whoever read it as news, unless it says
// otherwise.
func (e *Engine) adopt(now time.Time, ev coordinator.ResultReported, attempt int) {
	r := &ev.Result
	a := e.fleet.byID[r.Agent]
	rec := e.memory.at(e.memory.remember(now, keyOf(r.Task), 0, fateOf(r.Outcome), a.serial))
	rec.attempt, rec.letGo = uint16(attempt), adopted
	e.track(a)
	e.finishedPast(now, a, r, attempt, false)
	if ev.Live || ev.Untold {
		e.emit(&coordinator.Completed{Result: *r, Attempt: attempt, At: now})
	}
	e.wake(now, a)
}

// beginAdopting is called with every session; only the first counts.
func (e *Engine) beginAdopting(now time.Time) {
	if !e.adoptUntil.IsZero() {
		return
	}
	var longest time.Duration
	for _, a := range e.fleet.agents {
		longest = max(longest, a.spec.Timeout)
	}
	if d := e.joining.rules; d != nil {
		longest = max(longest, d.Template.Timeout)
	}
	e.adoptFor = longest + leaseMargin
	e.adoptUntil = now.Add(e.adoptFor)
}

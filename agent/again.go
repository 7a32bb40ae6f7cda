package agent

import (
	"log/slog"
	"strings"
	"time"

	"taskbus/messages"
)

// What comes more than once: a dispatch delivered again, one that has ended already,
// and another dispatch of a task that is in hand.

// adopt takes one more message of the same dispatch, and returns the one that need not be
// kept. Where one lies with the same session already that is the new one: acknowledged, it
// takes no place of the prefetch until the task ends, and none is there to go back twice. A
// message of an earlier session is the broker's again. worker.mu is held.
func (d *dispatch) adopt(again delivery) (spare delivery) {
	if d.message.link == again.link {
		return again
	}
	d.message = again
	return delivery{}
}

// recognise finds out whether a dispatch needs no work of its own: it has ended
// before, was withdrawn before it came, or its task is in hand. What is then to be
// done without mu, which is held, is returned; nil for a dispatch that is to begin.
func (w *worker) recognise(d *dispatch, now time.Time) (act func()) {
	if w.hasEnded(d, now) {
		return func() {
			w.log.Info("a copy of a dispatch that has ended; its result goes out again", d.about())
			w.publish(d)
		}
	}
	run := w.runs[d.names.TaskID]
	reason, recalled := w.wasRecalled(&d.names, now)
	switch {
	case run != nil && run.verdict == nil && !d.marked && d.isOtherLife(run):
		return func() { w.conclude(d, stillHere) } // whose result would not be that of this one
	case run != nil && run.verdict == nil:
		run.join(d)
		return func() {
			w.log.Info("the task is in hand under another dispatch; this one joins it", d.about(),
				slog.String("joined", run.names.DispatchID))
			if recalled {
				w.withdraw(&messages.TaskCancel{
					TaskID: d.names.TaskID, DispatchID: d.names.DispatchID, CorrelationID: d.names.CorrelationID, Reason: reason,
				})
			}
		}
	case recalled:
		return func() {
			w.conclude(d, verdict{outcome: messages.Cancelled, text: withdrawn(reason).Error()})
		}
	case run == nil:
		return nil
	case w.numbered[run.number] == run && run.verdict.outcome != messages.Rejected:
		// It has just ended, and the broker is yet to confirm it.
		d.verdict, d.endedAt = run.verdict, run.endedAt
		return func() { w.publish(d) }
	case run.running:
		return func() { w.conclude(d, stillHere) }
	}
	return nil // it was given back, and comes to be tried again
}

// stillHere is the verdict on a new dispatch of a task whose handler goes on although
// its result is out: never beside it.
var stillHere = rejection("the handler of an earlier dispatch of this task has not returned here yet")

// join has a dispatch share the run of another one of the same task, which has no
// verdict yet. worker.mu is held.
func (d *dispatch) join(newer *dispatch) {
	d.superseded = true
	for _, j := range d.joined {
		j.superseded = true
	}
	newer.run = d
	d.joined = append(d.joined, newer)
}

// liesWith reports whether a message of the dispatch came by this session and is not
// settled. worker.mu is held.
func (d *dispatch) liesWith(l *link) bool {
	return d.message.link == l
}

// isOtherLife reports whether two dispatches are of different tasks that have one task id, of
// which the later was submitted when the earlier had ended or was forgotten. Their dispatch ids
// say so where both name when their task was accepted.
func (d *dispatch) isOtherLife(other *dispatch) bool {
	one := messages.LifeOf(d.names.TaskID, d.names.DispatchID)
	another := messages.LifeOf(other.names.TaskID, other.names.DispatchID)
	return one != 0 && another != 0 && one != another
}

// ending is what is remembered of a dispatch that has ended: should its message come
// again, after a fault, its result goes out again.
type ending struct {
	verdict  verdict
	at       time.Time
	assigned time.Time // by the coordinator's clock
	trace    string    // that the producer chose
}

// keptText is how much of the text of a result is remembered, in bytes.
const keptText = 512

// newEnding keeps nothing of the handler's own memory.
func newEnding(d *dispatch) ending {
	e := ending{verdict: *d.verdict, at: d.endedAt, assigned: d.task.AssignedAt,
		trace: strings.Clone(d.names.CorrelationID)}
	e.verdict.text = strings.Clone(messages.Clean(e.verdict.text, keptText))
	if e.verdict.usage != nil {
		u := *e.verdict.usage
		u.Provider, u.Model = strings.Clone(u.Provider), strings.Clone(u.Model)
		e.verdict.usage = &u
	}
	return e
}

// size is about what it takes, in bytes.
func (e ending) size() int {
	const fixed, usage = 140, 64 // of the structs
	n := fixed + len(e.verdict.text) + len(e.trace) + len(e.verdict.output)
	if r := e.verdict.ref; r != nil {
		n += len(r.URI) + len(r.SHA256)
	}
	if u := e.verdict.usage; u != nil {
		n += usage + len(u.Provider) + len(u.Model)
	}
	return n
}

// copyWithin is how long after its end a dispatch may come again as another message: a
// coordinator knows ids that have ended for about so long, and what it marks after that is new.
const copyWithin = time.Hour

// hasEnded gives a dispatch the verdict it had before, and is true, if it is a copy of
// one that has ended. A copy is the message that the broker delivers again, or another
// that a coordinator marks which does not know whether the first arrived. What is neither is
// new: its producer has submitted the task once more. mu is held.
func (w *worker) hasEnded(d *dispatch, now time.Time) bool {
	e, known := w.ended.get(d.names.DispatchID)
	switch {
	case !known:
		return false
	case !e.isOf(d, now):
		w.ended.remove(d.names.DispatchID) // from now on copies are of the new one
		return false
	}
	d.verdict, d.endedAt = &e.verdict, e.at
	return true
}

// isOf reports whether a dispatch of that id is the one that has ended so.
func (e ending) isOf(d *dispatch, now time.Time) bool {
	switch {
	case !d.task.MaybeDuplicate, e.trace != d.names.CorrelationID:
		return false
	case e.assigned.Equal(d.task.AssignedAt):
		return true // the very message
	}
	return d.marked && now.Sub(e.at) < copyWithin
}

package engine

import (
	"maps"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
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
	// shortSession may end before everything was delivered again that is to be.
	shortSession = 30 * time.Second
)

// ackInDoubt is a task whose message we acknowledged a moment ago.
type ackInDoubt struct {
	key coordinator.TaskKey
	at  time.Time
}

// inDoubt is of which tasks the broker may deliver the message although we are done
// with it. Should such a task have ended badly by then, its message would look like
// a new submission.
type inDoubt struct {
	acks []ackInDoubt // the latest, a ring
	next int          // where the next goes once the ring is full
	// unanswered dispatches of the session at hand: their messages are the broker's.
	unanswered map[coordinator.TaskKey]int
	// messages that may come in the session at hand, of those before, by task id.
	messages map[coordinator.TaskKey]int
}

func newInDoubt() inDoubt {
	return inDoubt{unanswered: make(map[coordinator.TaskKey]int), messages: make(map[coordinator.TaskKey]int)}
}

func (d *inDoubt) acked(now time.Time, key coordinator.TaskKey) {
	ack := ackInDoubt{key, now}
	if len(d.acks) < maxInDoubt {
		d.acks = append(d.acks, ack)
		return
	}
	d.acks[d.next] = ack
	d.next = (d.next + 1) % maxInDoubt
}

// sessionLost notes what the next session may bring. What did not come in a session
// that was long enough will not come any more, but what mayBeHeld names: it may have come,
// and have been held unacknowledged as it ended.
func (d *inDoubt) sessionLost(now time.Time, lasted time.Duration, mayBeHeld func(coordinator.TaskKey) bool) {
	if lasted >= shortSession {
		maps.DeleteFunc(d.messages, func(key coordinator.TaskKey, _ int) bool { return !mayBeHeld(key) })
	}
	for key, n := range d.unanswered { // order does not matter: it is a sum
		d.messages[key] += n
	}
	for _, ack := range d.acks {
		if now.Sub(ack.at) < ackDoubt {
			d.messages[ack.key]++
		}
	}
	d.acks, d.next = nil, 0
	clear(d.unanswered)
}

// mayBeHeld reports whether the message of a task may have been delivered in a session and held until that
// ended, without a record of it: the latest dispatch was never answered, or has come back, and none was
// made since.
func (e *Engine) mayBeHeld(key coordinator.TaskKey) bool {
	r := e.dedupe.Peek(key)
	if r != nil && r.Fate == coordinator.FateForgotten {
		return true
	}
	t := e.tasks.of(r)
	return t != nil && t.unanswered
}

// came takes one message that was delivered again off; false when none was in doubt.
func (d *inDoubt) came(key coordinator.TaskKey) bool {
	for _, in := range []map[coordinator.TaskKey]int{d.messages, d.unanswered} {
		if n := in[key]; n > 1 {
			in[key] = n - 1
			return true
		} else if n == 1 {
			delete(in, key)
			return true
		}
	}
	return false
}

// isOwnMessage tells whether a delivery is the message of a task that has ended, come
// again: because it is in doubt, or because a coordinator before this one assigned it
// and it was done. One that failed then is tried again instead: a message that was
// only prefetched by that coordinator is redelivered, too, and may be a new
// submission.
func (e *Engine) isOwnMessage(ev *coordinator.TaskReceived, key coordinator.TaskKey, r *dedupe.Record) bool {
	if !ev.Redelivered {
		return false
	}
	own := e.inDoubt.came(key) && r.Content == ev.Task.ContentHash
	if !r.Fate.HasEnded() {
		return false
	}
	if r.Flags&dedupe.Adopted != 0 {
		if r.Fate.MayComeAgain() {
			return false
		}
		r.Content = ev.Task.ContentHash
		r.Flags &^= dedupe.Adopted
		e.noted(r, ev.Task.ID)
		return true
	}
	return own
}

// triedBefore is the agent from which the task came back, where its own message is delivered again before
// the one that came back, which alone knows of all agents before.
func (e *Engine) triedBefore(ev *coordinator.TaskReceived, r *dedupe.Record) []coordinator.AgentID {
	if r == nil || r.Fate != coordinator.FateForgotten || r.Flags&dedupe.WasTried == 0 ||
		r.Content != ev.Task.ContentHash || !ev.Redelivered {
		return nil
	}
	return with(nil, e.fleet.Named(r.Ref))
}

// mayAdopt tells whether the result may be of a dispatch made by a coordinator
// before this one: its agent names a dispatch and is of the fleet, and either lists
// the task, or could have been given more time than has passed since it told and
// since we began. One that nobody has announced is not too old. Where there is a journal, and it
// is empty, an agent's list alone speaks for such a dispatch.
func (e *Engine) mayAdopt(now time.Time, ev *coordinator.ResultReported, rec *dedupe.Record, attempt int) bool {
	r := &ev.Result
	a := e.fleet.ByID[r.Agent]
	switch {
	case e.recalls, a == nil, attempt <= 0, r.Outcome == coordinator.OutcomeRejected: // what is given back comes back
		return false
	case rec == nil, rec.Attempt == 0 && (rec.Fate == coordinator.FateForgotten || rec.Fate == coordinator.FateWithdrawn):
	case rec.Flags&dedupe.Adopted != 0 && rec.Fate.MayComeAgain() && attempt > int(rec.Attempt): // tried again after all
	default:
		return false
	}
	switch _, listed := a.Listed[r.Task]; {
	case listed:
		return true
	case e.recorder.on: // an empty journal says that there was none
		return false
	case ev.Untold:
		return true
	}
	told := r.Timestamp
	if a.Clock.Known {
		told = a.Clock.Ours(told)
	}
	return now.Before(e.adoptUntil) && now.Sub(told) < e.adoptFor
}

// adopt counts the end of a task that a coordinator before this one assigned. Its
// message, should the broker still have it, is then known to be done with. What the
// stream's past tells has been announced by whoever read it as news, unless it says
// otherwise.
func (e *Engine) adopt(now time.Time, ev coordinator.ResultReported, attempt int) {
	r := &ev.Result
	a := e.fleet.ByID[r.Agent]
	_, rec := e.dedupe.Insert(now, coordinator.KeyOf(r.Task), 0, fateOf(r.Outcome), a.Serial)
	rec.Attempt, rec.Flags = dedupe.CapAttempt(attempt), dedupe.Adopted
	tellsOf(e.noted(rec, r.Task), r)
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
	for _, a := range e.fleet.Agents {
		longest = max(longest, a.Spec.Timeout)
	}
	if d := e.joining.rules; d != nil {
		longest = max(longest, d.Template.Timeout)
	}
	e.adoptFor = longest + leaseMargin
	e.adoptUntil = now.Add(e.adoptFor)
}

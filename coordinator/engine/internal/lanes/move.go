package lanes

import (
	"time"

	"taskbus/coordinator"
)

// How tasks are moved.
const (
	// HeldLong is how long a task of task.assign waits in the window before it is moved: longer
	// than most wait for a slot, and soon enough that the broker need not keep the log of
	// task.assign from there on.
	HeldLong = time.Minute
	// HeldMost is how long a task that came out of a lane is held although nothing stands
	// behind it: well below the 30 minutes after which a broker closes the channel of a
	// consumer that holds a message.
	HeldMost = 10 * time.Minute
	// HeldAtOnce bounds the tasks that are held out of LaneHeld: some brokers give a consumer
	// of a quorum queue no more.
	HeldAtOnce = 2000
	// MaxMoving bounds the moves on their way: they share the publisher's window with
	// dispatches, which should not wait for them.
	MaxMoving = 256
	// moveAgain is when the next look is at a task for which there was no room among them.
	moveAgain = 100 * time.Millisecond
	// MovesPerEvent bounds the work of one event. One event adds a task or two to those
	// that wait, so that this many is enough to catch up.
	MovesPerEvent = 16
	// LaneRest is how long nothing is moved to a lane that did not take a task, or read
	// from one that could not be read.
	LaneRest = 5 * time.Second
)

// Crowded reports whether more tasks wait than should, and some may be moved.
func (p *Planner) Crowded(now time.Time) bool {
	if !p.view.Connected() {
		return false
	}
	most, bounded := p.room()
	return bounded && p.view.Waiting() > most && p.moving < MaxMoving && !now.Before(p.paused)
}

// Relieve answers which task makes room while it is Crowded; no ticket: none does now. done is how many have in this
// event. The actions go before the move.
func (p *Planner) Relieve(now time.Time, done int) (Move, []Action) {
	p.begin()
	if done == MovesPerEvent {
		p.paused = now.Add(time.Millisecond)
		p.act(Action{Verb: Wake, At: p.paused})
		return Move{}, p.actions
	}
	n, l, k := p.crowd(now)
	if n == nil {
		if len(p.lines.rows) > 0 { // their lanes rest
			p.act(Action{Verb: Wake, At: now.Add(LaneRest)})
		}
		return Move{}, p.actions
	}
	t := n.tasks.Items[0]
	if !l.precedes(t.place()) {
		p.endReading(now, l) // what is read there would displace what goes before it
	}
	n.moved[t.level]++
	p.lines.latest = n
	return p.moveTo(now, t, l, k), p.actions
}

// crowd returns the row of which the first task makes room for others, and the lane to which that is moved; nil
// when none may be moved now.
func (p *Planner) crowd(now time.Time) (n *row, to *lane, k Kind) {
	s := &p.lines
	first := s.next()
	if first == nil {
		return nil, nil, k
	}
	if to, k = p.laneFor(first.tasks.Items[0].kind()); !to.rests(now) {
		return first, to, k
	}
	var most *row // of those with a lane that has not just refused one
	for _, party := range s.parties.Items {
		for _, n := range party.rows.Items {
			l, its := p.laneFor(n.tasks.Items[0].kind())
			if !l.rests(now) && (most == nil || s.before(n, most)) {
				most, to, k = n, l, its
			}
		}
	}
	if most == nil {
		return nil, nil, k
	}
	return most, to, k
}

// Held is a task that has been held for HeldLong or more.
type Held struct {
	Kind    Kind
	Came    time.Time // when its delivery did
	Unready bool      // it waits aside, not in its class
	// Served is when a task that the same agents can take was dispatched; zero: none was, or its group lacks quota.
	Served time.Time
}

// HeldLimit returns how long a task may be held that came out of this lane (empty: of none) before it is Overdue.
func (p *Planner) HeldLimit(from string) time.Duration {
	if from == coordinator.LaneHeld {
		return p.heldMost()
	}
	return HeldLong
}

// heldMost returns how long a task that came out of a lane is held although it could be moved: no
// longer than the broker allows.
func (p *Planner) heldMost() time.Duration {
	if most := p.view.Rules().Settings.MaxTimeout; most > 0 {
		return min(HeldMost, most)
	}
	return HeldMost
}

// Overdue answers whether a task in line moves that has waited for so long that others should be seen, or that
// its message should be a new one. No ticket: not now, and again is when to ask again.
func (p *Planner) Overdue(now time.Time, t *Ticket, h Held) (m Move, again time.Time, actions []Action) {
	p.begin()
	l, k := p.overflowLane(now, t, &h)
	switch {
	case l == nil:
		again = now.Add(HeldLong)
		if last := h.Came.Add(p.heldMost()); last.Before(again) {
			again = last
		}
		return m, again, nil
	case p.view.Connected() && l.rest.After(now):
		return m, l.rest, nil
	case p.moving >= MaxMoving:
		return m, now.Add(moveAgain), nil
	case !p.view.Connected() || l.rests(now):
		return m, now.Add(LaneRest), nil
	}
	return p.moveTo(now, t, l, k), again, p.actions
}

// overflowLane returns where a task goes that has been held for HeldLong or more; nil: it stays. What came
// out of a lane of which others may be behind it that could go goes to the end of that, if it does
// not get on, so that all of it is looked at in time. Everything else keeps its place, and has its
// message made new: that of task.assign at once, so that the broker need not keep all that came
// since; that of a lane when the broker's patience with its consumer is at stake.
func (p *Planner) overflowLane(now time.Time, t *Ticket, h *Held) (*lane, Kind) {
	out, overdue := t.row.lane, !now.Before(h.Came.Add(p.heldMost()))
	switch {
	case out != nil && out.ready > 0 && (out.mixed || h.Unready) && now.Sub(h.Served) >= HeldLong:
		return p.laneFor(h.Kind)
	case (out != nil || t.kept) && !overdue:
		return nil, Kind{}
	}
	l := p.lane(coordinator.LaneHeld)
	others := p.lines.held + l.ready + l.moving
	if t.kept { // it is one of them
		others--
	}
	if others < p.heldWindow() {
		return l, Kind{}
	}
	return p.laneFor(h.Kind) // there are too many
}

// heldWindow returns how many tasks may keep their place although they have been held for long: as many
// as there is room for.
func (p *Planner) heldWindow() int {
	if most, bounded := p.room(); bounded {
		return min(HeldAtOnce, most)
	}
	return HeldAtOnce
}

// moveTo returns the move of a task in line to a lane for tasks of that kind.
func (p *Planner) moveTo(now time.Time, t *Ticket, l *lane, k Kind) Move {
	if out := t.row.lane; out != nil && l.held() && !p.fits(out.window) {
		p.endReading(now, out) // what comes in for it would displace it when it is back
	}
	return Move{t, l.key, l, k}
}

// Begin takes a move on, of a task that has left its line for it. The actions go before the message.
func (p *Planner) Begin(now time.Time, m Move) []Action {
	p.begin()
	l := m.lane
	p.mayHold(l)
	p.sort(l, m.kind)
	m.Ticket.row = l.into
	l.moving++
	l.usedAt = now
	p.moving++
	return p.actions
}

// Moved takes over what became of a move to a lane, and answers where the task is. If it is there, Consider is to be
// asked about the lane.
func (p *Planner) Moved(now time.Time, t *Ticket, outcome coordinator.PublishOutcome) (lane string, is Whereabouts) {
	l := t.row.lane
	t.row = nil
	l.moving--
	p.moving--
	switch outcome {
	case coordinator.PublishConfirmed:
		if p.setReady(l, l.ready+1); l.ready == 1 {
			first := t.place()
			l.head = &first
		}
		l.usedAt = now
		return l.key, InLane
	case coordinator.PublishUnknown, coordinator.PublishAbandoned: // the session ends
		return l.key, Interrupted
	case coordinator.PublishNotSent:
		return l.key, Immovable
	}
	l.rest = now.Add(LaneRest)
	return l.key, Refused
}

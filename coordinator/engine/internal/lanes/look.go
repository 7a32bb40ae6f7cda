package lanes

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
)

// What is known of the queues of lanes: how many tasks are ready in each, whether it is there, and
// which of them may hold something, across sessions and leaders.

// How queues are looked at.
const (
	// LaneLook is how often a lane is looked at.
	LaneLook = time.Second
	// LaneQuiet is how long nothing may have gone in or out of a lane that counts as empty:
	// longer than a look at a queue may be under way, and an acknowledgement.
	LaneQuiet = 15 * time.Second
	// AsksAhead is how many numbers of lanes beside one are asked for beyond one that there is: those
	// in between may be gone.
	AsksAhead = 8
)

// Seen takes over how many tasks are ready in a lane: it may be read, or be of no use any more.
func (p *Planner) Seen(now time.Time, ev coordinator.LaneSeen) []Action {
	p.begin()
	p.seen(now, ev)
	return p.actions
}

func (p *Planner) seen(now time.Time, ev coordinator.LaneSeen) {
	l := p.byKey[ev.Lane]
	if l == nil || !p.view.Connected() {
		return
	}
	if ev.Dropped {
		if l.dropping = false; !ev.Missing {
			return // the next look says why
		}
	}
	asked := l.asked
	if asked && !ev.Missing {
		p.askBeside(l.key)
	}
	l.asked = false
	if p.setReady(l, ev.Ready); l.ready > 0 {
		p.mayHold(l)
	} else if asked && !l.known && p.view.Rules().HasLane(l.key) {
		p.setRecorded(l.key)
		p.act(Action{Verb: Record, Lane: l.key})
	}
	busy := now.Sub(l.usedAt) < LaneQuiet
	p.readOn(now, l, busy)
	if l.ready > 0 || busy || l.window > 0 || !l.known || l.moving > 0 || l.dropping || p.view.Holds(l.key) {
		p.forget(l)
		return
	}
	if ev.Missing || p.view.Rules().HasLane(l.key) {
		p.setKnown(l, false)
		p.setRecorded(l.key)
		p.act(Action{Verb: Record, Lane: l.key})
		p.forget(l)
		return
	}
	// It is of no use any more, and it is empty. The broker looks once more and then deletes it,
	// whatever has come in between.
	l.dropping = true
	p.unsort(l)
	p.act(Action{Verb: Drop, Lane: l.key})
}

// readOn begins or ends the reading of a lane after a look at its queue.
func (p *Planner) readOn(now time.Time, l *lane, busy bool) {
	othersWait := len(p.turns) > 0 && !l.held()
	switch {
	case l.window == 0:
		p.considerReading(now, l)
	case l.ready == 0 && !busy, l.window > 2*p.window() && !l.held():
		p.endReading(now, l)
	case othersWait && (l.ready == 0 || now.Sub(l.since) >= LaneTurn):
		p.endReading(now, l)
	}
}

// Watched returns the lanes at which to look now, at most so many: those
// that may hold something, each about once a second.
func (p *Planner) Watched(now time.Time, most int) (keys []string) {
	for range p.order {
		if len(keys) >= most {
			break
		}
		l := p.order[p.next%len(p.order)]
		p.next = (p.next + 1) % len(p.order)
		if (l.known || l.asked) && now.Sub(l.lookedAt) >= LaneLook {
			l.lookedAt = now
			keys = append(keys, l.key)
		}
	}
	return keys
}

// askNew requests looks at those lanes of the policy, while there is a session, of which the journal says
// nothing: their queues may be older than it. What it says of lanes that the policy does not have any more
// is let go, so that they are looked at if they come back.
func (p *Planner) askNew() {
	maps.DeleteFunc(p.recorded, func(key string, _ struct{}) bool { return !p.view.Rules().HasLane(key) })
	if !p.view.Connected() {
		return
	}
	for _, key := range p.view.Rules().AllLanes() {
		if _, recorded := p.recorded[key]; !recorded {
			p.ask(key)
		}
	}
}

// ask requests a look at a lane of which nothing is known.
func (p *Planner) ask(key string) {
	if l := p.lane(key); !l.known {
		l.asked = true
	}
}

// setRecorded notes that the journal names a lane. Those beside others come and go; they are looked at
// with the one beside which they are.
func (p *Planner) setRecorded(key string) {
	if coordinator.LaneBase(key) == key {
		p.recorded[key] = struct{}{}
	}
}

// askBeside requests looks at those that may be beside a lane of which only the queue is known.
func (p *Planner) askBeside(key string) {
	base := coordinator.LaneBase(key)
	number, _ := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(key, base), "~"))
	for n := 1; n <= AsksAhead && base != coordinator.LaneHeld; n++ {
		p.ask(coordinator.LaneBeside(base, number+n))
	}
}

// Fold takes over from the journal whether a lane may hold something.
func (p *Planner) Fold(r *coordinator.LaneKnown) {
	p.setRecorded(r.Lane)
	l := p.lane(r.Lane)
	l.asked = false
	p.setKnown(l, r.Known)
	p.forget(l)
}

// Records say which lanes may hold something, and which of the others have been looked at.
func (p *Planner) Records() (list []*coordinator.LaneKnown) {
	for _, l := range p.order {
		if l.known {
			list = append(list, &coordinator.LaneKnown{Lane: l.key, Known: true})
		}
	}
	policy := p.view.Rules()
	for _, key := range slices.Sorted(maps.Keys(p.recorded)) {
		if l := p.byKey[key]; (l == nil || !l.known) && policy.HasLane(key) {
			list = append(list, &coordinator.LaneKnown{Lane: key})
		}
	}
	return list
}

// Snapshot returns what readers see of the lanes, in their order.
func (p *Planner) Snapshot() (list []coordinator.LaneSnapshot) {
	policy, waiting := p.view.Rules(), p.waitingFor()
	orphan := func(key string) bool { return !policy.HasLane(coordinator.LaneBase(key)) }
	for _, l := range p.order {
		if n := waiting[l.key]; l.known || n > 0 {
			list = append(list, coordinator.LaneSnapshot{
				Lane: l.key, Ready: l.ready, Waiting: n, Moving: l.moving, Read: l.window > 0, Orphan: orphan(l.key),
			})
		}
		delete(waiting, l.key)
	}
	for key, n := range waiting { // sorted below
		list = append(list, coordinator.LaneSnapshot{Lane: key, Waiting: n, Orphan: orphan(key)})
	}
	slices.SortFunc(list, func(a, b coordinator.LaneSnapshot) int { return strings.Compare(a.Lane, b.Lane) })
	return list
}

// waitingFor counts the tasks that wait here by the lane to which they would be moved, or out of
// which they came.
func (p *Planner) waitingFor() map[string]int {
	waiting := make(map[string]int)
	for key, n := range p.lines.rows { // order does not matter: these are sums
		for level, count := range n.levels {
			if count > 0 {
				lane, _ := p.LaneOf(Kind{p.view.Rules().LaneOf(key.group), key.group, key.class, level})
				waiting[lane] += count
			}
		}
	}
	for _, l := range p.order {
		if n := l.out.tasks.Len(); n > 0 {
			waiting[l.key] += n
		}
	}
	return waiting
}

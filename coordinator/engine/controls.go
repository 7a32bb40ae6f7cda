package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// Controls: standing changes to quotas.yaml. The engine keeps them, because they must survive as
// everything else that it knows, and ends them when their time has come. What the quotas are with
// them it is told by its policy: it does not read files.
type controls struct {
	standing []coordinator.QuotaControl // in the order in which they were made
	due      timer
}

func newControls() controls { return controls{due: newTimer(dutyControls, nil, nil)} }

// QuotaControls are the standing controls, in the order in which they were made. The caller owns
// the list.
func (e *Engine) QuotaControls() []coordinator.QuotaControl { return slices.Clone(e.controls.standing) }

// controlled changes them by request.
func (e *Engine) controlled(ev coordinator.QuotaControlsRequested) {
	e.changeControls(ev.Set, ev.Remove, ev.Token)
}

// changeControls makes a change, records it and tells of it. A request is answered even if it
// changes nothing: whoever waits must hear.
func (e *Engine) changeControls(set []coordinator.QuotaControl, remove []string, token uint64) {
	c := &e.controls
	stand := coordinator.QuotaControlsStand{Token: token}
	changed := &coordinator.QuotaControlled{}
	for _, id := range remove {
		if one, stood := c.remove(id); stood {
			stand.Removed, changed.Removed = append(stand.Removed, one), append(changed.Removed, id)
		}
	}
	for i := range set {
		if c.put(set[i]) {
			stand.Set, changed.Set = append(stand.Set, set[i]), append(changed.Set, set[i])
		}
	}
	if len(changed.Set)+len(changed.Removed) > 0 {
		e.record(changed)
		e.scheduleControls()
	} else if token == 0 {
		return
	}
	e.emit(stand)
}

// put adds one, in the place of the one of the same ID; false: that says the same already.
func (c *controls) put(one coordinator.QuotaControl) bool {
	i := slices.IndexFunc(c.standing, func(q coordinator.QuotaControl) bool { return q.ID == one.ID })
	if i < 0 {
		c.standing = append(c.standing, one)
		return true
	}
	if c.standing[i].Same(&one) {
		return false
	}
	c.standing[i] = one
	return true
}

// remove takes one out.
func (c *controls) remove(id string) (one coordinator.QuotaControl, stood bool) {
	i := slices.IndexFunc(c.standing, func(q coordinator.QuotaControl) bool { return q.ID == id })
	if i < 0 {
		return one, false
	}
	one = c.standing[i]
	c.standing = slices.Delete(c.standing, i, i+1)
	return one, true
}

// scheduleControls sees that the next one which ends by itself does so in time.
func (e *Engine) scheduleControls() {
	c := &e.controls
	e.timers.cancel(&c.due)
	if e.following {
		return // the leader ends it
	}
	var next time.Time
	for i := range c.standing {
		if until := c.standing[i].Until; !until.IsZero() && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	if !next.IsZero() {
		e.timers.schedule(&c.due, next)
	}
}

// controlsDue ends those whose time has come: of several one after the other, however late.
func (e *Engine) controlsDue() {
	if e.following {
		return
	}
	var over []string
	for i := range e.controls.standing {
		if one := &e.controls.standing[i]; one.Expired(e.controls.due.at) {
			over = append(over, one.ID)
		}
	}
	e.changeControls(nil, over, 0)
	e.scheduleControls()
}

// foldControls takes over how they have changed.
func (e *Engine) foldControls(r *coordinator.QuotaControlled) {
	c := &e.controls
	if r.First {
		c.standing = nil
	}
	for _, id := range r.Removed {
		c.remove(id)
	}
	for i := range r.Set {
		c.put(r.Set[i])
	}
	e.days.fold(r)
}

// controlsBytes is about how much text one record of a snapshot has at most: a message of the
// journal is not much larger.
const controlsBytes = 64 << 10

// imageControls comes before what has been used: that is counted by the quotas as they are with
// them.
func (e *Engine) imageControls(m *Image) {
	days, rest := e.days.records(), e.QuotaControls()
	if len(days)+len(rest) == 0 {
		return
	}
	for first := true; first || len(rest) > 0; first = false {
		n, size := 0, 0
		for n < len(rest) && size < controlsBytes {
			size += len(rest[n].Value) + len(rest[n].Reason)
			n++
		}
		m.others = append(m.others, &coordinator.QuotaControlled{First: first, Set: rest[:n:n]})
		rest = rest[n:]
	}
	m.others = append(m.others, days...)
}

// FoldPolicy has an engine that follows another go on under a policy, as of when the record was
// written that changed it.
func (e *Engine) FoldPolicy(at time.Time, p *coordinator.Policy) {
	e.now = at
	e.joining.under(p)
	e.install(at, p)
	e.out = nil // the world has heard of it
}

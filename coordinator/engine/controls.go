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
	behind   *behind // nil: the policy is that of all that has been folded
}

// behind is how an engine that follows has taken controls over since its policy was installed.
type behind struct {
	since, last time.Time
	ids         map[string]bool
	agents      bool // only agents have been registered that were not before, or only such removed
	removing    bool
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
		if set[i].Kind == coordinator.ControlCorrect {
			if one, done := e.correct(set[i]); done {
				stand.Set, changed.Set = append(stand.Set, one), append(changed.Set, one)
			}
		} else if c.put(set[i]) {
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

// correct moves what counts as used, and gives the correction as it has been made; false: there is nothing to.
func (e *Engine) correct(one coordinator.QuotaControl) (coordinator.QuotaControl, bool) {
	d, by, err := one.Correction()
	if err != nil {
		return one, false
	}
	one.At = e.quotas.ledger.Now()
	if e.now.After(one.At) {
		one.At = e.now
	}
	moved, ok := e.quotas.ledger.Correct(one.At, one.Target, d, by)
	if !ok || moved == 0 {
		return one, false
	}
	e.quotaAlerts()
	return one.Corrected(d, moved), true
}

// find is the place of one in the list; -1: it does not stand.
func (c *controls) find(id string) int {
	return slices.IndexFunc(c.standing, func(q coordinator.QuotaControl) bool { return q.ID == id })
}

// put adds one, in the place of the one of the same ID; false: that says the same already.
func (c *controls) put(one coordinator.QuotaControl) bool {
	i := c.find(one.ID)
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
	i := c.find(id)
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
func (e *Engine) foldControls(at time.Time, r *coordinator.QuotaControlled) {
	c := &e.controls
	if c.behind == nil && changesControls(r) {
		c.behind = &behind{since: at, ids: make(map[string]bool), agents: true, removing: len(r.Removed) > 0}
	}
	if b := c.behind; b != nil && changesControls(r) {
		b.last, b.agents = at, b.agents && c.agentsAlone(r, b.removing)
		for i := range r.Set {
			b.ids[r.Set[i].ID] = true
		}
		for _, id := range r.Removed {
			b.ids[id] = true
		}
	}
	if r.First {
		c.standing = nil
	}
	for _, id := range r.Removed {
		c.remove(id)
	}
	for i := range r.Set {
		if one := &r.Set[i]; one.Kind == coordinator.ControlCorrect {
			e.quotas.ledger.FoldCorrection(one)
		} else {
			c.put(*one)
		}
	}
	e.days.fold(r)
}

// changesControls tells whether a record changes what stands.
func changesControls(r *coordinator.QuotaControlled) bool {
	return r.First || len(r.Removed) > 0 || slices.ContainsFunc(r.Set, func(one coordinator.QuotaControl) bool { return one.Kind != coordinator.ControlCorrect })
}

// corrects tells whether a record corrects what was used.
func corrects(r *coordinator.QuotaControlled) bool {
	return slices.ContainsFunc(r.Set, func(one coordinator.QuotaControl) bool { return one.Kind == coordinator.ControlCorrect })
}

// agentsAlone tells whether all that a record changes is that agents are registered that were not
// before or, when removing, that such are removed.
func (c *controls) agentsAlone(r *coordinator.QuotaControlled, removing bool) bool {
	if r.First || removing && len(r.Set) > 0 || !removing && len(r.Removed) > 0 {
		return false
	}
	agent := func(one *coordinator.QuotaControl) bool { return one.Kind == coordinator.ControlAgent }
	for _, id := range r.Removed {
		if i := c.find(id); i < 0 || !agent(&c.standing[i]) {
			return false
		}
	}
	for i := range r.Set {
		if !agent(&r.Set[i]) || c.find(r.Set[i].ID) >= 0 {
			return false
		}
	}
	return true
}

// PolicyDue tells whether an engine that follows must be told what the policy is with the controls
// that it has folded (FoldPolicy) before it folds the next record, written at that time. next may be
// nil: then whether it must be even if nothing follows. To work a policy out takes
// a look at every group and agent, and a thousand who were registered would be a million; so it may
// wait as long as the books come out the same (fairshare.Ledger.AtRest), and no longer.
func (e *Engine) PolicyDue(at time.Time, next coordinator.Record) bool {
	b, l := e.controls.behind, e.quotas.ledger
	if b == nil {
		return false
	}
	r, more := next.(*coordinator.QuotaControlled)
	switch {
	case next != nil && (!more || corrects(r)):
		return true
	case l.Fresh() && len(e.lanes.order) == 0: // as where a journal begins, or a snapshot
		return false
	case next == nil:
		return !b.agents || !l.AtRest(b.since, b.last)
	case !changesControls(r):
		return false // the day is counted by the names of nodes
	}
	return !b.agents || b.touches(r) || !e.controls.agentsAlone(r, b.removing) || !l.AtRest(b.since, at)
}

// touches tells whether a record changes what was changed before.
func (b *behind) touches(r *coordinator.QuotaControlled) bool {
	return slices.ContainsFunc(r.Removed, func(id string) bool { return b.ids[id] }) ||
		slices.ContainsFunc(r.Set, func(one coordinator.QuotaControl) bool { return b.ids[one.ID] })
}

// PolicyBehind tells whether controls were folded since the policy was installed, and when the latest
// of them was written: as of when FoldPolicy is to install it.
func (e *Engine) PolicyBehind() (at time.Time, behind bool) {
	if e.controls.behind == nil {
		return at, false
	}
	return e.controls.behind.last, true
}

// controlsBytes is about how much text one record of a snapshot has at most: a message of the
// journal is not much larger.
const controlsBytes = 64 << 10

// imageControls comes before what has been used: that is counted by the quotas as they are with
// them.
func (e *Engine) imageControls(m *Image) {
	days := e.days.records()
	if len(days)+len(e.controls.standing) > 0 {
		m.others = append(append(m.others, e.controls.records()...), days...)
	}
}

// records are all that stand. Whoever folds them forgets what it knew before, the day as well.
func (c *controls) records() (list []coordinator.Record) {
	rest := slices.Clone(c.standing)
	for first := true; first || len(rest) > 0; first = false {
		n, size := 0, 0
		for n < len(rest) && size < controlsBytes {
			size += len(rest[n].Value) + len(rest[n].Reason)
			n++
		}
		list = append(list, &coordinator.QuotaControlled{First: first, Set: rest[:n:n]})
		rest = rest[n:]
	}
	return list
}

// FoldPolicy has an engine that follows another go on under a policy, as of when the record was
// written that changed it.
func (e *Engine) FoldPolicy(at time.Time, p *coordinator.Policy) {
	e.now, e.controls.behind = at, nil
	e.joining.under(p)
	e.quotas.under(at, p) // the books are as far as the record, and those of a file that is read again are not
	e.install(at, p)
	e.out = nil // the world has heard of it
}

package quotacontrol

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Controls are the standing changes to quotas.yaml, and the day that rules go by. The zero value has
// none. What the quotas are with them is the policy's: no file is read here.
type Controls struct {
	standing []coordinator.QuotaControl // in the order in which they were made
	behind   *behind                    // nil: the policy is that of all that has been folded
	day      day
}

// behind is how controls were folded since the policy was installed.
type behind struct {
	since, last time.Time
	ids         map[string]bool
	agents      bool // only agents were registered that were not before, or only such removed
	removing    bool
}

// Standing returns the controls that stand, in the order in which they were made. The caller owns the list.
func (c *Controls) Standing() []coordinator.QuotaControl { return slices.Clone(c.standing) }

// Empty reports whether there is nothing to keep: no control stands, and no day is counted.
func (c *Controls) Empty() bool { return len(c.standing) == 0 && c.day.start.IsZero() }

// find returns the place of one in the list; -1: it does not stand.
func (c *Controls) find(id string) int {
	return slices.IndexFunc(c.standing, func(q coordinator.QuotaControl) bool { return q.ID == id })
}

// Put adds one, in the place of the one of the same ID; false: that says the same already.
func (c *Controls) Put(one coordinator.QuotaControl) bool {
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

// Remove takes one out; false: it does not stand.
func (c *Controls) Remove(id string) (one coordinator.QuotaControl, stood bool) {
	i := c.find(id)
	if i < 0 {
		return one, false
	}
	one = c.standing[i]
	c.standing = slices.Delete(c.standing, i, i+1)
	return one, true
}

// Correct moves what counts as used, and returns the correction as it was made; false: nothing changes.
func Correct(l *fairshare.Ledger, now time.Time, one coordinator.QuotaControl) (coordinator.QuotaControl, bool) {
	d, by, err := one.Correction()
	if err != nil {
		return one, false
	}
	if one.At = l.Now(); now.After(one.At) {
		one.At = now
	}
	moved, ok := l.Correct(one.At, one.Target, d, by)
	if !ok || moved == 0 {
		return one, false
	}
	return one.Corrected(d, moved), true
}

// NextEnd returns when the first of those ends that end by themselves; zero: none does.
func (c *Controls) NextEnd() (next time.Time) {
	for i := range c.standing {
		if until := c.standing[i].Until; !until.IsZero() && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	return next
}

// Expired returns the IDs of those that are due.
func (c *Controls) Expired(at time.Time) []string {
	return c.idsOf(func(one *coordinator.QuotaControl) bool { return one.Expired(at) })
}

func (c *Controls) idsOf(is func(*coordinator.QuotaControl) bool) (ids []string) {
	for i := range c.standing {
		if is(&c.standing[i]) {
			ids = append(ids, c.standing[i].ID)
		}
	}
	return ids
}

// Fold takes over from a record how they, the books and the day have changed.
func (c *Controls) Fold(l *fairshare.Ledger, at time.Time, r *coordinator.QuotaControlled) {
	if changes(r) {
		if c.behind == nil {
			c.behind = &behind{since: at, ids: make(map[string]bool), agents: true, removing: len(r.Removed) > 0}
		}
		b := c.behind
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
		c.Remove(id)
	}
	for i := range r.Set {
		if one := &r.Set[i]; one.Kind == coordinator.ControlCorrect {
			l.FoldCorrection(one)
		} else {
			c.Put(*one)
		}
	}
	c.day.fold(r)
}

func isCorrection(one coordinator.QuotaControl) bool { return one.Kind == coordinator.ControlCorrect }

// changes reports whether a record changes what stands.
func changes(r *coordinator.QuotaControlled) bool {
	stays := func(one coordinator.QuotaControl) bool { return !isCorrection(one) }
	return r.First || len(r.Removed) > 0 || slices.ContainsFunc(r.Set, stays)
}

// agentsAlone reports whether all that a record changes is that agents are registered that were not
// before or, when removing, that such are removed.
func (c *Controls) agentsAlone(r *coordinator.QuotaControlled, removing bool) bool {
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

// PolicyDue reports whether the policy with the controls that were folded must be installed before the
// next record, written at that time, is folded; next nil: whether it must be even if nothing follows.
// empty: the books are as where a journal begins, or a snapshot. To work a policy out takes a look at
// every group and agent, and a thousand registrations would take a million; so it may wait as long as
// the books come out the same (fairshare.Ledger.AtRest), and no longer.
func (c *Controls) PolicyDue(l *fairshare.Ledger, at time.Time, next coordinator.Record, empty bool) bool {
	b := c.behind
	if b == nil {
		return false
	}
	r, more := next.(*coordinator.QuotaControlled)
	switch {
	case next != nil && (!more || slices.ContainsFunc(r.Set, isCorrection)):
		return true
	case empty:
		return false
	case next == nil:
		return !b.agents || !l.AtRest(b.since, b.last)
	case !changes(r):
		return false // the day is counted by the names of nodes
	}
	return !b.agents || b.touches(r) || !c.agentsAlone(r, b.removing) || !l.AtRest(b.since, at)
}

// touches reports whether a record changes what was changed before.
func (b *behind) touches(r *coordinator.QuotaControlled) bool {
	return slices.ContainsFunc(r.Removed, func(id string) bool { return b.ids[id] }) ||
		slices.ContainsFunc(r.Set, func(one coordinator.QuotaControl) bool { return b.ids[one.ID] })
}

// PolicyBehind reports whether controls were folded since the policy was installed, and when the latest
// of them was written: as of when the policy is to be installed.
func (c *Controls) PolicyBehind() (at time.Time, is bool) {
	if c.behind == nil {
		return at, false
	}
	return c.behind.last, true
}

// Installed notes that the policy is that of all controls.
func (c *Controls) Installed() { c.behind = nil }

// recordBytes is about how much text one record has at most: a message of the journal is not much
// larger.
const recordBytes = 64 << 10

// Records returns all that stand, and the day. Folded, they replace what was known before.
func (c *Controls) Records() (list []coordinator.Record) {
	rest := slices.Clone(c.standing)
	for first := true; first || len(rest) > 0; first = false {
		n, size := 0, 0
		for n < len(rest) && size < recordBytes {
			size += len(rest[n].Value) + len(rest[n].Reason)
			n++
		}
		list = append(list, &coordinator.QuotaControlled{First: first, Set: rest[:n:n]})
		rest = rest[n:]
	}
	return append(list, c.day.records()...)
}

package llmcalls

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/calendar"
)

// An agent may name whatever provider and model it likes, and each name makes a row of the history
// for good. So of those that nothing in quotas.yaml names mostNames have rows of their own, of each
// agent and day, and of mostNamers agents; what comes beyond that is counted as others. Which those
// are is in the record of the reservation: the history made anew from records is the same.
//
// What was named before the newest snapshot is not known to a coordinator that starts from it: after a
// restart as many more may have rows on that day.
const (
	mostNames  = 32
	mostNamers = 1 << 16
)

// names are the names of the day at hand.
type names struct {
	ends time.Time
	of   map[coordinator.AgentID]map[coordinator.Service]bool
}

// keep returns by which names a call stands in the history that is made now.
func (n *names) keep(now time.Time, l *fairshare.Ledger, c *fairshare.Charge) coordinator.NameKept {
	known := l.Names(c)
	if known == coordinator.NamesKept || n.note(now, l, c) {
		return coordinator.NamesKept
	}
	return known
}

// note notes a name that quotas.yaml does not have; false: there are too many.
func (n *names) note(now time.Time, l *fairshare.Ledger, c *fairshare.Charge) bool {
	if !now.Before(n.ends) {
		_, n.ends = calendar.QuotaDay(now, l.Quotas())
		n.of = make(map[coordinator.AgentID]map[coordinator.Service]bool)
	}
	names, name := n.of[c.Agent], coordinator.Service{Provider: c.Provider, Model: c.Model}
	switch {
	case names[name]:
		return true
	case len(names) >= mostNames, names == nil && len(n.of) >= mostNamers:
		return false
	case names == nil:
		names = make(map[coordinator.Service]bool)
		n.of[c.Agent] = names
	}
	names[name] = true
	return true
}

// FoldNames takes over from a record what the leader has kept.
func (x *Leases) FoldNames(r *coordinator.QuotaReserved) {
	c := fairshare.Charge{Agent: r.Agent, Provider: r.Provider, Model: r.Model}
	if r.Call && !r.Before && r.Known == coordinator.NamesKept && x.ledger.Names(&c) != coordinator.NamesKept {
		x.names.note(r.At, x.ledger, &c)
	}
}

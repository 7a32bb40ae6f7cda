package usage

import (
	"strings"
	"time"

	"taskbus/coordinator"
)

// fold takes one record of the journal.
func (p *Projection) fold(r coordinator.Record) {
	switch r := r.(type) {
	case *coordinator.QuotaReserved:
		p.reserved(r)
	case *coordinator.QuotaEnded:
		p.ended(r)
	}
}

// reserved takes a reservation.
func (p *Projection) reserved(r *coordinator.QuotaReserved) {
	if r.Before {
		p.reservedBefore(r)
		return
	}
	if old, known := p.known[r.Key]; known && old.State == stateOpen {
		p.count(old.Key, &Counts{Expired: 1}) // nobody will tell of it any more
	}
	n := p.reservation(r)
	if n.Source = SourceTask; r.Call {
		n.Source = SourceCall
	}
	p.put(n)
}

// reservedBefore takes one of a snapshot: it says how it stands, and may come in parts.
func (p *Projection) reservedBefore(r *coordinator.QuotaReserved) {
	if r.State > stateExpired {
		return // it has ended
	}
	p.found[r.Key] = true
	if _, known := p.known[r.Key]; known {
		return // from before a gap, or by its first part
	}
	n := p.reservation(r)
	if r.State == stateExpired {
		n.State, n.Until = stateExpiredBefore, r.At.Add(remembered)
	} else if n.Source = SourceTask; r.Call {
		n.Source = SourceCall
	}
	p.put(n)
}

func (p *Projection) reservation(r *coordinator.QuotaReserved) Reservation {
	return Reservation{ID: r.Key, Key: Key{Day: p.day(r.At), Group: word(r.Group), Agent: word(string(r.Agent)), Provider: word(r.Provider), Model: word(r.Model)}}
}

// longest is how long a name may be in a row, in bytes: longer than any that is valid.
const longest = 256

// word makes a name fit for every database. What the journal has was valid when it was written;
// but one that is not must not stop the history for ever.
func word(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "")
	}
	return s
}

// ended takes the end of a reservation.
func (p *Projection) ended(e *coordinator.QuotaEnded) {
	var c Counts
	switch e.How {
	case coordinator.QuotaSettled:
		c.Settled = 1
		c.use(&e.Used)
	case coordinator.QuotaReleased:
		c.Released = 1
	default:
		c.Expired = 1
	}
	r, known := p.known[e.Key]
	switch {
	case !known || r.gone(e.At):
		p.count(Key{Day: p.day(e.At)}, &c)
		return
	case r.State != stateOpen && e.How != coordinator.QuotaSettled:
		return // told again
	case r.State == stateExpired:
		c.Expired = -1
		fallthrough
	case r.State == stateExpiredBefore:
		c.Late = 1
	}
	p.count(r.Key, &c)
	if e.How != coordinator.QuotaExpired {
		p.drop(e.Key)
		return
	}
	r.State, r.Until = stateExpired, e.At.Add(remembered)
	p.put(r)
}

// gone tells that it is not remembered at a time.
func (r *Reservation) gone(at time.Time) bool { return !r.Until.IsZero() && r.Until.Before(at) }

func (p *Projection) day(at time.Time) string { return at.In(p.loc).Format(time.DateOnly) }

func (p *Projection) count(k Key, c *Counts) {
	sum := p.rows[k]
	if sum == nil {
		sum = new(Counts)
		p.rows[k] = sum
	}
	sum.Add(c)
}

func (p *Projection) put(r Reservation) {
	if _, already := p.changed[r.ID]; !already {
		_, stored := p.known[r.ID]
		p.changed[r.ID] = stored
	}
	p.known[r.ID] = r
	p.remember(&r)
}

func (p *Projection) drop(id coordinator.TaskKey) {
	delete(p.known, id)
	if stored, already := p.changed[id]; already && !stored {
		delete(p.changed, id) // it has come and gone since the last batch
		return
	}
	p.changed[id] = true
}

// remember sees to it that forget is called in time.
func (p *Projection) remember(r *Reservation) {
	if !r.Until.IsZero() && (p.due.IsZero() || r.Until.Before(p.due)) {
		p.due = r.Until
	}
}

// forget drops what has been remembered for long enough.
func (p *Projection) forget() {
	if p.due.IsZero() || !p.due.Before(p.mark.At) {
		return
	}
	p.due = time.Time{}
	for id, r := range p.known { // order does not matter: they are dropped one by one
		if r.gone(p.mark.At) {
			p.drop(id)
		} else {
			p.remember(&r)
		}
	}
}

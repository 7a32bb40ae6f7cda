package usage

import (
	"cmp"
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
	old, known := p.known[r.Key]
	switch {
	case !r.Before && known:
		p.count(*old.key, &Counts{Expired: 1}) // it will not be reported any more
	case r.Before && r.State > 0: // it has expired, or ended
		if known && r.State == 1 { // in a gap
			p.count(*old.key, &Counts{Expired: 1})
			p.drop(r.Key)
		}
		return
	case r.Before:
		// It says how one stands of before a gap, or of which the snapshot has said the first part.
		if p.found[r.Key] = true; known {
			return
		}
	}
	k := p.keyOf(&coordinator.QuotaOwner{Group: cmp.Or(r.Group, r.Payer), Agent: r.Agent, Provider: r.Provider,
		Model: r.Model, Call: r.Call, At: r.At, Known: r.Known})
	p.hold(r.Key, &k)
}

// keyOf is the row in which a reservation counts.
func (p *Projection) keyOf(o *coordinator.QuotaOwner) Key {
	k := Key{Day: p.day(o.At), Group: word(o.Group), Agent: word(string(o.Agent)), Provider: word(o.Provider),
		Model: word(o.Model), Source: SourceTask}
	if o.Call {
		k.Source = SourceCall
	}
	if o.Known != coordinator.NamesKept {
		k.Model = Others
	}
	if o.Known == coordinator.NoNameKept {
		k.Provider = Others
	}
	return k
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
	switch h, known := p.known[e.Key]; {
	case e.Late != nil:
		c.Late = 1
		p.count(p.keyOf(e.Late), &c)
	case known:
		p.count(*h.key, &c)
		p.drop(e.Key)
	default:
		p.count(Key{Day: p.day(e.At)}, &c)
	}
}

func (p *Projection) day(at time.Time) string { return at.In(p.loc).Format(time.DateOnly) }

// count adds to a row, unless the message is among those that are in the rows already.
func (p *Projection) count(k Key, c *Counts) {
	if p.again {
		return
	}
	sum := p.rows[k]
	if sum == nil {
		sum = new(Counts)
		p.rows[k] = sum
	}
	sum.Add(c)
}

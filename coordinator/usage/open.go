package usage

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// storeAfter is how long a reservation is open before it is stored. Until then it is kept in
// memory alone: most have ended by then, and after a restart the journal is read again from the
// oldest of them.
const storeAfter = time.Minute

// From is where a reader of the journal begins, and what it knows by then (see journal.Resume).
type From struct {
	Offset      int64
	Epoch, Next uint64
	Doubts      bool
}

// here is where the reader is: in front of the message at an offset.
func here(r *journal.Reader, offset int64) From {
	return From{Offset: offset, Epoch: r.Epoch(), Next: r.Next(), Doubts: r.Doubts()}
}

// held is an open reservation.
type held struct {
	key *Key
	// by is the message that made it; nil: it is stored.
	by *message
}

// message is one of the journal by which reservations were made that are not stored.
type message struct {
	From
	at   time.Time
	ids  []coordinator.TaskKey
	open int
}

// hold notes an open reservation, in place of one of its id. It is to be stored at once where
// there is no message to begin with again.
func (p *Projection) hold(id coordinator.TaskKey, k *Key) {
	p.drop(id)
	p.known[id] = held{p.same(k), p.making}
	if m := p.making; m != nil {
		m.ids = append(m.ids, id)
		m.open++
		return
	}
	p.store(id)
}

// store has an open reservation stored by the next batch.
func (p *Projection) store(id coordinator.TaskKey) {
	if _, changed := p.changed[id]; !changed { // else an earlier batch may have stored it
		p.changed[id] = false
	}
}

// drop takes out an open reservation, if it is there.
func (p *Projection) drop(id coordinator.TaskKey) {
	h, known := p.known[id]
	if !known {
		return
	}
	delete(p.known, id)
	stored, changed := p.changed[id]
	switch {
	case h.by != nil:
		if h.by.open--; h.by.open == 0 {
			h.by.ids = nil
		}
	case changed && !stored: // no batch was drawn since it was to be
		delete(p.changed, id)
	default:
		p.changed[id] = true
	}
}

// same gives one key for all that are equal: there may be hundreds of thousands open.
func (p *Projection) same(k *Key) *Key {
	if one, ok := p.keys[*k]; ok {
		return one
	}
	one := new(Key)
	*one = *k
	p.keys[*k] = one
	return one
}

// age has those stored that were made before a time, and finds out from where the journal is to
// be read again.
func (p *Projection) age(before time.Time) {
	n := 0
	for _, m := range p.messages {
		if m.open > 0 && m.at.After(before) {
			break
		}
		for _, id := range m.ids {
			if h, open := p.known[id]; open && h.by == m {
				p.known[id] = held{key: h.key}
				p.store(id)
			}
		}
		n++
	}
	clear(p.messages[:n])
	if p.messages = p.messages[n:]; len(p.messages) > 0 {
		p.mark.Again = p.messages[0].From
	} else {
		p.mark.Again = here(p.reader, p.mark.Offset+1)
	}
}

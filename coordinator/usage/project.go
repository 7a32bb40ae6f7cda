package usage

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// Projection turns the messages of the journal, in the order of their offsets, into batches.
// It is not safe for concurrent use.
type Projection struct {
	loc    *time.Location
	reader *journal.Reader
	// from is the mark of the last batch, mark that of the last message.
	from, mark Mark
	// again: what comes is in the rows already, and is read for what is open.
	again bool

	// What is open; the messages that have made what of it is not stored, oldest first, and the
	// one that is being taken if it may be begun with again, else nil.
	known    map[coordinator.TaskKey]held
	messages []*message
	making   *message
	keys     map[Key]*Key

	// What has changed since the last batch; of reservations those that are to be stored, or, true,
	// were by an earlier batch.
	rows    map[Key]*Counts
	changed map[coordinator.TaskKey]bool
	gaps    []Gap

	// While a state to begin with is being looked for: when the first message and the newest
	// snapshot's first part were written; found are the reservations that this has.
	first, snapshot time.Time
	found           map[coordinator.TaskKey]bool
	// hole: there are rows of before, and what lies between is missing: that is the gap of this index.
	hole   bool
	holeAt int
}

// New returns one that goes on from a state: the journal is to be given from Start of its mark on.
// loc is the quotas' time zone; nil: UTC.
func New(s State, loc *time.Location) *Projection {
	if loc == nil {
		loc = time.UTC
	}
	p := &Projection{loc: loc, from: s.Mark, mark: s.Mark, known: make(map[coordinator.TaskKey]held, len(s.Open))}
	p.clear()
	for i := range s.Open {
		p.known[s.Open[i].ID] = held{key: p.same(&s.Open[i].Key)}
	}
	if s.Mark.Offset < 0 {
		p.begin()
	} else {
		p.read(journal.Resume(s.Mark.Again.Epoch, s.Mark.Again.Next, s.Mark.Again.Doubts))
		p.again = true
	}
	return p
}

func (p *Projection) clear() {
	p.rows, p.changed, p.keys, p.gaps = make(map[Key]*Counts), make(map[coordinator.TaskKey]bool), make(map[Key]*Key), nil
}

func (p *Projection) read(r *journal.Reader) {
	r.SkipCorrupt(func(offset int64, err error) {
		if p.again {
			return // it was reported
		}
		p.gaps = append(p.gaps, Gap{From: p.mark.At, To: p.mark.At, Offset: offset,
			Reason: fmt.Sprintf("the message at offset %d of the journal is damaged, and was passed over", offset)})
	})
	p.reader = r
}

// begin looks for a state to begin with.
func (p *Projection) begin() {
	p.read(journal.NewReader())
	p.making = nil
	p.first, p.snapshot, p.found = time.Time{}, time.Time{}, make(map[coordinator.TaskKey]bool)
}

// SetLocation has what is reserved from now on counted by the days of another time zone.
func (p *Projection) SetLocation(loc *time.Location) {
	if loc == nil {
		loc = time.UTC
	}
	p.loc = loc
}

// Mark is up to where the journal was taken.
func (p *Projection) Mark() Mark { return p.mark }

// Take takes the message at an offset. One that was taken before changes nothing. Errors:
// ErrOtherJournal; *journal.VersionError, behind which nothing can be taken.
func (p *Projection) Take(offset int64, body []byte) error {
	switch {
	case offset == p.mark.Offset && p.mark.Other(offset, body):
		return ErrOtherJournal
	case offset <= p.mark.Offset && (!p.again || offset < p.mark.Again.Offset):
		p.again = p.again && offset < p.mark.Offset
		return nil
	case offset > p.mark.Offset && p.again && p.mark.Other(offset, body): // the mark's own is not there any more
		return ErrOtherJournal
	case offset > p.mark.Offset:
		p.again = false
	}
	if err := p.take(offset, body); err != nil {
		return err
	}
	if p.again {
		p.again = offset < p.mark.Offset
		return nil
	}
	p.mark.Offset, p.mark.Check = offset, checkOf(body)
	p.mark.Epoch, p.mark.Next = p.reader.Epoch(), p.reader.Next()
	_, claimed := p.reader.Leader() // the first claim, too, is in the rows: see BegunAfter
	for _, at := range []time.Time{p.reader.LastAt(), claimed} {
		if at.After(p.mark.At) {
			p.mark.At = at
		}
	}
	if p.Whole() { // a rebuild takes the whole journal before it draws its batch
		p.age(p.mark.At.Add(-storeAfter))
	}
	return nil
}

// take folds what a message says.
func (p *Projection) take(offset int64, body []byte) error {
	began := p.reader.Began()
	if began && p.making == nil { // else it came in pieces, of which this is another
		p.making = &message{From: here(p.reader, offset)}
	}
	if !began {
		p.look(body)
	}
	records, err := p.takeNext(offset, body)
	var gap *journal.GapError
	if errors.As(err, &gap) {
		// What follows is only understood from the next snapshot on, or from the beginning of
		// another numbering; this message may be either's first.
		p.note(offset, gap.Reason)
		p.begin()
		began = false
		p.look(body)
		records, err = p.reader.Take(offset, body)
	}
	if err != nil {
		return err
	}
	for _, r := range records {
		p.fold(r)
	}
	if !began && p.reader.Began() {
		p.began()
	}
	if p.reader.Within() {
		return nil
	}
	if m := p.making; m != nil && m.open > 0 {
		m.at = p.reader.LastAt()
		p.messages = append(p.messages, m)
	}
	p.making = nil
	return nil
}

// takeNext has the reader take a message. A Reader that has begun passes over snapshots; one that
// begins behind a gap would be passed over with the only state there is to go on from.
func (p *Projection) takeNext(offset int64, body []byte) ([]coordinator.Record, error) {
	if p.reader.Began() {
		h, chunk, part, err := journal.DecodeChunk(body)
		if err == nil && part && chunk.Number == 0 && h.Epoch >= p.reader.Epoch() && h.First > p.reader.Next() {
			return nil, &journal.GapError{
				Offset: offset, Want: p.reader.Next(), Got: h.First,
				Reason: fmt.Sprintf("records %d to %d are missing before it", p.reader.Next(), h.First-1),
			}
		}
	}
	return p.reader.Take(offset, body)
}

// look notes since when there will be a state to begin with.
func (p *Projection) look(body []byte) {
	h, chunk, part, err := journal.DecodeChunk(body)
	if err != nil {
		return
	}
	if p.first.IsZero() {
		p.first = h.At
	}
	if part && chunk.Number == 0 {
		p.snapshot = h.At
	}
}

// note reports a gap that begins where the last message was.
func (p *Projection) note(offset int64, reason string) {
	if p.mark.Since.IsZero() || p.hole { // nothing is counted yet, or it is the same gap
		return
	}
	p.hole, p.holeAt = true, len(p.gaps)
	p.gaps = append(p.gaps, Gap{From: p.mark.At, Offset: offset, Reason: reason})
}

// began: a state to begin with was found.
func (p *Projection) began() {
	since := p.snapshot
	if since.IsZero() {
		since = p.first
	}
	if p.mark.Since.IsZero() {
		p.mark.Since = since
	}
	lost := int64(0)
	for id := range p.known { // order does not matter: they are counted, and dropped
		if !p.found[id] {
			p.drop(id)
			lost++
		}
	}
	if p.hole {
		g := &p.gaps[p.holeAt]
		g.To, g.Lost = since, lost
	}
	p.hole, p.found = false, nil
	p.age(p.reader.LastAt()) // nothing is to be begun with again in front of a gap
}

// Whole reports whether there can be a batch now: not while a state to begin with is looked for, nor
// while what is in the rows is read again, nor between the pieces of a message.
func (p *Projection) Whole() bool {
	return p.reader.Began() && !p.again && !p.reader.Within()
}

// Size is how many rows and reservations the next batch changes.
func (p *Projection) Size() int { return len(p.rows) + len(p.changed) }

// Batch gives what has changed since the last one; false while it is not whole, or when there
// is nothing new.
func (p *Projection) Batch() (Batch, bool) {
	if !p.Whole() {
		return Batch{}, false
	}
	if p.mark == p.from && len(p.gaps) == 0 {
		return Batch{}, false
	}
	b := Batch{From: p.from, To: p.mark, Rows: sorted(p.rows), Gaps: p.gaps}
	for id := range p.changed { // order does not matter: they are sorted
		if h, open := p.known[id]; open && h.by == nil {
			b.Put = append(b.Put, Reservation{ID: id, Key: *h.key})
		} else {
			b.Drop = append(b.Drop, id)
		}
	}
	slices.SortFunc(b.Put, func(a, b Reservation) int { return compareIDs(a.ID, b.ID) })
	slices.SortFunc(b.Drop, compareIDs)
	p.from = p.mark
	p.clear()
	return b, true
}

// Open returns the reservations that are open, in the order of their ids.
func (p *Projection) Open() []coordinator.TaskKey {
	return slices.SortedFunc(maps.Keys(p.known), compareIDs)
}

func compareIDs(a, b coordinator.TaskKey) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
}

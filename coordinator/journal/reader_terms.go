package journal

import (
	"fmt"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// How a Reader follows the terms of leaders: which may write, what is missing, and which snapshot is whole.

// enter applies what every header says. Where the opening snapshot has thereby ended
// without its last part, it gives what was held for it.
func (r *Reader) enter(m *message) (held []coordinator.Record, err error) {
	if o := r.opening; o != nil && (m.Epoch > r.epoch || m.SnapshotOffset >= o.offset || o.doubt && m.opens() &&
		m.chunk.Snapshot != o.name) {
		if !o.doubt {
			return nil, gap(m.offset, 0, 0,
				fmt.Sprintf("the snapshot that begins at offset %d, where reading began, has no end: its leader did not finish it",
					o.offset))
		}
		held = r.finish()
	}
	if m.Epoch > r.epoch {
		r.epoch, r.leader, r.since, r.later = m.Epoch, Epoch{Lost: r.leader.Lost}, m.At, parts{}
		r.wrote = m.At
	}
	if m.Kind == KindSnapshot && r.leader.Nonce == "" {
		r.leader, r.since = m.chunk.Leader, m.chunk.Since
	}
	r.snapshot = max(r.snapshot, m.SnapshotOffset)
	if m.Kind != KindEpoch { // a claim comes later than what its claimant is to go on from
		r.at, r.wrote = m.At, m.At
	}
	return held, nil
}

// lead takes the claim of a new leader.
func (r *Reader) lead(m *message) error {
	if m.Epoch > 1 { // the claim was made before the last word of its predecessor was read, perhaps
		m.leader.Lost = r.leader.Lost
	}
	r.leader, r.since, r.wrote = m.leader, m.At, m.At
	if r.result < 0 {
		r.result = m.ResultOffset
	}
	if r.opening != nil || !r.begun && (m.First > 1 || !r.at.IsZero() && !r.doubt) {
		return nil // a snapshot is being read, or may follow: records came that nothing was known for
	}
	r.begun = true
	return r.hole(m)
}

// hole refuses that records are missing before those of the message, unless they
// were passed over.
func (r *Reader) hole(m *message) error {
	if m.First <= r.next {
		return nil
	}
	if !r.doubt {
		return gap(m.offset, r.next, m.First, fmt.Sprintf("records %d to %d are missing before it", r.next, m.First-1))
	}
	r.next = m.First
	return nil
}

// batch takes records, and gives those that are to be folded now.
func (r *Reader) batch(m *message) ([]coordinator.Record, error) {
	end := m.First + uint64(m.Count)
	if !r.begun && r.opening == nil {
		if m.First > 1 && !r.doubt {
			return nil, nil // a snapshot may follow; if none does, Check says so
		}
		r.begun = true
	}
	if end < r.next || end == r.next && m.Count > 0 {
		return nil, nil // folded already, or part of the snapshot
	}
	if err := r.hole(m); err != nil {
		return nil, err
	}
	fresh := m.records[min(r.next-m.First, uint64(m.Count)):]
	r.next, r.doubt = end, false
	if m.ResultOffset >= 0 {
		r.result = m.ResultOffset
	}
	if r.opening != nil {
		r.opening.held = append(r.opening.held, fresh...)
		return nil, nil
	}
	return fresh, nil
}

// part takes a part of a snapshot, and gives what is to be folded now.
func (r *Reader) part(m *message) ([]coordinator.Record, error) {
	if r.begun {
		r.note(m)
		return nil, nil
	}
	if r.opening == nil {
		if m.chunk.Number > 0 && !r.doubt {
			return nil, nil // the rest of one whose beginning is gone
		}
		r.opening = &opening{parts: parts{name: m.chunk.Snapshot, offset: m.offset}, doubt: r.doubt}
		r.next, r.result, r.doubt = m.First, m.ResultOffset, false
	}
	o := r.opening
	switch {
	case m.chunk.Snapshot != o.name || m.chunk.Number < o.count:
		return nil, nil // came twice
	case m.chunk.Number > o.count && !o.doubt:
		return nil, gap(m.offset, 0, 0, fmt.Sprintf("part %d of the snapshot that begins at offset %d is missing before it",
			o.count, o.offset))
	}
	o.count = m.chunk.Number + 1
	if !m.chunk.Last {
		return m.records, nil
	}
	if !o.doubt {
		r.snapshot = max(r.snapshot, o.offset)
	}
	return append(m.records, r.finish()...), nil
}

// finish ends the opening snapshot, and gives what was held for it.
func (r *Reader) finish() []coordinator.Record {
	held := r.opening.held
	r.opening, r.begun = nil, true
	return held
}

// note counts the parts of a snapshot that is not folded.
func (r *Reader) note(m *message) {
	k := &m.chunk
	if m.opens() && k.Snapshot != r.later.name {
		r.later = parts{name: k.Snapshot, offset: m.offset}
	}
	switch {
	case k.Snapshot != r.later.name || k.Number < r.later.count:
		return // came twice, or its beginning is gone
	case k.Number > r.later.count:
		r.later = parts{} // a part is missing: it will never be complete
		return
	}
	r.later.count++
	if k.Last {
		r.snapshot = max(r.snapshot, r.later.offset)
	}
}

// Check reports, at the end of the journal, whether a state was found to go on from;
// an empty journal has one. The error is a *GapError.
func (r *Reader) Check() error {
	switch {
	case r.opening != nil:
		return gap(-1, 0, 0, fmt.Sprintf("the snapshot that begins at offset %d of %s, where reading began, has no end",
			r.opening.offset, bus.StreamJournal))
	case !r.begun && r.epoch > 0:
		return gap(-1, 0, 0, "it no longer holds its beginning and no complete snapshot")
	}
	return nil
}

func gap(offset int64, want, got uint64, reason string) error {
	return &GapError{Offset: offset, Want: want, Got: got, Reason: reason}
}

package replay

import (
	"errors"
	"fmt"
	"io"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// Recording is what one leader recorded of its term. It is immutable once
// [Collector.Recordings] has given it away.
type Recording struct {
	// Name of the recording, which is that of the snapshot it begins with.
	Name string
	// Epoch of its leader.
	Epoch uint64

	// state is the snapshot, first the number of the first record it does not contain.
	state []folded
	first uint64
	// inputs in their order; the first is PolicyChanged.
	inputs []journal.Input
	// records that the leader journalled, from number first on without a hole.
	records []coordinator.Record
	// ended: the leader stopped recording because the bound was reached.
	ended bool
	// torn: inputs are missing after those that are there.
	torn bool
}

// folded is a record of the snapshot and when it was written.
type folded struct {
	at     time.Time
	record coordinator.Record
}

// Span is when the first and the last input came.
func (r *Recording) Span() (from, until time.Time) {
	return r.inputs[0].At, r.inputs[len(r.inputs)-1].At
}

// Inputs is how many events the engine was given.
func (r *Recording) Inputs() int { return len(r.inputs) }

// Notes say for people what is known about the recording's own completeness.
func (r *Recording) Notes() []string {
	var notes []string
	if r.ended {
		notes = append(notes, "recording stopped when journal.record_inputs_max_bytes was used up")
	}
	if r.torn {
		notes = append(notes, "messages of the recording are missing; it is read up to the first of them")
	}
	return notes
}

// Read gives the recordings of an export, in the order of the journal. Errors are those
// of [journal.ReadExport], [Collector.Take] and [Collector.Recordings].
func Read(export io.Reader) ([]*Recording, error) {
	var c Collector
	for m, err := range journal.ReadExport(export) {
		if err != nil {
			return nil, err
		}
		if err := c.Take(m.Offset, m.Body); err != nil {
			return nil, err
		}
	}
	return c.Recordings()
}

// Collector finds recordings among the messages of a journal.
type Collector struct {
	epoch    uint64
	building *snapshot // its parts are coming
	newest   *snapshot // complete
	// recent are the records journalled in this epoch that the newest snapshot does
	// not contain, from number recentFirst on.
	recent      []coordinator.Record
	recentFirst uint64
	current     *Recording // of this epoch
	found       []*Recording
	orphans     int // recordings without their beginning
}

type snapshot struct {
	name  string
	first uint64
	next  int // part
	state []folded
}

// Take reads one message; offset is its place in the journal, for errors. The error is
// of package journal, and nothing after such a message can be trusted.
func (c *Collector) Take(offset int64, body []byte) error {
	h, err := journal.DecodeHeader(body)
	if err != nil {
		return located(err, offset)
	}
	if h.Epoch < c.epoch {
		return nil // void: another one led already
	}
	if h.Epoch > c.epoch {
		c.epoch, c.building, c.current = h.Epoch, nil, nil
	}
	switch h.Kind {
	case journal.KindSnapshot, journal.KindBatch:
		m, err := journal.Decode(body)
		if err != nil {
			return located(err, offset)
		}
		if h.Kind == journal.KindBatch {
			c.batch(m)
		} else {
			c.part(m)
		}
	case journal.KindInputs:
		_, recorded, err := journal.DecodeInputs(body)
		if err != nil {
			return located(err, offset)
		}
		c.input(h, recorded)
	}
	return nil
}

// located puts the place of the message into the errors of package journal.
func located(err error, offset int64) error {
	var corrupt *journal.CorruptError
	if errors.As(err, &corrupt) {
		return fmt.Errorf("the message at offset %d of the export is damaged: %s; export again, and if it is damaged in the journal, too, export what comes after it",
			offset, corrupt.Reason)
	}
	var newer *journal.NewerError
	if errors.As(err, &newer) {
		newer.Offset = offset
	}
	return err
}

// part is one part of a snapshot. One that does not follow the one before it belongs
// to a snapshot whose beginning the export does not hold.
func (c *Collector) part(m *journal.Message) {
	if m.Chunk.Number == 0 {
		c.building = &snapshot{name: m.Chunk.Snapshot, first: m.First}
	}
	s := c.building
	if s == nil || s.name != m.Chunk.Snapshot || s.next != m.Chunk.Number {
		return // of one that is void, or a part that was sent twice
	}
	s.next++
	for _, r := range m.Records {
		s.state = append(s.state, folded{m.At, r})
	}
	if m.Chunk.Last {
		c.newest, c.building = s, nil
		c.forget(s.first)
	}
}

// forget lets go of the records before that number.
func (c *Collector) forget(number uint64) {
	if number <= c.recentFirst {
		return
	}
	n := min(number-c.recentFirst, uint64(len(c.recent)))
	c.recent = append([]coordinator.Record(nil), c.recent[n:]...)
	c.recentFirst = number
}

// batch takes the records that are new.
func (c *Collector) batch(m *journal.Message) {
	next := c.recentFirst + uint64(len(c.recent))
	if m.First > next { // the export begins here, or has a hole
		c.recent, c.recentFirst, next = nil, m.First, m.First
	}
	if known := next - m.First; known < uint64(len(m.Records)) {
		c.recent = append(c.recent, m.Records[known:]...)
	}
	if r := c.current; r != nil && r.first+uint64(len(r.records)) >= c.recentFirst {
		r.records = append(r.records, c.recent[r.first+uint64(len(r.records))-c.recentFirst:]...)
	}
}

// input takes inputs: the first of a recording, or those that follow.
func (c *Collector) input(h journal.Header, in *journal.Recorded) {
	r := c.current
	if r == nil || r.Name != in.Snapshot {
		if h.First != 1 || c.newest == nil || c.newest.name != in.Snapshot {
			c.orphans++
			return
		}
		r = &Recording{Name: in.Snapshot, Epoch: h.Epoch, state: c.newest.state, first: c.newest.first}
		if c.recentFirst <= r.first {
			r.records = append(r.records, c.recent[min(r.first-c.recentFirst, uint64(len(c.recent))):]...)
		}
		c.current = r
		c.found = append(c.found, r)
	}
	next := uint64(len(r.inputs)) + 1
	switch {
	case r.torn:
	case h.First > next:
		r.torn = true
	default:
		if known := next - h.First; known < uint64(len(in.Inputs)) {
			r.inputs = append(r.inputs, in.Inputs[known:]...)
		}
		r.ended = r.ended || in.Ended
	}
}

// ErrNothingRecorded says that an export holds no recording.
var ErrNothingRecorded = errors.New("the export holds no recording of inputs: set journal.record_inputs to true in agents.yaml, " +
	"let a coordinator lead for a while, and export again")

// Recordings gives what was found, in the order of the journal. The error is
// ErrNothingRecorded, or says why what there is cannot be used.
func (c *Collector) Recordings() ([]*Recording, error) {
	var found []*Recording
	for _, r := range c.found {
		if len(r.inputs) == 0 {
			continue // not even the policy was within the bound
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("the recording %s of epoch %d: %w", r.Name, r.Epoch, err)
		}
		found = append(found, r)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case c.orphans > 0:
		return nil, errors.New("the export holds a recording without its beginning: export again with --all")
	default:
		return nil, ErrNothingRecorded
	}
}

// check refuses a recording that no leader can have written.
func (r *Recording) check() error {
	if _, ok := r.inputs[0].Event.(coordinator.PolicyChanged); !ok {
		return fmt.Errorf("it begins with %s, and not with a policy", eventName(r.inputs[0].Event))
	}
	for i := range r.inputs[1:] {
		if r.inputs[i+1].At.Before(r.inputs[i].At) {
			return fmt.Errorf("input %d is older than the one before it", i+2)
		}
	}
	return nil
}

package replay

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// Recording is what one leader recorded of its term. It is immutable once it has been
// given away. Its messages are kept as they were exported and read again for each
// pass: decoded, a recording is ten times as large.
type Recording struct {
	// Name of the recording, which is that of the snapshot it begins with.
	Name string
	// Epoch of its leader.
	Epoch uint64

	// begins is the snapshot, first is the number of the first record that it does not contain.
	begins *snapshot
	first  uint64
	// parts are the inputs, in their order; there are count of them.
	parts       []part
	count       int
	from, until time.Time // when the first and the last of them came
	// batches are what the leader journalled.
	batches []batch
	// ended: the leader stopped recording because the bound was reached.
	ended bool
	// torn: inputs are missing after those that are there.
	torn bool
}

// part is a message of inputs; the first so many of them were in the message before.
type part struct {
	body  []byte
	known int
}

// batch is a message of records: the number of the first, and how many.
type batch struct {
	body         []byte
	first, count uint64
}

// Span is when the first and the last input came.
func (r *Recording) Span() (from, until time.Time) { return r.from, r.until }

// each visits the inputs in their order, the first being number 0, until visit fails.
func (r *Recording) each(visit func(n int, in *journal.Input) error) error {
	n := 0
	for _, p := range r.parts {
		_, recorded, err := journal.DecodeInputs(p.body)
		if err != nil {
			return err
		}
		for i := p.known; i < len(recorded.Inputs); i++ {
			if err := visit(n, &recorded.Inputs[i]); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}

// journalled gives the records of the journal one after the other.
type journalled struct {
	batches []batch // still to be read
	next    uint64  // number of the next record
	records []coordinator.Record
}

func (r *Recording) journalled() *journalled { return &journalled{batches: r.batches, next: r.first} }

// peek gives the next record without passing it; nil at the end, or before a hole.
func (j *journalled) peek() (coordinator.Record, error) {
	for len(j.records) == 0 {
		if len(j.batches) == 0 || j.batches[0].first > j.next {
			return nil, nil
		}
		b := j.batches[0]
		j.batches = j.batches[1:]
		if known := j.next - b.first; known < b.count {
			m, err := journal.Decode(b.body)
			if err != nil {
				return nil, err
			}
			j.records = m.Records[known:]
		}
	}
	return j.records[0], nil
}

// pass goes on to the next record.
func (j *journalled) pass() {
	j.records[0] = nil
	j.records = j.records[1:]
	j.next++
}

// missing counts the records between the latest that was read and the next that is there; 0 where
// none is.
func (j *journalled) missing() uint64 {
	if len(j.records) > 0 || len(j.batches) == 0 || j.batches[0].first <= j.next {
		return 0
	}
	return j.batches[0].first - j.next
}

// rest counts the records that follow, those among them that are missing included.
func (j *journalled) rest() int {
	end := j.next + uint64(len(j.records))
	for _, b := range j.batches {
		end = max(end, b.first+b.count)
	}
	return int(end - j.next)
}

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
	recent   []batch   // of this epoch, that the newest snapshot does not contain
	current  *Recording
	found    []*Recording
	orphans  int // messages of recordings without their beginning
	joiner   journal.Joiner
}

type snapshot struct {
	name  string
	first uint64
	parts [][]byte
	whole bool // the last of them is there
}

// Take reads one message; offset is its place in the journal, for errors. The error is
// of package journal, and nothing after such a message can be trusted.
func (c *Collector) Take(offset int64, body []byte) error {
	body, err := c.joiner.Take(body)
	if err != nil {
		return located(err, offset)
	}
	if body == nil {
		return nil
	}
	h, err := journal.DecodeHeader(body)
	if err != nil {
		return located(err, offset)
	}
	if h.Epoch < c.epoch {
		return nil // void: another one led already
	}
	if h.Epoch > c.epoch {
		c.epoch, c.building, c.current, c.recent = h.Epoch, nil, nil, nil
	}
	switch h.Kind {
	case journal.KindSnapshot:
		m, err := journal.Decode(body)
		if err != nil {
			return located(err, offset)
		}
		c.part(m, body)
	case journal.KindBatch:
		b := batch{body, h.First, uint64(h.Count)}
		c.recent = append(c.recent, b)
		if c.current != nil {
			c.current.batches = append(c.current.batches, b)
		}
	case journal.KindInputs:
		_, recorded, err := journal.DecodeInputs(body)
		if err != nil {
			return located(err, offset)
		}
		if err := c.input(h, recorded, body); err != nil {
			return fmt.Errorf("the message at offset %d of the export: %w", offset, err)
		}
	}
	return nil
}

// located puts the place of the message into the errors of package journal.
func located(err error, offset int64) error {
	var corrupt *journal.CorruptError
	if errors.As(err, &corrupt) {
		return fmt.Errorf(
			"the message at offset %d of the export is damaged: %s; export again, and if it is damaged in the journal, too, "+
				"export what comes after it",
			offset, corrupt.Reason)
	}
	var other *journal.VersionError
	if errors.As(err, &other) {
		other.Offset = offset
	}
	return err
}

// part is one part of a snapshot. One that does not follow the one before it belongs
// to a snapshot whose beginning the export does not hold, or was sent twice.
func (c *Collector) part(m *journal.Message, body []byte) {
	if m.Chunk.Number == 0 && (c.building == nil || c.building.name != m.Chunk.Snapshot) {
		c.building = &snapshot{name: m.Chunk.Snapshot, first: m.First}
	}
	s := c.building
	if s == nil || s.name != m.Chunk.Snapshot || len(s.parts) != m.Chunk.Number {
		return
	}
	s.parts = append(s.parts, body)
	if m.Chunk.Last {
		s.whole, c.newest, c.building = true, s, nil
		c.recent = slices.DeleteFunc(c.recent, func(b batch) bool { return b.first+b.count <= s.first })
	}
}

// input takes inputs: the first of a recording, or those that follow.
func (c *Collector) input(h journal.Header, in *journal.Recorded, body []byte) error {
	r := c.current
	if r == nil || r.Name != in.Snapshot {
		s := c.newest
		if b := c.building; b != nil && b.name == in.Snapshot {
			s = b // the rest of it comes between the inputs
		}
		if h.First != 1 || s == nil || s.name != in.Snapshot {
			c.orphans++
			return nil
		}
		r = &Recording{
			Name: in.Snapshot, Epoch: h.Epoch, begins: s, first: s.first, batches: slices.Clone(c.recent),
		}
		c.current = r
		c.found = append(c.found, r)
	}
	next := uint64(r.count) + 1
	if r.torn || h.First > next {
		r.torn = true
		return nil
	}
	r.ended = r.ended || in.Ended
	if known := next - h.First; known < uint64(len(in.Inputs)) {
		return r.add(in.Inputs[known:], part{body, int(known)})
	}
	return nil
}

// add takes the inputs of a message, and refuses what no leader can have recorded.
func (r *Recording) add(inputs []journal.Input, p part) error {
	if r.count == 0 {
		r.from, r.until = inputs[0].At, inputs[0].At
		if _, ok := inputs[0].Event.(coordinator.PolicyChanged); !ok {
			return fmt.Errorf("the recording %s begins with %s, and not with a policy", r.Name, eventName(inputs[0].Event))
		}
	}
	for i := range inputs {
		if inputs[i].At.Before(r.until) {
			return fmt.Errorf("input %d of the recording %s is older than the one before it", r.count+i+1, r.Name)
		}
		r.until = inputs[i].At
	}
	r.parts = append(r.parts, p)
	r.count += len(inputs)
	return nil
}

// ErrNothingRecorded says that an export holds no recording.
var ErrNothingRecorded = errors.New(
	"the export holds no recording of inputs: set journal.record_inputs to true in agents.yaml, " +
		"let a coordinator lead for a while, and export again")

// Recordings gives what was found, in the order of the journal. The error is
// ErrNothingRecorded, or says that there is nothing whole.
func (c *Collector) Recordings() ([]*Recording, error) {
	var found []*Recording
	orphans := c.orphans
	for _, r := range c.found {
		switch {
		case !r.begins.whole:
			orphans++
		case r.count > 0: // else not even the policy was within the bound
			found = append(found, r)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case orphans > 0:
		return nil, errors.New("the export holds a recording without its beginning: export again with --all")
	default:
		return nil, ErrNothingRecorded
	}
}

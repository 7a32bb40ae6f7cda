package journal

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// MaxInputsBytes is how large a message of inputs gets; one input that is larger
// makes a message of its own.
const MaxInputsBytes = 256 << 10

// inputsOverhead is what a message of inputs has beside them, at most: the envelope,
// the header, and the name of the snapshot.
const inputsOverhead = 256

// Recorder collects the inputs of an engine and makes messages of them, until its
// bound is reached. It keeps no reference to an event. It belongs to one goroutine at
// a time; see [Recorded] for what its first inputs must be.
type Recorder struct {
	snapshot string
	max      int64 // bytes of messages, in all
	used     int64 // by the parts that are complete
	full     bool

	coder coder
	count int       // inputs in the coder
	at    time.Time // of the first of them
	first uint64    // its number
	parts []inputsPart
	ended bool // the last message has been taken
}

// inputsPart is a message but for its header.
type inputsPart struct {
	items []byte
	first uint64
	count int
	at    time.Time
}

// NewRecorder makes a recorder for an engine that is filled from the snapshot of that
// name, at most 128 characters. All its messages together take up at most maxBytes.
func NewRecorder(snapshot string, maxBytes int64) *Recorder {
	return &Recorder{snapshot: snapshot, max: maxBytes, first: 1}
}

// Add records what the engine is given, and when; false if it does not fit: then the
// recording has ended with the input before, and nothing is recorded any more.
func (r *Recorder) Add(at time.Time, ev coordinator.Event) bool {
	if r.full {
		return false
	}
	in := Input{At: at, Event: ev}
	c := &r.coder
	if r.count == 0 {
		r.begin(at)
	}
	before := len(c.out)
	kind := c.input(&in)
	if r.count > 0 && len(c.out)+len(c.body)+inputsOverhead > MaxInputsBytes {
		c.out, c.body = c.out[:before], c.body[:0] // with the next message
		r.seal()
		r.begin(at)
		before = 0
		kind = c.input(&in)
	}
	c.finish(kind)
	if r.used+int64(len(c.out))+2*inputsOverhead > r.max { // one to say that nothing follows
		c.out = c.out[:before]
		r.full = true
		return false
	}
	r.count++
	return true
}

func (r *Recorder) begin(at time.Time) {
	r.coder.begin(at)
	r.at = at
}

// seal ends the message at hand.
func (r *Recorder) seal() {
	items := append([]byte(nil), r.coder.out...)
	r.parts = append(r.parts, inputsPart{items, r.first, r.count, r.at})
	r.used += int64(len(items)) + inputsOverhead
	r.first += uint64(r.count)
	r.coder.out, r.count = r.coder.out[:0], 0
}

// Take appends the next message to dst, and reports whether there was one: one that is
// complete, or with flush set whatever there is. Kind, First, Count and At of h are
// filled in. The last message of a recording that has reached its bound says so.
func (r *Recorder) Take(dst []byte, h Header, flush bool) ([]byte, bool) {
	if len(r.parts) == 0 && !r.ended && (r.full || flush && r.count > 0) {
		r.seal()
	}
	if len(r.parts) == 0 {
		return dst, false
	}
	p := r.parts[0]
	r.parts = slices.Delete(r.parts, 0, 1)
	r.ended = r.full && len(r.parts) == 0 && r.count == 0
	h.First, h.Count, h.At = p.first, p.count, p.at
	c := coder{out: p.items}
	return c.appendInputs(dst, h, r.snapshot, r.ended), true
}

// Full reports that the bound is reached: what is still to be taken is all there is.
func (r *Recorder) Full() bool { return r.full }

// Bytes is how large the recording is so far, with what has not been taken yet; never
// more than its bound.
func (r *Recorder) Bytes() int64 {
	if r.count == 0 {
		return r.used
	}
	return r.used + int64(len(r.coder.out)) + inputsOverhead
}

package journal

import (
	"time"

	"taskbus/coordinator"
)

// Input is one event that an engine was given, and when: what is needed, with the
// snapshot before it, to have an engine decide the same again. It holds no payload,
// and of a result neither the text of its error nor its place in the stream.
type Input struct {
	// At is the `now` of Engine.Apply. It must be one without a reading of the
	// monotonic clock (see [time.Time.Round]): that cannot be written, and differences
	// of times that have one are others than those that a replay finds.
	At    time.Time
	Event coordinator.Event
}

// Recorded is the body of a message of KindInputs: a part of one leader's recording.
//
// A recording begins with the policy of a new engine, which follows. That engine is
// then filled from the snapshot by which the recording is named, each record being
// folded with the At of the message that holds it; it leads from the At of the last of
// these messages on, makes records from then on, and gets the other inputs. So it
// leaves the records that the leader journalled from the snapshot's First on.
type Recorded struct {
	// Snapshot is the name of the snapshot that the engine was filled from, and of the
	// recording.
	Snapshot string
	// Ended: the leader recorded no more, because the bound was reached.
	Ended bool
	// Inputs in their order. The number of the first is the First of the header.
	Inputs []Input
}

// AppendInputs appends a message with these inputs to dst. Kind, Count and At of h are
// filled in: At is that of the first input, where there is one. Of the policy of a
// PolicyChanged it has Version and Source alone.
func AppendInputs(dst []byte, h Header, recorded Recorded) []byte {
	var c coder
	if len(recorded.Inputs) > 0 {
		h.At = recorded.Inputs[0].At
	}
	c.begin(h.At)
	for i := range recorded.Inputs {
		c.finish(c.input(&recorded.Inputs[i]))
	}
	h.Count = len(recorded.Inputs)
	return c.appendInputs(dst, h, recorded.Snapshot, recorded.Ended)
}

// appendInputs appends a message of the inputs that the coder has in out.
func (c *coder) appendInputs(dst []byte, h Header, snapshot string, ended bool) []byte {
	h.Kind = KindInputs
	return c.appendMessage(dst, h, func(c *coder) { c.recorded(&snapshot, &ended) })
}

func (c *coder) recorded(snapshot *string, ended *bool) {
	m := c.mask(on(*ended, 1))
	text(c, snapshot)
	c.flag(ended, m&1 != 0)
}

// DecodeInputs reads a message of KindInputs. Texts in what it returns do not refer to
// body. Errors: *NewerError, *CorruptError, the latter also for another kind.
func DecodeInputs(body []byte) (Header, *Recorded, error) {
	c, h, err := openMessage(body)
	switch {
	case err != nil:
		return h, nil, err
	case h.Kind != KindInputs:
		return h, nil, corrupt("it holds no inputs")
	}
	r := new(Recorded)
	c.section(func(c *coder) { c.recorded(&r.Snapshot, &r.Ended) })
	r.Inputs = make([]Input, 0, min(h.Count, len(c.in)/leastInput))
	for {
		kind, rest, ok := c.nextItem()
		if !ok {
			break
		}
		var in Input
		c.time(&in.At)
		in.Event = c.readEvent(kind)
		switch {
		case in.Event == nil:
			return h, nil, &NewerError{Offset: -1, What: "kind of input", Found: uint64(kind), Known: lastEventKind}
		case c.bad != "":
			return h, nil, corrupt(c.bad)
		}
		r.Inputs = append(r.Inputs, in)
		c.in = rest
	}
	switch {
	case c.bad != "":
		return h, nil, corrupt(c.bad)
	case len(r.Inputs) != h.Count:
		return h, nil, corrupt("it has not as many inputs as it says")
	}
	return h, r, nil
}

// leastInput is how many bytes an input takes up at the very least: kind, length, time.
const leastInput = 3

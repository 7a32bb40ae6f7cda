package journal

import (
	"reflect"
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
	Snapshot string `rec:"1"`
	// Ended: the leader recorded no more, because the bound was reached.
	Ended bool `rec:"2"`
	// Inputs in their order. The number of the first is the First of the header.
	Inputs []Input `rec:"-"`
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
	return c.appendMessage(dst, h, &Recorded{Snapshot: snapshot, Ended: ended})
}

// input writes when and what, and gives the kind of its event. Of results it leaves out where they are in their
// stream, and the text of the error, but of a task that is given back, of which records have it.
func (c *coder) input(in *Input) byte {
	k := events.of(in.Event)
	if c.events == nil {
		c.events = make([]reflect.Value, len(eventTypes))
	}
	v := c.events[k.number]
	if !v.IsValid() {
		v = reflect.New(k.fields.typ).Elem()
		c.events[k.number] = v
	}
	v.Set(reflect.ValueOf(in.Event))
	if ev, ok := v.Addr().Interface().(*coordinator.ResultReported); ok {
		if ev.Result.Offset = -1; ev.Result.Outcome != coordinator.OutcomeRejected {
			ev.Result.Error = ""
		}
	}
	c.writeTime(in.At)
	k.fields.write(c, v.Addr().UnsafePointer())
	v.SetZero() // lets go of what it refers to
	return k.number
}

// DecodeInputs reads a message of KindInputs. Texts in what it returns do not refer to
// body. Errors: *VersionError, *CorruptError, the latter also for another kind.
func DecodeInputs(body []byte) (Header, *Recorded, error) {
	c, h, err := openMessage(body)
	switch {
	case err != nil:
		return h, nil, err
	case h.Kind != KindInputs:
		return h, nil, corrupt("it holds no inputs")
	}
	r := new(Recorded)
	c.special(&h, r)
	c.allocates(uintptr(h.Count) * reflect.TypeFor[Input]().Size())
	r.Inputs = make([]Input, 0, h.Count)
	err = c.readItems(&events, "input", h.Count, func(k *kind) {
		in := Input{At: c.readTime()}
		if v := reflect.New(k.fields.typ); c.allocates(2 * k.fields.typ.Size()) {
			k.fields.read(&c, v.UnsafePointer())
			in.Event = v.Elem().Interface().(coordinator.Event)
		}
		r.Inputs = append(r.Inputs, in)
	})
	if err != nil {
		return h, nil, err
	}
	return h, r, nil
}

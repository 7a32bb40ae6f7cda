package replay

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// Verification is what came of giving an engine a recording again.
type Verification struct {
	// Inputs given, Records compared, Decisions among them: tasks given to agents.
	Inputs, Records, Decisions int
	// Unrecorded are the records that the leader journalled after the last input, to the last of
	// the export: nothing is known of them.
	Unrecorded int
	// Unjournalled are the records that came of inputs whose records the journal does
	// not hold (any more): it ends there, or the leader did.
	Unjournalled int
	// Difference is the first one; nil: there is none.
	Difference *Difference

	same comparison
}

// Difference is a record that is not the one of the journal.
type Difference struct {
	// Record is the number of the record in the journal.
	Record uint64 `json:"record"`
	// Input is the number of the input, from 1, that led to it; At when it came and
	// Event what it was.
	Input int       `json:"input"`
	At    time.Time `json:"at"`
	Event string    `json:"event"`
	// Text says what differs, for people.
	Text string `json:"text"`
}

// String is the difference in one line.
func (d *Difference) String() string {
	return fmt.Sprintf("record %d, of input %d (%s at %s): %s", d.Record, d.Input, d.Event, d.At.UTC().Format(timeFormat),
		d.Text)
}

const timeFormat = "2006-01-02T15:04:05.000000Z"

// Verify gives an engine the state and the inputs of the recording and holds its
// records against those of the journal. policies must give what was recorded. It stops
// at the first difference.
func (r *Recording) Verify(policies Policies) (*Verification, error) {
	return r.verify(policies, func(*journal.Input, []coordinator.Effect) {})
}

// errDiffers ends a pass at the first difference.
var errDiffers = errors.New("different")

// verify is Verify, and shows every input with its effects.
func (r *Recording) verify(policies Policies, look func(*journal.Input, []coordinator.Effect)) (*Verification, error) {
	var p *player
	v, wanted := &Verification{}, r.journalled()
	err := r.each(func(n int, in *journal.Input) (err error) {
		v.Inputs++
		if p == nil {
			if p, err = r.play(in, policies, func(coordinator.Record) {}); err == nil {
				look(in, nil)
			}
			return err
		}
		if err := p.apply(in); err != nil {
			return err
		}
		if err := v.compare(n, in, p, wanted); err != nil {
			return err
		}
		look(in, p.effects)
		return nil
	})
	if err != nil && !errors.Is(err, errDiffers) {
		return nil, err
	}
	if v.Difference == nil {
		v.Unrecorded = wanted.rest()
	}
	return v, nil
}

// compare holds the records of one input against those of the journal.
func (v *Verification) compare(n int, in *journal.Input, p *player, wanted *journalled) error {
	for i, got := range p.records {
		want, err := wanted.peek()
		switch {
		case err != nil:
			return err
		case want == nil && wanted.missing() > 0:
			v.Difference = &Difference{
				Record: wanted.next, Input: n + 1, At: in.At.UTC(), Event: eventName(in.Event),
				Text: fmt.Sprintf("it and the %d records behind it are missing in the export", wanted.missing()-1),
			}
			return errDiffers
		case want == nil:
			v.Unjournalled += len(p.records) - i
			return nil
		case !v.same.records(got, want):
			v.Difference = &Difference{
				Record: wanted.next, Input: n + 1, At: in.At.UTC(), Event: eventName(in.Event),
				Text: difference(want, got) + reasonOf(got, p.effects),
			}
			return errDiffers
		}
		wanted.pass()
		v.Records++
		if _, ok := got.(*coordinator.Assigned); ok {
			v.Decisions++
		}
	}
	return nil
}

// comparison compares records as the journal writes them: byte by byte.
type comparison struct{ a, b []byte }

func (c *comparison) records(a, b coordinator.Record) bool {
	c.a = journal.AppendBatch(c.a[:0], journal.Header{}, []coordinator.Record{a})
	c.b = journal.AppendBatch(c.b[:0], journal.Header{}, []coordinator.Record{b})
	return bytes.Equal(c.a, c.b)
}

// reasonOf says why the replayed engine chose as it did; empty when there is no more
// to say.
func reasonOf(got coordinator.Record, effects []coordinator.Effect) string {
	assigned, ok := got.(*coordinator.Assigned)
	if !ok {
		return ""
	}
	for _, f := range effects {
		if d, ok := f.(*coordinator.Dispatch); ok && d.Task.ID == assigned.Task.ID && d.Decision != nil {
			return "; the replayed choice: " + d.Decision.Text()
		}
	}
	return ""
}

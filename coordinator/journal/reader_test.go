package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// history is a journal as leaders write it that come, die at any moment and may not
// know that they have been succeeded. The state that is folded is simply the list of
// all records that count, and so a snapshot holds all records before it.
type history struct {
	t      *rapid.T
	stream []entry
	truth  []coordinator.Record
	// complete are the offsets at which complete snapshots begin.
	complete []int64
	names    int
}

// entry is one message; offsets have gaps.
type entry struct {
	offset int64
	body   []byte
	// records that the message adds, as it was written.
	records []coordinator.Record
}

// term is the time in which one leader writes.
type term struct {
	*history
	w       *Writer
	claimed int // index of its claim in the stream
	// parts of the snapshot in progress; begun is where it begins.
	parts [][]byte
	begun int64
	void  bool
}

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (h *history) now() time.Time { return t0.Add(time.Duration(len(h.stream)) * time.Second) }

func (h *history) publish(body []byte, records []coordinator.Record) int64 {
	offset := int64(0)
	if n := len(h.stream); n > 0 {
		offset = h.stream[n-1].offset + int64(rapid.SampledFrom([]int{1, 1, 3}).Draw(h.t, "gap"))
	}
	h.stream = append(h.stream, entry{offset, body, records})
	return offset
}

// read gives a Reader all messages from index i on, and what it folds.
func (h *history) read(i int) (*Reader, []coordinator.Record, error) {
	r := NewReader()
	var folded []coordinator.Record
	for _, e := range h.stream[i:] {
		records, err := r.Take(e.offset, e.body)
		folded = append(folded, records...)
		if err != nil {
			return r, folded, err
		}
	}
	return r, folded, r.Check()
}

// index of the message at an offset.
func (h *history) index(offset int64) int {
	return slices.IndexFunc(h.stream, func(e entry) bool { return e.offset >= offset })
}

// start is where a reader that knows the last message begins.
func (h *history) start() int {
	if len(h.stream) == 0 {
		return 0
	}
	var last Header
	for _, e := range h.stream {
		head, err := DecodeHeader(e.body)
		if err != nil {
			h.t.Fatal(err)
		}
		if head.Epoch >= last.Epoch {
			last = head
		}
	}
	return max(0, h.index(Start(last).Offset()))
}

// succeed reads the journal, claims the next epoch, and reads its claim back. What
// the leader before still publishes in between counts.
func (h *history) succeed(before *term) *term {
	r, _, err := h.read(h.start())
	if err != nil {
		h.t.Fatalf("read the journal: %v", err)
	}
	leader := Epoch{Nonce: fmt.Sprintf("n%d", len(h.stream)), Instance: fmt.Sprintf("host-%d", len(h.stream)),
		Address: "h:8551", Version: "1"}
	claim := Claim(r, h.now(), leader)
	if before != nil {
		for range rapid.IntRange(0, 2).Draw(h.t, "still published") {
			before.step()
		}
		before.void = true
	}
	h.publish(claim, nil)
	if r, _, err = h.read(h.start()); err != nil {
		h.t.Fatalf("read the claim back: %v", err)
	}
	if got, since := r.Leader(); got != leader || !since.Equal(t0.Add(time.Duration(len(h.stream)-1)*time.Second)) &&
		before == nil {
		h.t.Fatalf("leader %+v since %v, want %+v", got, since, leader)
	}
	w, err := NewWriter(r)
	if err != nil {
		h.t.Fatal(err)
	}
	w.limit = 60 // about five records in a message
	return &term{history: h, w: w, claimed: len(h.stream)}
}

// step publishes something.
func (l *term) step() {
	switch what := rapid.SampledFrom([]string{"batch", "batch", "batch", "snapshot", "part", "part", "resend",
		"nothing new"}).Draw(l.t, "step"); {
	case what == "snapshot" && l.parts == nil:
		l.names++
		first, rest := l.w.Snapshot(l.now(), fmt.Sprintf("s%d", l.names), slices.Values(slices.Clone(l.state())))
		l.parts = slices.Collect(rest)
		l.begun = l.publish(first, nil)
	case what == "part" && l.parts != nil:
		l.publish(l.parts[0], nil)
		if l.parts = l.parts[1:]; len(l.parts) > 0 {
			return
		}
		l.parts = nil
		if l.void {
			return
		}
		l.complete = append(l.complete, l.begun)
		if rapid.Bool().Draw(l.t, "says so") {
			l.w.SnapshotAt(l.begun)
		}
	case what == "resend" && !l.void:
		n := rapid.IntRange(0, min(3, len(l.stream)-l.claimed)).Draw(l.t, "last")
		for _, e := range slices.Clone(l.stream[len(l.stream)-n:]) {
			l.publish(e.body, nil)
		}
	case what == "nothing new":
		l.batch(0)
	default:
		l.batch(rapid.IntRange(1, 12).Draw(l.t, "records"))
	}
}

// state is what this leader has folded: all that it wrote and read.
func (l *term) state() []coordinator.Record { return l.truth[:min(uint64(len(l.truth)), l.w.Next()-1)] }

func (l *term) batch(n int) {
	var records []coordinator.Record
	for i := range n {
		records = append(records, &coordinator.Tracked{
			Agent: coordinator.AgentID(fmt.Sprintf("e%d-%d", l.w.epoch, l.w.Next()+uint64(i)))})
	}
	l.w.Results(int64(len(l.stream)))
	for _, body := range l.w.Batch(l.now(), records) {
		m, err := Decode(body)
		if err != nil {
			l.t.Fatal(err)
		}
		l.publish(body, m.Records)
		if !l.void {
			l.truth = append(l.truth, m.Records...)
		}
	}
}

// write makes a journal of several terms.
func write(t *rapid.T, zombies bool) *history {
	h := &history{t: t}
	var before, leader *term
	for range rapid.IntRange(1, 4).Draw(t, "terms") {
		before = leader
		leader = h.succeed(before)
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			if zombies && before != nil && rapid.IntRange(0, 4).Draw(t, "who") == 0 {
				before.step() // does not know yet
			} else {
				leader.step()
			}
		}
	}
	return h
}

func describe(records []coordinator.Record) string {
	var b strings.Builder
	for _, r := range records {
		b.WriteString(string(r.(*coordinator.Tracked).Agent) + " ")
	}
	return b.String()
}

// Wherever reading begins that it may begin, the same state is folded.
func TestReaderFoldsTheSameFromEveryStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := write(t, true)
		newest := int64(-1)
		starts := []int{0, h.start()}
		for _, offset := range h.complete {
			starts = append(starts, h.index(offset))
			newest = max(newest, offset)
		}
		for _, i := range starts {
			r, folded, err := h.read(i)
			if err != nil {
				t.Fatalf("from message %d: %v", i, err)
			}
			if got, want := describe(folded), describe(h.truth); got != want {
				t.Fatalf("from message %d folded %s\nwant %s", i, got, want)
			}
			if r.Next() != uint64(len(h.truth)+1) {
				t.Fatalf("from message %d: next %d after %d records", i, r.Next(), len(h.truth))
			}
			if r.SnapshotOffset() < newest {
				t.Fatalf("from message %d: the newest complete snapshot begins at %d, want %d", i, r.SnapshotOffset(), newest)
			}
			if r.SnapshotOffset() < 0 {
				continue
			}
			if _, again, err := h.read(h.index(r.SnapshotOffset())); err != nil || describe(again) != describe(h.truth) {
				t.Fatalf("from the snapshot that was found at %d: %v, folded %s\nwant %s", r.SnapshotOffset(), err, describe(again),
					describe(h.truth))
			}
		}
	})
}

// A journal whose beginning is gone, wherever it was cut off, is refused, unless what
// is left holds a complete state: a wrong state is never folded without an error.
func TestReaderNeverFoldsPartOfTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := write(t, false)
		for i := len(h.stream) - 1; i >= 0; i-- {
			if head, _ := DecodeHeader(h.stream[i].body); i > 0 && head.Kind == KindEpoch && head.First == 1 {
				break
			}
			_, folded, err := h.read(i)
			var missing *GapError
			switch {
			case err != nil && !errors.As(err, &missing):
				t.Fatalf("cut off before message %d: %v", i, err)
			case err == nil && describe(folded) != describe(h.truth):
				t.Fatalf("cut off before message %d, folded %s\nwant an error or %s", i, describe(folded), describe(h.truth))
			}
		}
	})
}

// A damaged message stops reading, at its offset; with SkipCorrupt nothing is missing
// but what it said.
func TestReaderSkipsCorruptMessagesOnRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := write(t, false)
		begin := rapid.SampledFrom([]int{0, h.start()}).Draw(t, "start")
		bad := rapid.IntRange(begin, len(h.stream)-1).Draw(t, "damaged")
		e := &h.stream[bad]
		whole, err := Decode(e.body)
		if err != nil {
			t.Fatal(err)
		}
		e.body = slices.Clone(e.body)
		e.body[rapid.IntRange(0, len(e.body)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")

		_, _, err = h.read(begin)
		var damaged *CorruptError
		if !errors.As(err, &damaged) || damaged.Offset != e.offset {
			t.Fatalf("error %v, want one of damage at offset %d", err, e.offset)
		}

		r, told := NewReader(), int64(-1)
		r.SkipCorrupt(func(offset int64, _ error) { told = offset })
		var folded []coordinator.Record
		for _, e := range h.stream[begin:] {
			records, err := r.Take(e.offset, e.body)
			if err != nil {
				t.Fatalf("message %d damaged, reading from %d: %v", bad, begin, err)
			}
			folded = append(folded, records...)
		}
		if told != e.offset {
			t.Fatalf("told of damage at %d, it is at %d", told, e.offset)
		}
		if bad == begin {
			return // whatever it began is gone with it
		}
		lost := map[string]bool{}
		for _, l := range whole.Records {
			lost[describe([]coordinator.Record{l})] = true
		}
		got := describe(folded)
		for _, r := range h.truth {
			if id := describe([]coordinator.Record{r}); !strings.Contains(" "+got, " "+id) && !lost[id] {
				t.Fatalf("%s is missing, and was not in the damaged message %d:\nfolded %s\nwant %s", id, bad, got,
					describe(h.truth))
			}
		}
	})
}

package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

var someLeader = Epoch{Nonce: "nonce-1", Instance: "host-1", Address: "host-1:8551", Version: "1.4.0"}

// claimed is a Reader that has read a claim of someLeader in an empty journal.
func claimed(t *testing.T) *Reader {
	t.Helper()
	r := NewReader()
	if records, err := r.Take(0, Claim(r, t0, someLeader)); err != nil || records != nil {
		t.Fatalf("claim: %v, %v", records, err)
	}
	return r
}

func writer(t *testing.T) *Writer {
	t.Helper()
	w, err := NewWriter(claimed(t))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func decode(t *testing.T, body []byte) *Message {
	t.Helper()
	m, err := Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tracked are n small records, of 3 bytes each and a string of 6 + 2.
func tracked(from, n int) []coordinator.Record {
	var records []coordinator.Record
	for i := range n {
		records = append(records, &coordinator.Tracked{Agent: coordinator.AgentID(fmt.Sprintf("a%05d", from+i))})
	}
	return records
}

func TestFirstLeader(t *testing.T) {
	r := claimed(t)
	leader, since := r.Leader()
	if r.Epoch() != 1 || leader != someLeader || !since.Equal(t0) || r.Next() != 1 || r.ResultOffset() != -1 ||
		r.SnapshotOffset() != -1 {
		t.Errorf("epoch %d, leader %+v since %v, next %d, offsets %d %d", r.Epoch(), leader, since, r.Next(),
			r.ResultOffset(), r.SnapshotOffset())
	}
}

// 60 bytes hold five records of 3 + 8 bytes: 12 records make messages of 5, 5 and 2.
func TestBatchIsCut(t *testing.T) {
	w := writer(t)
	w.limit = 60
	w.Results(77)
	w.SnapshotAt(33)
	var counts []int
	next, all := uint64(1), []coordinator.Record(nil)
	for _, body := range w.Batch(t0.Add(time.Second), tracked(0, 12)) {
		m := decode(t, body)
		if m.Kind != KindBatch || m.Epoch != nil || m.Header.Epoch != 1 || m.First != next || m.ResultOffset != 77 ||
			m.SnapshotOffset != 33 || !m.At.Equal(t0.Add(time.Second)) {
			t.Errorf("header %+v", m.Header)
		}
		counts, next, all = append(counts, m.Count), next+uint64(m.Count), append(all, m.Records...)
	}
	if !slices.Equal(counts, []int{5, 5, 2}) || describe(all) != describe(tracked(0, 12)) || w.Next() != 13 {
		t.Errorf("messages of %v records, %s, next %d", counts, describe(all), w.Next())
	}
}

// A record that is larger than a message may be makes one of its own.
func TestBatchWithAGiant(t *testing.T) {
	w := writer(t)
	giant := &coordinator.Tracked{Agent: coordinator.AgentID(strings.Repeat("g", MaxMessage+1))}
	var counts []int
	for _, body := range w.Batch(t0, slices.Concat(tracked(0, 2), []coordinator.Record{giant}, tracked(2, 1))) {
		counts = append(counts, decode(t, body).Count)
	}
	if !slices.Equal(counts, []int{2, 1, 1}) {
		t.Errorf("messages of %v records", counts)
	}
}

// Without records a batch tells where reading must go on.
func TestBatchWithoutRecords(t *testing.T) {
	w, r := writer(t), claimed(t)
	w.Results(500)
	bodies := w.Batch(t0, nil)
	if len(bodies) != 1 {
		t.Fatalf("%d messages", len(bodies))
	}
	if records, err := r.Take(1, bodies[0]); err != nil || records != nil || r.ResultOffset() != 500 || r.Next() != 1 {
		t.Errorf("%v, %v, result offset %d, next %d", records, err, r.ResultOffset(), r.Next())
	}
}

// A snapshot is the state as of when it was asked for, whatever is written until its
// parts are made; a reader that begins with it knows the leader.
func TestSnapshotBesideBatches(t *testing.T) {
	w := writer(t)
	w.limit = 60
	w.Results(10)
	w.Batch(t0, tracked(1, 3)) // before the snapshot: records 1 to 3 are part of it
	first, rest := w.Snapshot(t0.Add(time.Minute), "s1", slices.Values(tracked(1, 3)))
	w.Results(20)
	after := w.Batch(t0.Add(2*time.Minute), tracked(4, 1))[0]
	parts := slices.Collect(rest)

	m := decode(t, parts[len(parts)-1])
	if m.First != 4 || m.ResultOffset != 10 || !m.Chunk.Last || m.Chunk.Number != len(parts) ||
		m.Chunk.Leader != someLeader {
		t.Errorf("last part %+v %+v", m.Header, m.Chunk)
	}
	r := NewReader()
	var folded []coordinator.Record
	for i, body := range slices.Concat([][]byte{first, after}, parts) {
		records, err := r.Take(int64(100+i), body)
		if err != nil {
			t.Fatal(err)
		}
		folded = append(folded, records...)
		if i == 0 && r.ResultOffset() != 10 {
			t.Errorf("with the snapshot reading results goes on at %d, want 10", r.ResultOffset())
		}
	}
	if describe(folded) != "a00001 a00002 a00003 a00004 " {
		t.Errorf("folded %s", describe(folded))
	}
	leader, since := r.Leader()
	if r.Next() != 5 || r.SnapshotOffset() != 100 || r.ResultOffset() != 20 || leader != someLeader || !since.Equal(t0) {
		t.Errorf("next %d, snapshot %d, results %d, leader %+v since %v", r.Next(), r.SnapshotOffset(), r.ResultOffset(),
			leader, since)
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	first, rest := writer(t).Snapshot(t0, "s1", slices.Values([]coordinator.Record(nil)))
	r := NewReader()
	for i, body := range append([][]byte{first}, slices.Collect(rest)...) {
		if records, err := r.Take(int64(i), body); err != nil || records != nil {
			t.Fatalf("%v, %v", records, err)
		}
	}
	if r.Check() != nil || r.SnapshotOffset() != 0 {
		t.Errorf("%v, snapshot at %d", r.Check(), r.SnapshotOffset())
	}
}

// Leading needs a state to lead from.
func TestWriterNeedsAState(t *testing.T) {
	w := writer(t)
	w.Batch(t0, tracked(0, 3))
	first, _ := w.Snapshot(t0, "s1", slices.Values(tracked(0, 3)))
	late := claimed(t)
	late.next = 4
	for name, bodies := range map[string][][]byte{
		"claim of record 4 alone":  {Claim(late, t0, someLeader)},
		"snapshot without its end": {first},
		"the end of a snapshot alone": {AppendSnapshot(nil, Header{Epoch: 1, First: 4},
			Chunk{Snapshot: "s1", Number: 3, Last: true}, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader()
			for i, body := range bodies {
				if _, err := r.Take(int64(i), body); err != nil {
					t.Fatal(err)
				}
			}
			var missing *GapError
			if _, err := NewWriter(r); !errors.As(err, &missing) {
				t.Errorf("error %v, want a GapError", err)
			}
		})
	}
}

// A batch's table of strings is its own: a message says nothing that another has not.
func TestMessagesStandAlone(t *testing.T) {
	w := writer(t)
	for range 3 {
		if m := decode(t, w.Batch(t0, tracked(7, 1))[0]); describe(m.Records) != "a00007 " {
			t.Errorf("read %s", describe(m.Records))
		}
	}
	var c coder
	for range 3 {
		c.begin(t0) // more strings than are kept in mind
		for i := range 2400 {
			c.record(tracked(i%1200, 1)[0])
		}
		m := decode(t, c.appendMessage(nil, Header{Kind: KindBatch, Count: 2400, At: t0}, nil))
		if describe(m.Records) != strings.Repeat(describe(tracked(0, 1200)), 2) {
			t.Fatal("not read as written")
		}
	}
}

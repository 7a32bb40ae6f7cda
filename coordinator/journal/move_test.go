package journal

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// moved gives an export, from message i of a journal on, to a Mover, and what comes of it with offsets from 0.
func (h *history) moved(i int, results bool) (*Mover, []entry) {
	m := NewMover(results)
	var stream []entry
	add := func(body []byte) { stream = append(stream, entry{offset: int64(len(stream)), body: body}) }
	for _, e := range h.stream[i:] {
		moved, err := m.Take(Exported{Offset: e.offset, Body: e.body})
		if err != nil {
			h.t.Fatalf("the message at offset %d: %v", e.offset, err)
		}
		for _, body := range moved {
			add(body)
		}
	}
	end, err := m.End(h.now(), "end", "1")
	if err != nil {
		h.t.Fatal(err)
	}
	add(end)
	return m, stream
}

// What is moved is folded as what was exported, wherever its reading begins that it may begin, and says where
// snapshots and results are now.
func TestMovedJournalFoldsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := write(t, true)
		from := rapid.SampledFrom([]int{0, h.start()}).Draw(t, "export from")
		before, _, err := h.read(from)
		if err != nil {
			t.Fatal(err)
		}
		results := rapid.Bool().Draw(t, "results stay")
		m, stream := h.moved(from, results)
		there := &history{t: t, stream: stream}
		for _, i := range []int{0, there.start()} {
			r, folded, err := there.read(i)
			if err != nil {
				t.Fatalf("from message %d: %v", i, err)
			}
			if describe(folded) != describe(h.truth) || r.Next() != before.Next() || r.Epoch() != before.Epoch()+1 {
				t.Fatalf("from message %d: folded %s, next %d, epoch %d\nwant %s, next %d, epoch %d", i, describe(folded), r.Next(),
					r.Epoch(), describe(h.truth), before.Next(), before.Epoch()+1)
			}
			if leader, _ := r.Leader(); leader.Instance != Imported {
				t.Errorf("the last leader is %+v", leader)
			}
			if want := map[bool]int64{true: before.ResultOffset(), false: -1}[results]; r.ResultOffset() != want {
				t.Errorf("from message %d: results at %d, want %d", i, r.ResultOffset(), want)
			}
		}
		for _, e := range h.stream[from:] {
			now, ok := m.Offset(e.offset)
			if !ok {
				t.Fatalf("nothing is at offset %d any more", e.offset)
			}
			was, _ := DecodeHeader(e.body)
			is, err := DecodeHeader(stream[now].body)
			if err != nil || was.Kind != is.Kind || was.First != is.First || was.Epoch != is.Epoch || !was.At.Equal(is.At) {
				t.Fatalf("offset %d has become %d: %+v, %v; was %+v", e.offset, now, is, err, was)
			}
		}
	})
}

// A record in pieces, and a snapshot in pieces, say afterwards where the snapshot begins now.
func TestMovedPieces(t *testing.T) {
	w := writer(t)
	large := quotaOfMany()
	first, rest := w.Snapshot(t0, "s1", slices.Values([]coordinator.Record{large}))
	parts := slices.Collect(rest)
	stream := append([][]byte{first}, parts...)
	w.SnapshotAt(100)
	stream = append(stream, w.Batch(t0, []coordinator.Record{large})...)
	m := NewMover(false)
	r, at, folded := NewReader(), int64(0), 0
	for i, body := range stream {
		moved, err := m.Take(Exported{Offset: int64(100 + i), Body: body})
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range moved {
			records, err := r.Take(at, body)
			if err != nil {
				t.Fatal(err)
			}
			if at++; len(body) > MaxPiece+2*spaceForHeader {
				t.Errorf("a message of %d bytes", len(body))
			}
			folded += len(records)
		}
	}
	if folded != 2 || r.SnapshotOffset() != 0 || at != int64(len(stream)) || m.Next() != at {
		t.Errorf("%d records, snapshot at %d, %d messages of %d", folded, r.SnapshotOffset(), at, len(stream))
	}
	if now, ok := m.Offset(101); !ok || now != 1 { // the first piece of a part
		t.Errorf("offset 101 is at %d, %t", now, ok)
	}
}

// What no coordinator could go on from is refused.
func TestMoveRefuses(t *testing.T) {
	w := writer(t)
	batch := w.Batch(t0, tracked(0, 3))[0]
	later := w.Batch(t0, tracked(3, 1))[0]
	spoilt := slices.Clone(batch)
	spoilt[len(spoilt)-1]++
	var damaged *CorruptError
	if _, err := NewMover(true).Take(Exported{Offset: 7, Body: spoilt}); !errors.As(err, &damaged) || damaged.Offset != 7 {
		t.Errorf("a damaged message: %v", err)
	}
	m := NewMover(true)
	var missing *GapError
	if _, err := m.Take(Exported{Offset: 8, Body: later}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.End(t0, "end", "1"); !errors.As(err, &missing) {
		t.Errorf("without its beginning: %v", err)
	}
	if _, err := NewMover(true).End(t0, "end", "1"); err == nil {
		t.Error("an export without a message is moved")
	}
}

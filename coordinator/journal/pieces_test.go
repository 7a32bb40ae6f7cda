package journal

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// quotaOfMany is a record of about 12 MB.
func quotaOfMany() *coordinator.QuotaReserved {
	r := &coordinator.QuotaReserved{Key: coordinator.TaskKey{1, 2}, Group: "g", At: t0}
	for i := range 40 {
		from := coordinator.QuotaLoan{From: strings.Repeat("x", 300_000) + string(rune('a'+i)), To: "g", Amount: 1}
		r.Loans = append(r.Loans, from)
	}
	return r
}

// TestLargeRecordGoesInPieces: a record that is larger than what a broker takes goes to the journal in
// messages that are not, and its readers have the record, also in a snapshot and beside one.
func TestLargeRecordGoesInPieces(t *testing.T) {
	w, r := writer(t), claimed(t)
	w.Results(77)
	large := quotaOfMany()
	want := describeAny(large)
	batch := w.Batch(t0, slices.Concat(tracked(0, 1), []coordinator.Record{large}, tracked(1, 1)))
	first, rest := w.Snapshot(t0, "s1", slices.Values([]coordinator.Record{large}))
	parts := slices.Collect(rest)
	if len(batch) < 12 || len(parts) < 12 {
		t.Fatalf("%d and %d messages for 12 MB each", len(batch), len(parts))
	}
	stream := append(slices.Clone(batch[:3]), first)
	for i := range max(len(batch)-3, len(parts)) { // the snapshot's pieces between those of the batch
		if i+3 < len(batch) {
			stream = append(stream, batch[i+3])
		}
		if i < len(parts) {
			stream = append(stream, parts[i])
		}
	}
	var folded []coordinator.Record
	for i, body := range stream {
		if len(body) > MaxPiece+2*spaceForHeader {
			t.Errorf("message %d has %d bytes", i, len(body))
		}
		if h, err := DecodeHeader(body); err != nil || h.Epoch != 1 || h.ResultOffset != 77 {
			t.Fatalf("header %+v, %v", h, err)
		}
		records, err := r.Take(int64(1+i), body)
		if err != nil {
			t.Fatal(err)
		}
		folded = append(folded, records...)
	}
	if len(folded) != 3 || describeAny(folded[1]) != want || r.Next() != 4 || r.Within() || r.SnapshotOffset() != 4 {
		t.Errorf("%d records, next %d, within %t, snapshot at %d", len(folded), r.Next(), r.Within(), r.SnapshotOffset())
	}
	if twice, err := r.Take(99, batch[len(batch)-1]); err != nil || twice != nil {
		t.Errorf("what came twice: %v, %v", twice, err)
	}

	fresh := NewReader() // from the snapshot on
	for i, body := range stream[3:] {
		records, err := fresh.Take(int64(4+i), body)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if describeAny(rec) != want && describe([]coordinator.Record{rec}) != "a00001 " {
				t.Errorf("from the snapshot on: %T", rec)
			}
		}
	}
	if fresh.Check() != nil || fresh.Next() != 4 {
		t.Errorf("from the snapshot on: %v, next %d", fresh.Check(), fresh.Next())
	}
}

func describeAny(r coordinator.Record) string {
	return string(AppendBatch(nil, Header{At: t0}, []coordinator.Record{r}))
}

// TestUnfinishedPiecesAreVoid: what a leader did not finish is dropped when another leads, whose records
// have the same numbers.
func TestUnfinishedPiecesAreVoid(t *testing.T) {
	w, r := writer(t), claimed(t)
	w.piece = 100
	torn := w.Batch(t0, []coordinator.Record{&coordinator.Tracked{Agent: coordinator.AgentID(strings.Repeat("g", 1000))}})
	for i, body := range torn[:len(torn)-1] {
		if records, err := r.Take(int64(1+i), body); err != nil || records != nil {
			t.Fatalf("%v, %v", records, err)
		}
	}
	if !r.Within() || r.Next() != 1 {
		t.Errorf("within %t, next %d", r.Within(), r.Next())
	}
	other := someLeader
	other.Nonce = "nonce-2"
	if _, err := r.Take(50, Claim(r, t0, other)); err != nil {
		t.Fatal(err)
	}
	records, err := r.Take(51, torn[len(torn)-1]) // late
	if err != nil || records != nil || r.Within() {
		t.Errorf("%v, %v, within %t", records, err, r.Within())
	}
	next, err := NewWriter(r)
	if err != nil {
		t.Fatal(err)
	}
	records, err = r.Take(52, next.Batch(t0, tracked(7, 1))[0])
	if err != nil || describe(records) != "a00007 " || r.Next() != 2 {
		t.Errorf("%v, %v, next %d", records, err, r.Next())
	}
}

// TestDamagedPiece: without one of its pieces a message is missing, and its records are a hole.
func TestDamagedPiece(t *testing.T) {
	w := writer(t)
	w.piece = 100
	bodies := w.Batch(t0, []coordinator.Record{
		&coordinator.Tracked{Agent: coordinator.AgentID(strings.Repeat("g", 1000))}})
	after := w.Batch(t0.Add(time.Second), tracked(7, 1))[0]
	damage := slices.Clone(bodies)
	damage[3] = bytes.Clone(damage[3])
	damage[3][len(damage[3])-1] ^= 1

	r := claimed(t)
	var err error
	for i, body := range damage[:4] {
		_, err = r.Take(int64(1+i), body)
	}
	var damaged *CorruptError
	if !errors.As(err, &damaged) || damaged.Offset != 4 {
		t.Errorf("error %v", err)
	}

	r = claimed(t)
	told := 0
	r.SkipCorrupt(func(int64, error) { told++ })
	var folded []coordinator.Record
	for i, body := range append(damage, after) {
		records, err := r.Take(int64(1+i), body)
		if err != nil {
			t.Fatal(err)
		}
		folded = append(folded, records...)
	}
	if told != 1 || describe(folded) != "a00007 " {
		t.Errorf("told %d, folded %v", told, folded)
	}

	r = claimed(t) // one is missing
	for i, body := range slices.Delete(slices.Clone(bodies), 2, 3) {
		if records, err := r.Take(int64(1+i), body); err != nil || records != nil {
			t.Errorf("%v, %v", records, err)
		}
	}
	var hole *GapError
	if _, err := r.Take(99, after); !errors.As(err, &hole) {
		t.Errorf("error %v, want the hole", err)
	}
}

// TestPiecesThatCannotBe are refused, whatever they say of themselves.
func TestPiecesThatCannotBe(t *testing.T) {
	whole := AppendBatch(nil, Header{Epoch: 1, First: 1, At: t0}, tracked(0, 20))
	for name, change := range map[string]func(p *Piece, bytes *[]byte){
		"more bytes than the whole has": func(p *Piece, _ *[]byte) { p.Size = 10 },
		"no bytes":                      func(_ *Piece, b *[]byte) { *b = nil },
		"before the beginning":          func(p *Piece, _ *[]byte) { p.From = -1 },
		"another's checksum":            func(p *Piece, _ *[]byte) { p.Sum++ },
		"a piece of a piece":            func(p *Piece, _ *[]byte) { p.Of = KindPiece },
	} {
		t.Run(name, func(t *testing.T) {
			p, bytes := Piece{Of: KindBatch, Size: len(whole), Sum: sumOf(whole)}, whole
			change(&p, &bytes)
			var c coder
			c.begin(t0)
			c.out = bytes
			body := c.appendMessage(nil, Header{Kind: KindPiece, Epoch: 1, First: 1, At: t0}, &p)
			var j Joiner
			var damaged *CorruptError
			if joined, err := j.Take(body); !errors.As(err, &damaged) || joined != nil || j.Open() {
				t.Errorf("%d bytes, %v, open %t", len(joined), err, j.Open())
			}
		})
	}
}

// FuzzJoiner: whatever comes, nothing panics.
func FuzzJoiner(f *testing.F) {
	for body := range pieces(AppendBatch(nil, Header{Epoch: 1, First: 1, At: t0}, tracked(0, 20)), 60) {
		f.Add(body[versionAt:])
	}
	f.Fuzz(func(_ *testing.T, rest []byte) {
		var j Joiner
		_, _ = j.Take(seal(rest))
		_, _ = j.Take(seal(rest))
	})
}

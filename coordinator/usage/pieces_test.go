package usage

import (
	"slices"
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// TestPiecesAreOneMessage: a reservation that came in pieces counts; nothing is stored between them, and a
// reader that goes on from what was stored reads all of them again.
func TestPiecesAreOneMessage(t *testing.T) {
	b := newBook()
	large := reserved(1, noon, "alpha", "a1")
	for range 10 {
		large.Loans = append(large.Loans,
			coordinator.QuotaLoan{From: strings.Repeat("x", 300_000) + string(rune('a'+len(large.Loans))), To: "alpha",
				Amount: 1})
	}
	b.write(reserved(2, noon, "beta", "a2"))
	b.write(large)
	whole := b.messages[len(b.messages)-1]
	first := len(b.messages) - 1
	b.messages = append(b.messages[:first], slices.Collect(journal.Pieces(whole))...)
	if n := len(b.messages) - first; n < 3 {
		t.Fatalf("%d pieces", n)
	}
	last := len(b.messages) - 1
	b.write(settled(2, noon, 1, 1))

	p := New(State{Mark: NoMark()}, nil)
	for i := range b.messages {
		take(t, p, b.messages[:i+1], i)
		if between := i >= first && i < last; p.Whole() == between {
			t.Errorf("after message %d (pieces are %d to %d): whole is %t", i, first, last, p.Whole())
		}
	}
	batch, ok := p.Batch()
	if !ok || len(batch.Gaps) > 0 || batch.To.Again.Offset != int64(first) {
		t.Fatalf("batch %t, gaps %+v, to be read again from %d, want %d", ok, batch.Gaps, batch.To.Again.Offset, first)
	}

	p = New(State{Mark: batch.To}, nil)
	b.write(settled(1, noon, 100, 10))
	take(t, p, b.messages, first)
	rest, ok := p.Batch()
	if !ok || len(rest.Gaps) > 0 || len(rest.Rows) != 1 || rest.Rows[0].Key.Group != "alpha" ||
		rest.Rows[0].Key.Agent != "a1" {
		t.Errorf("batch %t, gaps %+v, rows %+v", ok, rest.Gaps, rest.Rows)
	}
}

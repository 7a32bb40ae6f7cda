package usage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

func TestBegunAfter(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	m := Mark{Offset: 7, At: at}
	claim := func(epoch, first uint64, at time.Time) []byte {
		return journal.AppendEpoch(nil, journal.Header{Epoch: epoch, First: first, At: at, ResultOffset: -1,
			SnapshotOffset: -1}, journal.Epoch{Nonce: "n"})
	}
	for _, c := range []struct {
		name string
		body []byte
		want bool
	}{
		{"begun a second later", claim(1, 1, at.Add(time.Second)), true},
		{"begun before, by that clock", claim(1, 1, at), false},
		{"not the first leader", claim(2, 1, at.Add(time.Hour)), false},
		{"what came before is gone", claim(1, 9, at.Add(time.Hour)), false},
		{"no claim", journal.AppendBatch(nil, journal.Header{Epoch: 1, First: 1, At: at.Add(time.Hour)}, nil), false},
		{"damaged", []byte("TBJ"), false},
	} {
		if got := m.BegunAfter(c.body); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// importable is a journal of a batch an hour from noon on, with an import behind some of them.
func importable(hours int, importedBehind ...int) (bodies [][]byte) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r := journal.NewReader()
	take := func(body []byte) {
		if _, err := r.Take(int64(len(bodies)), body); err != nil {
			panic(err)
		}
		bodies = append(bodies, body)
	}
	take(journal.Claim(r, noon, journal.Epoch{Nonce: "n"}))
	for h := 1; h <= hours; h++ {
		header := journal.Header{Epoch: r.Epoch(), First: r.Next(), At: noon.Add(time.Duration(h) * time.Hour),
			ResultOffset: -1, SnapshotOffset: -1}
		take(journal.AppendBatch(nil, header,
			[]coordinator.Record{&coordinator.QuotaEnded{Key: coordinator.TaskKey{uint64(h)}, At: header.At}}))
		if slices.Contains(importedBehind, h) {
			take(journal.Claim(r, header.At.Add(time.Minute), journal.Epoch{Nonce: fmt.Sprint(h), Instance: journal.Imported}))
		}
	}
	return bodies
}

// TestOnward: rows go on in another journal where it begins after them, or behind the latest import of what they have.
func TestOnward(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		bodies  [][]byte
		upTo    time.Duration // of the rows, since noon
		want    int64         // offset; -1: it is another journal's
		records uint64
	}{
		"begun after them":                       {importable(3), -time.Minute, 0, 1},
		"begun before them":                      {importable(3), 90 * time.Minute, -1, 0},
		"begun before them, and all older":       {importable(3), 9 * time.Hour, -1, 0},
		"imported, and no more yet":              {importable(3, 3), 9 * time.Hour, 4, 4},
		"imported, and work went on":             {importable(5, 3), 210 * time.Minute, 4, 4},
		"imported twice, the latter is behind":   {importable(5, 2, 4), 270 * time.Minute, 6, 5},
		"imported twice, the latter has more":    {importable(5, 2, 4), 150 * time.Minute, 3, 3},
		"imported with what the rows have not":   {importable(5, 3), 150 * time.Minute, -1, 0},
		"imported, and the rows have more":       {importable(5, 3), 270 * time.Minute, -1, 0},
		"imported twice, and the rows have some": {importable(5, 2, 4), 210 * time.Minute, -1, 0},
		"imported what was written by then only": {importable(5, 3), 3 * time.Hour, 4, 4},
	} {
		o, more, err := NewOnward(Mark{Offset: 70, Epoch: 1, Next: 70, At: noon.Add(c.upTo)}), true, error(nil)
		for i := 0; i < len(c.bodies) && more && err == nil; i++ {
			more, err = o.Take(int64(i), c.bodies[i])
		}
		if c.want < 0 {
			if o.Found() && err == nil {
				t.Errorf("%s: they go on at %+v", name, o.To)
			}
			continue
		}
		if err != nil || !o.Found() || o.To.Offset != c.want || o.To.Next != c.records ||
			o.To.Check != checkOf(c.bodies[c.want]) ||
			o.To.Again.Offset != c.want+1 || o.To.BegunAfter(c.bodies[0]) {
			t.Errorf("%s: they go on at %+v, %v", name, o.To, err)
		}
	}
}

// TestMarkIsNotBeforeTheClaim: the clock of the first leader was ahead of the next one's; their journal is not taken
// for one that was begun after the rows.
func TestMarkIsNotBeforeTheClaim(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r := journal.NewReader()
	first := journal.Claim(r, at, journal.Epoch{Nonce: "n"})
	p := New(State{Mark: NoMark()}, nil)
	for i, body := range [][]byte{first,
		journal.AppendBatch(nil, journal.Header{Epoch: 1, First: 1, At: at.Add(-time.Hour), ResultOffset: -1,
			SnapshotOffset: -1}, nil)} {
		if err := p.Take(int64(i), body); err != nil {
			t.Fatal(err)
		}
	}
	if m := p.Mark(); m.Offset != 1 || m.BegunAfter(first) {
		t.Errorf("the mark is %+v", m)
	}
}

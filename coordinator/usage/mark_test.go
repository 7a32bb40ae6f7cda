package usage

import (
	"testing"
	"time"

	"taskbus/coordinator/journal"
)

func TestBegunAfter(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	m := Mark{Offset: 7, At: at}
	claim := func(epoch, first uint64, at time.Time) []byte {
		return journal.AppendEpoch(nil, journal.Header{Epoch: epoch, First: first, At: at, ResultOffset: -1, SnapshotOffset: -1}, journal.Epoch{Nonce: "n"})
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

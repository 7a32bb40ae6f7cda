package replay

import (
	"errors"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// TestInputsBeforeTheSnapshotIsWhole: the snapshot that a recording begins with is written beside what
// follows it. One that has no end is no beginning.
func TestInputsBeforeTheSnapshotIsWhole(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := journal.Header{Epoch: 1, First: 1, At: at, ResultOffset: -1, SnapshotOffset: -1}
	inputs := journal.AppendInputs(nil, h, journal.Recorded{Snapshot: "s1", Inputs: []journal.Input{
		{At: at, Event: coordinator.PolicyChanged{Policy: &coordinator.Policy{Version: "v"}}},
	}})
	first := journal.AppendSnapshot(nil, h, journal.Chunk{Snapshot: "s1"}, nil)
	last := journal.AppendSnapshot(nil, h, journal.Chunk{Snapshot: "s1", Number: 1, Last: true}, nil)

	var c Collector
	for i, body := range [][]byte{first, inputs} {
		if err := c.Take(int64(i), body); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := c.Recordings(); err == nil || errors.Is(err, ErrNothingRecorded) {
		t.Errorf("without the end of the snapshot: %d recordings, %v", len(found), err)
	}
	if err := c.Take(2, last); err != nil {
		t.Fatal(err)
	}
	if found, err := c.Recordings(); err != nil || len(found) != 1 || len(found[0].begins.parts) != 2 {
		t.Errorf("%d recordings, %v", len(found), err)
	}
}

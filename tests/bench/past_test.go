package main

import (
	"testing"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
)

// writtenPast is a past of n tasks as messages, with the place of its snapshot.
func writtenPast(t *testing.T, n int) (p *past, messages [][]byte, snapshot int) {
	t.Helper()
	p, claim, err := newPast(startFleet(), n, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	messages = append(messages, claim)
	publish := func(body []byte) error { messages = append(messages, body); return nil }
	err = p.write(publish, func(body []byte) (int64, error) {
		snapshot = len(messages)
		return int64(snapshot), publish(body)
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, messages, snapshot
}

// Whoever starts from the journal that we make must know what the leader knew that
// never was: all of its tasks, by the snapshot and without it.
func TestPastIsWhatALeaderWouldHaveWritten(t *testing.T) {
	const n = tailRecords/4 + 500 // so that a snapshot of 500 tasks lies before the tail
	p, messages, snapshot := writtenPast(t, n)
	const want = 4*n + fleetSize // assigned, settled, learnt, remembered; and each agent tracked
	if p.counted != want {
		t.Errorf("%d records of %d tasks, want %d", p.counted, n, want)
	}
	last, err := journal.DecodeHeader(messages[len(messages)-1])
	if err != nil || last.SnapshotOffset != int64(snapshot) {
		t.Errorf("the last message has %+v (%v), want the snapshot at %d", last, err, snapshot)
	}
	if h, err := journal.DecodeHeader(disowning(want, p.now)); err != nil || journal.Start(h) != bus.First() {
		t.Errorf("after a claim that knows of no snapshot a start reads from %+v (%v), want the first record", journal.Start(h), err)
	}
	for _, c := range []struct {
		name  string
		from  int
		least int // records to be folded
	}{
		{"from the snapshot", snapshot, 500 + tailRecords},
		{"from the first record", 0, want},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, reader, folded := engine.New(), journal.NewReader(), 0
			e.Follow()
			e.Apply(p.now, coordinator.PolicyChanged{Policy: policyOf(t, startFleet())}, nil)
			for i, body := range messages[c.from:] {
				records, err := reader.Take(int64(c.from+i), body)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range records {
					e.Fold(reader.LastAt(), r)
				}
				folded += len(records)
			}
			if err := reader.Check(); err != nil || reader.Next() != want+1 {
				t.Errorf("the next record would be number %d (%v), want %d", reader.Next(), err, want+1)
			}
			if folded < c.least {
				t.Errorf("%d records were folded, want at least %d", folded, c.least)
			}
			known := 0
			for r := range e.Image(p.now).Records {
				if m, ok := r.(*coordinator.Remembered); ok && m.Fate == coordinator.FateSucceeded {
					known++
				}
			}
			if known != n {
				t.Errorf("%d tasks are remembered, want %d", known, n)
			}
		})
	}
}

func policyOf(t *testing.T, fleet []byte) *coordinator.Policy {
	t.Helper()
	c, err := config.Parse(fleet, "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c.Policy()
}

package journal

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/hash"
)

var benchAt = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// typicalTask is one as producers send them: a trace of its own, a capability, a
// trace context.
func typicalTask(i int) *coordinator.Task {
	return &coordinator.Task{
		ID: coordinator.TaskID(fmt.Sprintf("order-2026-03-01-%08d", i)), Type: "summarise",
		Priority: coordinator.PriorityNormal,
		Carried:  coordinator.Carried{CorrelationID: fmt.Sprintf("b7ad6b71-6920-3331-8448-%012d", i)},
		Timeout:  300 * time.Second,
		Required: []string{"llm", "text"}, Group: "research",
		AcceptedAt:  benchAt.Add(-time.Duration(i%5000) * time.Microsecond),
		ContentHash: hash.Of("content", uint64(i)),
	}
}

func typicalAssigned(i int) *coordinator.Assigned {
	t := typicalTask(i)
	return &coordinator.Assigned{Task: t, Agent: coordinator.AgentID(fmt.Sprintf("agent-%02d", i%40)), Attempt: 1,
		Strategy: "load_balanced", Eligible: 12, Fleet: 40, At: benchAt.Add(-time.Duration(i%900) * time.Microsecond),
		Timeout: 300 * time.Second, Generation: 17, OwnMessage: true}
}

func typicalSettled(i int) *coordinator.Settled {
	return &coordinator.Settled{Key: coordinator.KeyOf(typicalTask(i).ID), Attempt: 1,
		At: benchAt.Add(-time.Duration(i%900) * time.Microsecond)}
}

func typicalRemembered(i int) *coordinator.Remembered {
	return &coordinator.Remembered{Key: coordinator.TaskKey{hash.Mix(uint64(i)),
		hash.Mix(uint64(i) + 1<<40)},
		Content: hash.Mix(uint64(i) + 1<<50), Fate: coordinator.FateSucceeded,
		Seen:  benchAt.Add(-time.Duration(i) * 3600 * time.Microsecond),
		Agent: coordinator.AgentID(fmt.Sprintf("agent-%02d", i%40)), Attempt: 1}
}

func benchmarkRecords(b *testing.B, make func(i int) coordinator.Record) {
	const n = 1000
	var records []coordinator.Record
	for i := range n {
		records = append(records, make(i))
	}
	h := Header{Epoch: 3, First: 1, At: benchAt}
	body := AppendBatch(nil, h, records)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		var c coder
		for range b.N / n {
			c.begin(h.At)
			for _, r := range records {
				c.record(r)
			}
		}
		b.ReportMetric(float64(len(body))/n, "bytes/record")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N / n {
			if _, err := Decode(body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAssigned(b *testing.B) {
	benchmarkRecords(b, func(i int) coordinator.Record { return typicalAssigned(i) })
}

func BenchmarkSettled(b *testing.B) {
	benchmarkRecords(b, func(i int) coordinator.Record { return typicalSettled(i) })
}

func BenchmarkRemembered(b *testing.B) {
	benchmarkRecords(b, func(i int) coordinator.Record { return typicalRemembered(i) })
}

// BenchmarkReadSnapshot reads what a start reads that knows 1,000,000 task ids, in
// messages of MaxMessage bytes: at most 0.4 s.
func BenchmarkReadSnapshot(b *testing.B) {
	const ids = 1_000_000
	r := NewReader()
	if _, err := r.Take(0, Claim(r, benchAt, Epoch{Nonce: "n"})); err != nil {
		b.Fatal(err)
	}
	w, err := NewWriter(r)
	if err != nil {
		b.Fatal(err)
	}
	first, rest := w.Snapshot(benchAt, "s", func(yield func(coordinator.Record) bool) {
		for i := range ids {
			if !yield(typicalRemembered(i)) {
				return
			}
		}
	})
	messages, size := append([][]byte{first}, slices.Collect(rest)...), 0
	for _, body := range messages {
		size += len(body)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, folded := NewReader(), 0
		for i, body := range messages {
			records, err := r.Take(int64(i), body)
			if err != nil {
				b.Fatal(err)
			}
			folded += len(records)
		}
		if folded != ids {
			b.Fatalf("%d records folded", folded)
		}
	}
	b.ReportMetric(float64(size)/1e6, "MB")
	b.ReportMetric(float64(len(messages)), "messages")
}

// BenchmarkBatch makes one message of the records of a few tasks, as a leader does
// thousands of times a second.
func BenchmarkBatch(b *testing.B) {
	w := &Writer{epoch: 3, next: 1, result: 5, snapshot: 6, limit: MaxMessage, piece: MaxPiece}
	records := []coordinator.Record{typicalAssigned(1), typicalSettled(2), typicalRemembered(3), typicalAssigned(4)}
	b.ReportAllocs()
	for b.Loop() {
		w.Batch(benchAt, records)
	}
}

// BenchmarkTake takes such a message, as a standby does.
func BenchmarkTake(b *testing.B) {
	w := &Writer{epoch: 3, next: 1, result: 5, snapshot: 6, limit: MaxMessage, piece: MaxPiece}
	body := w.Batch(benchAt, []coordinator.Record{typicalAssigned(1), typicalSettled(2), typicalRemembered(3),
		typicalAssigned(4)})[0]
	r := NewReader()
	b.ReportAllocs()
	for b.Loop() {
		r.next, r.begun = 1, true
		if _, err := r.Take(1, body); err != nil {
			b.Fatal(err)
		}
	}
}

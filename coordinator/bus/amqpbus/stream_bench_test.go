package amqpbus_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/tests/support/brokertest"
)

// What it takes to read a stream from its beginning, as a coordinator does when it
// starts. cpu-µs/message is our side's alone; the broker shares the machine, which
// bounds the rate. One round reads the whole stream: e.g. -benchtime 5x.
func BenchmarkReadStream(b *testing.B) {
	for _, stream := range []struct {
		name        string
		count, size int
		headers     map[string]any
	}{
		{name: "200 of 256 KiB", count: 200, size: 256 << 10, headers: journalHeaders},
		{name: "40 of 1 MiB", count: 40, size: 1 << 20, headers: journalHeaders},
		{name: "50,000 of 500 B", count: 50_000, size: 500},
		{name: "50,000 of 500 B with headers", count: 50_000, size: 500, headers: journalHeaders},
	} {
		b.Run(stream.name, func(b *testing.B) {
			cfg := config(b, brokertest.Vhost(b).URL)
			fillStream(b, cfg, stream.count, stream.size, stream.headers)
			for _, prefetch := range []int{10, 100, 1000} {
				b.Run(fmt.Sprintf("prefetch %d", prefetch), func(b *testing.B) {
					readStream(b, cfg, stream.count, stream.size, prefetch)
				})
			}
		})
	}
}

// journalHeaders are as many as a message of the journal has.
var journalHeaders = map[string]any{
	"kind": "batch", "version": int64(1), "epoch": int64(12), "first": int64(1_234_567),
	"result_offset": int64(7_654_321), "snapshot_offset": int64(1_000),
}

var benchStream = bus.Topology{Mode: bus.Declare,
	Queues: []bus.Queue{{Name: "s", Kind: bus.Stream, SegmentBytes: 50_000_000}}}

func fillStream(b *testing.B, cfg amqpbus.Config, count, size int, headers map[string]any) {
	ledger := make(chan bus.Outcome, count)
	s, err := amqpbus.New(cfg).Open(b.Context(), bus.SessionSpec{
		Name: "fill", Topology: benchStream, OnSettled: func(_ uint64, o bus.Outcome) { ledger <- o },
	})
	if err != nil {
		b.Fatal(err)
	}
	for i := range count {
		p := relayMessage(i)
		p.Key, p.Body, p.Headers = "s", make([]byte, size), headers
		if err := s.Publish(p); err != nil {
			b.Fatal(err)
		}
	}
	for range count {
		if o := <-ledger; o != bus.Confirmed {
			b.Fatalf("%v, want confirmed", o)
		}
	}
	if err := s.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func readStream(b *testing.B, cfg amqpbus.Config, count, size, prefetch int) {
	s, err := amqpbus.New(cfg).Open(b.Context(), bus.SessionSpec{Name: "read", Topology: benchStream})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	cpu, begun := cpuTime(b), time.Now()
	for range b.N {
		read, done := 0, make(chan struct{})
		err := s.Subscribe(b.Context(), bus.Subscription{Queue: "s", Prefetch: prefetch, From: bus.First(),
			Handle: func(d bus.Delivery) {
				s.Ack(d.Tag)
				if len(d.Body) != size || d.Offset != int64(read) {
					b.Errorf("%d bytes at %d, want %d at %d", len(d.Body), d.Offset, size, read)
				}
				if read++; read == count {
					close(done)
				}
			}})
		if err != nil {
			b.Fatal(err)
		}
		<-done
		if _, err := s.Unsubscribe(b.Context(), "s"); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	n, elapsed := float64(b.N*count), time.Since(begun).Seconds()
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/n, "cpu-µs/message")
	b.ReportMetric(n/elapsed, "messages/s")
	b.ReportMetric(n*float64(size)/elapsed/1e6, "MB/s")
	b.ReportMetric(0, "ns/op")
	if err := s.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

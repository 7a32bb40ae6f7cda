package usage

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// BenchmarkProjection takes messages of 100 records, 50 calls of 100 agents begun and ended, and
// makes a batch of every hundredth: the figures are for one call.
func BenchmarkProjection(b *testing.B) {
	book := newBook()
	for i := range 1000 {
		var records []coordinator.Record
		for j := range 50 {
			n := 50*i + j
			records = append(records, reserved(n, noon, "g", fmt.Sprint("agent-", n%100)),
				settled(n, noon.Add(time.Second), 1200, 300))
		}
		book.write(records...)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		p := New(State{Mark: NoMark()}, nil)
		for i, m := range book.messages {
			if err := p.Take(int64(i), m); err != nil {
				b.Fatal(err)
			}
			if i%100 == 0 {
				p.Batch()
			}
			if done += 50; done >= b.N {
				return
			}
		}
	}
}

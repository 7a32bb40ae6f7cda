package engine

import (
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// copies lists the latest records of all ids.
func copies(b *recordBlocks) (list []record) {
	for r := range b.latest() {
		list = append(list, *r)
	}
	return list
}

// TestImage: an image shows the memory of its moment, whatever happens afterwards to
// the records in it, and does not keep the memory from seeing its own changes.
func TestImage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := recallingEngine(time.Hour, rapid.SampledFrom([]int{300, 1000, 3000}).Draw(t, "most"))
		m, now, next := &e.memory, epoch, 0
		type taken struct {
			image recordBlocks
			want  []record
		}
		var all []taken
		t.Repeat(map[string]func(*rapid.T){
			"new ids": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 100, 700}).Draw(t, "n") {
					next++
					e.recall(now, keyNo(next))
					m.remember(now, keyNo(next), uint64(next), coordinator.FateSucceeded, 1)
				}
			},
			"old ids": func(t *rapid.T) {
				for range 20 {
					key := keyNo(rapid.IntRange(max(0, next-3000), next).Draw(t, "id"))
					if r := e.recall(now, key); r != nil {
						r.attempt++
					} else {
						m.remember(now, key, 7, coordinator.FateGaveUp, 2)
					}
				}
			},
			"again": func(t *rapid.T) {
				m.remember(now, keyNo(rapid.IntRange(0, next).Draw(t, "id")), 8, coordinator.FateTimedOut, 3)
			},
			"later": func(*rapid.T) { now = now.Add(8 * time.Second) },
			"an image": func(*rapid.T) {
				all = append(all[max(0, len(all)-2):], taken{m.image(), copies(&m.recordBlocks)})
			},
			"": func(t *rapid.T) {
				for i := range all {
					if got := copies(&all[i].image); !slices.Equal(got, all[i].want) {
						t.Fatalf("image %d has changed: %d records, want %d", i, len(got), len(all[i].want))
					}
				}
				for number := m.first; number < m.next; number++ {
					r := m.peek(number)
					if found, ok := m.lookup(r.key); r.flags&replaced == 0 && (!ok || found != number) {
						t.Fatalf("record %d is found as %d, %v", number, found, ok)
					}
				}
			},
		})
	})
}

// TestImageIsForAnotherGoroutine: it is read while the engine goes on; the race
// detector is the judge.
func TestImageIsForAnotherGoroutine(t *testing.T) {
	e := recallingEngine(time.Hour, 5000)
	see := func(i int) {
		if r := e.recall(epoch, keyNo(i)); r != nil {
			r.attempt++
			return
		}
		e.memory.remember(epoch, keyNo(i), uint64(i), coordinator.FateSucceeded, 1)
	}
	for i := range 5000 {
		see(i)
	}
	image := e.memory.image()
	var reader sync.WaitGroup
	reader.Go(func() {
		n := 0
		for r := range image.latest() {
			if n++; r.attempt != 0 {
				t.Errorf("record %d is from afterwards", n)
			}
		}
		if n != 5000 {
			t.Errorf("%d records, want 5,000", n)
		}
	})
	for i := 4000; i < 8000; i++ { // known ones, and then new ones, which drop the oldest
		see(i)
	}
	reader.Wait()
	if r := e.recall(epoch, keyNo(4500)); r == nil || r.attempt != 1 {
		t.Errorf("the memory remembers %+v, want one further attempt", r)
	}
}

// BenchmarkImage: one operation is an image of a million ids; what each block that is
// written to afterwards takes is reported beside it, in ns.
func BenchmarkImage(b *testing.B) {
	e := recallingEngine(time.Hour, 2_000_000)
	for i := range 1_000_000 {
		e.memory.remember(epoch, keyNo(i), 1, coordinator.FateSucceeded, 1)
	}
	var image recordBlocks
	var after time.Duration
	b.ReportAllocs()
	for b.Loop() {
		image = e.memory.image()
		b.StopTimer()
		begun := time.Now()
		for number := e.memory.first; number < e.memory.next; number += blockLen {
			e.memory.at(number).attempt++
		}
		after += time.Since(begun)
		b.StartTimer()
	}
	if image.size() != 1_000_000 {
		b.Fatal("this measured something else")
	}
	b.ReportMetric(float64(after.Nanoseconds())/float64(b.N*len(e.memory.blocks)), "ns/block-after")
}

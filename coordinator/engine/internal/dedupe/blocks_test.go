package dedupe

import (
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// copies lists the latest records of all ids.
func copies(b *blocks) (list []Record) {
	for r := range b.Latest() {
		list = append(list, *r)
	}
	return list
}

// TestImage: an image shows the window of its moment, whatever happens afterwards to the
// records in it, and does not keep the window from seeing its own changes.
func TestImage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := newUser(time.Hour, rapid.SampledFrom([]int{300, 1000, 3000}).Draw(t, "most"))
		now, next := epoch, 0
		type taken struct {
			image Image
			want  []Record
		}
		var all []taken
		t.Repeat(map[string]func(*rapid.T){
			"new ids": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 100, 700}).Draw(t, "n") {
					next++
					u.see(now, keyNo(next))
					u.Insert(now, keyNo(next), uint64(next), coordinator.FateSucceeded, 1)
				}
			},
			"old ids": func(t *rapid.T) {
				for range 20 {
					key := keyNo(rapid.IntRange(max(0, next-3000), next).Draw(t, "id"))
					if r := u.see(now, key); r != nil {
						r.Attempt++
					} else {
						u.Insert(now, key, 7, coordinator.FateGaveUp, 2)
					}
				}
			},
			"again": func(t *rapid.T) {
				u.Insert(now, keyNo(rapid.IntRange(0, next).Draw(t, "id")), 8, coordinator.FateTimedOut, 3)
			},
			"later": func(*rapid.T) { now = now.Add(8 * time.Second) },
			"an image": func(*rapid.T) {
				all = append(all[max(0, len(all)-2):], taken{u.Image(), copies(&u.blocks)})
			},
			"": func(t *rapid.T) {
				for i := range all {
					if got := copies(&all[i].image.blocks); !slices.Equal(got, all[i].want) {
						t.Fatalf("image %d has changed: %d records, want %d", i, len(got), len(all[i].want))
					}
				}
				for number := u.first; number < u.next; number++ {
					r := u.peek(number)
					if found, ok := u.index.find(&u.blocks, &r.Key); r.Flags&replaced == 0 && (!ok || found != number) {
						t.Fatalf("record %d is found as %d, %v", number, found, ok)
					}
				}
			},
		})
	})
}

// TestImageIsForAnotherGoroutine: it is read while the window goes on; the race detector is
// the judge.
func TestImageIsForAnotherGoroutine(t *testing.T) {
	u := newUser(time.Hour, 5000)
	see := func(i int) {
		if r := u.see(epoch, keyNo(i)); r != nil {
			r.Attempt++
			return
		}
		u.Insert(epoch, keyNo(i), uint64(i), coordinator.FateSucceeded, 1)
	}
	for i := range 5000 {
		see(i)
	}
	image := u.Image()
	var reader sync.WaitGroup
	reader.Go(func() {
		n := 0
		for r := range image.Latest() {
			if n++; r.Attempt != 0 {
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
	if r := u.see(epoch, keyNo(4500)); r == nil || r.Attempt != 1 {
		t.Errorf("the window has %+v, want one further attempt", r)
	}
}

// BenchmarkImage: one operation is an image of a million ids; what each block that is
// written to afterwards takes is reported beside it, in ns.
func BenchmarkImage(b *testing.B) {
	u := newUser(time.Hour, 2_000_000)
	for i := range 1_000_000 {
		u.Insert(epoch, keyNo(i), 1, coordinator.FateSucceeded, 1)
	}
	var image Image
	var after time.Duration
	b.ReportAllocs()
	for b.Loop() {
		image = u.Image()
		b.StopTimer()
		begun := time.Now()
		for number := u.first; number < u.next; number += blockLen {
			u.at(number).Attempt++
		}
		after += time.Since(begun)
		b.StartTimer()
	}
	if image.size() != 1_000_000 {
		b.Fatal("this measured something else")
	}
	b.ReportMetric(float64(after.Nanoseconds())/float64(b.N*len(u.list)), "ns/block-after")
}

package engine

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// naiveMemory is the memory as a list that is searched from its end, for ids of which
// none is open.
type naiveMemory struct {
	window time.Duration
	most   int
	list   []record
}

func (n *naiveMemory) find(key coordinator.TaskKey) int {
	for i := len(n.list) - 1; i >= 0; i-- {
		if n.list[i].key == key && n.list[i].flags&replaced == 0 {
			return i
		}
	}
	return -1
}

func (n *naiveMemory) ids() (ids int) {
	for _, r := range n.list {
		if r.flags&replaced == 0 {
			ids++
		}
	}
	return ids
}

func (n *naiveMemory) recall(now time.Duration, key coordinator.TaskKey) *record {
	for range expireStep {
		if len(n.list) == 0 || n.list[0].seen > now-n.window && n.ids() < n.most {
			break
		}
		n.list = n.list[1:]
	}
	if i := n.find(key); i >= 0 && n.list[i].seen > now-n.window {
		return &n.list[i]
	}
	return nil
}

func (n *naiveMemory) remember(r record) {
	if i := n.find(r.key); i >= 0 {
		old := &n.list[i]
		r.attempt = old.attempt
		if r.seen-old.seen < seenAlready {
			r.seen = old.seen
			*old = r
			return
		}
		old.fate, old.flags = coordinator.FateForgotten, replaced
	}
	n.list = append(n.list, r)
}

// TestMemory holds the memory against the naive one: every answer, and all that it
// holds, over any history of ids that come once, come again, soon or late, and of quiet
// times; with more records than a block holds.
func TestMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		naive := naiveMemory{window: time.Minute, most: rapid.SampledFrom([]int{1, 20, 800}).Draw(t, "most")}
		e := recallingEngine(naive.window, naive.most)
		m := &e.memory
		begin := rapid.SampledFrom([]uint64{0, 1<<31 - 700, 1<<32 - 700}).Draw(t, "begin")
		m.first, m.next, m.epoch = begin, begin, epoch
		now, next := time.Duration(0), 0
		see := func(t *rapid.T, id int, fate coordinator.Fate) {
			key := keyNo(id)
			got, want := e.recall(epoch.Add(now), key), naive.recall(now, key)
			if (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Fatalf("id %d is remembered as %+v, want %+v", id, got, want)
			}
			if got != nil && fate == coordinator.FateSucceeded { // a duplicate
				got.attempt++
				want.attempt++
				return
			}
			m.remember(epoch.Add(now), key, uint64(id), fate, 1)
			naive.remember(record{key: key, content: uint64(id), seen: now, ref: 1, fate: fate})
		}
		t.Repeat(map[string]func(*rapid.T){
			"new ids": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 10, 300}).Draw(t, "n") {
					next++
					see(t, next, coordinator.FateSucceeded)
				}
			},
			"duplicates": func(t *rapid.T) {
				for range 5 {
					see(t, rapid.IntRange(max(0, next-1000), next).Draw(t, "id"), coordinator.FateSucceeded)
				}
			},
			"submitted again": func(t *rapid.T) {
				for range 5 {
					see(t, rapid.IntRange(max(0, next-50), next).Draw(t, "id"), coordinator.FateGaveUp)
				}
			},
			"later": func(t *rapid.T) {
				now += time.Duration(rapid.SampledFrom([]int{1, 9, 10, 59, 60, 300}).Draw(t, "s")) * time.Second
			},
			"": func(t *rapid.T) {
				if got, want := m.index.used, naive.ids(); got != want {
					t.Fatalf("%d ids are known, want %d", got, want)
				}
				for i, number := 0, m.first; number < m.next || i < len(naive.list); i, number = i+1, number+1 {
					if m.size() != len(naive.list) || *m.at(number) != naive.list[i] {
						t.Fatalf("of %d records, want %d, number %d differs", m.size(), len(naive.list), i)
					}
				}
			},
		})
	})
}

// TestMemoryFootprint: from 20,000 ids on, none takes more than 64 bytes, at any number
// of them, while it grows, in turnover and while it shrinks. Of these 40 are the record,
// at most 19.2 the index (8 / (5/12)), and 3 the ends of the blocks (3 × 20 KiB / 20,000).
func TestMemoryFootprint(t *testing.T) {
	const fewest, ids, most = 20_000, 2_000_000, 64.0
	heap := func() float64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc)
	}
	e := recallingEngine(time.Hour, ids)
	m := &e.memory
	heap() // what others have left behind goes at the second collection, at the latest
	empty := heap()
	worst, at := 0.0, ""
	measure := func(when string) {
		n := m.index.used
		each := (heap() - empty) / float64(n)
		if each > worst {
			worst, at = each, fmt.Sprintf("%s, at %d ids", when, n)
		}
		if each > most {
			t.Errorf("%s: each of %d ids takes %.1f bytes, want %.0f at most", when, n, each, most)
		}
	}
	next := 0
	add := func() {
		next++
		m.remember(epoch, keyNo(next), 1, coordinator.FateSucceeded, 1)
	}
	for n := fewest; n <= ids; n += n / 16 {
		for m.index.used < n {
			add()
		}
		measure("growing")
	}
	e.policy.Settings.DedupeMaxIDs = m.index.used
	for range 2 {
		for range m.index.used / 10 {
			e.recall(epoch, keyNo(0))
			add()
		}
		measure("in turnover")
	}
	for n := m.index.used; n >= fewest; n -= n / 16 {
		e.policy.Settings.DedupeMaxIDs = n + 1
		for m.index.used > n {
			e.recall(epoch, keyNo(0))
		}
		measure("shrinking")
	}
	runtime.KeepAlive(e)
	t.Logf("%.1f bytes an id %s is the most", worst, at)
}

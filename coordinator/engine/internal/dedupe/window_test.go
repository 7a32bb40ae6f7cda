package dedupe

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// naiveWindow is a window as a list that is searched from its end, with the rule of user.
type naiveWindow struct {
	window time.Duration
	most   int
	list   []Record
}

func (n *naiveWindow) find(key coordinator.TaskKey) int {
	for i := len(n.list) - 1; i >= 0; i-- {
		if n.list[i].Key == key && n.list[i].Flags&replaced == 0 {
			return i
		}
	}
	return -1
}

func (n *naiveWindow) ids() (ids int) {
	for _, r := range n.list {
		if r.Flags&replaced == 0 {
			ids++
		}
	}
	return ids
}

func (n *naiveWindow) see(now time.Duration, key coordinator.TaskKey) *Record {
	for range min(EvictStep, len(n.list)) {
		if n.list[0].seen > now-n.window && n.ids() < n.most {
			break
		}
		r := n.list[0]
		n.list = n.list[1:]
		if r.Fate.IsOpen() && r.Ref == kept {
			r.seen = now
			n.list = append(n.list, r)
		}
	}
	if i := n.find(key); i >= 0 && (n.list[i].Fate.IsOpen() || n.list[i].seen > now-n.window) {
		return &n.list[i]
	}
	return nil
}

func (n *naiveWindow) insert(r Record) {
	if i := n.find(r.Key); i >= 0 {
		old := &n.list[i]
		r.Attempt = old.Attempt
		if r.seen-old.seen < seenAlready {
			r.seen = old.seen
			*old = r
			return
		}
		old.Fate, old.Flags = coordinator.FateForgotten, replaced
	}
	n.list = append(n.list, r)
}

// TestWindow holds a window against the naive one: every answer, and all that it holds, over any
// history of ids that come once, come again, soon or late, that are open and end, and of quiet times;
// with more records than a block holds.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		naive := naiveWindow{window: time.Minute, most: rapid.SampledFrom([]int{1, 20, 800}).Draw(t, "most")}
		u := newUser(naive.window, naive.most)
		begin := rapid.SampledFrom([]uint64{0, 1<<31 - 700, 1<<32 - 700}).Draw(t, "begin")
		u.first, u.next, u.epoch = begin, begin, epoch
		now, next := time.Duration(0), 0
		see := func(t *rapid.T, id int, fate coordinator.Fate, ref uint32) {
			key := keyNo(id)
			got, want := u.see(epoch.Add(now), key), naive.see(now, key)
			if (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Fatalf("id %d is known as %+v, want %+v", id, got, want)
			}
			if got != nil && fate == coordinator.FateSucceeded { // a duplicate
				got.Attempt++
				want.Attempt++
				return
			}
			u.Insert(epoch.Add(now), key, uint64(id), fate, ref)
			naive.insert(Record{Key: key, Content: uint64(id), seen: now, Ref: ref, Fate: fate})
		}
		t.Repeat(map[string]func(*rapid.T){
			"new ids": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 10, 300}).Draw(t, "n") {
					next++
					see(t, next, coordinator.FateSucceeded, 1)
				}
			},
			"duplicates": func(t *rapid.T) {
				for range 5 {
					see(t, rapid.IntRange(max(0, next-1000), next).Draw(t, "id"), coordinator.FateSucceeded, 1)
				}
			},
			"submitted again": func(t *rapid.T) {
				for range 5 {
					see(t, rapid.IntRange(max(0, next-50), next).Draw(t, "id"), coordinator.FateGaveUp, 1)
				}
			},
			"open ids": func(t *rapid.T) {
				for range rapid.IntRange(1, 10).Draw(t, "n") {
					next++
					see(t, next, coordinator.FateDispatched, rapid.Uint32Range(kept, kept+1).Draw(t, "ref"))
				}
			},
			"an end": func(t *rapid.T) {
				key := keyNo(rapid.IntRange(max(0, next-50), next).Draw(t, "id"))
				if i := naive.find(key); i >= 0 {
					naive.list[i].Fate, u.Find(key).Fate = coordinator.FateTimedOut, coordinator.FateTimedOut
				}
			},
			"later": func(t *rapid.T) {
				now += time.Duration(rapid.SampledFrom([]int{1, 9, 10, 59, 60, 300}).Draw(t, "s")) * time.Second
			},
			"": func(t *rapid.T) {
				if got, want := u.index.used, naive.ids(); got != want {
					t.Fatalf("%d ids are known, want %d", got, want)
				}
				for i, number := 0, u.first; number < u.next || i < len(naive.list); i, number = i+1, number+1 {
					if u.size() != len(naive.list) || *u.at(number) != naive.list[i] {
						t.Fatalf("of %d records, want %d, number %d differs", u.size(), len(naive.list), i)
					}
				}
			},
		})
	})
}

// TestFootprint: from 20,000 ids on, none takes more than 64 bytes, at any number
// of them, while it grows, in turnover and while it shrinks. Of these 40 are the record,
// at most 19.2 the index (8 / (5/12)), and 3 the ends of the blocks (3 × 20 KiB / 20,000).
func TestFootprint(t *testing.T) {
	const fewest, ids, most = 20_000, 2_000_000, 64.0
	heap := func() float64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc)
	}
	u := newUser(time.Hour, ids)
	heap() // what others have left behind goes at the second collection, at the latest
	empty := heap()
	worst, at := 0.0, ""
	measure := func(when string) {
		n := u.index.used
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
		u.Insert(epoch, keyNo(next), 1, coordinator.FateSucceeded, 1)
	}
	for n := fewest; n <= ids; n += n / 16 {
		for u.index.used < n {
			add()
		}
		measure("growing")
	}
	u.limits.IDs = u.index.used
	for range 2 {
		for range u.index.used / 10 {
			u.see(epoch, keyNo(0))
			add()
		}
		measure("in turnover")
	}
	for n := u.index.used; n >= fewest; n -= n / 16 {
		u.limits.IDs = n + 1
		for u.index.used > n {
			u.see(epoch, keyNo(0))
		}
		measure("shrinking")
	}
	runtime.KeepAlive(u)
	t.Logf("%.1f bytes an id %s is the most", worst, at)
}

// TestSeenByAClockThatWasAhead: a record of an hour from now is moved to now, and goes a window later;
// in its place it would keep the one behind it.
func TestSeenByAClockThatWasAhead(t *testing.T) {
	u := newUser(time.Minute, 100)
	u.Insert(epoch, keyNo(1), 1, coordinator.FateSucceeded, 1)
	u.Insert(epoch.Add(time.Hour), keyNo(2), 1, coordinator.FateSucceeded, 1)
	u.Insert(epoch.Add(time.Second), keyNo(3), 1, coordinator.FateSucceeded, 1)
	for _, c := range []struct {
		at    time.Duration
		known [3]bool
	}{
		{59 * time.Second, [3]bool{true, true, true}},
		{60 * time.Second, [3]bool{false, true, true}},   // 2 is moved to 60 s
		{61 * time.Second, [3]bool{false, true, false}},  // 1 s + 60 s
		{119 * time.Second, [3]bool{false, true, false}}, // 60 s + 60 s - 1 s
		{120 * time.Second, [3]bool{}},
	} {
		for i, want := range c.known {
			if got := u.see(epoch.Add(c.at), keyNo(i+1)) != nil; got != want {
				t.Errorf("after %v id %d is known: %v, want %v", c.at, i+1, got, want)
			}
		}
	}
}

// TestReasons: the reason of a cancel goes with its record, and there are MaxReasons at most.
func TestReasons(t *testing.T) {
	u := newUser(time.Minute, 10)
	withdraw := func(now time.Time, i int) {
		_, r := u.Insert(now, keyNo(i), 1, coordinator.FateWithdrawn, 0)
		u.Withdraw(r, fmt.Sprint("why ", i))
	}
	withdraw(epoch, 1)
	if got := u.Reason(keyNo(1)); got != "why 1" {
		t.Errorf("the reason is %q", got)
	}
	u.see(epoch.Add(time.Minute), keyNo(0))
	if got := u.Reason(keyNo(1)); got != "" {
		t.Errorf("the reason %q is kept after its record", got)
	}
	withdraw(epoch, 2)
	u.Insert(epoch, keyNo(2), 1, coordinator.FateOpen, kept) // submitted after all
	if got := u.Reason(keyNo(2)); got != "" {
		t.Errorf("the reason %q is kept after its task was opened", got)
	}
	for i := range MaxReasons + 1 {
		withdraw(epoch, 10+i)
	}
	if got := u.Reason(keyNo(10)); got != "" || len(u.reasons.list) != MaxReasons {
		t.Errorf("the first reason is %q, and %d are kept, want none and %d", got, len(u.reasons.list), MaxReasons)
	}
}

// TestCheck: the index leads to each record, until it does not.
func TestCheck(t *testing.T) {
	u := newUser(time.Hour, 10)
	u.Insert(epoch, keyNo(1), 1, coordinator.FateSucceeded, 1)
	u.Insert(epoch.Add(time.Minute), keyNo(1), 1, coordinator.FateSucceeded, 1) // which replaces the first
	if u.First() != 0 || u.Size() != 2 || u.IDs() != 1 {
		t.Fatalf("%d records from %d on of %d ids, want 2 from 0 on of 1", u.Size(), u.First(), u.IDs())
	}
	for number := range uint64(2) {
		if _, fault := u.Check(number); fault != "" {
			t.Errorf("record %d: %s", number, fault)
		}
	}
	key := keyNo(1)
	u.index.drop(&u.blocks, &key)
	if _, fault := u.Check(1); fault != "record 1 (succeeded) is found as 0, false" {
		t.Errorf("the fault is %q", fault)
	}
}

package dedupe

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
)

// epoch is when the tests of parts begin.
var epoch = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// keyNo makes the key of a task, spread as those of real ids are.
func keyNo(i int) coordinator.TaskKey {
	mix := func(x uint64) uint64 { // the finalizer of splitmix64
		x += 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x ^ x>>31
	}
	return coordinator.TaskKey{mix(uint64(2 * i)), mix(uint64(2*i + 1))}
}

// kept is the Ref of records whose open tasks must not be forgotten.
const kept = 2

// user is a window with its limits and a caller's rule: open tasks are kept whose Ref is kept.
type user struct {
	Window
	limits Limits
}

func newUser(age time.Duration, ids int) *user { return &user{limits: Limits{age, ids}} }

// see is a look-up as the engine makes it.
func (u *user) see(now time.Time, key coordinator.TaskKey) *Record {
	for x := u.Evict(now, now, u.limits); x.Next(); {
		if x.Open.Ref == kept {
			x.Keep()
		} else {
			x.Drop()
		}
	}
	return u.Lookup(now, key, u.limits.Age)
}

// BenchmarkWindow: one operation is a task that was never seen before, in a window that
// holds so many ids: each drops the oldest.
func BenchmarkWindow(b *testing.B) {
	for _, ids := range []int{20_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("ids=", ids), func(b *testing.B) {
			u, now, next := newUser(time.Hour, ids), epoch, 0
			see := func() {
				now, next = now.Add(time.Microsecond), next+1
				key := keyNo(next)
				if u.see(now, key) == nil {
					u.Insert(now, key, 1, coordinator.FateSucceeded, 1)
				}
			}
			for range ids {
				see()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				see()
			}
		})
	}
}

// BenchmarkWindowGrowth: one operation is a window that grows to a million ids. It
// reports the time of an id, and the longest that any of them took: of each the best
// of all operations, because others disturb them, so that there should be a few.
func BenchmarkWindowGrowth(b *testing.B) {
	const ids = 1_000_000
	best := make([]time.Duration, ids)
	for n := range b.N {
		u := newUser(time.Hour, 2*ids)
		for i := range best {
			begun, key := time.Now(), keyNo(i)
			if u.see(epoch, key) == nil {
				u.Insert(epoch, key, 1, coordinator.FateSucceeded, 1)
			}
			if took := time.Since(begun); n == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/ids, "ns/id")
	b.ReportMetric(float64(slices.Max(best).Microseconds()), "longest-µs")
}

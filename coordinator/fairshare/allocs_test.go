package fairshare

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// What is done for every task costs no allocation: to find what it is charged to and to ask
// whether there is room, and to set aside and settle. For the latter the memory of those that have
// ended is used again; one that is remembered for a while (keep) holds its own, so here none is.
// Each is another task's, a millisecond after the last.
func TestACallAllocatesNothing(t *testing.T) {
	l := benchmarkTree(100)
	c := &Charge{Group: "t50", Amounts: coordinator.Amounts{1, 1000, 100, 0, 500}}
	at, n := epoch, uint64(0)
	for _, call := range []struct {
		name string
		do   func(key coordinator.TaskKey)
	}{
		{"check", func(coordinator.TaskKey) {
			p := l.PathOf(c)
			if v := l.Check(at, &p, c); !v.OK {
				t.Fatal(v)
			}
		}},
		{"reserve and settle", func(key coordinator.TaskKey) {
			if v := l.Reserve(at, key, c, time.Time{}); !v.OK {
				t.Fatal(v)
			}
			l.Settle(at, key, coordinator.Amounts{1, 900, 50, 0, 400}, false)
			l.Freed(func(int32) {})
		}},
		{"reserve until then, and settle", func(key coordinator.TaskKey) {
			if v := l.Reserve(at, key, c, at.Add(time.Minute)); !v.OK {
				t.Fatal(v)
			}
			l.Settle(at, key, coordinator.Amounts{1, 900, 50, 0, 400}, false)
			l.Freed(func(int32) {})
		}},
	} {
		t.Run(call.name, func(t *testing.T) {
			if got := testing.AllocsPerRun(1000, func() {
				n++
				at = at.Add(time.Millisecond)
				call.do(coordinator.TaskKey{n, 1})
			}); got > 0 {
				t.Errorf("%v allocations, want none", got)
			}
		})
	}
}

package learning

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"gonum.org/v1/gonum/mathext"
)

var sink float64

// taught is a fleet with outcomes of every type at every agent.
func taught(agents, types int) (*Learner, []*Type) {
	l := New(Settings{}, agents)
	dice := rand.New(rand.NewPCG(1, 2))
	var all []*Type
	for k := range types {
		kind := l.Type(fmt.Sprint("type ", k))
		all = append(all, kind)
		for i := range agents {
			l.Observe(start, i, kind, Outcome{Attribution: Attribution(dice.IntN(2)), Duration: time.Second, CostUSD: 0.1})
		}
	}
	return l, all
}

// TestMemory: 10,000 agents × 100 types take less than 40 MB (32 bytes each).
func TestMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l, _ := taught(10_000, 100)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if mb := float64(after.HeapAlloc-before.HeapAlloc) / 1e6; mb > 40 {
		t.Errorf("%.1f MB", mb)
	} else {
		t.Logf("%.1f MB", mb)
	}
	runtime.KeepAlive(l)
}

// TestAllocations: neither reading nor observing allocates.
func TestAllocations(t *testing.T) {
	l, types := taught(100, 3)
	now := start
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Second)
		for i := range 100 {
			l.Observe(now, i, types[1], Outcome{Duration: time.Second, CostUSD: 1})
			sink += l.Standing(i, types[1]).Success + l.Draw(i, types[2], 0.5)
		}
		l.Forgive(3, types[1], now)
		l.Failing(3, types[1])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkStanding reads 256 agents for one decision after an outcome.
func BenchmarkStanding(b *testing.B) {
	for _, fleet := range []int{256, 10_000} {
		b.Run(fmt.Sprintf("256 of %d", fleet), func(b *testing.B) {
			l, types := taught(fleet, 10)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				kind := types[n%len(types)]
				from := n * 37 % (fleet - 255)
				n++
				for i := from; i < from+256; i++ {
					sink += l.Standing(i, kind).Success
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/agent")
		})
	}
}

func BenchmarkObserve(b *testing.B) {
	l, types := taught(10_000, 100)
	b.ReportAllocs()
	now, n := start, 0
	for b.Loop() {
		n++
		now = now.Add(time.Millisecond)
		l.Observe(now, n*7919%10_000, types[n%100], Outcome{Attribution: Attribution(n & 1), Duration: time.Second,
			CostUSD: 0.1})
	}
}

func BenchmarkDraw(b *testing.B) {
	l, types := taught(256, 1)
	n := 0
	for b.Loop() {
		n++
		sink += l.Draw(n&255, types[0], float64(n&1023)/1024)
	}
}

// BenchmarkInverse is what Draw would cost by the inverse distribution function.
func BenchmarkInverse(b *testing.B) {
	l, types := taught(256, 1)
	n := 0
	for b.Loop() {
		n++
		alpha, beta := l.posterior(n&255, types[0])
		sink += mathext.InvRegIncBeta(alpha, beta, float64(n&1023)/1024)
	}
}

func BenchmarkFailing(b *testing.B) {
	l, types := taught(256, 1)
	n := 0
	for b.Loop() {
		n++
		l.Failing(n&255, types[0])
	}
}

func BenchmarkRenumber(b *testing.B) {
	l, _ := taught(10_000, 100)
	was := make([]int, 10_001) // one joins in the middle
	for i := range was {
		switch {
		case i < 5000:
			was[i] = i
		case i == 5000:
			was[i] = -1
		default:
			was[i] = i - 1
		}
	}
	for b.Loop() {
		l.Renumber(len(was), was)
	}
}

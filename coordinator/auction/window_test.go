package auction

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

func TestWindowLength(t *testing.T) {
	// times is n replies of which the slowest k take slow.
	times := func(n, k int, fast, slow time.Duration) []time.Duration {
		list := slices.Repeat([]time.Duration{fast}, n)
		for i := range k {
			list[i*(n/k)] = slow
		}
		return list
	}
	for _, c := range []struct {
		name           string
		floor, ceiling time.Duration
		replies        []time.Duration
		p95, want      time.Duration
	}{
		{"nothing known: the ceiling", 0, 0, nil, 0, 500 * ms},
		{"19 replies say too little", 0, 0, times(19, 1, ms, ms), 0, 500 * ms},
		{"1.5 · 200 ms", 0, 0, times(20, 1, 200*ms, 200*ms), 200 * ms, 300 * ms},
		{"one of 20 slow: the 19th counts", 0, 0, times(20, 1, 200*ms, 400*ms), 200 * ms, 300 * ms},
		{"two of 20 slow: one of them is the 19th, 600 ms are too many", 0, 0, times(20, 2, 200*ms, 400*ms), 400 * ms,
			500 * ms},
		{"not below the floor", 0, 0, times(100, 1, ms, ms), ms, 100 * ms},
		{"bounds of its own", 10 * ms, 20 * ms, times(100, 1, 10*ms, 10*ms), 10 * ms, 15 * ms},
		{"a ceiling below the floor is raised", 200 * ms, 150 * ms, nil, 0, 200 * ms},
		{"no reply takes less than nothing, or counts for hours", 0, 0, times(40, 20, -time.Hour, time.Hour), time.Minute,
			500 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := NewWindow(c.floor, c.ceiling)
			for _, reply := range c.replies {
				w.Observe(reply)
			}
			if w.P95() != c.p95 || w.Length() != c.want {
				t.Errorf("p95 %v, length %v; want %v, %v", w.P95(), w.Length(), c.p95, c.want)
			}
		})
	}
}

// TestWindowForgets: 256 replies replace all that was. After 12 slow ones of 256 the
// 95th percentile, the 244th (0.95·256 = 243.2), is still fast; the 13th is the 244th.
func TestWindowForgets(t *testing.T) {
	w := NewWindow(0, 0)
	for range 256 {
		w.Observe(100 * ms)
	}
	for slow := range 256 {
		if want := w.P95() == 400*ms; want != (slow >= 13) {
			t.Fatalf("after %d slow replies: p95 %v", slow, w.P95())
		}
		w.Observe(400 * ms)
	}
	for range 256 {
		w.Observe(80 * ms)
	}
	if w.Length() != 120*ms {
		t.Errorf("length %v: the slow time is over", w.Length())
	}
}

// TestWindowNever: whatever is observed, the length is within its bounds, and the p95
// is that of the last 256 replies.
func TestWindowNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := NewWindow(time.Duration(rapid.Int64().Draw(t, "floor")), time.Duration(rapid.Int64().Draw(t, "ceiling")))
		if w.floor <= 0 || w.ceiling < w.floor {
			t.Fatalf("bounds %v to %v", w.floor, w.ceiling)
		}
		reply := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, int64(time.Second)), rapid.Int64Range(0, 3))
		var all []time.Duration
		for range rapid.SampledFrom([]int{0, 10, 30, 300, 600}).Draw(t, "replies") {
			r := time.Duration(reply.Draw(t, "reply"))
			w.Observe(r)
			all = append(all, max(0, min(r, replyMost)))
			if l := w.Length(); l < w.floor || l > w.ceiling {
				t.Fatalf("length %v", l)
			}
		}
		if len(all) < repliesNeeded {
			return
		}
		last := slices.Sorted(slices.Values(all[max(0, len(all)-repliesKept):]))
		if want := last[(95*len(last)+99)/100-1]; w.P95() != want {
			t.Fatalf("p95 %v, want %v of %d", w.P95(), want, len(last))
		}
	})
}

func TestClosing(t *testing.T) {
	best := Appraisal{Fitness: 1, Active: 0, Duration: time.Second}
	one := Bid{Agent: "a", Fitness: 0.9, Duration: time.Second}
	bids := func(n int) []Bid {
		list := make([]Bid, n)
		for i := range list {
			list[i] = Bid{Agent: ids(n)[i], Fitness: 0.5}
		}
		return list
	}
	for _, c := range []struct {
		name     string
		bids     []Bid
		at       time.Duration
		patience Patience
		want     Closing
		look     time.Duration
	}{
		{"nobody has answered", nil, 0, Patience{Possible: best}, NotYet, window},
		{"the window's last instant", nil, window - 1, Patience{Possible: best}, NotYet, window},
		{"the window is over", nil, window, Patience{Possible: best}, WindowOver, window},
		{"all five have answered", bids(5), 1, Patience{Possible: best}, AllAnswered, window},
		{"four of five", bids(4), 1, Patience{Possible: best}, NotYet, window},
		{"fitness may be beaten", []Bid{one}, 1, Patience{Possible: best}, NotYet, window},
		{"fitness 1, idle, as quick as any: cannot be", []Bid{{Agent: "a", Fitness: 1, Duration: time.Second}}, 1,
			Patience{Possible: best}, Unbeatable, window},
		{"fitness 1, but somebody may be idle", []Bid{{Agent: "a", Fitness: 1, Active: 1, Duration: time.Second}}, 1,
			Patience{Possible: best}, NotYet, window},
		{"fitness 1, idle, but somebody may be quicker", []Bid{{Agent: "a", Fitness: 1, Duration: time.Second + 1}}, 1,
			Patience{Possible: best}, NotYet, window},
		{"nobody left can be fitter than 0.85", []Bid{one}, 1, Patience{Possible: Appraisal{Fitness: 0.85}}, Unbeatable,
			window},
		{"as fit as any, and less busy", []Bid{one}, 1, Patience{Possible: Appraisal{Fitness: 0.9, Active: 1}}, Unbeatable,
			window},
		{"a quorum, at the p95", bids(3), 200 * ms, Patience{Quorum: 3, P95: 200 * ms, Possible: best}, NotYet, 200*ms + 1},
		{"a quorum, after it", bids(3), 200*ms + 1, Patience{Quorum: 3, P95: 200 * ms, Possible: best}, QuorumReached,
			200*ms + 1},
		{"less than a quorum, after it", bids(2), 201 * ms, Patience{Quorum: 3, P95: 200 * ms, Possible: best}, NotYet,
			window},
		{"no p95 yet", bids(3), 499 * ms, Patience{Quorum: 3, Possible: best}, NotYet, window},
		{"no quorum wanted", bids(3), 499 * ms, Patience{P95: ms, Possible: best}, NotYet, window},
		{"a p95 beyond the window", bids(3), 1, Patience{Quorum: 3, P95: time.Second, Possible: best}, NotYet, window},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := Open("task", 1, ids(5), opened, window, nil)
			for _, bid := range c.bids {
				b.Bid(opened, bid)
			}
			if got := b.Closing(after(c.at), c.patience); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got := b.NextLook(c.patience); !got.Equal(after(c.look)) {
				t.Errorf("looks again after %v, want %v", got.Sub(opened), c.look)
			}
		})
	}
	b := Open("task", 1, ids(2), opened, window, nil)
	b.Withdraw("a")
	b.Withdraw("b")
	if got := b.Closing(opened, Patience{}); got != AllAnswered {
		t.Errorf("everybody was withdrawn: %s", got)
	}
}

// TestEarlyIsRight: when an auction is unbeatable, no bid up to the possible one that
// still comes takes the first place, except one that is equal in all.
func TestEarlyIsRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		figure := func(name string) Bid {
			return Bid{
				Fitness:  rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, name+" fitness"),
				Active:   rapid.IntRange(0, 2).Draw(t, name+" active"),
				Duration: time.Duration(rapid.IntRange(0, 2).Draw(t, name+" duration")),
			}
		}
		b := Open("task", 1, ids(3), opened, window, nil)
		first, second := figure("first"), figure("second")
		first.Agent, second.Agent = "a", "b"
		b.Bid(opened, first)
		possible := Appraisal{
			Fitness:  max(second.Fitness, rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "possible")),
			Active:   min(second.Active, rapid.IntRange(0, 2).Draw(t, "idle")),
			Duration: min(second.Duration, time.Duration(rapid.IntRange(0, 2).Draw(t, "quick"))),
		}
		early := b.Closing(opened, Patience{Possible: possible}) == Unbeatable
		b.Bid(opened, second)
		equal := first.Fitness == second.Fitness && first.Active == second.Active && first.Duration == second.Duration
		if r, _ := b.Best(); early && r.Agent != "a" && !equal {
			t.Fatalf("closed with %+v, but %+v came, possible %+v", first, second, possible)
		}
	})
}

func BenchmarkWindowObserve(b *testing.B) {
	w := NewWindow(0, 0)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		w.Observe(time.Duration(n*7919%500) * ms)
	}
}

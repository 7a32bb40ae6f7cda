package estimates

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// teach lets a tenant make n calls that are all alike.
func teach(e *Estimator, tenant, model string, n int, input, output int64) {
	for range n {
		e.Observe(tenant, model, input, output)
	}
}

func wantEstimate(t *testing.T, why string, got, want Estimate) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", why, got, want)
	}
}

// TestEstimateFallsBack: each level needs 20 samples of its own. All amounts are below 16, so
// that they are exact.
func TestEstimateFallsBack(t *testing.T) {
	e := New()
	wantEstimate(t, "nothing known", e.Estimate("a", "m", 1000, 0), Estimate{512, 512, 0, LevelDefault})
	wantEstimate(t, "the caller's maximum", e.Estimate("a", "m", 1000, 100), Estimate{100, 100, 0, LevelDefault})
	e.SetDefaultOutput(300)
	wantEstimate(t, "another default", e.Estimate("a", "m", 1000, 0), Estimate{300, 300, 0, LevelDefault})
	e.SetDefaultOutput(0)
	wantEstimate(t, "the default again", e.Estimate("a", "m", 1000, 0), Estimate{512, 512, 0, LevelDefault})

	teach(e, "a", "m", 19, 1000, 8)
	wantEstimate(t, "19 are too few", e.Estimate("a", "m", 1000, 0), Estimate{512, 512, 0, LevelDefault})
	teach(e, "b", "m", 1, 100_000, 8)
	wantEstimate(t, "the model has 20 over all tenants", e.Estimate("a", "m", 1000, 0), Estimate{8, 8, 20, LevelModel})
	wantEstimate(t, "also for a tenant never seen", e.Estimate("c", "m", 1000, 0), Estimate{8, 8, 20, LevelModel})
	wantEstimate(t, "not for another model", e.Estimate("a", "n", 1000, 0), Estimate{512, 512, 0, LevelDefault})

	teach(e, "a", "m", 1, 10, 8)
	wantEstimate(t, "the tenant has 20 over all inputs", e.Estimate("a", "m", 1000, 0), Estimate{8, 8, 20, LevelTenant})

	// 1,000 has 10 binary digits: of the bucket 512 to 1,023. Of its 20 samples 2 may lie
	// above the p90; (19·8 + 1·12)/20 = 8.2.
	teach(e, "a", "m", 1, 600, 12)
	wantEstimate(t, "the bucket has 20", e.Estimate("a", "m", 1000, 0), Estimate{8, 8, 20, LevelBucket})
	wantEstimate(t, "all of its inputs", e.Estimate("a", "m", 512, 0), Estimate{8, 8, 20, LevelBucket})
	wantEstimate(t, "no others", e.Estimate("a", "m", 511, 0), Estimate{8, 8, 21, LevelTenant})
	wantEstimate(t, "nor others", e.Estimate("a", "m", 1024, 0), Estimate{8, 8, 21, LevelTenant})
	wantEstimate(t, "an unknown input has no bucket", e.Estimate("a", "m", 0, 0), Estimate{8, 8, 21, LevelTenant})

	// Two more of 12: 3 in 22 lie above 8, and 2 may; (19·8 + 3·12)/22 = 8.5.
	teach(e, "a", "m", 2, 600, 12)
	wantEstimate(t, "p90 and mean differ", e.Estimate("a", "m", 1000, 0), Estimate{12, 9, 22, LevelBucket})
	wantEstimate(t, "neither beyond the maximum", e.Estimate("a", "m", 1000, 10), Estimate{10, 9, 22, LevelBucket})
	wantEstimate(t, "neither beyond the maximum", e.Estimate("a", "m", 1000, 7), Estimate{7, 7, 22, LevelBucket})
}

func TestEstimateInput(t *testing.T) {
	e := New()
	wantEstimate(t, "nothing known", e.EstimateInput("a", "m"), Estimate{2048, 2048, 0, LevelDefault})
	teach(e, "b", "m", 18, 10, 1)
	teach(e, "b", "m", 2, 15, 1) // (18·10 + 2·15)/20 = 10.5
	wantEstimate(t, "the model's", e.EstimateInput("a", "m"), Estimate{10, 11, 20, LevelModel})
	wantEstimate(t, "the tenant's own", e.EstimateInput("b", "m"), Estimate{10, 11, 20, LevelTenant})
	teach(e, "b", "m", 1, 15, 1) // 3 of 21 lie above 10, and 2 may; 225/21 = 10.7
	wantEstimate(t, "the tenant's own", e.EstimateInput("b", "m"), Estimate{15, 11, 21, LevelTenant})
}

func TestWhatTeachesNothing(t *testing.T) {
	e := New()
	teach(e, "a", "m", 100, 0, 0)
	teach(e, "a", "m", 100, -5, math.MinInt64)
	if len(e.Export()) != 0 {
		t.Error("calls that took nothing have taught something")
	}
	// A call that does not tell its input is charged none, and so is the next like it.
	teach(e, "a", "m", 20, 0, 9)
	wantEstimate(t, "output of unknown input", e.Estimate("a", "m", 50, 0), Estimate{9, 9, 20, LevelTenant})
	wantEstimate(t, "input never told", e.EstimateInput("a", "m"), Estimate{0, 0, 20, LevelTenant})
	// One without output (an embedding) needs none reserved.
	teach(e, "a", "n", 20, 50, 0)
	wantEstimate(t, "no output", e.Estimate("a", "n", 50, 0), Estimate{0, 0, 20, LevelBucket})
	teach(e, "a", "o", 20, math.MaxInt64, math.MaxInt64)
	if got := e.Estimate("a", "o", math.MaxInt64, 100); got.Reserve != 100 || got.Level != LevelBucket {
		t.Errorf("the greatest there is: %+v", got)
	}
}

// TestEmptyNamesAreNames: tasks without a tenant or model have one with each other, which is
// not the record of the model over all tenants.
func TestEmptyNamesAreNames(t *testing.T) {
	e := New()
	teach(e, "", "m", 20, 10, 3)
	teach(e, "a", "m", 20, 10, 7)
	teach(e, "a", "", 20, 10, 9)
	wantEstimate(t, "no tenant", e.Estimate("", "m", 10, 0), Estimate{3, 3, 20, LevelBucket})
	wantEstimate(t, "no model", e.Estimate("a", "", 10, 0), Estimate{9, 9, 20, LevelBucket})
	wantEstimate(t, "all tenants", e.Estimate("z", "m", 10, 0), Estimate{7, 5, 40, LevelModel}) // (20·3 + 20·7)/40
	wantEstimate(t, "no model, all tenants", e.Estimate("", "", 10, 0), Estimate{9, 9, 20, LevelModel})
}

// TestLeastRecentlyObservedIsForgotten, and reading is no use: 32 histograms are room for
// the model (2) and ten tenants with one bucket (3 each).
func TestLeastRecentlyObservedIsForgotten(t *testing.T) {
	e := newEstimator(32)
	level := func(tenant int) Level { return e.Estimate(fmt.Sprint(tenant), "m", 10, 0).Level }
	for i := range 10 {
		teach(e, fmt.Sprint(i), "m", 20, 10, 3)
	}
	teach(e, "0", "m", 1, 10, 3)
	for i := range 10 {
		if level(i) != LevelBucket {
			t.Fatalf("tenant %d is at level %v", i, level(i))
		}
	}
	teach(e, "10", "m", 20, 10, 3)
	if level(1) != LevelModel || level(0) != LevelBucket || level(2) != LevelBucket || level(10) != LevelBucket {
		t.Errorf("levels of 0, 1, 2 and 10: %v, %v, %v, %v; 1 was not observed for longest", level(0), level(1), level(2),
			level(10))
	}
	// A model goes when the last tenant with it has gone.
	for i := range 10 {
		teach(e, fmt.Sprint(i), "n", 20, 10, 3)
	}
	if len(e.models) != 1 || level(10) != LevelDefault {
		t.Errorf("%d models; tenant 10 is at level %v", len(e.models), level(10))
	}
}

// TestMemoryIsBounded: a million tenants with two models and any input, most of which come once.
func TestMemoryIsBounded(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	e := New()
	dice := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		tenant := fmt.Sprint("tenant ", dice.IntN(1_000_000))
		e.Observe(tenant, fmt.Sprint("model ", dice.IntN(2)), 1<<dice.IntN(25), dice.Int64N(1000))
		if e.used > MaxHistograms {
			t.Fatalf("%d histograms", e.used)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	mb := float64(after.HeapAlloc-before.HeapAlloc) / 1e6
	t.Logf("%.1f MB, %d tenants", mb, len(e.pairs))
	if mb > 8 {
		t.Errorf("%.1f MB", mb)
	}
	if got := len(e.Export()); got != e.used || got < MaxHistograms-3 {
		t.Errorf("%d histograms, counted %d", got, e.used)
	}
	if got := e.Estimate("another", "model 1", 5, 0).Level; got != LevelModel {
		t.Errorf("a flood of tenants has pushed out the model: %v", got)
	}
	runtime.KeepAlive(e)
}

// observation is what one Observe is given.
type observation struct {
	tenant, model string
	input, output int64
}

// observations by few tenants of few models, so that they meet.
func observations() *rapid.Generator[[]observation] {
	name := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"})
	tokens := rapid.OneOf(rapid.Int64Range(0, 3000), rapid.Int64Range(500, 600), rapid.Int64())
	one := rapid.Custom(func(t *rapid.T) observation {
		return observation{name.Draw(t, "tenant"), name.Draw(t, "model"), tokens.Draw(t, "input"), tokens.Draw(t, "output")}
	})
	return rapid.SliceOfN(one, 100, 400) // as 32 histograms are soon full
}

func (e *Estimator) observeAll(all []observation) {
	for _, o := range all {
		e.Observe(o.tenant, o.model, o.input, o.output)
	}
}

// TestNeverMoreThanItMay: whatever is observed, an estimate is between 0 and what the caller
// allows, the memory has its bound, and no tenant's record outlives its model's.
func TestNeverMoreThanItMay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEstimator(rapid.IntRange(32, 80).Draw(t, "limit"))
		for _, o := range observations().Draw(t, "observations") {
			e.Observe(o.tenant, o.model, o.input, o.output)
			most := rapid.Int64().Draw(t, "most")
			got := e.Estimate(o.tenant, o.model, o.input, most)
			if got.Reserve < 0 || got.Expect < 0 || most > 0 && (got.Reserve > most || got.Expect > most) {
				t.Fatalf("%+v of at most %d", got, most)
			}
			used := 0
			for key, own := range e.pairs {
				used += own.used
				if e.models[key.model] != own.all {
					t.Fatalf("%v has lost its model", key)
				}
			}
			if used += 2 * len(e.models); used != e.used || used > e.limit {
				t.Fatalf("%d histograms, counted %d, at most %d", used, e.used, e.limit)
			}
		}
	})
}

func TestEstimatesDoNotAllocate(t *testing.T) {
	e := New()
	teach(e, "a", "m", 1000, 1000, 100)
	if n := testing.AllocsPerRun(1000, func() {
		e.Observe("a", "m", 1000, 100)
		e.Estimate("a", "m", 1000, 4096)
		e.Estimate("none", "m", 1000, 4096)
		e.EstimateInput("a", "m")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// crowd is an Estimator that is fairly full: 500 tenants with 3 models.
func crowd() (*Estimator, []observation) {
	e := New()
	dice := rand.New(rand.NewPCG(5, 6))
	all := make([]observation, 1<<16)
	for i := range all {
		all[i] = observation{fmt.Sprint("tenant-", dice.IntN(500)), fmt.Sprint("model-", dice.IntN(3)),
			int64(math.Exp(7 + dice.NormFloat64())), int64(math.Exp(5 + dice.NormFloat64()))}
	}
	e.observeAll(all)
	return e, all
}

func BenchmarkObserve(b *testing.B) {
	for _, name := range []string{"one tenant", "1,500 tenants and models"} {
		e, all := crowd()
		if name == "one tenant" {
			for i := range all {
				all[i].tenant, all[i].model = "tenant-1", "model-1"
			}
			e.observeAll(all)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				o := &all[i%len(all)]
				e.Observe(o.tenant, o.model, o.input, o.output)
			}
		})
	}
}

var sinkEstimate Estimate

func BenchmarkEstimate(b *testing.B) {
	e, all := crowd()
	b.Run("one tenant", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			sinkEstimate = e.Estimate("tenant-1", "model-1", all[i%len(all)].input, 4096)
		}
	})
	b.Run("1,500 tenants and models", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			o := &all[i%len(all)]
			sinkEstimate = e.Estimate(o.tenant, o.model, o.input, 4096)
		}
	})
	b.Run("unknown tenant", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sinkEstimate = e.Estimate("nobody", "model-1", 1000, 4096)
		}
	})
}

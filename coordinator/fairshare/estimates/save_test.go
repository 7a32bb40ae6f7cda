package estimates

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestExportAndImport: what has been imported estimates as what was exported, now and after
// the same observations, which make both forget the same.
func TestExportAndImport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(32, 80).Draw(t, "limit")
		one, two := newEstimator(limit), newEstimator(limit)
		one.observeAll(observations().Draw(t, "before"))
		two.observeAll(observations().Draw(t, "of no account"))
		rows := one.Export()
		if err := two.Import(rows); err != nil {
			t.Fatal(err)
		}
		later := observations().Draw(t, "later")
		for range 2 {
			if got := two.Export(); !reflect.DeepEqual(got, one.Export()) {
				t.Fatalf("exports %v, want %v", got, one.Export())
			}
			for _, tenant := range []string{"", "a", "b", "c", "d", "e", "f"} {
				for _, model := range []string{"", "a", "b", "c", "d", "e", "f"} {
					if got, want := two.EstimateInput(tenant, model), one.EstimateInput(tenant, model); got != want {
						t.Fatalf("input of %q, %q: %+v, want %+v", tenant, model, got, want)
					}
					for input := int64(0); input < 1<<26; input = 2*input + 1 {
						if got, want := two.Estimate(tenant, model, input, 0), one.Estimate(tenant, model, input, 0); got != want {
							t.Fatalf("%q, %q, %d: %+v, want %+v", tenant, model, input, got, want)
						}
					}
				}
			}
			one.observeAll(later)
			two.observeAll(later)
		}
	})
}

// TestEqualObservationsMakeEqualEstimators: a follower needs no more than their arguments,
// and does not need to know what its leader has read.
func TestEqualObservationsMakeEqualEstimators(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		leader, follower := newEstimator(32), newEstimator(32)
		for _, o := range observations().Draw(t, "observations") {
			leader.Estimate(o.model, o.tenant, o.output, o.input)
			leader.EstimateInput(o.model, o.tenant)
			leader.Observe(o.tenant, o.model, o.input, o.output)
			leader.Estimate(o.tenant, o.model, o.input, o.output)
			follower.Observe(o.tenant, o.model, o.input, o.output)
		}
		if got, want := follower.Export(), leader.Export(); !reflect.DeepEqual(got, want) {
			t.Fatalf("follower %v, leader %v", got, want)
		}
	})
}

func TestTheDefaultIsNotLearnt(t *testing.T) {
	e := New()
	e.SetDefaultOutput(300)
	if err := e.Import(nil); err != nil || e.Estimate("a", "m", 1, 0).Reserve != 300 {
		t.Errorf("%v; assumes %+v", err, e.Estimate("a", "m", 1, 0))
	}
}

func TestImportForgetsWhatIsTooMuch(t *testing.T) {
	many, few := newEstimator(100), newEstimator(32)
	for _, tenant := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		teach(many, tenant, "m", 20, 10, 3)
	}
	if err := few.Import(many.Export()); err != nil || few.used != 32 {
		t.Fatalf("%d histograms, %v", few.used, err)
	}
	if few.Estimate("z", "m", 10, 0).Level != LevelBucket || few.Estimate("p", "m", 10, 0).Level != LevelModel {
		t.Error("of 26 tenants the last ten (q to z) are not what is left")
	}
}

func TestImportRefuses(t *testing.T) {
	// A tenant's row of outputs, of inputs, and one bucket; then the model's two.
	good := func() []Row {
		e := New()
		teach(e, "a", "m", 20, 1000, 8)
		return e.Export()
	}
	if err := New().Import(good()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func([]Row) []Row
		want  string
	}{
		"unknown level": {func(r []Row) []Row { r[0].Level = 9; return r },
			"level 9): there are no such rows"},
		"default level": {func(r []Row) []Row { r[0].Level = 0; return r },
			"there are no such rows"},
		"inputs of a bucket": {func(r []Row) []Row { r[2].Input = true; return r },
			"there are no such rows"},
		"tenant of a model": {func(r []Row) []Row { r[3].Tenant = "a"; return r },
			"there are no such rows"},
		"bucket of none": {func(r []Row) []Row { r[0].Bucket = 1; return r },
			"cannot be of bucket 1"},
		"no bucket": {func(r []Row) []Row { r[2].Bucket = 0; return r },
			"cannot be of bucket 0"},
		"bucket too great": {func(r []Row) []Row { r[2].Bucket = numBuckets; return r },
			"cannot be of bucket 25"},
		"bucket below 0": {func(r []Row) []Row { r[2].Bucket = -1; return r },
			"cannot be of bucket -1"},
		"twice": {func(r []Row) []Row { return append(r[:1], r...) }, "comes twice"},
		"after its model": {func(r []Row) []Row { return append(r[3:], r[:3]...) },
			"after its model"},
		"no inputs": {func(r []Row) []Row { return append(r[:1], r[2:]...) },
			"not among the estimates"},
		"no model": {func(r []Row) []Row { return r[:3] }, "not among the estimates"},
		"no counts": {func(r []Row) []Row { r[1].Counts = nil; return r },
			"0 counts are not pairs"},
		"half a pair": {func(r []Row) []Row { r[1].Counts = r[1].Counts[:1]; return r },
			"1 counts are not pairs"},
		"bin too great": {func(r []Row) []Row { r[1].Counts[0] = numBins; return r }, "bin 176"},
		"bins out of order": {func(r []Row) []Row { r[1].Counts = []uint32{5, 1, 5, 1}; return r },
			"bin 5 is out of order"},
		"no weight": {func(r []Row) []Row { r[1].Counts[1] = 0; return r }, "weight of bin"},
		"too much weight": {func(r []Row) []Row { r[1].Counts = []uint32{1, 200, 2, 40}; return r },
			"exceeds 239"},
		"far too much weight": {func(r []Row) []Row { r[1].Counts[1] = 1<<32 - 1; return r },
			"exceeds 239"},
		"sum below 0": {func(r []Row) []Row { r[1].Sum = -1; return r }, "sum of -1"},
		"sum beyond all counts": {func(r []Row) []Row { r[1].Sum = 1 << 60; return r },
			"20 samples cannot have a sum"},
	} {
		e := New()
		teach(e, "before", "m", 20, 10, 3)
		err := e.Import(c.spoil(good()))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if e.Estimate("before", "m", 10, 0).Level != LevelBucket || e.Estimate("a", "m", 1000, 0).Level == LevelBucket {
			t.Errorf("%s: has changed something", name)
		}
	}
}

func BenchmarkExport(b *testing.B) {
	e, _ := crowd()
	b.ReportAllocs()
	for b.Loop() {
		b.ReportMetric(float64(len(e.Export())), "rows")
	}
}

func BenchmarkImport(b *testing.B) {
	e, _ := crowd()
	rows := e.Export()
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Import(rows); err != nil {
			b.Fatal(err)
		}
	}
}

package auction

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestMerit(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"the product of all three", Merit{Coverage: 0.5, Success: 0.8, Depth: 0.9}.Fitness(), 0.36},
		{"one that is NaN is none", Merit{Coverage: 1, Success: math.NaN(), Depth: 1}.Fitness(), 0},
		{"out of range is brought into it", Merit{Coverage: 3, Success: 0.5, Depth: math.Inf(1)}.Fitness(), 0.5},
		{"a newcomer", Depth(0), 0.8},
		{"ten outcomes: 0.8 + 0.2·ln 11/ln 1001 = 0.8 + 0.2·0.34708", Depth(10), 0.8694155},
		{"a thousand", Depth(1000), 1},
		{"and no more than that", Depth(1e9), 1},
		{"NaN", Depth(math.NaN()), 0.8},
	} {
		t.Run(c.name, func(t *testing.T) {
			if math.Abs(c.got-c.want) > 1e-6 {
				t.Errorf("%v, want %v", c.got, c.want)
			}
		})
	}
}

// TestCalibration: the assumption about claims (Brier 0.25, bias 0) counts as ten
// outcomes, that about estimates (ratio 1) as none; with it the plain mean, until one
// outcome weighs a twentieth.
func TestCalibration(t *testing.T) {
	var c Calibration
	if c.Brier() != 0.25 || c.Bias() != 0 || c.Ratio() != 1 || c.Delta() != 0 {
		t.Errorf("without outcomes: %v, %v, %v, δ %v", c.Brier(), c.Bias(), c.Ratio(), c.Delta())
	}
	// Claims 1 and 10 s; fails. (1−0)² = 1: (10·0.25 + 1)/11 = 0.318182; bias 1/11.
	// A failure says nothing about durations.
	c.Observe(1, 10*time.Second, time.Second, false)
	if !near(c.Brier(), 3.5/11) || !near(c.Bias(), 1.0/11) || c.Ratio() != 1 {
		t.Errorf("after a failure: %v, %v, %v", c.Brier(), c.Bias(), c.Ratio())
	}
	// Claims 0.8 and 10 s; succeeds in 30. 0.2² = 0.04: (3.5 + 0.04)/12; bias
	// (1 − 0.2)/12; ratio 3.
	c.Observe(0.8, 10*time.Second, 30*time.Second, true)
	if !near(c.Brier(), 3.54/12) || !near(c.Bias(), 0.8/12) || !near(c.Ratio(), 3) {
		t.Errorf("after a success: %v, %v, %v", c.Brier(), c.Bias(), c.Ratio())
	}
	before := c
	c.Observe(math.NaN(), 0, time.Second, true)
	c.Observe(1.5, time.Second, 0, true)
	c.Observe(math.NaN(), time.Millisecond-1, time.Second, true)
	if c != before {
		t.Errorf("claims and durations out of range have taught something: %+v", c)
	}
	// 1 ms estimated, 1 h taken: 3.6·10⁶ times as long, counted as 10⁶: (3 + 10⁶)/2.
	c.Observe(math.NaN(), time.Millisecond, time.Hour, true)
	if !near(c.Ratio(), 500_001.5) {
		t.Errorf("ratio %v", c.Ratio())
	}
}

// TestDelta: how far a word counts after 400 outcomes.
func TestDelta(t *testing.T) {
	for _, c := range []struct {
		name       string
		claim      float64
		of10       int // successes of ten
		atLeast    float64
		atMost     float64
		arithmetic string
	}{
		{"always right", 1, 10, 0.199, 0.2, "Brier and bias 0: all of 0.2"},
		{"an honest 0.9", 0.9, 9, 0.09, 0.16, "Brier 0.9·0.01 + 0.1·0.81 = 0.09, 1 − 0.09/0.25 = 0.64: 0.128"},
		{"an honest 0.5 says nothing", 0.5, 5, 0, 1e-9, "Brier 0.25: 0"},
		{"1.0 claimed, 0.9 done", 1, 9, 0.02, 0.10, "Brier 0.1: 0.6; bias 0.1: 0.5; 0.06"},
		{"1.0 claimed, 0.8 done", 1, 8, 0, 0.03, "bias 0.2: 0, up to where in the ten one looks"},
		{"1.0 claimed, 0.5 done: the liar", 1, 5, 0, 0, "Brier 0.5: 0"},
		{"0.5 claimed, 1.0 done: too modest is wrong as well", 0.5, 10, 0, 1e-9, "Brier 0.25: 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var record Calibration
			for i := range 400 {
				// Spread evenly over the ten: 9 of 10 fail once, 5 of 10 every other time.
				record.Observe(c.claim, 0, 0, (i*c.of10)%10 < c.of10)
			}
			if d := record.Delta(); !(d >= c.atLeast && d <= c.atMost) {
				t.Errorf("δ = %v, want %v to %v (%s); Brier %v, bias %v", d, c.atLeast, c.atMost, c.arithmetic, record.Brier(),
					record.Bias())
			}
		})
	}
}

func TestAppraise(t *testing.T) {
	merit := Merit{Coverage: 1, Success: 0.8, Depth: 1, Active: 2, Duration: 9 * time.Second}
	// Always right in 990 outcomes: δ = 0.2 but for some 10⁻⁹; estimates 2 times too short.
	prophet, liar := &Calibration{}, &Calibration{}
	for range 990 {
		prophet.Observe(1, time.Second, 2*time.Second, true)
		liar.Observe(1, time.Second, 0, false)
	}
	bid := func(fitness, relevance float64, active int, d time.Duration) Bid {
		return Bid{Agent: "a", Fitness: fitness, Relevance: relevance, Active: active, Duration: d}
	}
	s := time.Second
	for _, c := range []struct {
		name   string
		mode   Mode
		record *Calibration
		bid    Bid
		want   Appraisal
	}{
		{"no record: the claim counts for nothing", Appraised, nil, bid(1, 1, 2, s), Appraisal{0.8, 2, s}},
		{"a liar's neither", Appraised, liar, bid(1, 1, 2, s), Appraisal{0.8, 2, s}},
		{"a claim of 1: 0.8 + 0.2/2 = 0.9; twice its estimate", Appraised, prophet, bid(1, notGiven, 2, s),
			Appraisal{0.9, 2, 2 * s}},
		{"of 0.9: 0.8 + 0.1/2 = 0.85", Appraised, prophet, bid(0.9, notGiven, 2, s), Appraisal{0.85, 2, 2 * s}},
		{"of 0: 0.8 − 0.2/2 = 0.7", Appraised, prophet, bid(0, notGiven, 2, s), Appraisal{0.7, 2, 2 * s}},
		{"relevance 1: 0.9 + 0.1·(2·1 − 1) = 1", Appraised, prophet, bid(1, 1, 2, s), Appraisal{1, 2, 2 * s}},
		{"relevance 0.5 moves nothing", Appraised, prophet, bid(1, 0.5, 2, s), Appraisal{0.9, 2, 2 * s}},
		{"relevance 0: 0.9 − 0.1 = 0.8", Appraised, prophet, bid(1, 0, 2, s), Appraisal{0.8, 2, 2 * s}},
		{"who says 0 has at least what we count", Appraised, nil, bid(1, notGiven, 0, s), Appraisal{0.8, 2, s}},
		{"who says more is believed", Appraised, nil, bid(1, notGiven, 5, s), Appraisal{0.8, 5, s}},
		{"no estimate: what was measured", Appraised, prophet, bid(1, notGiven, 2, 0), Appraisal{0.9, 2, 9 * s}},
		{"less than 1 ms is no estimate", Appraised, prophet, bid(1, notGiven, 2, time.Millisecond-1),
			Appraisal{0.9, 2, 9 * s}},
		{"the longest estimate does not overflow", Appraised, prophet, bid(1, notGiven, 2, math.MaxInt64),
			Appraisal{0.9, 2, math.MaxInt64}},
		{"reported: all as it stands", Reported, liar, bid(1, 0, 0, 1), Appraisal{1, 0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Appraise(c.mode, merit, c.record, c.bid)
			if !near(got.Fitness, c.want.Fitness) || got.Active != c.want.Active ||
				got.Duration < c.want.Duration-time.Millisecond || got.Duration > c.want.Duration {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	if got := Appraise(Appraised, Merit{}, nil, bid(1, notGiven, 0, 0)); got.Duration != math.MaxInt64 {
		t.Errorf("neither estimated nor measured: %v, want the longest there is", got.Duration)
	}
	// 0.93 is nearer to 0.95, 0.92 and 0.88 are nearer to 0.9: those two are equal.
	for success, want := range map[float64]float64{0.93: 0.95, 0.92: 0.9, 0.88: 0.9} {
		if got := Appraise(Appraised, Merit{Coverage: 1, Success: success, Depth: 1}, nil,
			bid(0, notGiven, 0, 0)); !near(got.Fitness, want) {
			t.Errorf("%v is taken for %v, want %v", success, got.Fitness, want)
		}
	}
}

// TestWordIsBounded: whatever happened and whatever is claimed, the fitness is within
// δ and half a step of the auctioneer's own, and every figure in its range.
func TestWordIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Calibration
		anyUnit := rapid.Float64Range(0, 1)
		for range rapid.IntRange(0, 60).Draw(t, "outcomes") {
			c.Observe(rapid.OneOf(anyUnit, rapid.Float64()).Draw(t, "claimed"),
				time.Duration(rapid.Int64().Draw(t, "estimated")),
				time.Duration(rapid.Int64().Draw(t, "actual")), rapid.Bool().Draw(t, "succeeded"))
		}
		if d := c.Delta(); !(d >= 0 && d <= deltaMost) || !(c.Ratio() > 0.9e-6 && c.Ratio() < 1.1e6) ||
			!(c.Brier() > -1e-9 && c.Brier() < 1+1e-9) {
			t.Fatalf("%+v: δ %v", c, d)
		}
		merit := Merit{Coverage: anyUnit.Draw(t, "coverage"), Success: anyUnit.Draw(t, "success"),
			Depth: anyUnit.Draw(t, "depth")}
		bid := Bid{Fitness: anyUnit.Draw(t, "fitness"), Relevance: rapid.OneOf(anyUnit, rapid.Just(-1.0)).
			Draw(t, "relevance"),
			Duration: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "duration"))}
		a := Appraise(Appraised, merit, &c, bid)
		if a != a.inRange() || math.Abs(a.Fitness-merit.Fitness()) > c.Delta()+0.5/fitnessSteps+1e-9 {
			t.Fatalf("%+v of own %v, δ %v", a, merit.Fitness(), c.Delta())
		}
	})
}

package arith

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestApportion(t *testing.T) {
	const biggest = math.MaxInt64
	tests := []struct {
		name    string
		total   int64
		weights []int64
		want    []int64
	}{
		// 1,000,000/11 = 90,909.09: 454,545.45 272,727.27 181,818.18 90,909.09. Whole they
		// are 999,999; the one left goes to the largest weight.
		{"FAIR-SHARE's four", 1_000_000, []int64{5, 3, 2, 1}, []int64{454_546, 272_727, 181_818, 90_909}},
		{"500,000 by 5:3:2", 500_000, []int64{5, 3, 2}, []int64{250_000, 150_000, 100_000}},
		{"1000 by 10:5:5", 1000, []int64{10, 5, 5}, []int64{500, 250, 250}},
		{"100,000 by 2:2:1", 100_000, []int64{2, 2, 1}, []int64{40_000, 40_000, 20_000}},
		{"500,000 by 5:5", 500_000, []int64{5, 5}, []int64{250_000, 250_000}},
		{"300,000 by 3:2", 300_000, []int64{3, 2}, []int64{180_000, 120_000}},
		{"300,000 by 4:1", 300_000, []int64{4, 1}, []int64{240_000, 60_000}},
		// In binary floating point 100·0.29 is 28.999999999999996.
		{"what floats get wrong", 100, []int64{29, 71}, []int64{29, 71}},
		// 10/4 = 2.5 5 2.5: one is left, for the largest weight, though its fraction is 0.
		{"not by largest remainder", 10, []int64{1, 2, 1}, []int64{2, 6, 2}},
		// 1.75 each: three are left for four.
		{"the earlier of equal ones", 7, []int64{1, 1, 1, 1}, []int64{2, 2, 2, 1}},
		// 5/9: 1.1 1.1 0.6 1.1 1.1. One is left.
		{"the earlier of equal ones that are the largest", 5, []int64{2, 2, 1, 2, 2}, []int64{2, 1, 0, 1, 1}},
		// 5/8: 1.25 0.63 1.25 1.88. Two are left: 3, and then the first 2.
		{"some of the equal ones", 5, []int64{2, 1, 2, 3}, []int64{2, 0, 1, 2}},
		{"fewer than there are", 2, []int64{1, 5, 3}, []int64{0, 2, 0}},
		{"without weight nothing of what is left", 5, []int64{0, 1, 0, 1}, []int64{0, 3, 0, 2}},
		{"none has any", 5, []int64{0, 0}, []int64{0, 0}},
		{"nothing to divide", 0, []int64{1, 2}, []int64{0, 0}},
		{"one", biggest, []int64{biggest}, []int64{biggest}},
		{"no parts", 5, nil, nil},
		// 2^62·2^62/(2^62+1) is less than 2^62: one unit is left, for the larger.
		{"2^62 by 2^62:1", 1 << 62, []int64{1 << 62, 1}, []int64{1 << 62, 0}},
		// They add up to 2^63, and are halved once.
		{"weights of 2^63", 1 << 62, []int64{1 << 61, 1 << 61, 1 << 61, 1 << 61},
			[]int64{1 << 60, 1 << 60, 1 << 60, 1 << 60}},
		{"and of more than 2^64", 9, []int64{biggest, biggest, biggest}, []int64{3, 3, 3}},
		// Halved, 1 becomes 0; all the same nothing is lost.
		{"beside the largest the smallest", biggest, []int64{biggest, 1, biggest}, []int64{1 << 62, 0, 1<<62 - 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Apportion(tt.total, tt.weights, nil); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// Held against the rule in its plainest form: big numbers, and places sorted by weight.
func TestApportionFollowsTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, 1e6), rapid.Int64Range(0, 1<<58))
		weights := rapid.SliceOfN(weight, 1, 31).Draw(t, "weights") // 31·2^58 < 2^63
		total := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "total")
		sum := new(big.Int)
		places := make([]int, len(weights))
		for i, w := range weights {
			sum.Add(sum, big.NewInt(w))
			places[i] = i
		}
		want, left := make([]int64, len(weights)), total
		if sum.Sign() > 0 {
			for i, w := range weights {
				part := new(big.Int).Mul(big.NewInt(total), big.NewInt(w))
				want[i] = part.Div(part, sum).Int64()
				left -= want[i]
			}
			slices.SortStableFunc(places, func(a, b int) int { return big.NewInt(weights[b]).Cmp(big.NewInt(weights[a])) })
			for _, i := range places[:left] {
				want[i]++
			}
		}
		if got := Apportion(total, weights, nil); !slices.Equal(got, want) {
			t.Errorf("%d by %v: %v, want %v", total, weights, got, want)
		}
	})
}

// Whatever the weights, also where their sum is beyond 64 bits: nothing is lost, nothing is
// invented, and a higher weight never gets less.
func TestApportionLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, math.MaxInt64))
		weights := rapid.SliceOfN(weight, 1, 50).Draw(t, "weights")
		total := rapid.Int64Range(0, math.MaxInt64).Draw(t, "total")
		parts := Apportion(total, weights, nil)
		left := total
		for i, part := range parts {
			left -= part
			if part < 0 || weights[i] == 0 && part > 0 {
				t.Errorf("weight %d gets %d", weights[i], part)
			}
			for j := range i {
				if weights[j] >= weights[i] && parts[j] < part || weights[j] < weights[i] && parts[j] > part {
					t.Errorf("%v for weights %v", parts, weights)
				}
			}
		}
		if left != 0 && slices.Max(weights) > 0 {
			t.Errorf("%d of %d are left", left, total)
		}
	})
}

func TestApportionReusesMemory(t *testing.T) {
	weights, dst := []int64{5, 3, 2, 1}, make([]int64, 4)
	if n := testing.AllocsPerRun(100, func() { dst = Apportion(1_000_000, weights, dst) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if len(dst) != 4 || dst[0] != 454_546 {
		t.Errorf("%v: what was there before is not overwritten", dst)
	}
}

func BenchmarkApportion10000(b *testing.B) {
	weights := make([]int64, 10_000)
	for i := range weights {
		weights[i] = int64(1 + i*7919%100)
	}
	var dst []int64
	for b.Loop() {
		dst = Apportion(1e9, weights, dst)
	}
}

package pull

import (
	"cmp"
	"math"
	"slices"
)

// divide is Shares, but that none gets more than most: what one cannot hold is divided
// among the others. What none can hold is left over.
func divide(total int, capacities []float64, most []int) []int {
	shares := Shares(total, capacities)
	open := slices.Clone(capacities) // of those that can hold more; NaN: of others
	for {
		left, full := max(total, 0), false
		for i := range shares {
			if open[i] == open[i] && shares[i] > most[i] {
				open[i], full = math.NaN(), true
			}
		}
		if !full {
			return shares
		}
		rest, place := make([]float64, 0, len(open)), make([]int, 0, len(open))
		for i := range shares {
			if open[i] != open[i] {
				shares[i] = most[i]
				left -= most[i]
			} else {
				rest, place = append(rest, open[i]), append(place, i)
			}
		}
		for n, share := range Shares(left, rest) {
			shares[place[n]] = share
		}
	}
}

// Shares divides total whole items in proportion to the capacities, by largest
// remainder: each gets its quota without the fraction, and what is left goes, one
// each, to the largest fractions; the earlier of equal ones first. The sum is total,
// and none is further than one item from its quota.
//
// A capacity that is not a positive number has no part, unless none is: then all
// count the same. Nil without capacities; a total below 0 counts as 0.
func Shares(total int, capacities []float64) []int {
	if len(capacities) == 0 {
		return nil
	}
	weights := make([]float64, len(capacities))
	sum := 0.0
	for i, c := range capacities {
		if c > 0 {
			weights[i] = min(c, maxCapacity)
			sum += weights[i]
		}
	}
	if sum == 0 {
		for i := range weights {
			weights[i] = 1
		}
		sum = float64(len(weights))
	}

	shares := make([]int, len(weights))
	rest := max(total, 0)
	type fraction struct {
		of   int
		part float64
	}
	fractions := make([]fraction, 0, len(weights))
	for i, w := range weights {
		// Multiplied before it is divided: 49·16/28 is 28, 49·(16/28) may be less.
		whole, part := math.Modf(float64(max(total, 0)) * w / sum)
		shares[i] = int(whole)
		rest -= shares[i]
		if w > 0 {
			fractions = append(fractions, fraction{i, part})
		}
	}
	slices.SortFunc(fractions, func(a, b fraction) int {
		return cmp.Or(cmp.Compare(b.part, a.part), cmp.Compare(a.of, b.of))
	})
	// Fewer items are left than there are fractions, as each is below 1.
	for _, f := range fractions[:min(rest, len(fractions))] {
		shares[f.of]++
	}
	return shares
}

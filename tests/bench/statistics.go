package main

import (
	"cmp"
	"slices"
)

// median of an even number of values is the mean of the middle two; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile is the smallest value that at least p per cent of the sorted values
// do not exceed (nearest rank); zero of none.
func percentile[T cmp.Ordered](sorted []T, p int) T {
	if len(sorted) == 0 {
		var none T
		return none
	}
	rank := (len(sorted)*p + 99) / 100 // rounded up
	return sorted[max(rank, 1)-1]
}

// collect is f of each.
func collect[T any](list []T, f func(T) float64) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

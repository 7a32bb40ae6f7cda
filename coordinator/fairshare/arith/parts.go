package arith

import "taskbus/coordinator"

// Bound turns an upper bound into an amount.
func Bound(x coordinator.Bound, nominal int64) int64 {
	switch x.Kind {
	case coordinator.BoundAmount:
		return x.Value
	case coordinator.BoundPercent:
		return MulDiv(nominal, x.Value, 100)
	default:
		return NoBound
	}
}

// Parts divides a whole: a part with a nominal amount of its own gets that, the others share what is left
// by their weights.
func Parts(whole int64, n int, of func(i int) (nominal, weight int64)) []int64 {
	all, weights, left := make([]int64, n), make([]int64, n), whole
	for i := range n {
		nominal, weight := of(i)
		if nominal == coordinator.ByWeight {
			weights[i] = weight
			continue
		}
		all[i] = nominal
		left = max(0, left-nominal)
	}
	for i, part := range Apportion(left, weights, nil) {
		all[i] += part
	}
	return all
}

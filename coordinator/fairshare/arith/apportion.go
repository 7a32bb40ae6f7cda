package arith

import "math/bits"

// Apportion divides total among weights, to the unit: everyone gets ⌊total·weight/sum of
// the weights⌋, and of what is then left one each goes to the largest weights, the earlier
// of equal ones first. That is FAIR-SHARE's rule. It is not by largest remainder: a higher
// weight never gets less than a lower one, whatever the fractions.
//
// The parts are appended to dst[:0], which must not overlap the weights, and add up to
// total. Where the weight is 0 the part is 0; if all are 0, nothing is given. Total and
// weights are at least 0 and may be as large as an int64 is: if the sum of the weights is
// 2^63 or more, all of them are halved for the division, as often as it takes for it to be
// less; the parts still add up to total.
func Apportion(total int64, weights []int64, dst []int64) []int64 {
	dst = dst[:0]
	var hi, lo, carry, heaviest uint64
	for _, w := range weights {
		lo, carry = bits.Add64(lo, uint64(w), 0)
		hi += carry
		heaviest = max(heaviest, uint64(w))
	}
	halved, sum := 0, int64(lo)
	if hi > 0 || sum < 0 {
		halved, sum = bits.Len64(hi<<1|lo>>63), 0
		for _, w := range weights {
			sum += w >> halved
		}
	}
	if sum == 0 {
		for range weights {
			dst = append(dst, 0)
		}
		return dst
	}
	left := total
	for _, w := range weights {
		part := MulDiv(total, w>>halved, sum)
		left -= part
		dst = append(dst, part)
	}
	if left > 0 {
		hand(left, weights, int64(heaviest), dst)
	}
	return dst
}

// hand gives one unit each to the n largest weights, fewer than there are above 0. It looks
// for the smallest weight that is among them instead of sorting, which would need memory.
func hand(n int64, weights []int64, heaviest int64, parts []int64) {
	low, high := int64(0), heaviest // more than n weights are above low, at most n above high
	above := int64(0)               // high
	for low+1 < high {
		middle := low + (high-low)/2
		if c := heavier(weights, middle); c > n {
			low = middle
		} else {
			high, above = middle, c
		}
	}
	equal := n - above
	for i, w := range weights {
		switch {
		case w > high:
			parts[i]++
		case w == high && equal > 0:
			parts[i]++
			equal--
		}
	}
}

// heavier counts the weights above w.
func heavier(weights []int64, w int64) int64 {
	n := int64(0)
	for _, x := range weights {
		if x > w {
			n++
		}
	}
	return n
}

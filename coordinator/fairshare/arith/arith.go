package arith

import (
	"math"
	"math/bits"
)

// NoBound stands for "no upper bound", and for any sum or product that is larger.
const NoBound int64 = math.MaxInt64

// Add adds two amounts of which the second may be without bound; the first may be less
// than nothing.
func Add(a, b int64) int64 {
	if b > 0 && a > NoBound-b {
		return NoBound
	}
	return a + b
}

// MulDiv returns a·b/c rounded down, mulDivUp rounded up, for numbers of at least 0 and c of at
// least 1; what does not fit is the largest number.
func MulDiv(a, b, c int64) int64 {
	q, _ := divide(a, b, c)
	return q
}

func MulDivUp(a, b, c int64) int64 {
	q, r := divide(a, b, c)
	if r > 0 && q < NoBound {
		q++
	}
	return q
}

// divide returns a·b/c, and what is left over.
func divide(a, b, c int64) (q int64, rest uint64) {
	if a <= 0 || b <= 0 {
		return 0, 0
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return NoBound, 0
	}
	n, rest := bits.Div64(hi, lo, uint64(c))
	return int64(min(n, uint64(NoBound))), rest
}

package auction

import (
	"cmp"
	"math/bits"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/hash"
)

// invitedLeast is how many are asked in any case: the best of 8 drawn at random is,
// on average, better than 8/9 of all.
const invitedLeast = 8

// Invitations is how many of n candidates are asked: min(n, max(8, 2·⌈log₂ n⌉)). All
// up to 8, 14 of 100, 28 of 10,000: it bounds the messages that a task costs.
func Invitations(n int) int {
	if n <= invitedLeast {
		return max(n, 0)
	}
	return min(n, max(invitedLeast, 2*bits.Len(uint(n-1))))
}

// Invite appends to dst which of the candidates 0 to n−1 are asked about a task:
// [Invitations] of them, the best first. Twice as many are drawn, each set of them
// as likely as any other, and the better half by score is kept; so all get their
// chance, and the best are more often asked.
//
// score is called once for each that was drawn; the larger, the better, and NaN means
// that this one cannot be asked: then there are fewer. Those of equal scores are
// ordered by a hash. nil: no scores, and just as many are drawn as are asked.
//
// Equal arguments give equal answers. The n candidates need not exist as a list.
func Invite(dst []int, n int, task coordinator.TaskID, seed uint64, score func(i int) float64) []int {
	k := Invitations(n)
	chance := hash.Stream(hash.Of(string(task), seed))
	if score == nil {
		return sample(dst, n, k, &chance)
	}
	drawn := make([]candidate, 0, 2*k)
	for _, i := range sample(make([]int, 0, 2*k), n, min(n, 2*k), &chance) {
		if s := score(i); s == s {
			drawn = append(drawn, candidate{index: i, score: s, tie: chance.Next()})
		}
	}
	slices.SortFunc(drawn, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.tie, b.tie), cmp.Compare(a.index, b.index))
	})
	for _, c := range drawn[:min(k, len(drawn))] {
		dst = append(dst, c.index)
	}
	return dst
}

type candidate struct {
	index int
	score float64
	tie   uint64
}

// sample appends k different numbers of 0 to n−1 by Floyd's method (Bentley, Floyd,
// CACM 30(9), 1987): k draws, nothing of size n, and each set of k is as likely as
// any other. k is small, so what has been drawn is searched from end to end.
func sample(dst []int, n, k int, chance *hash.Stream) []int {
	from := len(dst)
	for j := n - k; j < n; j++ {
		i := below(chance, j+1)
		if slices.Contains(dst[from:], i) {
			i = j
		}
		dst = append(dst, i)
	}
	return dst
}

// below gives a number of 0 to n−1. That n does not divide 2⁶⁴ favours some by less
// than n/2⁶⁴.
func below(chance *hash.Stream, n int) int {
	high, _ := bits.Mul64(chance.Next(), uint64(n))
	return int(high)
}

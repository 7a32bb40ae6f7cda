package engine

import "math/bits"

// bitset is a set of agents by their number in the fleet.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) set(i int)   { b[i>>6] |= 1 << (i & 63) }
func (b bitset) clear(i int) { b[i>>6] &^= 1 << (i & 63) }

// put has i be a member or not.
func (b bitset) put(i int, member bool) {
	if member {
		b.set(i)
	} else {
		b.clear(i)
	}
}

func (b bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }

// empty reports whether the set has no member.
func (b bitset) empty() bool {
	for _, w := range b {
		if w != 0 {
			return false
		}
	}
	return true
}

// common counts the members that two sets of the same fleet share.
func (b bitset) common(o bitset) int {
	n := 0
	for i, w := range b {
		n += bits.OnesCount64(w & o[i])
	}
	return n
}

// without counts the members that two sets of the same fleet share and a third has not.
func (b bitset) without(o, but bitset) int {
	n := 0
	o, but = o[:len(b)], but[:len(b)] // no bound is checked for each word
	for i, w := range b {
		n += bits.OnesCount64(w & o[i] &^ but[i])
	}
	return n
}

// add puts the members of another set of the same fleet in.
func (b bitset) add(o bitset) {
	for i := range b {
		b[i] |= o[i]
	}
}

// first is the first member that two sets of the same fleet share; -1: none.
func (b bitset) first(o bitset) int {
	for i, w := range b {
		if w &= o[i]; w != 0 {
			return i<<6 + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// each calls f for every member, in order.
func (b bitset) each(f func(i int)) {
	for w, word := range b {
		for ; word != 0; word &= word - 1 {
			f(w<<6 + bits.TrailingZeros64(word))
		}
	}
}

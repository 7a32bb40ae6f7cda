// Package agentset answers one question: which agents of a fleet? A set has a bit for each agent, by its number in the
// fleet, so that what many agents have in common costs a word for 64 of them.
//
// It must never allocate but in New, and knows neither agents nor fleets.
package agentset

import "math/bits"

// Set is a set of agents. Methods with two sets want those of one fleet.
type Set []uint64

// New returns an empty set of a fleet of n agents.
func New(n int) Set { return make(Set, (n+63)/64) }

// Add puts agent i in.
func (s Set) Add(i int) { s[i>>6] |= 1 << (i & 63) }

// Remove takes agent i out.
func (s Set) Remove(i int) { s[i>>6] &^= 1 << (i & 63) }

// Put has i be a member or not.
func (s Set) Put(i int, member bool) {
	if member {
		s.Add(i)
	} else {
		s.Remove(i)
	}
}

// Has reports whether agent i is a member.
func (s Set) Has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }

// Empty reports whether the set has no member.
func (s Set) Empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// Common counts the members that two sets share.
func (s Set) Common(o Set) int {
	n := 0
	for i, w := range s {
		n += bits.OnesCount64(w & o[i])
	}
	return n
}

// Without counts the members that two sets share and a third has not.
func (s Set) Without(o, but Set) int {
	n := 0
	o, but = o[:len(s)], but[:len(s)] // no bound is checked for each word
	for i, w := range s {
		n += bits.OnesCount64(w & o[i] &^ but[i])
	}
	return n
}

// Unite puts the members of another set in.
func (s Set) Unite(o Set) {
	for i := range s {
		s[i] |= o[i]
	}
}

// First is the First member that two sets of the same fleet share; -1: none.
func (s Set) First(o Set) int {
	for i, w := range s {
		if w &= o[i]; w != 0 {
			return i<<6 + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// Each calls f for every member, in order.
func (s Set) Each(f func(i int)) {
	for w, word := range s {
		for ; word != 0; word &= word - 1 {
			f(w<<6 + bits.TrailingZeros64(word))
		}
	}
}

// Keep takes out what is not in the other set; nil is the empty set.
func (s Set) Keep(o Set) {
	if o == nil {
		clear(s)
		return
	}
	for i := range s {
		s[i] &= o[i]
	}
}

// Len is how many members it has.
func (s Set) Len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

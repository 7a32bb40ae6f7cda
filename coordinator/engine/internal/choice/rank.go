package choice

import (
	"math/bits"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/hash"
)

// The choice looks at every eligible agent up to ExactLimit of them; beyond, at
// SampleSize of them from an offset that is a hash of the task. The best of 256
// uniform samples is better than 99.6 % of the agents (256/257), and looking at
// thousands would cost more than it gains: 512 take the dearest strategy 10 µs.
const (
	ExactLimit = 512
	SampleSize = 256
)

// ranking is the best agents seen so far, by number, best first.
type ranking struct {
	kept  int
	agent [coordinator.MaxCandidates]int
	key   [coordinator.MaxCandidates]coordinator.Key
}

// rank finds the best of those among that are free, which are so many.
func (q *Question) rank(among agentset.Set, eligible int) (best ranking) {
	f, key, learned := &q.Fleet, q.Strategy.Key, q.Strategy.Learned
	start, budget, limit, sample := 0, eligible, ExactLimit, SampleSize
	if n := q.Strategy.Sample; n > 0 {
		limit, sample = n, n
	}
	if eligible > limit {
		start, budget = int(hash.Of(string(q.Task.ID), q.Seed)%uint64(len(among))), sample
	}
	spare := limit // looks at others, in place of those that get no score
	for w := range among {
		word := start + w
		if word >= len(among) {
			word -= len(among)
		}
		for set := among[word] & q.Free[word]; set != 0; set &= set - 1 {
			if budget == 0 {
				return best
			}
			budget--
			i := word<<6 + bits.TrailingZeros64(set)
			v := &f.Views[i]
			if learned {
				q.standing = q.records.Of(i)
			}
			k := key(&q.Case, v, &q.standing)
			if k.Unscored() {
				if spare--; spare >= 0 {
					budget++
				}
				continue
			}
			if last := coordinator.MaxCandidates - 1; best.kept > last && !f.Better(i, k, best.agent[last], best.key[last]) {
				continue // as most do
			}
			f.offer(&best, i, k)
		}
	}
	return best
}

// offer puts agent i into its place in the ranking. When all places are taken, it
// must be better than the last of them.
func (f *Fleet) offer(best *ranking, i int, k coordinator.Key) {
	best.kept = min(best.kept+1, coordinator.MaxCandidates)
	at := best.kept - 1
	for ; at > 0 && f.Better(i, k, best.agent[at-1], best.key[at-1]); at-- {
		best.agent[at], best.key[at] = best.agent[at-1], best.key[at-1]
	}
	best.agent[at], best.key[at] = i, k
}

// Better orders two agents: the smaller key, then the one assigned less
// recently, then the smaller id (agents are numbered in the order of ids).
func (f *Fleet) Better(i int, ki coordinator.Key, j int, kj coordinator.Key) bool {
	switch {
	case ki.First != kj.First:
		return ki.First < kj.First
	case ki.Second != kj.Second:
		return ki.Second < kj.Second
	}
	if a, b := f.Views[i].LastAssigned, f.Views[j].LastAssigned; a != b {
		return a < b
	}
	return i < j
}

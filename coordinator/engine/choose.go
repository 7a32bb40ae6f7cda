package engine

import (
	"math/bits"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// The choice looks at every eligible agent up to exactLimit of them; beyond, at
// sampleSize of them from an offset that is a hash of the task. The best of 256
// uniform samples is better than 99.6 % of the agents (256/257), and looking at
// thousands would cost more than it gains.
const (
	exactLimit = 1024
	sampleSize = 256
)

// decisionWithRoom is a decision and the room for its candidates in one
// allocation.
type decisionWithRoom struct {
	coordinator.Decision
	room [coordinator.MaxCandidates]coordinator.Candidate
}

// ranking is the best agents seen so far, by number, best first.
type ranking struct {
	kept  int
	agent [coordinator.MaxCandidates]int
	key   [coordinator.MaxCandidates]coordinator.Key
}

// choose picks the best ready agent out of feasible for the task, preferred
// agents first. It returns nil when none is ready.
func (f *fleet) choose(t *coordinator.Task, s *strategy.Strategy, feasible, preferred bitset, seed uint64) (*agent, *coordinator.Decision) {
	among := feasible
	eligible := feasible.common(f.ready)
	if eligible == 0 {
		return nil, nil
	}
	d := &decisionWithRoom{}
	d.Strategy, d.Fleet, d.Eligible = s.Name, len(f.agents), eligible
	if preferred != nil {
		narrowed := make(bitset, len(feasible))
		for i := range narrowed {
			narrowed[i] = feasible[i] & preferred[i]
		}
		if n := narrowed.common(f.ready); n > 0 {
			among, eligible, d.Preferred = narrowed, n, true
		}
	}
	start, budget := 0, eligible
	if eligible > exactLimit {
		start, budget = int(hash64(string(t.ID), seed)%uint64(len(among))), sampleSize
	}
	best := f.rank(t, s.Key, among, start, budget)
	for n, i := range best.agent[:best.kept] {
		v := &f.views[i]
		d.room[n] = coordinator.Candidate{Agent: v.ID, Load: v.Load, Free: v.Free, Key: best.key[n]}
	}
	d.Candidates = d.room[:best.kept]
	winner := f.agents[best.agent[0]]
	d.Agent = winner.spec.ID
	return winner, &d.Decision
}

// rank finds the best of among and ready, looking at no more than budget agents
// from word start on.
func (f *fleet) rank(t *coordinator.Task, key strategy.Func, among bitset, start, budget int) (best ranking) {
	for w := range among {
		word := start + w
		if word >= len(among) {
			word -= len(among)
		}
		for set := among[word] & f.ready[word]; set != 0; set &= set - 1 {
			if budget == 0 {
				return best
			}
			budget--
			i := word<<6 + bits.TrailingZeros64(set)
			k := key(t, &f.views[i])
			if last := coordinator.MaxCandidates - 1; best.kept > last && !f.better(i, k, best.agent[last], best.key[last]) {
				continue // as most do
			}
			f.offer(&best, i, k)
		}
	}
	return best
}

// offer puts agent i into its place in the ranking. When all places are taken, it
// must be better than the last of them.
func (f *fleet) offer(best *ranking, i int, k coordinator.Key) {
	best.kept = min(best.kept+1, coordinator.MaxCandidates)
	at := best.kept - 1
	for ; at > 0 && f.better(i, k, best.agent[at-1], best.key[at-1]); at-- {
		best.agent[at], best.key[at] = best.agent[at-1], best.key[at-1]
	}
	best.agent[at], best.key[at] = i, k
}

// better orders two agents: the smaller key, then the one assigned less
// recently, then the smaller id (agents are numbered in the order of ids).
func (f *fleet) better(i int, ki coordinator.Key, j int, kj coordinator.Key) bool {
	switch {
	case ki[0] != kj[0]:
		return ki[0] < kj[0]
	case ki[1] != kj[1]:
		return ki[1] < kj[1]
	}
	if a, b := f.views[i].LastAssigned, f.views[j].LastAssigned; a != b {
		return a < b
	}
	return i < j
}

// hash64 is FNV-1a over the text, finished with the mixer of SplitMix64: chance
// that repeats in a replay.
func hash64(text string, seed uint64) uint64 {
	h := 14695981039346656037 ^ seed
	for i := 0; i < len(text); i++ {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

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
	best [coordinator.MaxCandidates]int
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
	n := f.rank(d, t, s.Key, among, start, budget)
	d.Candidates = d.room[:n]
	winner := f.agents[d.best[0]]
	d.Agent = winner.spec.ID
	return winner, &d.Decision
}

// rank fills d's room with the best of among and ready, looking at no more than
// budget agents from word start on, and returns how many it kept.
func (f *fleet) rank(d *decisionWithRoom, t *coordinator.Task, key strategy.Func, among bitset, start, budget int) int {
	kept := 0
	for w := range among {
		word := start + w
		if word >= len(among) {
			word -= len(among)
		}
		for set := among[word] & f.ready[word]; set != 0; set &= set - 1 {
			if budget == 0 {
				return kept
			}
			budget--
			i := word<<6 + bits.TrailingZeros64(set)
			k := key(t, &f.views[i])
			if last := len(d.best) - 1; kept > last && !f.better(i, k, d.best[last], d.room[last].Key) {
				continue // as most do
			}
			kept = f.offer(d, kept, i, k)
		}
	}
	return kept
}

// offer puts agent i into its place among the kept candidates. When all places
// are taken, it must be better than the last of them.
func (f *fleet) offer(d *decisionWithRoom, kept, i int, k coordinator.Key) int {
	at := kept
	for at > 0 && f.better(i, k, d.best[at-1], d.room[at-1].Key) {
		at--
	}
	if kept < coordinator.MaxCandidates {
		kept++
	}
	copy(d.room[at+1:kept], d.room[at:])
	copy(d.best[at+1:kept], d.best[at:])
	v := &f.views[i]
	d.room[at] = coordinator.Candidate{Agent: v.ID, Load: v.Load, Free: v.Free, Key: k}
	d.best[at] = i
	return kept
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

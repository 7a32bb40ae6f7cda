package engine

import (
	"math/bits"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// The choice looks at every eligible agent up to exactLimit of them; beyond, at
// sampleSize of them from an offset that is a hash of the task. The best of 256
// uniform samples is better than 99.6 % of the agents (256/257), and looking at
// thousands would cost more than it gains: 512 take the dearest strategy 10 µs.
const (
	exactLimit = 512
	sampleSize = 256
)

// decisionWithRoom is a decision and the room for its candidates and refusals.
type decisionWithRoom struct {
	coordinator.Decision
	room  [coordinator.MaxCandidates]coordinator.Candidate
	named [coordinator.MaxNamed]coordinator.Refusal
}

// dispatchWithDecision is a dispatch with its decision in one allocation. The choice
// writes the latter in place.
type dispatchWithDecision struct {
	coordinator.Dispatch
	decision decisionWithRoom
}

// carrying is the dispatch that is to carry the decision: that into which it was
// written, if it is the latest choice, or a new one with a copy.
func (q *question) carrying(d *coordinator.Decision) *dispatchWithDecision {
	if next := q.next; next != nil && d == &next.decision.Decision {
		q.next = nil
		return next
	}
	made := &dispatchWithDecision{}
	made.decision.keep(d)
	return made
}

// keep copies a decision, so that it outlives the next.
func (d *decisionWithRoom) keep(from *coordinator.Decision) {
	d.Decision = *from
	d.Candidates = d.room[:copy(d.room[:], from.Candidates)]
	d.Refusals = d.named[:copy(d.named[:], from.Refusals)]
}

// ranking is the best agents seen so far, by number, best first.
type ranking struct {
	kept  int
	agent [coordinator.MaxCandidates]int
	key   [coordinator.MaxCandidates]coordinator.Key
}

// question is a task for which an agent is sought: what is asked of the agents,
// how they are compared, and what came of it. The engine has one, used again for
// every decision, because whatever a strategy is handed would be allocated anew.
type question struct {
	coordinator.Case
	asker     *openTask
	standing  coordinator.Standing // of the agent looked at
	next      *dispatchWithDecision
	strategy  *coordinator.Strategy
	feasible  agentset.Set
	free      agentset.Set // those that may be given the task now, if they are feasible
	preferred agentset.Set // nil: none
	narrowed  agentset.Set // room for the preferred ones among the feasible
	standings standings
	seed      uint64
}

// choose picks the best ready agent for the task, preferred agents first. It
// returns nil when none is ready, or the strategy gives none of them a score. The
// decision is the question's: whoever wants to have it must copy it.
func (f *agents) choose(q *question) (*agent, *coordinator.Decision) {
	eligible := q.feasible.Common(q.free)
	if eligible == 0 {
		return nil, nil
	}
	if q.next == nil {
		q.next = &dispatchWithDecision{}
	}
	d := &q.next.decision
	d.Decision = coordinator.Decision{}
	if narrowed, n := q.narrow(q.free); n > 0 {
		d.Preferred = true
		if best := f.rank(q, narrowed, n); best.kept > 0 {
			return f.decide(d, q, &best, eligible)
		}
		d.Preferred = false
	}
	best := f.rank(q, q.feasible, eligible)
	if best.kept == 0 {
		return nil, nil
	}
	return f.decide(d, q, &best, eligible)
}

// narrow gives the preferred ones among the feasible, and how many of them are ready. The
// set is valid until the next time.
func (q *question) narrow(ready agentset.Set) (narrowed agentset.Set, n int) {
	if q.preferred == nil {
		return nil, 0
	}
	narrowed = q.narrowed[:0]
	for i, word := range q.feasible {
		narrowed = append(narrowed, word&q.preferred[i])
	}
	q.narrowed = narrowed
	return narrowed, narrowed.Common(ready)
}

// decide writes down a choice.
func (f *agents) decide(d *decisionWithRoom, q *question, best *ranking, eligible int) (*agent, *coordinator.Decision) {
	s := q.strategy
	d.Strategy, d.Terms, d.Scored = s.Name, s.Terms, s.Scored
	d.Fleet, d.Eligible, d.Explored = len(f.Agents), eligible, q.standings.explores
	for n, i := range best.agent[:best.kept] {
		f.candidate(&d.room[n], q, i, best.key[n])
	}
	d.Candidates = d.room[:best.kept]
	winner := f.Agents[best.agent[0]]
	d.Agent = winner.Spec.ID
	allowed := eligible
	if usable := q.asker.needs.class.usable; &q.feasible[0] != &usable[0] { // the others lack quota of their own
		allowed = usable.Common(q.free)
	}
	f.refuse(d, q.asker, q.free, allowed)
	return winner, &d.Decision
}

// candidate writes down how the strategy saw agent i.
func (f *agents) candidate(c *coordinator.Candidate, q *question, i int, k coordinator.Key) {
	v := &f.Views[i]
	c.Agent, c.Load, c.Free, c.Key, c.Terms = v.ID, v.Load, v.Free, k, coordinator.TermValues{}
	if q.strategy.Explain == nil {
		c.Terms[0], c.Terms[1] = k.First, k.Second
		return
	}
	q.standing = coordinator.Standing{}
	if q.strategy.Learned {
		q.standing = q.standings.of(i)
	}
	q.strategy.Explain(&q.Case, v, &q.standing, &c.Terms)
}

// key is what the strategy makes of agent i.
func (f *agents) key(q *question, i int) coordinator.Key {
	v := &f.Views[i]
	if q.strategy.Learned {
		q.standing = q.standings.of(i)
	}
	return q.strategy.Key(&q.Case, v, &q.standing)
}

// rank finds the best of those among that are ready, of whom there are eligible.
func (f *agents) rank(q *question, among agentset.Set, eligible int) (best ranking) {
	key, learned := q.strategy.Key, q.strategy.Learned
	start, budget, limit, sample := 0, eligible, exactLimit, sampleSize
	if n := q.strategy.Sample; n > 0 {
		limit, sample = n, n
	}
	if eligible > limit {
		start, budget = int(coordinator.Hash(string(q.Task.ID), q.seed)%uint64(len(among))), sample
	}
	spare := limit // looks at others, in place of those who get no score
	for w := range among {
		word := start + w
		if word >= len(among) {
			word -= len(among)
		}
		for set := among[word] & q.free[word]; set != 0; set &= set - 1 {
			if budget == 0 {
				return best
			}
			budget--
			i := word<<6 + bits.TrailingZeros64(set)
			v := &f.Views[i]
			if learned {
				q.standing = q.standings.of(i)
			}
			k := key(&q.Case, v, &q.standing)
			if k.Unscored() {
				if spare--; spare >= 0 {
					budget++
				}
				continue
			}
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
func (f *agents) offer(best *ranking, i int, k coordinator.Key) {
	best.kept = min(best.kept+1, coordinator.MaxCandidates)
	at := best.kept - 1
	for ; at > 0 && f.better(i, k, best.agent[at-1], best.key[at-1]); at-- {
		best.agent[at], best.key[at] = best.agent[at-1], best.key[at-1]
	}
	best.agent[at], best.key[at] = i, k
}

// better orders two agents: the smaller key, then the one assigned less
// recently, then the smaller id (agents are numbered in the order of ids).
func (f *agents) better(i int, ki coordinator.Key, j int, kj coordinator.Key) bool {
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

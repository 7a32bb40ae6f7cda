package choice

import (
	"strings"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/learning"
)

// Fleet is what a choice reads of the agents, by their numbers, which are in the order of their ids. All of it is the
// caller's.
type Fleet struct {
	Views  []coordinator.AgentView
	Stated []float64 // success rates that the configuration states, below 0 where it does not; nil: it states none
	// Causes are why each agent may not have work, whatever the task; ByCause are the agents of each, and Tally is how
	// many they are.
	Causes  []coordinator.Ineligibility
	ByCause *[coordinator.NumIneligibilities]agentset.Set
	Tally   *[coordinator.NumIneligibilities]int
	Index   *criteria.Fleet
	Learner *learning.Learner
}

// Question is a task for which an agent is sought. One is used again for every decision, because whatever a strategy
// is handed would be allocated anew: set what is exported, then call Prepare.
type Question struct {
	Fleet Fleet // first, because that makes the loop over the agents 5 % faster
	coordinator.Case
	Strategy *coordinator.Strategy
	Seed     uint64
	Attempt  int            // of the task: its first is 1
	Kind     *learning.Type // what is known of tasks of its type
	// Met are the agents that could ever have the task, and Usable those of them that are not ejected: the same
	// set if none is.
	Met    *criteria.Feasible
	Usable agentset.Set
	// Among are those among which is chosen: Usable, or some of them if the others lack quota of their own.
	Among     agentset.Set
	Free      agentset.Set // those that may be given such a task now
	Alone     bool         // those have nothing else in hand, because it must be alone
	Preferred agentset.Set // nil: none

	records  TrackRecords
	standing coordinator.Standing // of the agent looked at
	narrowed agentset.Set         // see Narrow
	next     *dispatch            // into which the next decision is written
}

// Prepare completes a question after its exported fields have been set.
func (q *Question) Prepare() {
	q.standing, q.records = coordinator.Standing{}, TrackRecords{}
	if q.Strategy.Learned {
		q.records = q.Fleet.TrackRecords(q.Task, q.Attempt, q.Kind, q.Strategy, q.Seed)
		q.Reference = q.Fleet.Learner.Reference(q.Kind)
	}
	if q.Strategy.Prepare != nil {
		q.Strategy.Prepare(&q.Case)
	}
}

// Choose returns the number of the best agent, preferred ones first; below 0: none is free, or the strategy gives none
// of them a score. The decision is the question's: see Dispatch and Kept.
func (q *Question) Choose() (winner int, d *coordinator.Decision) {
	eligible := q.Among.Common(q.Free)
	if eligible == 0 {
		return -1, nil
	}
	if q.next == nil {
		q.next = &dispatch{}
	}
	kept := &q.next.decision
	kept.Decision = coordinator.Decision{}
	if narrowed, n := q.Narrow(q.Free); n > 0 {
		kept.Preferred = true
		if best := q.rank(narrowed, n); best.kept > 0 {
			return q.decide(kept, &best, eligible)
		}
		kept.Preferred = false
	}
	best := q.rank(q.Among, eligible)
	if best.kept == 0 {
		return -1, nil
	}
	return q.decide(kept, &best, eligible)
}

// Narrow returns the preferred agents among those in question, and how many of them are ready. The
// set is valid until the next time.
func (q *Question) Narrow(ready agentset.Set) (narrowed agentset.Set, n int) {
	if q.Preferred == nil {
		return nil, 0
	}
	narrowed = q.narrowed[:0]
	for i, word := range q.Among {
		narrowed = append(narrowed, word&q.Preferred[i])
	}
	q.narrowed = narrowed
	return narrowed, narrowed.Common(ready)
}

// decide writes down a choice.
func (q *Question) decide(d *Kept, best *ranking, eligible int) (int, *coordinator.Decision) {
	s := q.Strategy
	d.Strategy, d.Terms, d.Scored = s.Name, s.Terms, s.Scored
	d.Fleet, d.Eligible, d.Explored = len(q.Fleet.Views), eligible, q.records.explores
	for n, i := range best.agent[:best.kept] {
		q.Candidate(&d.candidates[n], i, best.key[n])
	}
	d.Candidates = d.candidates[:best.kept]
	winner := best.agent[0]
	d.Agent = q.Fleet.Views[winner].ID
	allowed := eligible
	if &q.Among[0] != &q.Usable[0] { // the others lack quota of their own
		allowed = q.Usable.Common(q.Free)
	}
	q.Refuse(d, allowed)
	return winner, &d.Decision
}

// Candidate writes down how the strategy saw agent i.
func (q *Question) Candidate(c *coordinator.Candidate, i int, k coordinator.Key) {
	v := &q.Fleet.Views[i]
	c.Agent, c.Load, c.Free, c.Key, c.Terms = v.ID, v.Load, v.Free, k, coordinator.TermValues{}
	if q.Strategy.Explain == nil {
		c.Terms[0], c.Terms[1] = k.First, k.Second
		return
	}
	q.standing = coordinator.Standing{}
	q.lookUp(i)
	q.Strategy.Explain(&q.Case, v, &q.standing, &c.Terms)
}

// Key returns what the strategy makes of agent i.
func (q *Question) Key(i int) coordinator.Key {
	q.lookUp(i)
	return q.Strategy.Key(&q.Case, &q.Fleet.Views[i], &q.standing)
}

// lookUp sets the standing to that of agent i, where the strategy reads it.
func (q *Question) lookUp(i int) {
	if q.Strategy.Learned {
		q.standing = q.records.Of(i)
	}
}

// maxWhy is how many characters of a strategy's own words a refusal repeats.
const maxWhy = 200

// Why returns what the strategy says of an agent that it gives no score.
func (q *Question) Why(i int) string {
	if q.Strategy.Why == nil {
		return ""
	}
	q.lookUp(i)
	why := q.Strategy.Why(&q.Case, &q.Fleet.Views[i], &q.standing)
	why = strings.ToValidUTF8(strings.Join(strings.Fields(why), " "), "")
	if len(why) > maxWhy {
		why = strings.ToValidUTF8(why[:maxWhy], "") + "…"
	}
	return why
}

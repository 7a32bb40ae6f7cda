package claims

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator/pull"
)

// How long a plan is used for later claims. One looks at every agent: with one for each task, 10,000
// agents that claim would share 200 tasks a second.
const (
	// MaxAge is how old it may be.
	MaxAge = 100 * time.Millisecond
	// reuse is of how many of its agents one may be granted something by it in later rounds: its parts
	// are off by less than an item for so many. A smaller fleet has a new plan each time.
	reuse = 128
)

// Reach is what waits that an agent could have.
type Reach[C comparable] struct {
	Classes []C // in the kernel's order
	Tasks   int // that wait for nothing but an agent
}

// Plan divides the work among the agents that claim and could have some of it. It is the same for all that
// reach the same classes, and depends on no others.
type Plan[C comparable] struct {
	*pull.Plan
	classes []C
	round   uint64 // in which it was made; 0: something was given since that it does not know of
	made    time.Time
	until   time.Time // made and MaxAge later: it is too old
	left    int       // how many claims of later rounds may be granted something by it
}

// Made returns when the plan was made.
func (p *Plan[C]) Made() time.Time { return p.made }

// Left returns how many claims of later rounds it may grant something.
func (p *Plan[C]) Left() int { return p.left }

// Plan returns the plan for a claim of an agent that reaches the classes of key: one of this round, or if
// formers says so one of a round before that is good yet. renew: that must be told first what waits and what
// the agent has in hand (Renew). nil: a plan must be made.
func (l *Line[A, C]) Plan(now time.Time, key []byte, formers bool) (p *Plan[C], renew bool) {
	switch p = l.plans[string(key)]; {
	case p == nil:
		return nil, false
	case p.round == l.round:
		return p, false
	case formers && p.left > 0 && now.Before(p.until):
		return p, true
	}
	return nil, false
}

// Told returns the plan that an answer tells of that grants nothing by it: any that is not too old, where the
// fleet is large. It must be renewed. nil: a plan must be made.
func (l *Line[A, C]) Told(now time.Time, key []byte) *Plan[C] {
	p := l.plans[string(key)]
	if p == nil || p.Agents < reuse || !now.Before(p.until) {
		return nil
	}
	return p
}

// NewPlan makes the plan for those that reach the classes of key.
func (l *Line[A, C]) NewPlan(now time.Time, key []byte, classes []C, f pull.Fleet) *Plan[C] {
	if l.plans == nil {
		l.plans = make(map[string]*Plan[C])
	}
	maps.DeleteFunc(l.plans, func(_ string, p *Plan[C]) bool { return p.round != l.round && !now.Before(p.until) })
	p := &Plan[C]{Plan: pull.NewPlan(now, f, pull.Settings{}), classes: slices.Clone(classes), round: l.round, made: now}
	p.until = now.Add(MaxAge)
	p.left = p.Agents / reuse
	l.plans[string(key)] = p
	return p
}

// Former reports whether the plan is of a round before this, or does not know of all that was given.
func (l *Line[A, C]) Former(p *Plan[C]) bool { return p.round != l.round }

// Granted notes that something was given by the plan. counted: as its parts have it. Else, as all other plans,
// it is good for no other claim of its round: others may share what was given.
func (l *Line[A, C]) Granted(by *Plan[C], counted bool) {
	if by.round != l.round {
		by.left--
	}
	for _, p := range l.plans { // order does not matter
		if p != by || !counted {
			p.round = 0
		}
	}
}

// Plans yields the plans that may be used again, in no order. It is for tests.
func (l *Line[A, C]) Plans(yield func(*Plan[C]) bool) {
	for _, p := range l.plans {
		if !yield(p) {
			return
		}
	}
}

// SetEnough notes that the plan has granted the claim nothing.
func (p *Place[A, C]) SetEnough(by *Plan[C]) { p.enough = by }

// HasEnough reports whether the claim need not be asked for again: the plan that granted it nothing is good yet, and
// the agent reaches the same classes.
func (p *Place[A, C]) HasEnough(now time.Time, r Reach[C]) bool {
	by := p.enough
	return by != nil && by.left != 0 && now.Before(by.until) && slices.Equal(by.classes, r.Classes)
}

// Grant returns how many of so many waiting tasks the agent may have now, and why not more. literal: as many as
// it has slots free, whatever its part.
func (s *Seat[C]) Grant(p *Plan[C], literal bool, tasks, free int) pull.Grant {
	most := min(s.Claim.MaxItems, tasks)
	var g pull.Grant
	if literal {
		g = pull.Grant{Items: min(most, free), FairShare: p.FairShare(s.Claim.Agent)}
		if g.Items == free {
			g.Limit = pull.LimitSlots
		}
	} else {
		g = p.Grant(pull.Claim{Agent: s.Claim.Agent, MaxItems: most})
	}
	switch {
	case g.Items == s.Claim.MaxItems:
		g.Limit = pull.LimitNone
	case g.Items == most:
		g.Limit = pull.LimitUnclaimed
	}
	return g
}

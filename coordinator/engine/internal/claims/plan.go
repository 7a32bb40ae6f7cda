package claims

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
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

// View is what plans are made of. Nothing of it changes while it is asked.
type View[A any, C comparable] interface {
	// Seat returns the agent's, how it claims, and how many tasks it could take now.
	Seat(a A) (s *Seat[C], mode coordinator.PullMode, free int)
	// Limit returns what keeps the agent from being granted anything of what it reaches, but for its part.
	Limit(a A, r Reach[C]) pull.Limit
	// Member returns the agent as plans see it.
	Member(now time.Time, a A) pull.Agent
	// Sharers returns the agents that claim and could have some of what this one reaches, too; this one is
	// among them if it may have work.
	Sharers(now time.Time, a A, r Reach[C]) []pull.Agent
	// Key names a class.
	Key(c C) string
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

// keyOf returns a key of what is reached: agents that reach the same classes share one plan. It is valid until
// the next call.
func (l *Line[A, C]) keyOf(r Reach[C], v View[A, C]) []byte {
	l.key = l.key[:0]
	for _, c := range r.Classes {
		key := v.Key(c)
		l.key = append(binary.AppendUvarint(l.key, uint64(len(key))), key...)
	}
	return l.key
}

// plan returns the plan for a claim of the agent: of this round, or a former one that is good yet, or a new one.
func (l *Line[A, C]) plan(now time.Time, a A, r Reach[C], v View[A, C]) *Plan[C] {
	key := l.keyOf(r, v)
	switch p := l.plans[string(key)]; {
	case p == nil:
	case p.round == l.round:
		return p
	case l.formers && p.left > 0 && now.Before(p.until):
		p.Renew(v.Member(now, a), r.Tasks)
		return p
	}
	return l.newPlan(now, key, a, r, v)
}

// Told returns the plan that is reported in an answer that grants nothing by it: any that is not too old, where the
// fleet is large; else a new one.
func (l *Line[A, C]) Told(now time.Time, a A, r Reach[C], v View[A, C]) *Plan[C] {
	key := l.keyOf(r, v)
	p := l.plans[string(key)]
	if p == nil || p.Agents < reuse || !now.Before(p.until) {
		return l.newPlan(now, key, a, r, v)
	}
	p.Renew(v.Member(now, a), r.Tasks)
	return p
}

// newPlan divides what the agent reaches among those that share it. While nothing waits, all that claim do.
func (l *Line[A, C]) newPlan(now time.Time, key []byte, a A, r Reach[C], v View[A, C]) *Plan[C] {
	f := pull.Fleet{Unclaimed: r.Tasks, Agents: v.Sharers(now, a, r)}
	if l.plans == nil {
		l.plans = make(map[string]*Plan[C])
	}
	maps.DeleteFunc(l.plans, func(_ string, p *Plan[C]) bool { return p.round != l.round && !now.Before(p.until) })
	p := &Plan[C]{Plan: pull.NewPlan(now, f, pull.Settings{}), classes: slices.Clone(r.Classes), round: l.round, made: now}
	p.until = now.Add(MaxAge)
	p.left = p.Agents / reuse
	l.plans[string(key)] = p
	return p
}

// Ask returns how much the claim may be granted of what its agent reaches, and by which plan; nil: it is passed over.
func (l *Line[A, C]) Ask(now time.Time, p *Place[A, C], r Reach[C], v View[A, C]) (g pull.Grant, by *Plan[C]) {
	switch {
	case r.Tasks == 0: // most often, where agents differ in what they can do
		return g, nil
	case l.formers && p.hasEnough(now, r):
		l.left, l.former = true, true
		return g, nil
	case v.Limit(p.Agent, r) != pull.LimitNone:
		return g, nil
	}
	by = l.plan(now, p.Agent, r, v)
	s, mode, free := v.Seat(p.Agent)
	return s.grant(by, mode == coordinator.PullLiteral, r.Tasks, free), by
}

// Given takes over how many tasks the agent was given of what Ask granted its claim, and returns what is to be
// answered; false: it got none, and waits on.
func (l *Line[A, C]) Given(p *Place[A, C], g pull.Grant, by *Plan[C], got int, v View[A, C]) (pull.Grant, bool) {
	if got == 0 {
		l.left = true
		if g.Items == 0 {
			p.enough = by
			l.former = l.former || by.round != l.round
		}
		return g, false
	}
	s, mode, _ := v.Seat(p.Agent)
	if g.Items = got; got < s.Claim.MaxItems && g.Limit == pull.LimitNone {
		g.Limit = pull.LimitUnavailable // it is on trial, and has had its one task
	}
	l.granted(by, mode == coordinator.PullShared)
	return g, true
}

// granted notes that something was given by the plan. counted: as its parts have it. Else, as all other plans,
// it is good for no other claim of its round: others may share what was given.
func (l *Line[A, C]) granted(by *Plan[C], counted bool) {
	if by.round != l.round {
		by.left--
	}
	for _, p := range l.plans { // order does not matter
		if p != by || !counted {
			p.round = 0
		}
	}
}

// Answer returns the answer to the agent's claim.
func (p *Plan[C]) Answer(s *Seat[C], g pull.Grant) coordinator.ClaimAnswered {
	return coordinator.ClaimAnswered{
		Agent: s.Claim.Agent, ClaimID: s.Claim.ClaimID, Granted: g.Items, Limit: g.Limit.String(), Token: s.Claim.Token,
		Fleet: coordinator.PullFleet{
			Agents: p.Agents, Pending: p.Pending(), Unclaimed: p.Unclaimed(), Capacity: p.Capacity, Target: p.Target,
			FairShare: g.FairShare,
		},
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

// hasEnough reports whether the claim need not be asked for again: the plan that granted it nothing is good yet, and
// the agent reaches the same classes.
func (p *Place[A, C]) hasEnough(now time.Time, r Reach[C]) bool {
	by := p.enough
	return by != nil && by.left != 0 && now.Before(by.until) && slices.Equal(by.classes, r.Classes)
}

// grant returns how many of so many waiting tasks the agent may have now, and why not more. literal: as many as
// it has slots free, whatever its part.
func (s *Seat[C]) grant(p *Plan[C], literal bool, tasks, free int) pull.Grant {
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

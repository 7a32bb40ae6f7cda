package claims

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
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

// Agent is what is read of an agent.
type Agent[C comparable] struct {
	Seat         *Seat[C]
	Number       int // in the fleet; -1: it has left
	Mode         coordinator.PullMode
	InHand, Free int  // tasks that it has, and could take beside them
	Present      bool // it may have work, when it can take some
	Reachable    bool // and what it is given gets there
}

// View is what is read of the kernel. Nothing of it changes while it is asked.
type View[A, C comparable] interface {
	Agent(a A) Agent[C]
	// Measured returns how many items the agent was seen to do in a second; 0: that is not known.
	Measured(now time.Time, a A) float64
	// Ejected reports whether something waits that the agent could do, but may not have.
	Ejected(a A) bool
	// Affords reports whether there is quota for giving the agent some of what another reaches.
	Affords(now time.Time, a A, r Reach[C]) bool
	// Class returns the name of a class, and the agents that may have its tasks.
	Class(c C) (key string, usable agentset.Set)
}

// Plan divides the work among the agents that claim and could have some of it. It is the same for all that
// reach the same classes, and depends on no others.
type Plan[C comparable] struct {
	*pull.Plan
	classes []C
	round   uint64 // in which it was made; 0: something was given since that it does not know of
	Made    time.Time
	until   time.Time // Made and MaxAge later: it is too old
	Left    int       // how many claims of later rounds may be granted something by it
}

// keyOf returns a key of what is reached: agents that reach the same classes share one plan. It is valid until
// the next call.
func (l *Line[A, C]) keyOf(r Reach[C], v View[A, C]) []byte {
	l.key = l.key[:0]
	for _, c := range r.Classes {
		key, _ := v.Class(c)
		l.key = append(binary.AppendUvarint(l.key, uint64(len(key))), key...)
	}
	return l.key
}

// plan returns the plan for a claim of the agent: of this round, or a former one that is good yet, or a new one.
func (l *Line[A, C]) plan(now time.Time, a A, r Reach[C], v View[A, C]) *Plan[C] {
	key := l.keyOf(r, v)
	switch p := l.Plans[string(key)]; {
	case p == nil:
	case p.round == l.round:
		return p
	case l.formers && p.Left > 0 && now.Before(p.until):
		p.Renew(member(now, a, v.Agent(a), v), r.Tasks)
		return p
	}
	return l.newPlan(now, key, a, r, v)
}

// Reported returns the plan that is reported in an answer that grants nothing by it: any that is not too old, where
// the fleet is large; else a new one.
func (l *Line[A, C]) Reported(now time.Time, a A, r Reach[C], v View[A, C]) *Plan[C] {
	key := l.keyOf(r, v)
	p := l.Plans[string(key)]
	if p == nil || p.Agents < reuse || !now.Before(p.until) {
		return l.newPlan(now, key, a, r, v)
	}
	p.Renew(member(now, a, v.Agent(a), v), r.Tasks)
	return p
}

// newPlan divides what the agent reaches among those that share it. While nothing waits, all that claim do.
func (l *Line[A, C]) newPlan(now time.Time, key []byte, a A, r Reach[C], v View[A, C]) *Plan[C] {
	f := pull.Fleet{Unclaimed: r.Tasks, Agents: l.sharers(now, a, r, v)}
	if l.Plans == nil {
		l.Plans = make(map[string]*Plan[C])
	}
	maps.DeleteFunc(l.Plans, func(_ string, p *Plan[C]) bool { return p.round != l.round && !now.Before(p.until) })
	p := &Plan[C]{Plan: pull.NewPlan(now, f, pull.Settings{}), classes: slices.Clone(r.Classes), round: l.round, Made: now}
	p.until = now.Add(MaxAge)
	p.Left = p.Agents / reuse
	l.Plans[string(key)] = p
	return p
}

// sharers are the agents that claim and could have some of what this one reaches, too; this one is among them if it may
// have work. The part of one that could not take it would be reserved for it.
func (l *Line[A, C]) sharers(now time.Time, of A, r Reach[C], v View[A, C]) []pull.Agent {
	sharing := agentset.New(len(l.agents))
	for _, c := range r.Classes {
		_, usable := v.Class(c)
		sharing.Unite(usable)
	}
	if sharing.Keep(l.pullers); r.Tasks == 0 {
		sharing = l.pullers
	}
	agents := make([]pull.Agent, 0, max(l.waiting, 16))
	sharing.Each(func(i int) {
		a := l.agents[i]
		if x := v.Agent(a); x.Present && x.Seat.Claimed() && (a == of || r.Tasks == 0 || v.Affords(now, a, r)) {
			agents = append(agents, member(now, a, x, v))
		}
	})
	return agents
}

// member returns the agent as plans see it.
func member[A, C comparable](now time.Time, a A, x Agent[C], v View[A, C]) pull.Agent {
	m := x.Seat.Member(now, x.InHand, x.Free)
	if m.Capacity == 0 {
		m.Capacity = v.Measured(now, a)
	}
	return m
}

// Limit returns what keeps the agent from being granted anything of what it reaches, but for its part.
func Limit[A, C comparable](a A, r Reach[C], v View[A, C]) pull.Limit {
	switch x := v.Agent(a); {
	case !x.Reachable:
		return pull.LimitUnavailable
	case x.Free == 0:
		return pull.LimitSlots
	case r.Tasks > 0:
		return pull.LimitNone
	case v.Ejected(a):
		return pull.LimitUnavailable
	}
	return pull.LimitUnclaimed
}

// Ask returns how much the claim may be granted of what its agent reaches, and by which plan; nil: it is passed over.
func (l *Line[A, C]) Ask(now time.Time, p *Place[A, C], r Reach[C], v View[A, C]) (g pull.Grant, by *Plan[C]) {
	switch {
	case r.Tasks == 0: // most often, where agents differ in what they can do
		return g, nil
	case l.formers && p.hasEnough(now, r):
		l.left, l.former = true, true
		return g, nil
	case Limit(p.Agent, r, v) != pull.LimitNone:
		return g, nil
	}
	by = l.plan(now, p.Agent, r, v)
	x := v.Agent(p.Agent)
	return x.Seat.grant(by, x.Mode == coordinator.PullLiteral, r.Tasks, x.Free), by
}

// Given takes over how many tasks the agent was given of what Ask granted its claim, and returns the answer; false: it
// got none, and waits on.
func (l *Line[A, C]) Given(
	p *Place[A, C], g pull.Grant, by *Plan[C], got int, v View[A, C],
) (answer coordinator.ClaimAnswered, given bool) {
	if got == 0 {
		l.left = true
		if g.Items == 0 {
			p.enough = by
			l.former = l.former || by.round != l.round
		}
		return answer, false
	}
	x := v.Agent(p.Agent)
	if g.Items = got; got < x.Seat.Claim.MaxItems && g.Limit == pull.LimitNone {
		g.Limit = pull.LimitUnavailable // it is on trial, and has had its one task
	}
	l.granted(by, x.Mode == coordinator.PullShared)
	return by.answer(x.Seat, g), true
}

// Refuse returns the answer to a claim that is granted nothing for that reason.
func (l *Line[A, C]) Refuse(
	now time.Time, a A, r Reach[C], why pull.Limit, v View[A, C],
) coordinator.ClaimAnswered {
	return l.Reported(now, a, r, v).answer(v.Agent(a).Seat, pull.Grant{Limit: why})
}

// Over returns the answer to a claim that nothing could be given to in its time.
func (l *Line[A, C]) Over(now time.Time, a A, r Reach[C], v View[A, C]) coordinator.ClaimAnswered {
	p, s := l.Reported(now, a, r, v), v.Agent(a).Seat
	g := pull.Grant{Limit: Limit(a, r, v), FairShare: p.FairShare(s.Claim.Agent)}
	if g.Limit == pull.LimitNone {
		g.Limit = pull.LimitFairShare
	}
	return p.answer(s, g)
}

// AnswerOne returns the answer to a claim that is granted one task, beside which the agent is to have nothing.
func (p *Plan[C]) AnswerOne(s *Seat[C]) coordinator.ClaimAnswered {
	g := pull.Grant{Items: 1}
	if s.Claim.MaxItems > 1 {
		g.Limit = pull.LimitUnavailable
	}
	return p.answer(s, g)
}

// granted notes that something was given by the plan. counted: as its parts have it. Else, as all other plans,
// it is good for no other claim of its round: others may share what was given.
func (l *Line[A, C]) granted(by *Plan[C], counted bool) {
	if by.round != l.round {
		by.Left--
	}
	for _, p := range l.Plans { // order does not matter
		if p != by || !counted {
			p.round = 0
		}
	}
}

// answer returns the answer to the agent's claim.
func (p *Plan[C]) answer(s *Seat[C], g pull.Grant) coordinator.ClaimAnswered {
	return coordinator.ClaimAnswered{
		Agent: s.Claim.Agent, ClaimID: s.Claim.ClaimID, Granted: g.Items, Limit: g.Limit.String(), Token: s.Claim.Token,
		Fleet: coordinator.PullFleet{
			Agents: p.Agents, Pending: p.Pending(), Unclaimed: p.Unclaimed(), Capacity: p.Capacity, Target: p.Target,
			FairShare: g.FairShare,
		},
	}
}

// hasEnough reports whether the claim need not be asked for again: the plan that granted it nothing is good yet, and
// the agent reaches the same classes.
func (p *Place[A, C]) hasEnough(now time.Time, r Reach[C]) bool {
	by := p.enough
	return by != nil && by.Left != 0 && now.Before(by.until) && slices.Equal(by.classes, r.Classes)
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

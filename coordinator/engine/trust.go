package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/breaker"
)

// trust is which agents get no work that needs a capability, because they have
// failed too often with it. What package breaker decides is kept here in the form in
// which a choice can use it.
type trust struct {
	breakers *breaker.Set // nil: nobody is ejected
	settings coordinator.Breaker
	// begun is the generation with which the breakers at hand began: there may have
	// been others before, under other rules.
	begun uint64
	// ejected holds, for each capability, the agents that are not allowed; a task
	// that requires none counts as requiring noCapability.
	ejected map[string]agentset.Set
	// supply is how many agents online offer each capability.
	supply map[string]int
	// trusted may take work again that waits for somebody.
	trusted []*agent
	next    timer
	// told are the ejections that the world has been told of.
	told map[distrust]bool
}

// distrust is an agent and the capability with which it is not trusted.
type distrust struct {
	agent      coordinator.AgentID
	capability string
}

const noCapability = ""

func newTrust() trust {
	return trust{ejected: make(map[string]agentset.Set), supply: make(map[string]int), told: make(map[distrust]bool),
		next: newTimer(dutyTrust, nil, nil)}
}

// needed lists the capabilities for which trust is needed.
func needed(required []string) []string {
	if len(required) == 0 {
		return []string{noCapability}
	}
	return required
}

// capabilitiesOf lists what the task requires, whether or not it has been resolved.
func (e *Engine) capabilitiesOf(t *openTask) []string {
	if t.needs.class != nil {
		return needed(t.needs.required)
	}
	return needed(coordinator.MergeSorted(e.policy.Routes[t.task.Type].Required, t.task.Required))
}

// judgeBy takes over when an agent is ejected. Other rules begin with a clean slate.
func (e *Engine) judgeBy(s coordinator.Breaker) {
	tr := &e.trust
	if tr.breakers != nil && s == tr.settings || tr.breakers == nil && s.Off {
		return
	}
	if tr.breakers != nil {
		tr.begun += tr.breakers.Generation() + 1
	}
	tr.settings, tr.breakers = s, nil
	e.retract(func(distrust) bool { return true })
	if !s.Off {
		tr.breakers = breaker.New(breaker.Settings{Faults: s.Consecutive, Base: s.Base, Max: s.Longest, MaxShare: s.MaxShare})
	}
}

// recount tells the breakers who is there, after the fleet has changed.
func (e *Engine) recount() {
	tr := &e.trust
	clear(tr.supply)
	clear(tr.ejected)
	e.timers.cancel(&tr.next)
	for _, a := range e.fleet.agents {
		if a.state == coordinator.AgentOnline {
			tr.count(a, +1)
		}
	}
	if tr.breakers == nil {
		return
	}
	tr.breakers.Renumber(e.fleet.was)
	for _, a := range e.fleet.agents {
		for _, c := range append([]string{noCapability}, a.spec.Capabilities...) {
			tr.breakers.Away(breaker.Pair{Agent: a.number, Capability: c}, a.state != coordinator.AgentOnline)
		}
	}
	for c, n := range tr.supply { // each by itself
		tr.breakers.Supply(c, n)
	}
	for _, p := range tr.breakers.Refused() {
		e.bar(p)
	}
	e.retract(func(who distrust) bool {
		n, known := e.fleet.number(who.agent)
		return !known || tr.breakers.Look(e.now, breaker.Pair{Agent: n, Capability: who.capability}).State == breaker.Closed
	})
	e.watchTrust()
}

// retract tells of ejections that they are over.
func (e *Engine) retract(over func(distrust) bool) {
	told := e.trust.told
	list := slices.SortedFunc(maps.Keys(told), func(a, b distrust) int {
		return cmp.Or(cmp.Compare(a.agent, b.agent), cmp.Compare(a.capability, b.capability))
	})
	for _, who := range list {
		if over(who) {
			delete(told, who)
			e.emit(coordinator.AgentTrusted{Agent: who.agent, Capability: who.capability, Trusted: true})
		}
	}
}

// count notes that an agent has come or gone.
func (tr *trust) count(a *agent, by int) {
	tr.supply[noCapability] += by
	for _, c := range a.spec.Capabilities {
		tr.supply[c] += by
	}
}

// cameOrWent is called with every change of whether the agent is online.
func (e *Engine) cameOrWent(a *agent) {
	if a.number < 0 {
		return
	}
	by := -1
	if a.state == coordinator.AgentOnline {
		by = +1
	}
	tr := &e.trust
	tr.count(a, by)
	if tr.breakers == nil {
		return
	}
	for _, c := range append([]string{noCapability}, a.spec.Capabilities...) {
		e.heed(tr.breakers.Away(breaker.Pair{Agent: a.number, Capability: c}, by < 0))
		e.heed(tr.breakers.Supply(c, tr.supply[c]))
	}
}

// bar brings the place of a pair among the ejected up to date.
func (e *Engine) bar(p breaker.Pair) {
	tr := &e.trust
	e.tellTrust(p)
	set := tr.ejected[p.Capability]
	if tr.breakers.Allowed(p) {
		if set != nil && set.Has(p.Agent) {
			set.Remove(p.Agent)
			tr.trusted = append(tr.trusted, e.fleet.agents[p.Agent])
		}
		return
	}
	if set == nil {
		set = agentset.New(len(e.fleet.agents))
		tr.ejected[p.Capability] = set
	}
	set.Add(p.Agent)
}

// tellTrust tells the world when an agent is ejected, and when that is over.
func (e *Engine) tellTrust(p breaker.Pair) {
	tr := &e.trust
	who := distrust{e.fleet.agents[p.Agent].spec.ID, p.Capability}
	st := tr.breakers.Look(e.now, p)
	switch told := tr.told[who]; {
	case st.State == breaker.Open && !told && !st.Ignored:
		tr.told[who] = true
		e.emit(coordinator.AgentTrusted{Agent: who.agent, Capability: who.capability, Until: st.Until, Times: st.Opened})
	case st.State == breaker.Closed && told:
		delete(tr.told, who)
		e.emit(coordinator.AgentTrusted{Agent: who.agent, Capability: who.capability, Trusted: true})
	}
}

// heed follows a change of what the breakers allow.
func (e *Engine) heed(changed []breaker.Pair) {
	for _, p := range changed {
		e.bar(p)
	}
	for i, p := range changed {
		if slices.ContainsFunc(changed[:i], func(q breaker.Pair) bool { return q.Capability == p.Capability }) {
			continue
		}
		for _, c := range e.pending.classes {
			if slices.Contains(needed(c.required), p.Capability) {
				c.usable = e.usable(c.feasible, c.required)
			}
		}
	}
	e.watchTrust()
}

// watchTrust sets the timer for what becomes due next.
func (e *Engine) watchTrust() {
	switch at, ok := e.trust.breakers.NextDeadline(); {
	case !ok:
		e.timers.cancel(&e.trust.next)
	case e.trust.next.index < 0, !e.trust.next.at.Equal(at):
		e.timers.schedule(&e.trust.next, at)
	}
}

// trustAgain lets waiting tasks go to those who may have them again. It is done
// when everything else that an event has brought is.
func (e *Engine) trustAgain(now time.Time) {
	for len(e.trust.trusted) > 0 {
		a := e.trust.trusted[0]
		e.trust.trusted = e.trust.trusted[1:]
		e.wake(now, a)
		if a.seat.Waits() {
			e.claims.Changed()
		}
	}
	e.trust.trusted = nil
}

// usable are those of a set who are not ejected from any of the capabilities. The
// set itself is returned when that is all of them.
func (e *Engine) usable(feasible agentset.Set, required []string) agentset.Set {
	usable := feasible
	for _, c := range needed(required) {
		ejected := e.trust.ejected[c]
		if ejected.Empty() {
			continue
		}
		if &usable[0] == &feasible[0] {
			usable = slices.Clone(feasible)
		}
		for i := range usable {
			usable[i] &^= ejected[i]
		}
	}
	return usable
}

// ejectedFrom tells whether the agent is ejected from any of the capabilities.
func (e *Engine) ejectedFrom(a *agent, required []string) bool {
	return slices.ContainsFunc(needed(required), func(c string) bool {
		set := e.trust.ejected[c]
		return set != nil && set.Has(a.number)
	})
}

// ejections lists what the agent is ejected from, sorted, and when it is tried again with each; zero: it
// is being tried.
func (e *Engine) ejections(now time.Time, a *agent) (from []string, until []time.Time) {
	for c, set := range e.trust.ejected {
		if set.Has(a.number) {
			from = append(from, c)
		}
	}
	slices.Sort(from)
	for _, c := range from {
		until = append(until, e.trust.breakers.Look(now, breaker.Pair{Agent: a.number, Capability: c}).Until)
	}
	return from, until
}

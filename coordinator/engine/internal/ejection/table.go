package ejection

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/breaker"
)

// Table is which agents are ejected from which capabilities. It belongs to one goroutine. Make one with New.
type Table struct {
	breakers *breaker.Set // nil: no agent is ejected
	rules    coordinator.Breaker
	// begun is the generation with which the breakers at hand began: there may have
	// been others before, under other rules.
	begun  uint64
	agents []Agent // by number
	// ejected holds, for each capability, the numbers of the agents that get no task that needs it.
	ejected map[string]agentset.Set
	supply  map[string]int // how many agents that are online offer each capability
	trusted []int          // see NextTrusted
	// announced are the ejections that were announced, and their ends not.
	announced map[ejection]bool
	recording bool
	kept      []*coordinator.BreakerChanged // by other rules, for Renumber
	now       time.Time                     // of the latest call
	changes   Changes
}

// Agent is an agent as the table sees it.
type Agent struct {
	ID           coordinator.AgentID
	Capabilities []string
	Online       bool
}

// ejection is an agent and the capability from which it is ejected.
type ejection struct {
	agent      coordinator.AgentID
	capability string
}

// Changes are what came of a call. They are valid until the next call.
type Changes struct {
	Announced []coordinator.AgentTrusted
	Records   []*coordinator.BreakerChanged // none unless SetRecording
	// Capabilities are those for which the set of ejected agents may have changed.
	Capabilities []string
}

// Concern reports whether what Usable returns may have changed for these requirements.
func (c *Changes) Concern(required []string) bool {
	return slices.ContainsFunc(orNone(required), func(r string) bool { return slices.Contains(c.Capabilities, r) })
}

var none = []string{""}

// orNone returns the capabilities of the breakers that matter for a task with these requirements.
func orNone(required []string) []string {
	if len(required) == 0 {
		return none
	}
	return required
}

// New makes a table without agents, in which no agent is ever ejected.
func New() Table {
	return Table{rules: coordinator.Breaker{Off: true}, ejected: make(map[string]agentset.Set),
		supply: make(map[string]int), announced: make(map[ejection]bool)}
}

// SetRecording sets whether Changes have records.
func (t *Table) SetRecording(on bool) { t.recording = on }

// SetRules sets when agents are ejected: Renumber must follow. Other rules begin with a clean slate. A table that
// follows the records of another keeps what it has: they say when the other has begun anew.
func (t *Table) SetRules(now time.Time, rules coordinator.Breaker, following bool) *Changes {
	t.begin(now)
	if rules == t.rules || rules.Off && t.rules.Off {
		return &t.changes
	}
	generation := uint64(0)
	switch t.kept = nil; {
	case t.breakers == nil:
	case following:
		generation, t.kept = t.breakers.Generation(), t.states()
	default:
		if t.begun += t.breakers.Generation() + 1; t.recording {
			t.changes.Records = append(t.changes.Records, t.anew())
		}
	}
	t.rules, t.breakers = rules, nil
	t.retract(func(ejection) bool { return true })
	if !rules.Off {
		t.breakers = breaker.New(breaker.Settings{Faults: rules.Consecutive, Base: rules.Base, Max: rules.Longest,
			MaxShare: rules.MaxShare})
		t.breakers.SetGeneration(generation)
	}
	return &t.changes
}

// Renumber replaces the agents, sorted by id: was[i] is the number that agent i had before; -1: it is new.
func (t *Table) Renumber(now time.Time, agents []Agent, was []int) *Changes {
	t.begin(now)
	for i, number := range t.trusted {
		t.trusted[i] = slices.Index(was, number)
	}
	t.agents = agents
	clear(t.supply)
	clear(t.ejected)
	for i := range agents {
		if agents[i].Online {
			t.count(i, +1)
		}
	}
	if t.breakers == nil {
		return &t.changes
	}
	t.breakers.Renumber(was)
	for i := range agents {
		for p := range t.pairs(i) {
			t.breakers.Away(p, !agents[i].Online)
		}
	}
	for c, n := range t.supply { // each by itself
		t.breakers.Supply(c, n)
	}
	t.follow(t.breakers.Refused())
	t.retract(func(x ejection) bool {
		n, known := t.number(x.agent)
		return !known || t.breakers.Look(t.now, breaker.Pair{Agent: n, Capability: x.capability}).State == breaker.Closed
	})
	for _, r := range t.kept {
		t.take(r)
	}
	t.kept = nil
	return &t.changes
}

// SetOnline notes that an agent has come or gone.
func (t *Table) SetOnline(now time.Time, agent int, online bool) *Changes {
	t.begin(now)
	if t.agents[agent].Online == online {
		return &t.changes
	}
	t.agents[agent].Online = online
	if online {
		t.count(agent, +1)
	} else {
		t.count(agent, -1)
	}
	if t.breakers != nil {
		for p := range t.pairs(agent) {
			t.follow(t.breakers.Away(p, !online))
			t.follow(t.breakers.Supply(p.Capability, t.supply[p.Capability]))
		}
	}
	return &t.changes
}

// pairs are the breakers that there may be for an agent.
func (t *Table) pairs(agent int) iter.Seq[breaker.Pair] {
	return func(yield func(breaker.Pair) bool) {
		if !yield(breaker.Pair{Agent: agent}) {
			return
		}
		for _, c := range t.agents[agent].Capabilities {
			if !yield(breaker.Pair{Agent: agent, Capability: c}) {
				return
			}
		}
	}
}

// number finds an agent.
func (t *Table) number(id coordinator.AgentID) (int, bool) {
	return slices.BinarySearchFunc(t.agents, id, func(a Agent,
		id coordinator.AgentID) int {
		return cmp.Compare(a.ID, id)
	})
}

// count adds to the supply of what an agent offers.
func (t *Table) count(agent, by int) {
	t.supply[""] += by
	for _, c := range t.agents[agent].Capabilities {
		t.supply[c] += by
	}
}

// Advance applies what time alone changes; see NextDeadline. A table that folds the records of another is not advanced:
// they say when the other was.
func (t *Table) Advance(now time.Time) *Changes {
	t.begin(now)
	if t.breakers != nil {
		t.advance()
	}
	return &t.changes
}

// advance does so before anything else happens, so that there is a record of it.
func (t *Table) advance() {
	due := t.breakers.Due(t.now)
	t.follow(t.breakers.Advance(t.now))
	for _, p := range due {
		if s, known := t.breakers.Export(p); t.recording {
			t.changes.Records = append(t.changes.Records, t.record(p, s, known))
		}
	}
}

// NextDeadline returns when Advance is to be called if nothing else happens before.
func (t *Table) NextDeadline() (time.Time, bool) {
	if t.breakers == nil {
		return time.Time{}, false
	}
	return t.breakers.NextDeadline()
}

// begin empties the changes, for a call at that time.
func (t *Table) begin(now time.Time) {
	t.now = now
	c := &t.changes
	c.Announced, c.Records, c.Capabilities = c.Announced[:0], c.Records[:0], c.Capabilities[:0]
}

// follow takes over what the breakers allow now of these pairs, which are the breakers' own list.
func (t *Table) follow(changed []breaker.Pair) {
	for _, p := range changed {
		t.announce(p)
		if !slices.Contains(t.changes.Capabilities, p.Capability) {
			t.changes.Capabilities = append(t.changes.Capabilities, p.Capability)
		}
		set := t.ejected[p.Capability]
		switch {
		case !t.breakers.Allowed(p):
			if set == nil {
				set = agentset.New(len(t.agents))
				t.ejected[p.Capability] = set
			}
			set.Add(p.Agent)
		case set != nil && set.Has(p.Agent):
			set.Remove(p.Agent)
			t.trusted = append(t.trusted, p.Agent)
		}
	}
}

// announce notes that an ejection has begun, or is over.
func (t *Table) announce(p breaker.Pair) {
	x := ejection{t.agents[p.Agent].ID, p.Capability}
	st := t.breakers.Look(t.now, p)
	switch announced := t.announced[x]; {
	case st.State == breaker.Open && !announced && !st.Ignored:
		t.announced[x] = true
		t.changes.Announced = append(t.changes.Announced, coordinator.AgentTrusted{Agent: x.agent, Capability: x.capability,
			Until: st.Until, Times: st.Opened})
	case st.State == breaker.Closed && announced:
		t.announceEnd(x)
	}
}

func (t *Table) announceEnd(x ejection) {
	delete(t.announced, x)
	t.changes.Announced = append(t.changes.Announced, coordinator.AgentTrusted{Agent: x.agent, Capability: x.capability,
		Trusted: true})
}

// retract announces the end of the ejections that are over.
func (t *Table) retract(over func(ejection) bool) {
	list := slices.SortedFunc(maps.Keys(t.announced), func(a, b ejection) int {
		return cmp.Or(cmp.Compare(a.agent, b.agent), cmp.Compare(a.capability, b.capability))
	})
	for _, x := range list {
		if over(x) {
			t.announceEnd(x)
		}
	}
}

// NextTrusted takes out the next of the agents that may have tasks again which may be waiting; false: there is none.
func (t *Table) NextTrusted() (agent int, ok bool) {
	for len(t.trusted) > 0 {
		agent, t.trusted = t.trusted[0], t.trusted[1:]
		if agent >= 0 {
			return agent, true
		}
	}
	return -1, false
}

// Usable returns those of the agents that are not ejected from any of the capabilities. The
// set itself is returned when that is all of them.
func (t *Table) Usable(feasible agentset.Set, required []string) agentset.Set {
	usable := feasible
	for _, c := range orNone(required) {
		ejected := t.ejected[c]
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

// Ejected reports whether the agent is ejected from any of the capabilities.
func (t *Table) Ejected(agent int, required ...string) bool {
	return slices.ContainsFunc(orNone(required), func(c string) bool {
		set := t.ejected[c]
		return set != nil && set.Has(agent)
	})
}

// List returns what the agent is ejected from, sorted, and when it is tried again with each; zero: it
// is being tried.
func (t *Table) List(now time.Time, agent int) (from []string, until []time.Time) {
	for c, set := range t.ejected {
		if set.Has(agent) {
			from = append(from, c)
		}
	}
	slices.Sort(from)
	for _, c := range from {
		until = append(until, t.breakers.Look(now, breaker.Pair{Agent: agent, Capability: c}).Until)
	}
	return from, until
}

// Check compares the sets that hold the agent with its breakers, and says the first difference; "": there is none.
func (t *Table) Check(agent int, online bool) string {
	if t.agents[agent].Online != online {
		return fmt.Sprintf("breakers count it as online: %v, and it is not so", !online)
	}
	if t.breakers != nil {
		for p := range t.pairs(agent) {
			if ejected := t.Ejected(agent, p.Capability); ejected == t.breakers.Allowed(p) {
				return fmt.Sprintf("it is marked as ejected from %q: %v, and its breaker says otherwise", p.Capability, ejected)
			}
		}
	}
	return ""
}

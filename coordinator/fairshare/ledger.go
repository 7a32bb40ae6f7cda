package fairshare

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/heap"
)

// Ledger is the quota trees and what is used of them. A call of an LLM, or a task, is
// charged to one chain of nodes in each tree that it concerns, from the leaf to the root;
// it is admitted if every node has room for it in every dimension, and then all of them
// are charged, or none. It belongs to one goroutine; the zero value is not usable, see
// NewLedger.
//
// Times are given by the caller and never go back: one before the latest counts as the
// latest.
type Ledger struct {
	quotas *coordinator.Quotas
	prices *prices
	nodes  []node
	byID   map[string]int32
	roots  []*budget // of every family of budgets
	routes routes
	now    int64
	repay  int64 // percent

	nextPeriod int64 // when a budget begins anew
	walks      uint64
	fresh      bool // nothing has been charged yet: its time may still be any
	spent      bool // anything was ever used, as far as is known
	former     former

	open   map[coordinator.TaskKey]*reservation
	ending heap.Heap[*reservation] // those that end by themselves, the first first
	told   heap.Heap[*reservation] // calls that have ended and are remembered, likewise
	lapsed heap.Heap[*reservation] // calls that have expired, likewise
	spare  []*reservation
	loans  []loan    // of the check at hand
	ripens int64     // when there may be more to borrow than the latest try has found
	uses   []rateUse // of one that leaves nothing behind
	freed  []int32   // nodes that have got something back, each once
	alerts []Alert
	// ailing are the pools that were cut back and get more with time, the next one at rising.
	ailing []int32
	rising int64
	// tentative: what is reserved may be released at once, and raises no alert yet.
	tentative bool
}

// node is one node of a quota tree.
type node struct {
	spec    *coordinator.QuotaNode
	parent  int32
	budgets [coordinator.NumDimensions]*budget
	rates   [coordinator.NumDimensions]*shaper
	seats   *seats
	// limited has a bit for each dimension in which there is a budget or a rate.
	limited uint8
	inner   bool // there are groups below it
	freed   bool
	health  health // of a provider's pool or model
}

// Path is the nodes that something is charged to: the chain of one tree after that of
// the other, each from its leaf to its root.
type Path struct {
	nodes [maxPath]int32
	n     uint8
}

// maxPath bounds the nodes of a path: the loader allows trees of 8 levels, and there are
// at most two chains.
const maxPath = 18

// Empty tells that no quota concerns it.
func (p *Path) Empty() bool { return p.n == 0 }

func (p *Path) list() []int32 { return p.nodes[:p.n] }

// Charge is what asks for quota.
type Charge struct {
	Group           string
	Agent           coordinator.AgentID
	Provider, Model string
	Amounts         coordinator.Amounts
	// Expect is what it counts for in the order of turns (see Weigh). No limit depends on it.
	Expect int64
	// NoBorrowing: it is to stay within budgets of its own. (Rates and seats that others
	// leave it may have: nothing of them is missing later.)
	NoBorrowing bool
	// Call: it is not for a task, and has no turn. Operation is what sort of call it is; Untold:
	// it is charged as reserved, not given back, if nobody tells how it ended.
	Call      bool
	Operation string
	Untold    bool
}

// routes finds the nodes of a charge.
type routes struct {
	groups map[string]int32 // nodes of the pool without a provider; "" is its root
	agents map[coordinator.AgentID]int32
	pools  map[string]int32 // by provider
	models map[modelKey]int32
	keys   map[string][]string // the pools of a provider with keys
	shares map[shareKey]int32  // of groups and agents in providers' pools
}

type modelKey struct{ provider, model string }

// shareKey names a group's part of a pool or model, or an agent's of the group's.
type shareKey struct {
	under int32
	name  string
}

// NewLedger makes a ledger without quotas: everything is admitted.
func NewLedger() *Ledger {
	return &Ledger{open: make(map[coordinator.TaskKey]*reservation), prices: newPrices(nil), ending: newEnding(), told: newEnding(), lapsed: newEnding(), rising: forever, fresh: true}
}

// Installed tells whether there are any quotas.
func (l *Ledger) Installed() bool { return l.quotas != nil }

// Quotas gives those that are installed; nil: none.
func (l *Ledger) Quotas() *coordinator.Quotas { return l.quotas }

// build makes the nodes of the trees.
func (l *Ledger) build(q *coordinator.Quotas) {
	l.nodes, l.byID = make([]node, len(q.Nodes)), make(map[string]int32, len(q.Nodes))
	r := &l.routes
	r.groups, r.agents = make(map[string]int32), make(map[coordinator.AgentID]int32)
	r.pools, r.models, r.shares = make(map[string]int32), make(map[modelKey]int32), make(map[shareKey]int32)
	r.keys = make(map[string][]string)
	for i := range q.Nodes {
		spec, n := &q.Nodes[i], int32(i)
		l.nodes[i] = node{spec: spec, parent: int32(spec.Parent)}
		l.byID[spec.ID] = n
		if spec.Kind == coordinator.QuotaGroup { // parents come first
			l.nodes[spec.Parent].inner = true
		}
		r.add(l.nodes, n)
	}
	for i := range l.nodes { // parents before children
		l.limit(int32(i))
	}
	for i := range l.nodes {
		l.nodes[i].divide()
	}
	for i := len(l.nodes) - 1; i >= 0; i-- { // children before parents
		if s := l.nodes[i].seats; s != nil {
			s.share()
		}
	}
	for i := range l.nodes {
		if s := l.nodes[i].seats; s != nil {
			s.bounds()
		}
	}
	for _, f := range l.roots {
		f.bounds(0, 0)
		f.set(l.now)
	}
}

// add files a node under the names by which it is found.
func (r *routes) add(nodes []node, n int32) {
	spec := nodes[n].spec
	top := n
	for nodes[top].parent >= 0 {
		top = nodes[top].parent
	}
	provider := nodes[top].spec.Provider
	switch {
	case spec.Kind == coordinator.QuotaPool && provider == "":
		r.groups[""] = n
	case spec.Kind == coordinator.QuotaPool:
		r.pools[provider] = n
		if base := coordinator.ProviderOfPool(provider); base != provider { // without a key it is the first one's
			if r.keys[base] = append(r.keys[base], provider); len(r.keys[base]) == 1 {
				r.pools[base] = n
			}
		}
	case spec.Kind == coordinator.QuotaModel:
		r.models[modelKey{provider, spec.Name}] = n
		if base := coordinator.ProviderOfPool(provider); base != provider && r.pools[base] == top {
			r.models[modelKey{base, spec.Name}] = n
		}
	case provider == "" && spec.Kind == coordinator.QuotaGroup:
		r.groups[spec.Name] = n
	case provider == "":
		r.agents[coordinator.AgentID(spec.Name)] = n
	default: // a group's part is found under the pool or model, an agent's under the group's
		under := nodes[n].parent
		for spec.Kind == coordinator.QuotaGroup && nodes[under].spec.Kind == coordinator.QuotaGroup {
			under = nodes[under].parent
		}
		r.shares[shareKey{under, spec.Name}] = n
	}
}

// PathOf finds the nodes that a charge concerns: in the pool without a provider the agent
// (if it is one of the group's), the group and those above it; in the provider's pool the
// nearest part of the group, the model and the provider. A group that is not known is
// charged to the pools alone.
func (l *Ledger) PathOf(c *Charge) Path {
	var p Path
	if l.quotas == nil {
		return p
	}
	r := &l.routes
	group, known := r.groups[c.Group]
	leaf, any := group, known
	if a, ok := r.agents[c.Agent]; ok && (c.Group == "" || known && l.nodes[a].parent == group) {
		leaf, any = a, true // an agent that works for nobody in particular works for its own group
		group, known = l.nodes[a].parent, true
	} else if !known {
		leaf, any = r.groups[""]
	}
	if any {
		l.climb(&p, leaf)
	}
	provider, model := c.Provider, c.Model
	if known {
		provider, model = l.defaults(group, provider, model)
	}
	if at, ok := l.serviceNode(provider, model); ok {
		l.climb(&p, l.shareOf(at, group, known, c.Agent))
	}
	return p
}

// shareOf finds the nearest part of the group in a pool or model, and the agent's in that;
// the pool or model itself when it is not divided.
func (l *Ledger) shareOf(at, group int32, known bool, agent coordinator.AgentID) int32 {
	r := &l.routes
	if !known || len(r.shares) == 0 {
		return at
	}
	for g := group; g >= 0 && l.nodes[g].spec.Kind == coordinator.QuotaGroup; g = l.nodes[g].parent {
		if share, ok := r.shares[shareKey{at, l.nodes[g].spec.Name}]; ok {
			if a, ok := r.shares[shareKey{share, string(agent)}]; ok {
				return a
			}
			return share
		}
	}
	return at
}

// defaults fills in the provider and model that a group's calls go to unless they say.
func (l *Ledger) defaults(group int32, provider, model string) (string, string) {
	for g := group; g >= 0 && (provider == "" || model == ""); g = l.nodes[g].parent {
		spec := l.nodes[g].spec
		if spec.Kind != coordinator.QuotaGroup {
			break
		}
		if provider == "" && spec.Provider != "" {
			provider = spec.Provider
			if model == "" {
				model = spec.Model
			}
		}
		if model == "" && spec.Provider == provider {
			model = spec.Model
		}
	}
	return provider, model
}

func (l *Ledger) climb(p *Path, from int32) {
	for n := from; n >= 0 && int(p.n) < maxPath; n = l.nodes[n].parent {
		p.nodes[p.n] = n
		p.n++
	}
}

// advance moves the ledger's clock, and begins the periods that have begun.
func (l *Ledger) advance(now int64) {
	if l.now = max(l.now, now); l.rising <= l.now {
		l.rise()
	}
	if l.now < l.nextPeriod {
		return
	}
	l.nextPeriod = forever
	for _, f := range l.roots {
		if l.now >= f.span.end {
			f.begin(l.now, l.repay)
		}
		l.nextPeriod = min(l.nextPeriod, f.span.end)
	}
}

// Now is the ledger's time: the latest that it was told. What is journalled of its doings
// carries this time.
func (l *Ledger) Now() time.Time { return timeOf(l.now) }

// timeOf turns the ledger's time into one for people; zero: never.
func timeOf(ns int64) time.Time {
	if ns == forever {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

package billing

import "taskbus/coordinator"

// Directory finds, by the names of a charge, the nodes of the quota trees that it concerns, with the
// defaults that quotas.yaml gives for what it does not name, and what it takes there. It knows nothing
// of what is used. It is immutable: several may read it at one time.
type Directory struct {
	quotas *coordinator.Quotas
	prices *prices
	above  []int32 // of each node, the one above it; -1 of a root
	// besides are nodes for the budgets of nodes for other periods (QuotaNode.Beside), one for each
	// period, numbered after all others; beside says which, by node.
	besides []coordinator.QuotaNode
	beside  map[int32][]int32

	// listed are the ids of groups and agents, in the order of quotas.yaml.
	listed struct{ groups, agents []string }

	groups map[string]int32 // nodes of the pool without a provider; "" is its root
	agents map[coordinator.AgentID]int32
	pools  map[string]int32 // by provider; the first key's also by the name of the provider alone
	models map[modelKey]int32
	keys   map[string][]string // the pools of a provider with keys
	named  map[modelKey]bool   // what anything in quotas.yaml names; without a model: the provider
	// severalKeys: one of them has more than one.
	severalKeys bool
	shares      map[shareKey]int32 // of groups and agents in providers' pools
}

type modelKey struct{ provider, model string }

// shareKey names a group's part of a pool or model, or an agent's of the group's.
type shareKey struct {
	under int32
	name  string
}

// Path is the nodes that something is charged to: the chain of one tree after that of
// the other, each from its leaf to its root.
type Path struct {
	nodes [MaxPath]int32
	n     uint8
}

// MaxPath bounds the nodes of a path: the loader allows trees of 8 levels, of which those beside others
// are some, and there are at most two chains.
const MaxPath = 18

// Empty reports whether no quota concerns it.
func (p *Path) Empty() bool { return p.n == 0 }

// Nodes returns the numbers of the nodes, in the order of the path.
func (p *Path) Nodes() []int32 { return p.nodes[:p.n] }

// NewDirectory makes that of quotas, nil for none. It takes O(nodes).
func NewDirectory(q *coordinator.Quotas) *Directory {
	if q == nil {
		return &Directory{prices: pricesOf(nil)}
	}
	d := &Directory{
		quotas: q, prices: pricesOf(q), above: make([]int32, len(q.Nodes)),
		groups: make(map[string]int32), agents: make(map[coordinator.AgentID]int32),
		pools: make(map[string]int32), models: make(map[modelKey]int32), shares: make(map[shareKey]int32),
		keys: make(map[string][]string), named: make(map[modelKey]bool),
	}
	for _, p := range q.Prices {
		d.name(p.Provider, p.Model)
	}
	for i := range q.Nodes { // parents come first
		d.above[i] = int32(q.Nodes[i].Parent)
		d.add(int32(i))
	}
	d.addBesides()
	return d
}

// addBesides makes the nodes for the budgets of nodes for other periods: each has the names and the
// parent of its node, and an id of its own.
func (d *Directory) addBesides() {
	d.beside = make(map[int32][]int32)
	first := len(d.quotas.Nodes)
	for i := range d.quotas.Nodes {
		n := &d.quotas.Nodes[i]
		for k := range n.Beside {
			b := &n.Beside[k]
			id, at := n.ID+"@"+b.Period.String(), -1
			for _, other := range d.beside[int32(i)] {
				if d.besides[int(other)-first].ID == id {
					at = int(other) - first
				}
			}
			if at < 0 {
				at = len(d.besides)
				one := *n
				none := [coordinator.NumDimensions]*coordinator.QuotaLimit{}
				one.ID, one.Budgets, one.Rates, one.Seats, one.Beside = id, none, none, nil, nil
				d.besides, d.above = append(d.besides, one), append(d.above, int32(n.Parent))
				d.beside[int32(i)] = append(d.beside[int32(i)], int32(first+at))
			}
			d.besides[at].Budgets[b.Dimension] = &b.QuotaLimit
		}
	}
}

// Quotas returns those that it is of; nil: none.
func (d *Directory) Quotas() *coordinator.Quotas { return d.quotas }

// NumNodes returns how many nodes there are: those of Quotas, and those beside them.
func (d *Directory) NumNodes() int { return len(d.above) }

// Beside returns the nodes for the budgets of a node for other periods.
func (d *Directory) Beside(n int32) []int32 { return d.beside[n] }

// GroupAt returns the node of a group in the pool without a provider; "" is its root.
func (d *Directory) GroupAt(group string) (n int32, known bool) {
	n, known = d.groups[group]
	return n, known
}

// Spec returns a node by its number.
func (d *Directory) Spec(n int32) *coordinator.QuotaNode {
	if k := int(n) - len(d.quotas.Nodes); k >= 0 {
		return &d.besides[k]
	}
	return &d.quotas.Nodes[n]
}

// add files a node under the names by which it is found.
func (d *Directory) add(n int32) {
	spec, top := &d.quotas.Nodes[n], d.rootOf(n)
	provider := d.quotas.Nodes[top].Provider
	d.name(spec.Provider, spec.Model)
	if d.name(provider, ""); spec.Kind == coordinator.QuotaModel {
		d.name(provider, spec.Name)
	}
	switch {
	case spec.Kind == coordinator.QuotaPool && provider == "":
		d.groups[""] = n
	case spec.Kind == coordinator.QuotaPool:
		d.pools[provider] = n
		if base := coordinator.ProviderOfPool(provider); base != provider { // without a key it is the first one's
			if d.keys[base] = append(d.keys[base], provider); len(d.keys[base]) == 1 {
				d.pools[base] = n
			} else {
				d.severalKeys = true
			}
		}
	case spec.Kind == coordinator.QuotaModel:
		d.models[modelKey{provider, spec.Name}] = n
		if base := coordinator.ProviderOfPool(provider); base != provider && d.pools[base] == top {
			d.models[modelKey{base, spec.Name}] = n
		}
	case provider == "" && spec.Kind == coordinator.QuotaGroup:
		d.groups[spec.Name], d.listed.groups = n, append(d.listed.groups, spec.Name)
	case provider == "":
		d.agents[coordinator.AgentID(spec.Name)], d.listed.agents = n, append(d.listed.agents, spec.Name)
	default: // a group's part is found under the pool or model, an agent's under the group's
		under := d.above[n]
		for spec.Kind == coordinator.QuotaGroup && d.kindOf(under) == coordinator.QuotaGroup {
			under = d.above[under]
		}
		d.shares[shareKey{under, spec.Name}] = n
	}
}

// name notes that quotas.yaml names a provider, with or without a key, and a model of it.
func (d *Directory) name(provider, model string) {
	if provider != "" {
		provider = coordinator.ProviderOfPool(provider)
		d.named[modelKey{provider, ""}], d.named[modelKey{provider, model}] = true, true
	}
}

// Names returns which of a charge's provider and model quotas.yaml names anywhere: as a pool, with a
// price, or as what a group's calls go to. What is left open counts as named.
func (d *Directory) Names(c *Charge) coordinator.NameKept {
	provider := coordinator.ProviderOfPool(c.Provider)
	switch {
	case d.named[modelKey{provider, c.Model}] || provider == "" && c.Model == "":
		return coordinator.NamesKept
	case d.named[modelKey{provider, ""}]:
		return coordinator.ProviderKept
	default:
		return coordinator.NoNameKept
	}
}

func (d *Directory) kindOf(n int32) coordinator.QuotaKind { return d.Spec(n).Kind }

// GroupOf returns the group of a node, or of an agent's; "" for one above all groups.
func (d *Directory) GroupOf(n int32) string {
	if d.kindOf(n) == coordinator.QuotaAgent {
		n = d.above[n]
	}
	if d.kindOf(n) != coordinator.QuotaGroup {
		return ""
	}
	return d.Spec(n).Name
}

func (d *Directory) rootOf(n int32) int32 {
	for d.above[n] >= 0 {
		n = d.above[n]
	}
	return n
}

// PathOf finds the nodes that a charge concerns: in the pool without a provider the agent
// (if it is one of the group's), the group and those above it; in the provider's pool the
// nearest part of the group, the model and the provider. A group that is not known is
// charged to the pools alone.
func (d *Directory) PathOf(c *Charge) Path {
	var p Path
	if d.quotas == nil {
		return p
	}
	group, known := d.groups[c.Group]
	leaf, any := group, known
	if a, ok := d.agents[c.Agent]; ok && (c.Group == "" || known && d.above[a] == group) {
		leaf, any = a, true // an agent without a group works for its own group
		group, known = d.above[a], true
	} else if !known {
		leaf, any = d.groups[""]
	}
	if any {
		d.climb(&p, leaf)
	}
	provider, model := c.Provider, c.Model
	if known {
		provider, model = d.defaults(group, provider, model)
	}
	if at, ok := d.serviceNode(provider, model); ok {
		d.climb(&p, d.shareOf(at, group, known, c.Agent))
	}
	return p
}

// shareOf finds the nearest part of the group in a pool or model, and the agent's in that;
// the pool or model itself when it is not divided.
func (d *Directory) shareOf(at, group int32, known bool, agent coordinator.AgentID) int32 {
	if !known || len(d.shares) == 0 {
		return at
	}
	for g := group; g >= 0 && d.kindOf(g) == coordinator.QuotaGroup; g = d.above[g] {
		if share, ok := d.shares[shareKey{at, d.quotas.Nodes[g].Name}]; ok {
			if a, ok := d.shares[shareKey{share, string(agent)}]; ok {
				return a
			}
			return share
		}
	}
	return at
}

// defaults fills in the provider and model that a group's calls go to unless they say.
func (d *Directory) defaults(group int32, provider, model string) (string, string) {
	for g := group; g >= 0 && (provider == "" || model == ""); g = d.above[g] {
		spec := &d.quotas.Nodes[g]
		if spec.Kind != coordinator.QuotaGroup {
			break
		}
		if provider == "" && spec.Provider != "" {
			provider = spec.Provider
			if model == "" {
				model = spec.Model
			}
		}
		if model == "" && coordinator.StandsFor(spec.Provider, provider) {
			model = spec.Model
		}
	}
	return provider, model
}

func (d *Directory) climb(p *Path, from int32) {
	for n := from; n >= 0 && int(p.n) < MaxPath; n = d.above[n] {
		p.nodes[p.n] = n
		p.n++
		if len(d.besides) > 0 {
			p.n += uint8(copy(p.nodes[p.n:], d.beside[n]))
		}
	}
}

// serviceNode returns the node of the model, else of its provider.
func (d *Directory) serviceNode(provider, model string) (int32, bool) {
	if provider == "" {
		return 0, false
	}
	if n, ok := d.models[modelKey{provider, model}]; ok {
		return n, true
	}
	n, ok := d.pools[provider]
	return n, ok
}

// PoolAt returns the node of the model, else of the provider, that something is charged to.
func (d *Directory) PoolAt(c *Charge) (n int32, listed bool) {
	return d.serviceNode(c.Provider, c.Model)
}

// PoolOf names the provider's or model's node that something is charged to, by its ID; empty:
// none.
func (d *Directory) PoolOf(c *Charge) string {
	if n, ok := d.serviceNode(c.Provider, c.Model); ok {
		return d.quotas.Nodes[n].ID
	}
	return ""
}

// ProviderOf returns the provider, with its key, that has the pool to which something is charged that names
// provider and model; empty: none that quotas.yaml lists.
func (d *Directory) ProviderOf(c *Charge) string {
	if n, ok := d.serviceNode(c.Provider, c.Model); ok {
		return d.quotas.Nodes[d.rootOf(n)].Provider
	}
	return ""
}

// Keys returns the pools of a provider of which quotas.yaml lists keys, in the order of their names; nil:
// it lists one without a key, or none.
func (d *Directory) Keys(provider string) []string { return d.keys[provider] }

// AnyKeys reports whether any provider has several.
func (d *Directory) AnyKeys() bool { return d.severalKeys }

// GroupOfAgent returns the group of an agent of quotas.yaml; false: it lists none of that id.
func (d *Directory) GroupOfAgent(id coordinator.AgentID) (string, bool) {
	n, ok := d.agents[id]
	if !ok {
		return "", false
	}
	return d.GroupOf(n), true
}

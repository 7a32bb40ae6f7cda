package quotas

import (
	"slices"
	"strings"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// The bounds of the trees. What is charged walks from a leaf to the root.
const (
	maxLevels     = 8
	maxQuotaNodes = 100_000
)

// grower makes the nodes of the trees.
type grower struct {
	d     *decoder
	f     *quotaFile
	nodes []coordinator.QuotaNode
	// origins, one for each node: what it is made of.
	origins []origin
	taken   map[string]bool // ids
	bounded entryBounds
	full    bool
}

// origin is what a node is made of, and where that is written.
type origin struct {
	at     place
	limits *limits
	terms  terms
	level  int
}

// stem is a node that is to be made.
type stem struct {
	kind            coordinator.QuotaKind
	name            string
	provider, model string
	weight          int64
	at              place
	limits          *limits
	changes         []change
	// member: of what is limited above it and not by itself it has a part by weight.
	member bool
}

// grow makes all trees: the pool with the groups and agents, then one for each provider, by
// name. Siblings are in the order of their names, groups before agents, so that nothing
// depends on the order of the file.
func (d *decoder) grow(f *quotaFile) *grower {
	most := 1 + len(f.groups) + len(f.agents) // but for what is shared
	g := &grower{
		d: d, f: f, taken: make(map[string]bool, most), nodes: make([]coordinator.QuotaNode, 0, most),
		origins: make([]origin, 0, most),
	}
	pool := g.add(-1, stem{kind: coordinator.QuotaPool, name: poolName, weight: 1, at: f.pool.at, limits: &f.pool.limits,
		changes: f.pool.terms})
	for _, group := range f.tops() {
		g.group(pool, group)
	}
	slices.SortFunc(f.providers, byPoolName)
	for _, provider := range f.providers {
		s := stem{kind: coordinator.QuotaPool, name: provider.name, provider: provider.name, weight: 1, at: provider.at,
			limits: &provider.limits, changes: provider.terms}
		i := g.add(-1, s)
		if i < 0 {
			break
		}
		g.divide(i, provider)
		slices.SortFunc(provider.models, byPoolName)
		for _, model := range provider.models {
			s.kind, s.name, s.model, s.at, s.limits, s.changes = coordinator.QuotaModel, model.name, model.name, model.at,
				&model.limits, nil
			if m := g.add(i, s); m >= 0 {
				g.divide(m, model)
			}
		}
	}
	return g
}

func byPoolName(a, b *listedPool) int { return strings.Compare(a.name, b.name) }

// group makes the node of a group in the pool, and those below it.
func (g *grower) group(above int, group *listedGroup) {
	provider, model := g.defaults(above, group)
	i := g.add(above, stem{
		kind: coordinator.QuotaGroup, name: group.name, provider: provider, model: model, weight: group.weight,
		at: group.at, limits: &group.limits, changes: group.terms, member: true,
	})
	if i < 0 {
		return
	}
	for _, below := range group.below {
		g.group(i, below)
	}
	for _, agent := range group.agents {
		g.add(i, stem{kind: coordinator.QuotaAgent, name: agent.name, weight: agent.weight, at: agent.at,
			limits: &agent.limits, member: true})
	}
}

// defaults are the provider and model that a group's tasks use: its own, else those of the
// group above it.
func (g *grower) defaults(above int, group *listedGroup) (provider, model string) {
	if group.provider.Node != nil {
		provider = group.provider.Node.Value
	} else {
		provider, model = g.nodes[above].Provider, g.nodes[above].Model
	}
	if group.model.Node != nil {
		model = group.model.Node.Value
	}
	return provider, model
}

// divide makes the nodes of the groups that have parts of a pool: those that it lists and
// those above them, or, if it is shared by weight, all of them with their agents.
func (g *grower) divide(above int, pool *listedPool) {
	listed := make(map[*listedGroup]*listedPart, len(pool.parts))
	needed := make(map[*listedGroup]bool, len(pool.parts))
	for _, part := range pool.parts {
		group := g.f.byName[part.group]
		if group == nil {
			continue // has been faulted
		}
		listed[group] = part
		for x := group; x != nil; x = x.above {
			needed[x] = true
		}
	}
	var grow func(above int, group *listedGroup)
	grow = func(above int, group *listedGroup) {
		if !pool.shared && !needed[group] {
			return
		}
		s := stem{kind: coordinator.QuotaGroup, name: group.name, weight: group.weight, at: pool.share, limits: new(limits),
			member: pool.shared}
		s.changes = append(s.changes, group.terms...)
		if part := listed[group]; part != nil {
			s.at, s.limits = part.at, &part.limits
			s.changes = append(s.changes, part.terms...)
			if part.weight != nil {
				s.weight = *part.weight
			}
		}
		i := g.add(above, s)
		if i < 0 {
			return
		}
		for _, below := range group.below {
			grow(i, below)
		}
		if !pool.shared {
			return
		}
		for _, agent := range group.agents {
			g.add(i, stem{kind: coordinator.QuotaAgent, name: agent.name, weight: agent.weight, at: pool.share,
				limits: new(limits), member: true})
		}
	}
	for _, group := range g.f.tops() {
		grow(above, group)
	}
}

// add makes a node below another (-1: a root) and returns its index; -1 where there are too
// many.
func (g *grower) add(above int, s stem) int {
	if g.full {
		return -1
	}
	if len(g.nodes) == maxQuotaNodes {
		g.full = true
		g.d.Fault(s.at,
			"makes more than %d nodes: every group and every agent is one, in the pool and in every provider or model that "+
				"they share; share fewer of them by weight", maxQuotaNodes)
		return -1
	}
	n := coordinator.QuotaNode{ID: s.name, Kind: s.kind, Name: s.name, Parent: above, Provider: s.provider, Model: s.model,
		Weight: s.weight}
	r := origin{at: s.at, limits: s.limits, level: 1}
	if above >= 0 {
		up := &g.nodes[above]
		n.ID = up.ID + "/" + s.name
		if top := g.top(above); top.Provider != "" && s.kind != coordinator.QuotaModel {
			n.Provider, n.Model = up.Provider, up.Model
		}
		r.terms, r.level = g.origins[above].terms, g.origins[above].level+1
	}
	if r.level > maxLevels {
		g.d.Fault(s.at, "%s is in level %d of its tree; %d are the most", short(n.ID), r.level, maxLevels)
		return -1
	}
	if g.taken[n.ID] {
		g.d.Fault(s.at,
			"%s is the name of another node as well: a group, agent or model must not be called as another beside it",
			short(n.ID))
		return -1
	}
	g.taken[n.ID] = true
	r.terms = r.terms.changed(s.changes)
	g.bounded.met(r.terms.borrow, false)
	g.bounded.met(r.terms.lend, false)
	if s.kind == coordinator.QuotaGroup || s.kind == coordinator.QuotaAgent { // what others say is for those
		n.Borrowing = r.terms.Borrowing
	}
	if g.limit(&n, &r, s.member); r.level > maxLevels {
		g.d.Fault(s.at,
			"%s is in level %d of its tree, where each period beside that of its own limit counts as one; %d are the most",
			short(n.ID), r.level, maxLevels)
		return -1
	}
	g.nodes, g.origins = append(g.nodes, n), append(g.origins, r)
	return len(g.nodes) - 1
}

// top is the root of a node's tree.
func (g *grower) top(i int) *coordinator.QuotaNode {
	for g.nodes[i].Parent >= 0 {
		i = g.nodes[i].Parent
	}
	return &g.nodes[i]
}

// short is an id that fits into a line.
func short(id string) string { return yamlconf.ClipTo(id, 3*yamlconf.MaxEcho) }

// limit gives a node its limits: its own, and parts of what is above it.
func (g *grower) limit(n *coordinator.QuotaNode, r *origin, member bool) {
	var above coordinator.QuotaNode
	if n.Parent >= 0 {
		above = g.nodes[n.Parent]
	}
	for dim := range coordinator.Dimension(coordinator.NumDimensions) {
		n.Budgets[dim] = g.one(n, r, dim, r.limits.budgets[dim], above.Budgets[dim], member, kindBudget)
		g.beside(n, r, dim, &above, member)
		n.Rates[dim] = g.one(n, r, dim, r.limits.rates[dim], above.Rates[dim], member, kindRate)
	}
	n.Seats = g.one(n, r, coordinator.DimConcurrency, r.limits.seats, above.Seats, member, kindSeats)
	r.level += len(periodsOf(n.Beside))
}

// beside gives a node what it has of further budgets of its own, and a member its parts by weight of the
// budgets above it for which it has nothing of its own: one for another period does not take their place.
func (g *grower) beside(n *coordinator.QuotaNode, r *origin, dim coordinator.Dimension, above *coordinator.QuotaNode,
	member bool) {
	if n.Budgets[dim] == nil {
		return
	}
	has := []coordinator.Period{n.Budgets[dim].Period}
	for _, own := range r.limits.further[dim] {
		n.Beside = append(n.Beside, coordinator.BesideBudget{Dimension: dim,
			QuotaLimit: *g.one(n, r, dim, own, nil, member, kindBudget)})
		has = append(has, own.Period)
	}
	if !member {
		return
	}
	part := func(of *coordinator.QuotaLimit) {
		if of != nil && !slices.Contains(has, of.Period) {
			n.Beside = append(n.Beside, coordinator.BesideBudget{Dimension: dim,
				QuotaLimit: *g.one(n, r, dim, nil, of, true, kindBudget)})
		}
	}
	part(above.Budgets[dim])
	for i := range above.Beside {
		if b := &above.Beside[i]; b.Dimension == dim {
			part(&b.QuotaLimit)
		}
	}
}

// periodsOf are the periods of budgets, each once.
func periodsOf(budgets []coordinator.BesideBudget) (all []coordinator.Period) {
	for i := range budgets {
		if p := budgets[i].Period; !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// partByWeight is the part of a node that says nothing of a limit.
var partByWeight = ownLimit{QuotaLimit: coordinator.QuotaLimit{Nominal: coordinator.ByWeight}}

// one gives a node one limit: its own, a part of what is above it, or nil.
func (g *grower) one(n *coordinator.QuotaNode, r *origin, dim coordinator.Dimension, own *ownLimit,
	above *coordinator.QuotaLimit, member bool, kind limitKind) *coordinator.QuotaLimit {
	if own == nil {
		if above == nil || !member {
			return nil
		}
		own = &partByWeight
	}
	l := own.QuotaLimit
	if l.Nominal == coordinator.ByWeight {
		if above == nil {
			g.d.Fault(own.at, "there is nothing to share: %s has no %s of %s; give it one, or write a number",
				short(g.nodes[n.Parent].ID), kind, dim)
			return nil
		}
		l.Period, l.Per = above.Period, above.Per
	}
	if own.asAbove {
		l.Period = coordinator.Period{Unit: coordinator.PerMonth}
		if above != nil {
			l.Period = above.Period
		}
	}
	g.bounds(&l, own, n, r, kind, dim)
	return &l
}

// bounds sets what of a limit may be borrowed and lent. A model's is the provider's word:
// nothing of it is, unless the file says so.
func (g *grower) bounds(l *coordinator.QuotaLimit, own *ownLimit, n *coordinator.QuotaNode, r *origin, kind limitKind,
	dim coordinator.Dimension) {
	switch n.Kind {
	case coordinator.QuotaPool:
		return
	case coordinator.QuotaModel:
		nothing := coordinator.Bound{Kind: coordinator.BoundAmount}
		l.Borrow, l.Lend = nothing, nothing
	default:
		l.Borrow, l.Lend = boundFor(r.terms.borrow.Bound, kind, dim), boundFor(r.terms.lend.Bound, kind, dim)
		g.bounded.met(r.terms.borrow, own.borrow == nil && l.Borrow.Kind != coordinator.BoundNone)
		g.bounded.met(r.terms.lend, own.lend == nil && l.Lend.Kind != coordinator.BoundNone)
	}
	if own.lend != nil {
		l.Lend = *own.lend
	}
	if own.borrow == nil {
		return
	}
	l.Borrow = *own.borrow
	if n.Borrowing.Rule == coordinator.BorrowNever && l.Borrow != (coordinator.Bound{Kind: coordinator.BoundAmount}) {
		g.d.Fault(own.at, "may borrow by its own word and never by the rule of %s; remove borrow, or choose another rule",
			short(n.ID))
	}
}

// tops are the groups that belong to no other, by name.
func (f *quotaFile) tops() []*listedGroup {
	var tops []*listedGroup
	for _, group := range f.groups {
		if group.parent.Node == nil {
			tops = append(tops, group)
		}
	}
	slices.SortFunc(tops, byGroupName)
	return tops
}

func byGroupName(a, b *listedGroup) int { return strings.Compare(a.name, b.name) }

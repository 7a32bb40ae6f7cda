package quotas

import (
	"maps"
	"slices"
	"strings"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// link finds what the entries of the file name: parents, the groups of agents, groups that
// have parts of a pool, providers and models.
func (d *decoder) link(f *quotaFile) {
	for _, group := range f.groups {
		if group.parent.Node == nil {
			continue
		}
		if above := d.groupAt(f, group.parent); above != nil {
			group.above, above.below = above, append(above.below, group)
		}
	}
	d.cutCircles(f.groups)
	for _, agent := range f.agents {
		if agent.group.Node == nil {
			continue
		}
		if group := d.groupAt(f, agent.group); group != nil {
			group.agents = append(group.agents, agent)
		}
	}
	for _, group := range f.groups {
		slices.SortFunc(group.below, byGroupName)
		slices.SortFunc(group.agents, func(a, b *listedAgent) int { return strings.Compare(a.name, b.name) })
		d.service(f, group)
	}
	for _, provider := range f.providers {
		for _, pool := range append([]*listedPool{provider}, provider.models...) {
			for _, part := range pool.parts {
				d.groupAt(f, part.at)
			}
		}
	}
}

// groupAt finds the group that is named there; nil if there is none.
func (d *decoder) groupAt(f *quotaFile, p place) *listedGroup {
	name, ok := d.Take(p, yamlconf.ID)
	if !ok {
		return nil
	}
	group := f.byName[name]
	if group == nil {
		d.Fault(p, "no group is called %s%s", name,
			d.Suggest(name, func() []string { return slices.Sorted(maps.Keys(f.byName)) }))
	}
	return group
}

// cutCircles refuses groups that are their own ancestors, each circle once, and cuts it open.
func (d *decoder) cutCircles(groups []*listedGroup) {
	walked := make(map[*listedGroup]int, len(groups)) // in which walk
	for i, group := range groups {
		x := group
		for x != nil && walked[x] == 0 {
			walked[x] = i + 1
			x = x.above
		}
		if x == nil || walked[x] != i+1 {
			continue
		}
		chain := []string{x.name}
		for y := x.above; y != x && len(chain) < maxLevels; y = y.above {
			chain = append(chain, y.name)
		}
		d.Fault(x.parent, "goes round in a circle: %s; remove the parent of one of them",
			yamlconf.ClipTo(strings.Join(append(chain, x.name), " → "), 200))
		x.above = nil
	}
}

// service checks the provider and the model that a group's tasks use.
func (d *decoder) service(f *quotaFile, group *listedGroup) {
	provider, ok := "", true
	if group.provider.Node != nil {
		provider, ok = d.Take(group.provider, yamlconf.ID)
		// Nothing would be charged to one that is neither limited nor priced: it is misspelt.
		if known := f.providersKnown(); ok && !slices.Contains(known, provider) {
			d.Fault(group.provider, "no provider is called %s%s", provider,
				d.Suggest(provider, func() []string { return known }))
			ok = false
		}
	}
	if group.model.Node == nil {
		return
	}
	model, modelOK := d.Take(group.model, aModel)
	for x := group; x != nil && provider == "" && ok; x = x.above {
		if x.provider.Node != nil {
			provider = x.provider.Node.Value
		}
	}
	switch {
	case !ok || !modelOK:
	case provider == "":
		d.Fault(group.model, "says nothing without provider; add the model's provider")
	default:
		if known := f.modelsKnown(provider); len(known) > 0 && !slices.Contains(known, model) {
			d.Fault(group.model, "no model of %s is called %s%s", provider, model,
				d.Suggest(model, func() []string { return known }))
		}
	}
}

// providersKnown are the providers that the file limits or prices, sorted.
func (f *quotaFile) providersKnown() []string {
	var known []string
	for _, p := range f.providers {
		known = append(known, coordinator.ProviderOfPool(p.name)) // not its keys: a group is of the provider
	}
	for i := range f.prices {
		known = append(known, f.prices[i].Provider)
	}
	return coordinator.SortedUnique(known)
}

// modelsKnown are the models of a provider that the file limits or prices, sorted; nil if it
// leaves open which there are.
func (f *quotaFile) modelsKnown(provider string) []string {
	var known []string
	for _, p := range f.providers {
		for _, m := range p.models {
			if coordinator.StandsFor(provider, p.name) {
				known = append(known, m.name)
			}
		}
	}
	open := len(known) == 0
	for i := range f.prices {
		switch p := &f.prices[i].Price; {
		case p.Provider != coordinator.ProviderOfPool(provider):
		case p.Model != "":
			known = append(known, p.Model)
		case open:
			return nil
		}
	}
	return coordinator.SortedUnique(known)
}

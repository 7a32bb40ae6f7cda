package usage

// Place is where usage counts: below a provider and model, for a group and agent. What is
// empty is all.
type Place struct{ Provider, Model, Group, Agent string }

// Groups is which agents belong to which groups.
type Groups struct {
	Above map[string]string // which group is above another
	Of    map[string]string // which an agent belongs to
}

// ByPlace adds up rows of days for every place that is wanted. A group's usage counts for the
// groups above it, too, and what names no group for its agent's, whose quota it took.
func ByPlace(rows []Row, groups *Groups, wanted map[Place]bool) map[Place]map[string]*Counts {
	all := make(map[Place]map[string]*Counts, len(wanted))
	for i := range rows {
		r := &rows[i]
		everywhere(r, groups, func(p Place) {
			if !wanted[p] {
				return
			}
			days := all[p]
			if days == nil {
				days = make(map[string]*Counts)
				all[p] = days
			}
			if days[r.Day] == nil {
				days[r.Day] = new(Counts)
			}
			days[r.Day].Add(&r.Counts)
		})
	}
	return all
}

// deepest is how many groups may be above one another: as many levels as quota trees have.
const deepest = 8

// everywhere calls count for each place that a row counts for.
func everywhere(r *Row, groups *Groups, count func(Place)) {
	group := r.Group
	if group == "" {
		group = groups.Of[r.Agent]
	}
	pools := []Place{{}}
	if r.Provider != "" {
		pools = append(pools, Place{Provider: r.Provider})
		if r.Model != "" {
			pools = append(pools, Place{Provider: r.Provider, Model: r.Model})
		}
	}
	for _, p := range pools {
		count(p)
		if group == "" {
			continue
		}
		p.Group, p.Agent = group, r.Agent
		if r.Agent != "" {
			count(p)
		}
		p.Agent = ""
		for range deepest {
			count(p)
			above, ok := groups.Above[p.Group]
			if !ok {
				break
			}
			p.Group = above
		}
	}
}

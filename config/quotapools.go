package config

import "taskbus/coordinator"

// listedPool is the pool, a provider or a model, and how it is shared.
type listedPool struct {
	name   string
	at     place
	limits limits
	terms  []change
	models []*listedPool // of a provider
	// shared: groups and their agents have parts of it by weight. share is where that, or
	// the list of groups, is written.
	shared bool
	parts  []*listedPart
	share  place
}

// listedPart is what a pool says of the part of one group.
type listedPart struct {
	group  string
	at     place
	weight *int64
	limits limits
	terms  []change
}

// pool reads the section `pool`.
func (d *decoder) pool(into *listedPool) reader {
	return func(p place) {
		d.object(p, readers{"limits": d.limits(&into.limits, bearsPool), "borrowing": d.borrowing(&into.terms), "lending": d.lending(&into.terms)})
	}
}

// providers reads the section `providers`.
func (d *decoder) providers(f *quotaFile) reader {
	return func(p place) {
		named := make(names)
		d.items(p, "providers", func(item place) {
			one := &listedPool{}
			known := d.shares(one)
			var key string
			var keyAt place
			known["provider"] = d.name(&one.name, &one.at, idPattern, idRule)
			known["key"] = d.name(&key, &keyAt, idPattern, idRule)
			known["limits"] = d.limits(&one.limits, bearsPool)
			known["borrowing"], known["lending"] = d.borrowing(&one.terms), d.lending(&one.terms)
			known["models"] = d.models(one)
			d.object(item, known)
			if one.name == poolName {
				d.fault(one.at, "pool is the name of what belongs to no provider; choose another")
				return
			}
			if key != "" {
				one.name = coordinator.PoolOfKey(one.name, key)
			}
			if d.named(named, item, "provider", one.name, one.at) {
				f.providers = append(f.providers, one)
			}
			if len(one.models) > 0 && one.share.node != nil {
				d.fault(one.share, "a provider that lists models is shared by its models; move this to them")
			}
		})
	}
}

// models reads the models of a provider.
func (d *decoder) models(into *listedPool) reader {
	return func(p place) {
		named := make(names)
		d.items(p, "models", func(item place) {
			one := &listedPool{}
			known := d.shares(one)
			known["model"] = d.name(&one.name, &one.at, modelPattern, modelRule)
			known["limits"] = d.limits(&one.limits, bearsModel)
			d.object(item, known)
			if d.named(named, item, "model", one.name, one.at) {
				into.models = append(into.models, one)
			}
		})
	}
}

// shares reads how a provider or model is shared.
func (d *decoder) shares(into *listedPool) readers {
	return readers{
		"share": func(p place) {
			const firstCome = "first_come"
			word := firstCome
			oneOf(d, &word, firstCome, wordByWeight)(p)
			if into.shared = word == wordByWeight; into.shared {
				into.share = p
			}
		},
		"groups": func(p place) {
			named := make(names)
			d.items(p, "groups", func(item place) {
				part := &listedPart{}
				d.object(item, readers{
					"group":     d.name(&part.group, &part.at, idPattern, idRule),
					"weight":    func(p place) { part.weight = new(int64); whole(d, part.weight, 0, maxWeight)(p) },
					"limits":    d.limits(&part.limits, bearsMember),
					"borrowing": d.borrowing(&part.terms),
					"lending":   d.lending(&part.terms),
				})
				if d.named(named, item, "group", part.group, part.at) {
					into.parts, into.share = append(into.parts, part), p
				}
			})
		},
	}
}

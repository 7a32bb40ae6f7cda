package quotas

import (
	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

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
	loss   listedLoss // of the pool, or a provider
}

// maxPoolName bounds the name of a key's pool, in bytes: calls name it, and no name that they give is
// longer.
const maxPoolName = 128

// listedLoss is what is admitted to a pool while no leader can be asked.
type listedLoss struct {
	word     string
	at, safe place
	limits   limits
}

// The words of on_loss.
const (
	lossDeny  = "deny"
	lossAllow = "allow"
	lossSafe  = "safe"
)

// loss reads on_loss and safe_limits.
func (d *decoder) loss(into *listedLoss, known readers) readers {
	into.word = lossDeny
	known["on_loss"] = func(p place) {
		into.at = p
		d.OneOf(&into.word, lossDeny, lossAllow, lossSafe)(p)
	}
	known["safe_limits"] = func(p place) {
		into.safe = p
		d.limits(&into.limits, bearsPool)(p)
	}
	return known
}

// checkLoss holds the two against each other.
func (d *decoder) checkLoss(l *listedLoss) {
	switch {
	case l.word == lossSafe && l.safe.Node == nil:
		d.Fault(l.at,
			"safe needs safe_limits: what each coordinator may admit by itself, such as {requests: {rate: 10, per: second}}")
	case l.word != lossSafe && l.safe.Node != nil:
		d.Fault(l.safe, "is what on_loss: safe admits; add that, or remove this")
	}
}

// lost makes the nodes of pools to which something is admitted while no leader can be asked.
func (f *quotaFile) lost() (nodes []coordinator.QuotaNode) {
	add := func(name, provider string, l *listedLoss) {
		if l.word != lossAllow && l.word != lossSafe {
			return
		}
		n := coordinator.QuotaNode{ID: name, Kind: coordinator.QuotaPool, Name: name, Parent: -1, Provider: provider,
			Weight: 1}
		for dim := range n.Rates {
			n.Budgets[dim], n.Rates[dim] = literal(l.limits.budgets[dim]), literal(l.limits.rates[dim])
		}
		n.Seats = literal(l.limits.seats)
		nodes = append(nodes, n)
	}
	add(poolName, "", &f.pool.loss)
	for _, p := range f.providers { // by name
		add(p.name, p.name, &p.loss)
	}
	return nodes
}

// literal is a limit of a pool, which depends on nothing.
func literal(l *ownLimit) *coordinator.QuotaLimit {
	if l == nil {
		return nil
	}
	return &l.QuotaLimit
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
		d.Object(p, d.loss(&into.loss, readers{"limits": d.limits(&into.limits, bearsPool),
			"borrowing": d.borrowing(&into.terms), "lending": d.lending(&into.terms)}))
		d.checkLoss(&into.loss)
	}
}

// providers reads the section `providers`.
func (d *decoder) providers(f *quotaFile) reader {
	return func(p place) {
		named := make(names)
		d.Items(p, "providers", func(item place) {
			one := &listedPool{}
			known := d.shares(one)
			var key string
			var keyAt place
			known["provider"] = d.name(&one.name, &one.at, yamlconf.ID)
			known["key"] = d.name(&key, &keyAt, yamlconf.ID)
			known["limits"] = d.limits(&one.limits, bearsPool)
			known["borrowing"], known["lending"] = d.borrowing(&one.terms), d.lending(&one.terms)
			known["models"] = d.models(one)
			d.Object(item, d.loss(&one.loss, known))
			d.checkLoss(&one.loss)
			if one.name == poolName {
				d.Fault(one.at, "pool is the name of what belongs to no provider; choose another")
				return
			}
			if one.name != "" { // else what stands there is faulted
				one.name = coordinator.PoolOfKey(one.name, key)
			}
			if len(one.name) > maxPoolName {
				d.Fault(keyAt, "makes %s: provider and key have at most %d bytes together", short(one.name), maxPoolName-1)
				return
			}
			if d.named(named, item, "provider", one.name, one.at) {
				f.providers = append(f.providers, one)
			}
			if len(one.models) > 0 && one.share.Node != nil {
				d.Fault(one.share, "a provider that lists models is shared by its models; move this to them")
			}
		})
		d.keyedOrNot(f.providers)
	}
}

// keyedOrNot refuses a provider that is listed both with keys and without: its name would stand for
// all of them and for one of them.
func (d *decoder) keyedOrNot(providers []*listedPool) {
	keyed := make(map[string]bool)
	for _, p := range providers {
		if provider, key := coordinator.CutPool(p.name); key != "" {
			keyed[provider] = true
		}
	}
	for _, p := range providers {
		if keyed[p.name] {
			d.Fault(p.at,
				"%s is listed with keys as well; give this entry a key, too: the name of the provider alone stands for all of them",
				yamlconf.Clip(p.name))
		}
	}
}

// models reads the models of a provider.
func (d *decoder) models(into *listedPool) reader {
	return func(p place) {
		named := make(names)
		d.Items(p, "models", func(item place) {
			one := &listedPool{}
			known := d.shares(one)
			known["model"] = d.name(&one.name, &one.at, aModel)
			known["limits"] = d.limits(&one.limits, bearsModel)
			d.Object(item, known)
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
			d.OneOf(&word, firstCome, wordByWeight)(p)
			if into.shared = word == wordByWeight; into.shared {
				into.share = p
			}
		},
		"groups": func(p place) {
			named := make(names)
			d.Items(p, "groups", func(item place) {
				part := &listedPart{}
				d.Object(item, readers{
					"group":     d.name(&part.group, &part.at, yamlconf.ID),
					"weight":    func(p place) { part.weight = new(int64); d.Whole(part.weight, 0, maxWeight)(p) },
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

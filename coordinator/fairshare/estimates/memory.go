package estimates

// How an Estimator makes, keeps in order and forgets what it has learnt.

// own finds or makes the record of a tenant with a model, and of the model.
func (e *Estimator) own(tenant, model string) *learned {
	key := tenantModel{tenant, model}
	own := e.pairs[key]
	if own == nil {
		own = e.add(&learned{tenantModel: key, all: e.model(model)})
		e.pairs[key] = own
	}
	return own
}

// model finds or makes the record of a model over all tenants.
func (e *Estimator) model(name string) *learned {
	all := e.models[name]
	if all == nil {
		all = e.add(&learned{tenantModel: tenantModel{model: name}})
		e.models[name] = all
	}
	return all
}

// add puts a new record at the end of the most recent use.
func (e *Estimator) add(l *learned) *learned {
	l.used = 2
	e.used += l.used
	e.link(l)
	return l
}

// bucket finds or makes the histogram of outputs to inputs of one length.
func (e *Estimator) bucket(own *learned, b int) *histogram {
	if own.buckets[b] == nil {
		own.buckets[b] = new(histogram)
		own.used++
		e.used++
	}
	return own.buckets[b]
}

// forgetOldest drops the record that has not been used for longest, buckets and all.
func (e *Estimator) forgetOldest() {
	l := e.oldest
	e.unlink(l)
	e.used -= l.used
	if l.all == nil {
		delete(e.models, l.model)
	} else {
		delete(e.pairs, l.tenantModel)
	}
}

// use makes l the most recently used.
func (e *Estimator) use(l *learned) {
	if e.newest != l {
		e.unlink(l)
		e.link(l)
	}
}

func (e *Estimator) link(l *learned) {
	l.older, l.newer = e.newest, nil
	if e.newest != nil {
		e.newest.newer = l
	} else {
		e.oldest = l
	}
	e.newest = l
}

func (e *Estimator) unlink(l *learned) {
	if l.newer != nil {
		l.newer.older = l.older
	} else {
		e.newest = l.older
	}
	if l.older != nil {
		l.older.newer = l.newer
	} else {
		e.oldest = l.newer
	}
}

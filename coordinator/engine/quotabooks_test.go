package engine

import (
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// openReservations are the keys of those that the ledger has open, and how many requests
// are set aside for each.
func openReservations(l *fairshare.Ledger, e *Engine) map[coordinator.TaskKey]bool {
	open := make(map[coordinator.TaskKey]bool)
	for _, r := range l.Export(e.now) {
		if q, is := r.(*coordinator.QuotaReserved); is && q.State == 0 && !q.Call {
			open[q.Key] = true
		}
	}
	return open
}

// CheckHolds: every reservation that is open belongs to one dispatch that is open, and the
// other way round.
func CheckHolds(t failer, e *Engine) {
	t.Helper()
	open := openReservations(e.quotas.ledger, e)
	for _, o := range e.tasks.all {
		if o == nil || o.quota == nil || !o.quota.open {
			continue
		}
		id := coordinator.AttemptID(o.task.ID, o.attempt)
		switch key := coordinator.KeyOf(coordinator.TaskID(id)); {
		case o.state < stateDispatching || o.over:
			t.Fatalf("%s has quota set aside in state %d, over %v", o.task.ID, o.state, o.over)
		case key != o.quota.key:
			t.Fatalf("%s has quota set aside under another key", id)
		default:
			if p := e.quotas.ledger.PathOf(&o.quota.charge); !open[key] && !p.Empty() {
				if _, _, known := e.quotas.ledger.Find(key); known {
					t.Fatalf("%s has quota that has been ended", id)
				}
			}
			delete(open, key)
		}
	}
	for key := range open {
		t.Fatalf("quota is set aside under %v, and no dispatch has it", key)
	}
}

// CheckParked: a task that waits for quota has none, with any agent that could have it now and any model
// that it may go to. Where all wait for one and the same that is so of the first, behind which the others
// wait; another model has none for these, either.
func CheckParked(t failer, e *Engine) {
	t.Helper()
	q := &e.quotas.waits
	if levels := e.toTry(); levels != 0 && q.soon.IsZero() {
		t.Fatalf("somebody may try at the levels %b, and does not", levels)
	}
	for _, k := range q.queues {
		if k.place >= 0 && !k.at.After(e.now) {
			t.Fatalf("%v was to be opened at %v", k.key, k.at)
		}
	}
	for _, w := range q.all() {
		o := w.task
		if o.state != stateWaiting || o.needs.class != w.class || w.leaf >= 0 && o.leaf != w.leaf {
			t.Fatalf("%s is in state %d, leaf %d, and others wait for its quota at leaf %d", o.task.ID, o.state, o.leaf, w.leaf)
		}
		if !w.at.IsZero() && !w.at.After(e.now) {
			t.Fatalf("%s was to be tried at %v", o.task.ID, w.at)
		}
		k := w.queue
		if q.queues[k.key] != k || w.closes() && k.first == nil && !k.open {
			t.Fatalf("%s waits behind nobody", o.task.ID)
		}
		if !q.soon.IsZero() {
			continue
		}
		charges := []fairshare.Charge{o.quota.charge}
		for i, s := range e.routesOfTask(o) {
			charges = append(charges[:i], fairshare.Charge{})
			charges[i], _ = e.demandAt(o, s)
		}
		ready := e.freeFor(o) // for one that must be alone those that have nothing else
		for i, a := range e.fleet.agents {
			if !ready.has(i) || !o.needs.class.usable.has(i) {
				continue
			}
			for _, c := range charges {
				c.Agent = a.spec.ID
				p := e.quotas.ledger.PathOf(&c)
				if k.first != nil && k.first != w && w.closes() && slices.Contains(e.quotas.ledger.Chain(&p), k.key.node) {
					continue
				}
				forget := e.quotas.ledger.KeepKnown(&p) // what is only asked here is not to change what follows
				_, behind := q.Ahead(e.now, c, o.level) // the first of another queue: a rate that it would have to share
				forget()
				if v := e.quotas.ledger.Explain(e.now, &p, &c).Verdict; v.OK && !behind {
					t.Fatalf("%s waits for quota (%s, tried again at %v), and there is enough for it to go to %s and %q %q, for whom it lacked: %v",
						o.task.ID, w.lacks.Describe(), w.lacks.RetryAt, a.spec.ID, c.Provider, c.Model, w.without != nil && w.without.has(i))
				}
			}
		}
	}
}

// all are those that wait for quota, in no particular order.
func (q *quotaWaits) all() (list []*quotaWait) {
	for _, w := range q.of {
		list = append(list, w)
	}
	return list
}

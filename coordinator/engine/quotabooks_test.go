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
	open := openReservations(e.quotas.Ledger, e)
	for _, o := range e.tasks.all {
		if o == nil || o.quota == nil || !o.quota.Open {
			continue
		}
		id := coordinator.AttemptID(o.task.ID, o.attempt)
		switch key := coordinator.KeyOf(coordinator.TaskID(id)); {
		case o.state < stateDispatching || o.Over:
			t.Fatalf("%s has quota set aside in state %d, over %v", o.task.ID, o.state, o.Over)
		case key != o.quota.Key:
			t.Fatalf("%s has quota set aside under another key", id)
		default:
			if p := e.quotas.Ledger.PathOf(&o.quota.Charge); !open[key] && !p.Empty() {
				if _, _, known := e.quotas.Ledger.Find(key); known {
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
// wait; another model has none for these, either. It is asked for what the task would take with that agent:
// one without a group is charged to the group of the agent, at the price of its model.
func CheckParked(t failer, e *Engine) {
	t.Helper()
	q := e.quotas.Waits
	for _, v := range q.CheckServed(e.now, e.quotas.view) {
		if v.Wait == nil {
			t.Fatalf("%s", v.Text)
		}
		t.Fatalf("%s: %s", v.Wait.Task.(*openTask).task.ID, v.Text)
	}
	for _, w := range q.All() {
		o := w.Task.(*openTask)
		if o.state != stateWaiting || o.needs.class != w.Class || w.Leaf >= 0 && o.leaf != w.Leaf {
			t.Fatalf("%s is in state %d, leaf %d, and others wait for its quota at leaf %d", o.task.ID, o.state, o.leaf, w.Leaf)
		}
		if q.Paused() {
			continue
		}
		charges := []fairshare.Charge{o.quota.Charge}
		for i, s := range e.quotas.Routes(o.task) {
			charges = append(charges[:i], fairshare.Charge{})
			charges[i], _ = e.quotas.Demand(o.task, s)
		}
		ready := e.freeFor(o) // for one that must be alone those that have nothing else
		for i, a := range e.fleet.Agents {
			if !ready.Has(i) || !o.needs.class.Usable.Has(i) {
				continue
			}
			for _, c := range charges {
				usual := o.quota.Usual
				e.quotas.Ledger.GiveTo(a.Spec.ID, &c, &usual, o.task.Type, o.task.EstimatedUsage)
				p := e.quotas.Ledger.PathOf(&c)
				if w.Behind() != nil && slices.Contains(e.quotas.Ledger.Chain(&p), w.Lacks.Behind) {
					continue
				}
				forget := e.quotas.Ledger.KeepKnown(&p) // what is only asked here is not to change what follows
				_, behind := q.Ahead(e.now, c, o.level) // in another queue: for a rate that it would have to share
				forget()
				if v := e.quotas.Ledger.Explain(e.now, &p, &c).Verdict; v.OK && !behind {
					t.Fatalf(
						"%s waits for quota (%s, tried again at %v), and there is enough for it to go to %s and %q %q, for whom it lacked: %v",
						o.task.ID, w.Lacks.Describe(), w.Lacks.RetryAt, a.Spec.ID, c.Provider, c.Model, w.Without != nil &&
							w.Without.Agents.Has(i))
				}
			}
		}
	}
}

package engine

import (
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/fairshare"
)

// openReservations are the keys of those that the ledger has open, and how many requests
// are set aside for each.
func openReservations(l *fairshare.Ledger, e *Engine) map[coordinator.TaskKey]bool {
	open := make(map[coordinator.TaskKey]bool)
	for _, r := range l.Export(e.k.Now) {
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
	open := openReservations(e.k.Quotas.Ledger, e)
	for _, o := range e.k.Tasks.All {
		if o == nil || o.Quota == nil || !o.Quota.Open {
			continue
		}
		id := coordinator.AttemptID(o.Task.ID, o.Attempt)
		switch key := coordinator.KeyOf(coordinator.TaskID(id)); {
		case o.Stage < state.Dispatching || o.Over:
			t.Fatalf("%s has quota set aside in state %d, over %v", o.Task.ID, o.Stage, o.Over)
		case key != o.Quota.Key:
			t.Fatalf("%s has quota set aside under another key", id)
		default:
			if p := e.k.Quotas.Ledger.PathOf(&o.Quota.Charge); !open[key] && !p.Empty() {
				if _, _, known := e.k.Quotas.Ledger.Find(key); known {
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
	q := e.k.Quotas.Waits
	for _, v := range q.CheckServed(e.k.Now, e.k.QuotaView()) {
		if v.Wait == nil {
			t.Fatalf("%s", v.Text)
		}
		t.Fatalf("%s: %s", v.Wait.Task.(*state.Task).Task.ID, v.Text)
	}
	for _, w := range q.All() {
		o := w.Task.(*state.Task)
		if o.Stage != state.Waiting || o.Needs.Class != w.Class || w.Leaf >= 0 && o.Leaf != w.Leaf {
			t.Fatalf("%s is in state %d, leaf %d, and others wait for its quota at leaf %d", o.Task.ID, o.Stage, o.Leaf, w.Leaf)
		}
		if q.Paused() {
			continue
		}
		charges := []fairshare.Charge{o.Quota.Charge}
		for i, s := range e.k.Quotas.Routes(o.Task) {
			charges = append(charges[:i], fairshare.Charge{})
			charges[i], _ = e.k.Quotas.Demand(o.Task, s)
		}
		ready := e.k.FreeFor(o) // for one that must be alone those that have nothing else
		for i, a := range e.k.Fleet.Agents {
			if !ready.Has(i) || !o.Needs.Class.Usable.Has(i) {
				continue
			}
			for _, c := range charges {
				usual := o.Quota.Usual
				e.k.Quotas.Ledger.GiveTo(a.Spec.ID, &c, &usual, o.Task.Type, o.Task.EstimatedUsage)
				p := e.k.Quotas.Ledger.PathOf(&c)
				if w.Behind() != nil && slices.Contains(e.k.Quotas.Ledger.Chain(&p), w.Lacks.Behind) {
					continue
				}
				_, behind := q.Ahead(e.k.Now, c, o.Level) // in another queue: for a rate that it would have to share
				if v := e.k.Quotas.Ledger.Explain(e.k.Now, &p, &c).Verdict; v.OK && !behind {
					t.Fatalf(
						"%s waits for quota (%s, tried again at %v), and there is enough for it to go to %s and %q %q, for whom it "+
							"lacked: %v",
						o.Task.ID, w.Lacks.Describe(), w.Lacks.RetryAt, a.Spec.ID, c.Provider, c.Model, w.Without != nil &&
							w.Without.Agents.Has(i))
				}
			}
		}
	}
}

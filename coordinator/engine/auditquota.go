package engine

import (
	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
)

// auditQuotasEvery is how many audits come to one of the quotas, which looks at all that is
// set aside: with 10,000 dispatches open that takes a few milliseconds.
const auditQuotasEvery = 8

// quotas looks whether what is set aside belongs to dispatches that are open, and adds up;
// and whether what waits for quota is where that is known.
func (x *inspection) quotas() {
	e, q := x.e, &x.e.quotas
	if e.audited.quotas++; !q.Installed() || e.audited.quotas%auditQuotasEvery != 1 {
		return
	}
	held := make(map[coordinator.TaskKey]bool)
	for _, t := range e.tasks.all {
		if t == nil || t.quota == nil || !t.quota.Open {
			continue
		}
		held[t.quota.Key] = true
		if t.state < stateDispatching || t.Over ||
			t.quota.Key != admission.KeyOf(t.task.ID, t.attempt) {
			x.task(coordinator.InvariantQuotaBooks, t, "quota is set aside for it in state %d, its outcome told %v", t.state,
				t.Over)
		}
	}
	for _, v := range q.Check(func(key coordinator.TaskKey) bool { return held[key] }, e.following) {
		if v.Wait == nil {
			x.note(coordinator.InvariantQuotaBooks, v.Node, "%s", v.Text)
		} else {
			x.task(coordinator.InvariantQuotaBooks, v.Wait.Task.(*openTask), "%s", v.Text)
		}
	}
	for _, w := range q.Waits.All() {
		t, c := w.Task.(*openTask), w.Class.(*class)
		switch {
		case t.state != stateWaiting || t.needs.class != c || w.Leaf >= 0 && t.leaf != w.Leaf:
			x.task(coordinator.InvariantQuotaBooks, t,
				"others wait for quota behind it at leaf %d, and it is in state %d at leaf %d", w.Leaf, t.state, t.leaf)
		case w.Leaf < 0 && c.lacks.Whole != w, !c.Parked(w.Leaf):
			x.task(coordinator.InvariantQuotaBooks, t, "it waits for quota, and its class does not know")
		}
	}
}

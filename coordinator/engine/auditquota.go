package engine

import (
	"taskbus/coordinator"
)

// auditQuotasEvery is how many audits come to one of the quotas, which looks at all that is
// set aside: with 10,000 dispatches open that takes a few milliseconds.
const auditQuotasEvery = 8

// quotas looks whether what is set aside belongs to dispatches that are open, and adds up;
// and whether who waits for quota is where that is known.
func (x *inspection) quotas() {
	e, q := x.e, &x.e.quotas
	if e.audited.quotas++; !q.ledger.Installed() || e.audited.quotas%auditQuotasEvery != 1 {
		return
	}
	held := make(map[coordinator.TaskKey]*openTask)
	for _, t := range e.tasks.all {
		if t == nil || t.quota == nil || !t.quota.open {
			continue
		}
		held[t.quota.key] = t
		if t.state < stateDispatching || t.over || t.quota.key != coordinator.KeyOf(coordinator.TaskID(coordinator.AttemptID(t.task.ID, t.attempt))) {
			x.task(coordinator.InvariantQuotaBooks, t, "quota is set aside for it in state %d, its outcome told %v", t.state, t.over)
		}
	}
	lost := 0
	q.ledger.Audit(func(key coordinator.TaskKey) {
		if held[key] == nil {
			lost++
		}
	}, func(node string, d coordinator.Dimension, reserved, sum int64) {
		x.note(coordinator.InvariantQuotaBooks, node, "%s: %d of %s are set aside, and %d by its dispatches", node, reserved, d, sum)
	})
	if lost > 0 && !e.following && len(q.lost) == 0 {
		x.note(coordinator.InvariantQuotaBooks, "", "quota is set aside for %d dispatches that are not open", lost)
	}
	for key, w := range q.waits.of {
		switch t := w.task; {
		case t.state != stateWaiting || t.needs.class != key.class || key.leaf >= 0 && t.leaf != key.leaf:
			x.task(coordinator.InvariantQuotaBooks, t, "others wait for quota behind it at leaf %d, and it is in state %d at leaf %d", key.leaf, t.state, t.leaf)
		case key.leaf < 0 && key.class.lacks != w, key.leaf >= 0 && !key.class.waiting.Parked(key.leaf):
			x.task(coordinator.InvariantQuotaBooks, t, "it waits for quota, and its class does not know")
		}
	}
	x.filed()
}

// filed looks whether every wait for quota is to be found where what it lacks comes back, and no
// wait that is over.
func (x *inspection) filed() {
	w := &x.e.quotas.waits
	owning, queued, refused := 0, 0, 0
	for _, wait := range w.of {
		if wait.mayOwn() {
			owning++
		}
		if k := w.queues[lackOf(&wait.lacks)]; k == nil || k != wait.queue {
			x.task(coordinator.InvariantQuotaBooks, wait.task, "it is not in the queue for what it lacks")
		}
	}
	for _, k := range w.queues {
		for _, p := range k.parts {
			if queued += p.leaves.Len(); p.whole != nil {
				queued++
			}
		}
	}
	for node, list := range w.refused {
		for _, wait := range list {
			if refused++; wait.part == nil || wait.lacks.Node != node || !wait.mayOwn() {
				x.task(coordinator.InvariantQuotaBooks, wait.task, "it is thought to wait for quota behind its own node %s", node)
			}
		}
	}
	if queued != len(w.of) || refused != owning {
		x.note(coordinator.InvariantQuotaBooks, "", "%d wait for quota and %d are in queues for it; %d of them may have their own, and %d are thought to", len(w.of), queued, owning, refused)
	}
}

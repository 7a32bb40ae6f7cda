package engine

import (
	"fmt"
	"slices"

	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// TestQuotaHistories plays the same histories as TestHistories with quotas that bind and
// change: what is set aside belongs to what is with agents, nothing is admitted beyond a
// limit, nobody waits for quota that is there, and whoever follows knows the same.
func TestQuotaHistories(t *testing.T) {
	histories(t, func(h *history) map[string]func(*rapid.T) {
		h.limited = true
		return map[string]func(*rapid.T){
			"task": h.sendTask, "burst": h.sendBurst, "result": h.sendResult, "return": h.returnOne, "calls": h.askCalls, "a call": h.askCalls, "quotas go": h.quotasGo, "question": h.question,
		}
	})
}

// checkQuotas looks at the books of quotas after every event.
func (h *history) checkQuotas() {
	h.t.Helper()
	if !h.limited {
		return
	}
	checkHolds(h.t, h.e)
	h.checkCaps()
	checkParked(h.t, h.e)
}

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

// checkHolds: every reservation that is open belongs to one dispatch that is open, and the
// other way round.
func checkHolds(t failer, e *Engine) {
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

// checkCaps: what was admitted in this moment is within what every pool and model that it is
// charged to has.
func (h *history) checkCaps() {
	h.t.Helper()
	l := h.e.quotas.ledger
	charged := make(map[string]coordinator.Amounts)
	for _, d := range h.moment {
		if o := h.e.held[d.Handle]; o != nil && !d.Again && o.quota != nil && o.quota.open {
			p := l.PathOf(&o.quota.charge)
			for _, id := range l.Chain(&p) {
				charged[id] = o.quota.charge.Amounts
			}
		}
	}
	for id, amounts := range charged {
		n, _ := l.Node(h.now, id)
		for _, b := range n.Budgets {
			pool := n.Parent == "" || n.Kind == coordinator.QuotaModel
			if over := b.Used + b.Reserved - b.Cap; pool && amounts[b.Dimension] > 0 && over > 0 {
				h.t.Fatalf("%s has %d more of %s used and set aside than there is: %+v", id, over, b.Dimension, b)
			}
		}
		if n.Parent == "" && n.Seats != nil && n.Seats.Running > n.Seats.Nominal {
			h.t.Fatalf("%s has %d running of %d", id, n.Seats.Running, n.Seats.Nominal)
		}
	}
}

// checkParked: a task that waits for quota has none, with any agent that could have it now and any model
// that it may go to. Where all wait for one and the same that is so of the first, behind which the others
// wait; another model has none for these, either.
func checkParked(t failer, e *Engine) {
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
				behind := q.ahead(e.now, &c, o.level)   // the first of another queue: a rate that it would have to share
				forget()
				if v := e.quotas.ledger.Explain(e.now, &p, &c).Verdict; v.OK && behind == nil {
					t.Fatalf("%s waits for quota (%s, tried again at %v), and there is enough for it to go to %s and %q %q, for whom it lacked: %v",
						o.task.ID, describeLack(&w.lacks), w.lacks.RetryAt, a.spec.ID, c.Provider, c.Model, w.without != nil && w.without.has(i))
				}
			}
		}
	}
}

// parked tells whether the task waits for quota.
func (h *history) parked(o *openTask) bool {
	return h.e.quotas.waits.find(o.needs.class, o.leaf) != nil
}

// quotaFacts adds what is known of quotas to what must survive.
func (h *history) quotaFacts(e *Engine, f *facts) {
	if !h.limited || !e.quotas.ledger.Installed() {
		return
	}
	for _, r := range e.quotas.ledger.Export(h.now) {
		switch r := r.(type) {
		case *coordinator.QuotaBefore:
			f.words[fmt.Sprint("used ", r.Node, r.Dimension, r.Rate)] = fmt.Sprint(r.Start, r.Values)
		case *coordinator.PoolHeard:
			f.words["heard of "+r.Node] = fmt.Sprint(r.BlockedUntil, r.PerMille, r.CutAt, r.Refusals, r.Calls, r.Success, r.Latency)
		case *coordinator.QuotaReserved:
			key := fmt.Sprint("reserved ", r.Key)
			f.words[key] += fmt.Sprintf("%+v %+v;", *r, r.Loans)
		}
	}
	for _, r := range e.quotas.estimator.Export() {
		f.words[fmt.Sprint("estimate ", r.Tenant, r.Model, r.Level, r.Input, r.Bucket)] = fmt.Sprint(r.Sum, r.Counts)
	}
	shares := e.quotas.shares.Export()
	if e.quotas.ledger.Installed() { // without nothing is written down of them
		f.words["turns of priorities"] = fmt.Sprint(shares.Credit)
	}
	// Whoever follows does not know who waits: what a group that does lags behind is lost.
	for _, o := range h.e.tasks.all {
		h.waited = h.waited || o != nil && o.state == stateWaiting
	}
	if h.waited {
		return
	}
	for _, g := range shares.Tags {
		if g.Lead > 0 {
			f.words[fmt.Sprint("share ", g.Name, g.Own)] = fmt.Sprint(g.Lead)
		}
	}
}

// someLag tells whether a group in which nothing waits lags behind: when something begins to
// wait, and leaves again, it does not any more, of which nothing is recorded.
func (h *history) someLag() bool {
	if !h.limited || h.waited {
		return false
	}
	return slices.ContainsFunc(h.e.quotas.shares.Export().Tags, func(g fairshare.Tags) bool { return g.Lead < 0 })
}

// all are those that wait for quota, in no particular order.
func (q *quotaWaits) all() (list []*quotaWait) {
	for _, w := range q.of {
		list = append(list, w)
	}
	return list
}

// TestAuditOfQuotas breaks the books of quotas, one at a time, and sees whether the auditor
// says so.
func TestAuditOfQuotas(t *testing.T) {
	for name, breaks := range map[string]func(r *rig){
		"a reservation is left behind": func(r *rig) { r.open("has").quota = nil },
		"what is set aside is for nobody's dispatch": func(r *rig) {
			c := r.open("has").quota.charge
			c.Amounts[coordinator.DimTotalTokens] = 1
			r.quotas.ledger.Reserve(r.now, fairshare.KeyOf("nobody's"), &c, time.Time{})
		},
		"it is under another key": func(r *rig) { r.open("has").quota.key[0]++ },
		"it has ended, and is held": func(r *rig) {
			r.quotas.ledger.Release(r.now, r.open("has").quota.key, false)
			r.open("has").over = true
		},
		"who waits has left":                func(r *rig) { r.open("waits").leaf++ },
		"the class does not know who waits": func(r *rig) { o := r.open("waits"); o.needs.class.waiting.Unpark(o.leaf) },
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))))
			r.give(job("has").of("team").tokens(500, 100))
			r.assign(job("waits").of("team").tokens(500, 100))
			if found := r.Audit(r.now); found != nil {
				t.Fatalf("before: %+v", found)
			}
			breaks(r)
			found := 0
			for range auditQuotasEvery {
				for _, v := range r.Audit(r.now) {
					if v.Invariant == coordinator.InvariantQuotaBooks {
						found++
					}
				}
			}
			if found != 1 {
				t.Errorf("the auditor says so %d times in %d audits", found, auditQuotasEvery)
			}
		})
	}
}

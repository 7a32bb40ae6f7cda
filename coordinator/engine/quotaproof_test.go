package engine_test

import (
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/invariant"
)

// TestQuotaHistories plays the same histories as TestHistories with quotas that bind and
// change: what is set aside belongs to what is with agents, nothing is admitted beyond a
// limit, no task waits for quota that is there, and a standby knows the same.
func TestQuotaHistories(t *testing.T) {
	histories(t, func(h *history) map[string]func(*rapid.T) {
		h.limited = true
		return map[string]func(*rapid.T){
			"task": h.sendTask, "burst": h.sendBurst, "result": h.sendResult, "return": h.returnOne, "calls": h.askCalls,
			"a call": h.askCalls, "quotas go": h.quotasGo, "question": h.question,
		}
	})
}

// checkQuotas looks at the books of quotas after every event.
func (h *history) checkQuotas() {
	h.t.Helper()
	if !h.limited {
		return
	}
	engine.CheckHolds(h.t, h.e)
	h.checkCaps()
	engine.CheckParked(h.t, h.e)
}

// checkCaps: what was admitted in this moment is within what every pool and model that it is
// charged to has.
func (h *history) checkCaps() {
	h.t.Helper()
	l := h.e.Ledger()
	charged := make(map[string]coordinator.Amounts)
	for _, d := range h.moment {
		if charge, ok := h.e.SetAside(d.Handle); ok && !d.Again {
			p := l.PathOf(&charge)
			for _, id := range l.Chain(&p) {
				charged[id] = charge.Amounts
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

// TestAuditOfQuotas breaks the books of quotas, one at a time, and sees whether the auditor
// says so.
func TestAuditOfQuotas(t *testing.T) {
	for name, breaks := range engine.QuotaSpoils {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))))
			r.give(job("has").of("team").tokens(500, 100))
			r.assign(job("waits").of("team").tokens(500, 100))
			if found := r.Audit(r.now); found != nil {
				t.Fatalf("before: %+v", found)
			}
			breaks(engine.Books{Engine: r.Engine})
			found := 0
			for range engine.AuditWholeEvery {
				for _, v := range r.Audit(r.now) {
					if v.Invariant == invariant.QuotaBooks {
						found++
					}
				}
			}
			if found != 1 {
				t.Errorf("the auditor says so %d times in %d audits", found, engine.AuditWholeEvery)
			}
		})
	}
}

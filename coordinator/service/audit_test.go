package service

import (
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/invariant"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/tests/support/membus"
)

// TestAuditorSpeaks breaks the books of a coordinator that runs. No agent is online, so that t-1 waits, and
// stays.
func TestAuditorSpeaks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after time.Duration // from then on at the latest
		spoil func(h *intake.Deliveries)
		want  []invariant.Name
	}{
		{"a delivery is settled without an outcome", auditPeriod, func(h *intake.Deliveries) {
			h.Take(1, intake.None)
		}, []invariant.Name{invariant.Conservation, invariant.OneOutcome,
			invariant.Held}},
		{"a delivery is settled that the engine holds", auditPeriod, func(h *intake.Deliveries) {
			h.Take(1, intake.Dropped)
		}, []invariant.Name{invariant.Held}},
		{"a delivery gets two outcomes", auditPeriod, func(h *intake.Deliveries) {
			h.Conclude(1, intake.Dispatched)
			h.Conclude(1, intake.Failed)
		}, []invariant.Name{invariant.Conservation, invariant.OneOutcome}},
		{"a delivery never reaches the engine", intake.AdriftAfter + 2*auditPeriod, func(h *intake.Deliveries) {
			h.Add(&intake.Delivery{Task: &coordinator.Task{ID: "t-1"}})
		}, []invariant.Name{invariant.Held}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.spoilt = true
				r.task("t-1", "build", `,"deadline":"2100-01-01T00:00:00Z"`)
				r.pass(auditPeriod)
				if a := r.status().Audit; a.Runs == 0 || a.Violations != 0 {
					t.Fatalf("before: %+v", a)
				}
				tc.spoil(r.service.current.Load().held)
				r.pass(tc.after)
				a := r.status().Audit
				samples := scraped(t, r.service.options.Registry)
				var codes []string
				for _, v := range a.Found {
					if codes = append(codes, v.Invariant); v.Invariant != "conservation" && !slices.Equal(v.IDs, []string{"t-1"}) {
						t.Errorf("%+v does not name t-1", v)
					}
				}
				for _, want := range tc.want {
					if samples[`taskbus_audit_violations_total{invariant="`+want.String()+`"}`] == 0 {
						t.Errorf("%s is not counted; found %+v", want, a.Found)
					}
					line := `"invariant":"` + want.String() + `"`
					if n := strings.Count(r.log.String(), line); n != 1 {
						t.Errorf("%d lines say %s", n, line)
					}
				}
				if a.Violations == 0 || len(codes) == 0 || samples["taskbus_audit_runs_total"] != float64(a.Runs) {
					t.Errorf("status %+v, %v runs by the metrics", a, samples["taskbus_audit_runs_total"])
				}
				lines := strings.Count(r.log.String(), "do not balance")
				r.pass(10 * auditPeriod)
				if again := strings.Count(r.log.String(), "do not balance"); again != lines || lines != len(tc.want) {
					t.Errorf("%d lines, later %d, want %d once and for all", lines, again, len(tc.want))
				}
			})
		})
	}
}

// A task whose failure the broker does not take is seen to, however long that lasts.
func TestAuditorIsPatient(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Exchange == bus.ExchangeEvents && !p.Optional {
				return membus.Nack
			}
			return membus.Answer
		})
		r.task("t-1", "nonsense", "")
		r.pass(2 * intake.AdriftAfter)
		if a := r.status().Audit; a.Runs < uint64(2*intake.AdriftAfter/auditPeriod)-1 || a.Violations != 0 {
			t.Errorf("%+v, want no violation", a)
		}
		if c := r.status().Counters; c.Received != 1 || c.Failed != 0 || c.Held != 1 {
			t.Errorf("%+v, want the one that was received held", c)
		}
		r.broker.SetConfirm(nil)
		r.pass(2 * outbox.NoticePause)
	})
}

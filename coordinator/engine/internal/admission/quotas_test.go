package admission

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// newTeam is quotas of a group that may use 1000 tokens a day.
func newTeam(t *testing.T) *Quotas {
	t.Helper()
	team := coordinator.QuotaNode{ID: "pool/team", Kind: coordinator.QuotaGroup, Name: "team", Weight: 1}
	team.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: 1000,
		Period: coordinator.Period{Unit: coordinator.PerDay}}
	q := NewQuotas()
	p := &coordinator.Policy{Quotas: &coordinator.Quotas{ReservationTTL: time.Hour, TombstoneTTL: time.Hour,
		Nodes: []coordinator.QuotaNode{
			{ID: "pool", Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1}, team,
		}}}
	if !q.Install(epoch, p) || q.Install(epoch, p) {
		t.Fatal("other quotas are installed once")
	}
	return q
}

// TestReservationsEnd: of 1000 tokens 600 are reserved, so that 500 are refused until the reservation has ended, and
// after it only if it was settled at more than 500.
func TestReservationsEnd(t *testing.T) {
	task := func(id coordinator.TaskID, tokens float64) *coordinator.Task {
		return &coordinator.Task{ID: id, Group: "team", EstimatedUsage: &coordinator.Usage{InputTokens: tokens - 1,
			OutputTokens: 1}}
	}
	for _, c := range []struct {
		name  string
		end   func(q *Quotas, h *Hold) End
		how   coordinator.QuotaEnd
		fits  bool
		spent int64
	}{
		{"settled", func(q *Quotas, h *Hold) End {
			return q.Settle(epoch, h, "", &coordinator.Result{Usage: &coordinator.Usage{InputTokens: 509, OutputTokens: 1}})
		}, coordinator.QuotaSettled, false, 510},
		{"settled as estimated", func(q *Quotas, h *Hold) End { return q.SettleAsEstimated(epoch, h, 0) },
			coordinator.QuotaSettled, false, 600},
		{"released", func(q *Quotas, h *Hold) End { return q.Release(epoch, h, 0) }, coordinator.QuotaReleased, true, 0},
		{"expired", func(q *Quotas, h *Hold) End { return q.Expire(epoch, h) }, coordinator.QuotaExpired, true, 0},
	} {
		q := newTeam(t)
		first, second := task("first", 600), task("second", 500)
		h, other := q.Hold(first), q.Hold(second)
		if v := q.Reserve(epoch, first, 1, h, "a"); !v.OK || !h.Open || h.Key != KeyOf("first", 1) || q.Given != 1 {
			t.Fatalf("%s: %+v, %+v", c.name, v, h)
		}
		if v := q.Reserve(epoch, second, 1, other, "a"); v.OK || other.Open || v.Limit != fairshare.LimitBudget {
			t.Fatalf("%s: 1100 of 1000 are reserved: %+v", c.name, v)
		}
		x := c.end(q, h)
		if h.Open || x.Ended == nil || x.Ended.How != c.how || x.Ended.Used[coordinator.DimTotalTokens] != c.spent {
			t.Errorf("%s: %+v", c.name, x.Ended)
		}
		if v := q.Reserve(epoch, second, 1, other, "a"); v.OK != c.fits {
			t.Errorf("%s: 500 more are reserved: %v", c.name, v.OK)
		}
	}
}

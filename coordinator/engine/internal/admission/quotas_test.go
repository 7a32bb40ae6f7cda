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
	q := NewQuotas(testTasksInOrder)
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
// after it only if it was settled at more than 500. Which end a dispatch has is the table of Dispatch.how.
func TestReservationsEnd(t *testing.T) {
	task := func(id coordinator.TaskID, tokens float64) *coordinator.Task {
		return &coordinator.Task{ID: id, Group: "team", EstimatedUsage: &coordinator.Usage{InputTokens: tokens - 1,
			OutputTokens: 1}}
	}
	result := func(o coordinator.Outcome, attempted bool) *coordinator.Result {
		return &coordinator.Result{Outcome: o, Attempted: attempted, Duration: time.Second}
	}
	cancelled, rejected := result(coordinator.OutcomeCancelled, false), result(coordinator.OutcomeRejected, false)
	used := result(coordinator.OutcomeRejected, false)
	used.Usage = &coordinator.Usage{InputTokens: 509, OutputTokens: 1}
	const settled, released, expired = coordinator.QuotaSettled, coordinator.QuotaReleased, coordinator.QuotaExpired
	for name, c := range map[string]struct {
		end   Dispatch
		how   coordinator.QuotaEnd
		spent int64
	}{
		"with usage":                 {Dispatch{Result: used}, settled, 510},
		"succeeded":                  {Dispatch{Result: result(coordinator.OutcomeSucceeded, true)}, settled, 600},
		"cancelled, begun":           {Dispatch{Result: cancelled, Begun: true}, settled, 600},
		"cancelled":                  {Dispatch{Result: cancelled}, released, 0},
		"rejected, attempted":        {Dispatch{Result: result(coordinator.OutcomeRejected, true)}, settled, 600},
		"rejected":                   {Dispatch{Result: rejected, Begun: true}, released, 0},
		"forgotten":                  {Dispatch{How: Unreported}, settled, 600},
		"gone":                       {Dispatch{How: Gone}, expired, 0},
		"taken back":                 {Dispatch{How: TakenBack, Again: true}, released, 0},
		"taken back, begun":          {Dispatch{How: TakenBack, Begun: true}, expired, 0},
		"taken back, unanswered":     {Dispatch{How: TakenBack, Unanswered: true}, expired, 0},
		"unpublished":                {Dispatch{How: Unpublished, Begun: true, Unanswered: true}, released, 0},
		"unpublished, a copy may be": {Dispatch{How: Unpublished, Again: true}, expired, 0},
	} {
		q := newTeam(t)
		first, second := task("first", 600), task("second", 500)
		h, other := q.Hold(first), q.Hold(second)
		if v := q.Reserve(epoch, first, 1, h, "a"); !v.OK || !h.Open || h.Key != KeyOf("first", 1) || q.Given != 1 {
			t.Fatalf("%s: %+v, %+v", name, v, h)
		}
		if v := q.Reserve(epoch, second, 1, other, "a"); v.OK || other.Open || v.Limit != fairshare.LimitBudget {
			t.Fatalf("%s: 1100 of 1000 are reserved: %+v", name, v)
		}
		took := time.Duration(0)
		if c.end.Result != nil {
			took = time.Second
		}
		x := q.End(epoch, h, "build", &c.end)
		if h.Open || x.Ended == nil || x.Ended.How != c.how || x.Ended.Used[coordinator.DimTotalTokens] != c.spent ||
			x.Ended.Took != took || x.Ended.Key != h.Key || !x.Ended.At.Equal(epoch) {
			t.Errorf("%s: %+v", name, x.Ended)
		}
		if again := q.End(epoch, h, "build", &c.end); again.Ended != nil {
			t.Errorf("%s: it ends twice", name)
		}
		if v := q.Reserve(epoch, second, 1, other, "a"); v.OK != (c.spent <= 500) {
			t.Errorf("%s: 500 more are reserved: %v", name, v.OK)
		}
	}
	if x := newTeam(t).End(epoch, nil, "build", &Dispatch{How: Gone}); x.Ended != nil {
		t.Error("what was never reserved ends")
	}
}

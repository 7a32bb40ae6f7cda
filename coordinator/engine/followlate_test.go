package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// A standby with a clock that is ahead of what it reads (it starts, or its process stood still) ends
// nothing by itself, whatever changes in between: of the three calls, that stand for a minute, one is
// settled in time, one extended, and one charged by the leader when its time is over.
func TestWhoFollowsLateEndsNothing(t *testing.T) {
	r := calls(t, oneTeam)
	r.Record(true)
	r.Records(nil)
	r.state(tokens(coordinator.CallReserve, "settled", 100, 0), coordinator.CallGranted)
	r.state(tokens(coordinator.CallReserve, "extended", 10, 0), coordinator.CallGranted)
	untold := tokens(coordinator.CallReserve, "untold", 5, 0)
	untold.ChargeUntold = true
	untold.Agent = "y"
	r.state(untold, coordinator.CallGranted)
	first, begun := r.Records(nil), r.now

	r.pass(30 * time.Second)
	more := callOf(coordinator.CallExtend, "extended")
	more.TTL = time.Hour
	r.state(more, coordinator.CallGranted)
	r.state(tokens(coordinator.CallSettle, "settled", 7, 0), coordinator.CallGranted)
	then, at := r.Records(nil), r.now
	r.pass(30 * time.Second)
	last, ended := r.Records(nil), r.now

	wall := r.now.Add(24 * time.Hour) // the next day
	late := callRig{&rig{Engine: engine.New(), t: t, now: wall}}
	late.Follow()
	late.apply(coordinator.PolicyChanged{Policy: r.Policy()})
	fold := func(at time.Time, records []coordinator.Record) {
		late.now = wall
		for _, rec := range records {
			late.Fold(at, rec)
			late.FoldPolicy(at, underAgain(r.Policy())) // a control that changes nothing here
			late.apply(coordinator.Tick{})
			late.apply(coordinator.PolicyChanged{Policy: underAgain(r.Policy())}) // the file is read again
		}
	}
	now := func(x callRig, at time.Time, agent string, used, reserved int64) {
		t.Helper()
		x.now = at
		x.holds("pool/team/"+agent, coordinator.DimTotalTokens, used, reserved)
	}
	fold(begun, first)
	now(late, begun, "x", 0, 110)
	now(late, begun, "y", 0, 5)
	fold(at, then)
	now(late, at, "x", 7, 10)
	now(late, at, "y", 0, 5)
	if len(last) != 1 {
		t.Fatalf("%d records of what the leader has ended, want one", len(last))
	}
	fold(ended, last)
	now(late, ended, "x", 7, 10)
	now(late, ended, "y", 5, 0)

	// No end of the extended one was told until its hour was over: the leader of then ends it, and records it.
	late.now = wall
	late.Record(true)
	late.Lead(wall)
	late.apply(coordinator.SessionOpened{})
	ends := 0
	for _, rec := range late.Records(nil) {
		if q, is := rec.(*coordinator.QuotaEnded); is && q.How == coordinator.QuotaExpired {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("%d calls have expired by the journal, want one", ends)
	}
	late.holds("pool/team/x", coordinator.DimTotalTokens, 0, 0) // of that day
}

// underAgain is a policy with the same quotas, read anew.
func underAgain(p *coordinator.Policy) *coordinator.Policy {
	again, quotas := *p, *p.Quotas
	again.Quotas = &quotas
	return &again
}

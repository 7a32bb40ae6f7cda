package service

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/view"
)

// limitedRig is a coordinator with quotas on a broker that another may have used.
func limitedAfter(t *testing.T, before func(first *rig), test func(second *rig)) {
	t.Helper()
	after(t, quotaFleet, func(first *rig) {
		first.service.Reload(withLimits(first, limited), nil)
		first.settle()
		first.tenSlots()
		before(first)
	}, func(second *rig) {
		second.limit()
		second.start()
		second.tenSlots()
		test(second)
	})
}

// withLimits is the rig's own configuration with other quotas.
func withLimits(r *rig, text string) *config.Config {
	r.t.Helper()
	return parseConfig(r.t, quotaFleet).WithQuotas(quotasIn(r.t, text))
}

// The next leader has what stands, and what has been used under it: of a group that only a
// control has made, too.
func TestNextCoordinatorHasTheControls(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		t.Run(map[bool]string{true: "from a snapshot", false: "record by record"}[snapshot], func(t *testing.T) {
			t.Parallel()
			limitedAfter(t, func(first *rig) {
				if _, err := first.service.RegisterQuota(context.Background(),
					view.QuotaEntry{ID: "new", Entry: `{"limits":{"total_tokens":{"amount":1000,"per":"month"}}}`}); err != nil {
					t.Fatal(err)
				}
				first.mustSet("pool/poor", "total_tokens.amount", "4000")
				if _, err := first.control(view.QuotaChange{Node: "pool/rich", Boost: true, For: time.Hour,
					Values: []view.QuotaValue{{Key: "total_tokens", Value: "+10%"}}}); err != nil {
					t.Fatal(err)
				}
				first.task("t-1", "build", usage(500, 200, "new")) // 700 of 1,000
				first.result("a1", "t-1", "succeeded", `,"usage":{"input_tokens":500,"output_tokens":200}`)
				if snapshot {
					first.pass(journaling.SnapshotEvery + 2*time.Second)
				}
			}, func(second *rig) {
				second.stands(`group new  {"limits":{"total_tokens":{"amount":1000,"per":"month"}}}`,
					"set pool/poor total_tokens.amount 4000", "boost pool/rich total_tokens +10%")
				if got := second.limitOf("pool/poor"); got != 4000 {
					t.Errorf("pool/poor has %v, want 4000", got)
				}
				if got := second.limitOf("pool/rich"); got != 11000 {
					t.Errorf("pool/rich has %v, want 11000", got)
				}
				b := second.quotas(view.QuotaSelection{Node: "pool/new"})["pool/new"].Budgets[0]
				if b.Used+b.Reserved != 700 {
					t.Errorf("pool/new has used %v and set aside %v, want 700 in all", b.Used, b.Reserved)
				}
				second.pass(time.Hour) // the boost ends with the second, too
				if got := second.limitOf("pool/rich"); got != 10000 {
					t.Errorf("pool/rich has %v after the boost, want 10000", got)
				}
			})
		})
	}
}

// A session that is lost takes nothing with it.
func TestControlsOutlastTheSession(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.mustSet("pool/poor", "total_tokens.amount", "4000")
		r.broker.Cut()
		r.pass(backoffMax)
		r.connect()
		r.stands("set pool/poor total_tokens.amount 4000")
		if got := r.limitOf("pool/poor"); got != 4000 {
			t.Errorf("pool/poor has %v, want 4000", got)
		}
	})
}

// What was recorded of a term with changes decides the same once more.
func TestRecordingWithControlsReplays(t *testing.T) {
	recorded := quotaFleet + "journal: {record_inputs: true}\n"
	inRig(t, recorded, func(r *rig) {
		q, err := quotas.Parse([]byte(limited), "quotas.yaml")
		if err != nil {
			t.Fatal(err)
		}
		r.service.Reload(parseConfig(t, recorded).WithQuotas(q), nil)
		r.settle()
		r.tenSlots()
		r.task("t-1", "build", usage(700, 210, "poor"))
		r.task("t-2", "build", usage(200, 50, "poor"))
		r.mustSet("pool/poor", "total_tokens.amount", "2000")
		if _, err := r.control(view.QuotaChange{Node: "pool/poor", Boost: true, For: 10 * time.Second,
			Values: []view.QuotaValue{{Key: "total_tokens", Value: "+100%"}}}); err != nil {
			t.Fatal(err)
		}
		r.pass(11 * time.Second)
		r.tenSlots()
		r.task("t-3", "build", usage(20, 5, "poor"))
		r.pass(2 * time.Second)
		r.broker.Cut()
		r.pass(backoffMax)
		r.connect()
		r.tenSlots()
		r.task("t-4", "build", usage(20, 5, "poor"))
		r.pass(2 * time.Second)

		r.replays(3, 1)
	})
}

// At midnight the rules of the file are applied: a group that has not used its own on that day has a point
// of
// weight less from then on, in the list and in the log; without the rule it is given back.
func TestRulesAreAskedAtMidnight(t *testing.T) {
	t.Parallel()                          // two days of a coordinator take their time
	synctest.Test(t, func(t *testing.T) { // which begins at a midnight
		r := newRig(t, quotaFleet)
		ruled := strings.Replace(limited, "{id: poor, weight: 1,", "{id: poor, weight: 4,", 1) +
			"adjustment: {idle: {days: 1}}\n"
		r.service.controls.Under(withLimits(r, ruled))
		r.start()
		defer r.close()
		r.tenSlots()
		r.task("t-1", "build", usage(2000, 500, "rich")) // of 10,000
		r.result("a1", "t-1", "succeeded", `,"usage":{"requests":1,"input_tokens":2000,"output_tokens":500}`)
		weight := func() int64 { return r.quotas(view.QuotaSelection{Node: "pool/poor"})["pool/poor"].Weight }
		r.pass(23 * time.Hour)
		r.stands()
		r.pass(time.Hour + time.Second)
		r.stands("boost pool/poor weight -1") // a1 has weight 1, and keeps it
		if weight() != 3 {
			t.Errorf("poor has the weight %d, want 3", weight())
		}
		if text := r.log.String(); !strings.Contains(text,
			`"rule":"idle","by":"rule idle","reason":"under 10 % of its own used on one day (0 of 1000 on the last): weight `+
				`3 instead of 4","message":"the quotas are changed"`) {
			t.Errorf("not logged:\n%s", text)
		}
		r.broker.Cut() // the next leader knows it, and goes on counting
		r.pass(backoffMax)
		r.connect()
		r.stands("boost pool/poor weight -1")
		if weight() != 3 {
			t.Errorf("poor has the weight %d in the next session, want 3", weight())
		}
		r.pass(24 * time.Hour)
		r.stands("boost pool/poor weight -2", "boost pool/rich weight -1")
		r.service.Reload(withLimits(r, strings.Replace(ruled, "adjustment: {idle: {days: 1}}", "", 1)), nil)
		r.settle()
		r.pass(time.Second)
		r.stands()
		if weight() != 4 {
			t.Errorf("poor has the weight %d without the rule, want the file's 4", weight())
		}
	})
}

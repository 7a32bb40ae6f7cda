package quotacontrol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

var epoch = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func boost(target, value string, until time.Time) coordinator.QuotaControl {
	return coordinator.QuotaControl{
		Kind: coordinator.ControlBoost, Target: target, Key: "weight", Value: value, Until: until,
	}.Named()
}

// TestControlsEnd: of three the first to end is the next, and what has ended is told by its ID.
func TestControlsEnd(t *testing.T) {
	var c Controls
	if end := c.NextEnd(); !end.IsZero() || !c.Empty() {
		t.Errorf("without any the next ends at %v", end)
	}
	long, short := boost("pool/x", "+1", epoch.Add(3*time.Hour)), boost("pool/y", "+1", epoch.Add(time.Hour))
	for _, one := range []coordinator.QuotaControl{boost("pool", "+1", time.Time{}), long, short} {
		if !c.Put(one) || c.Put(one) {
			t.Errorf("%s is put twice, or not at all", one.ID)
		}
	}
	if end := c.NextEnd(); !end.Equal(short.Until) {
		t.Errorf("the next ends at %v, want %v", end, short.Until)
	}
	if over := c.Expired(epoch.Add(time.Hour)); !slices.Equal(over, []string{short.ID}) {
		t.Errorf("over are %q", over)
	}
	if one, stood := c.Remove(short.ID); !stood || one.ID != short.ID {
		t.Errorf("removed %+v, %v", one, stood)
	}
	if _, stood := c.Remove(short.ID); stood {
		t.Error("removed twice")
	}
	if end := c.NextEnd(); !end.Equal(long.Until) {
		t.Errorf("the next ends at %v, want %v", end, long.Until)
	}
}

// TestRecordsAreBounded: 60 controls of 8 KiB are in records of 64 KiB each, and folded they are the same.
func TestRecordsAreBounded(t *testing.T) {
	var c, heir Controls
	for i := range 60 {
		c.Put(boost(fmt.Sprint("pool/", i), strings.Repeat("x", 8<<10), time.Time{}))
	}
	records := c.Records()
	if len(records) != 8 { // 8 of 8 KiB each; the last has 4
		t.Errorf("%d records, want 8", len(records))
	}
	heir.Put(boost("gone", "+1", time.Time{}))
	for _, r := range records {
		heir.Fold(fairshare.NewLedger(), epoch, r.(*coordinator.QuotaControlled))
	}
	if !slices.EqualFunc(c.standing, heir.standing, func(a, b coordinator.QuotaControl) bool { return a.Same(&b) }) {
		t.Errorf("%d stand with the heir, want %d", len(heir.standing), len(c.standing))
	}
	if at, behind := heir.PolicyBehind(); !behind || !at.Equal(epoch) {
		t.Errorf("the heir's policy is behind: %v, %v", behind, at)
	}
	if heir.Installed(); heir.PolicyDue(nil, epoch, nil, true) {
		t.Error("it is due after it was installed")
	}
}

// twoGroups are quotas of x and y, of weight 2 each, with a rule of one idle day.
func twoGroups(rule *coordinator.IdleRule) *coordinator.Quotas {
	return &coordinator.Quotas{
		Adjustment: coordinator.Adjustment{Idle: rule},
		Nodes: []coordinator.QuotaNode{
			{ID: "pool", Name: "pool", Kind: coordinator.QuotaPool, Parent: -1, Weight: 1},
			{ID: "pool/x", Name: "x", Kind: coordinator.QuotaGroup, Weight: 2},
			{ID: "pool/y", Name: "y", Kind: coordinator.QuotaGroup, Weight: 2},
		},
	}
}

// TestDays: the day on which counting begins says nothing; then a day without use costs weight, and what
// the rule has changed goes with it.
func TestDays(t *testing.T) {
	l := fairshare.NewLedger()
	var c Controls
	under := func(q *coordinator.Quotas) {
		l.Install(epoch, q)
		c.Under(q)
	}
	ends := func(now time.Time, set, remove []string, stopped bool) {
		t.Helper()
		due := c.NextDay(now, l.Quotas())
		if !due.Equal(now) {
			t.Errorf("the day ends at %v, want %v", due, now)
		}
		end := c.EndDay(now, due, l)
		var got []string
		for _, one := range end.Set {
			got = append(got, one.Target+" "+one.Value)
			c.Put(one)
		}
		for _, id := range end.Remove {
			c.Remove(id)
		}
		if !slices.Equal(got, set) || !slices.Equal(end.Remove, remove) || end.Stopped != stopped {
			t.Errorf("at %v: set %q, removed %q, stopped %v; want %q, %q and %v",
				now, got, end.Remove, end.Stopped, set, remove, stopped)
		}
	}
	under(twoGroups(nil))
	if due := c.NextDay(epoch, l.Quotas()); !due.IsZero() {
		t.Errorf("without a rule a day ends at %v", due)
	}
	under(twoGroups(&coordinator.IdleRule{BelowPercent: 10, Days: 1, Step: 1, MinWeight: 1}))
	midnight := epoch.Add(12 * time.Hour)
	ends(epoch, nil, nil, false)
	if !c.DayStart().Equal(epoch) {
		t.Errorf("counting began at %v", c.DayStart())
	}
	ends(midnight, nil, nil, false) // half a day
	var used coordinator.Amounts
	used[coordinator.DimInputTokens], used[coordinator.DimTotalTokens] = 100_000, 100_000
	ended := &coordinator.QuotaEnded{How: coordinator.QuotaSettled, Used: used, Took: time.Second}
	c.Count(l, &fairshare.Charge{Group: "x"}, ended)
	var heir Controls
	heir.Under(l.Quotas())
	for _, r := range c.Records() {
		heir.Fold(l, midnight, r.(*coordinator.QuotaControlled))
	}
	if got := heir.day.uses["pool/x"]; got == nil || got.Used != used || got.Answers != 1 || got.Took != time.Second {
		t.Errorf("the heir has the use %+v", got)
	}
	next := midnight.Add(24 * time.Hour)
	ends(next, []string{"pool/y -1"}, nil, false) // of 100,000 · 2 / 4 = 50,000
	lost := c.standing[0]
	if lost.Rule != coordinator.RuleIdle || !lost.At.Equal(next) || !strings.Contains(lost.Reason, "of 50000 on") {
		t.Errorf("%+v", lost)
	}
	if c.DayNotAfter(next) || !c.DayNotAfter(next.Add(-time.Hour)) || !c.DayStart().Equal(next.Add(-time.Hour)) {
		t.Errorf("by a clock that is an hour behind the day began at %v", c.DayStart())
	}
	under(twoGroups(nil))
	ends(next, nil, []string{lost.ID}, true)
	if due := c.NextDay(next, l.Quotas()); !due.IsZero() || !c.Empty() {
		t.Errorf("afterwards a day ends at %v, %+v stand", due, c.standing)
	}
}

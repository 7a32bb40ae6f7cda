package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// reached are the alerts among effects.
func reached(effects []string) (alerts []string) {
	for _, f := range effects {
		if strings.HasPrefix(f, "quota ") {
			alerts = append(alerts, f)
		}
	}
	return alerts
}

// charges uses so many tokens, and gives what is told of budgets.
func (r *rig) charges(id string, tokens float64) []string {
	return reached(r.apply(coordinator.CallAsked{Calls: []coordinator.Call{{
		Op: coordinator.CallCharge, Key: coordinator.KeyOf(coordinator.TaskID(id)), Group: "a",
		Usage: coordinator.Usage{InputTokens: tokens}, Meant: coordinator.UsagePart,
	}}}))
}

// TestQuotaAlertsOfALoweredBudget: 1,000 of 5,000 tokens are used, 20 %. Of 1,100 that are 90 %: 80 and
// 90 are told with the change, in that moment and once; 100 with the 100 that are left. Of 900 more than
// all is used, and nothing can be used any more: all three are told with the change. A leader that takes over
// tells nothing again that was told, by the same quotas or lower ones, and neither does an end of a
// session; one that takes over by lower quotas than the one before knew tells of what these bring.
func TestQuotaAlertsOfALoweredBudget(t *testing.T) {
	of := func(amount int64) *quotaTree { return quotasOf().group("a", 1, daily(amount)) }
	told := func(percents ...string) (all []string) {
		for _, p := range percents {
			all = append(all, "quota pool/a total_tokens "+p+"%")
		}
		return all
	}
	check := func(what string, got, want []string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: told of %q, want %q", what, got, want)
		}
	}
	for _, c := range []struct {
		to        int64
		at, after []string
	}{{1100, told("80", "90"), told("100")}, {900, told("80", "90", "100"), nil}, {6000, nil, nil}} {
		r := leads(t, policyOf(worker("x")).quotas(of(5000)))
		check("20 %", r.charges("first", 1000), nil)
		before := r.Records(nil)
		check("lowered", reached(r.reload(of(c.to))), c.at)
		check("lowered once more", reached(r.reload(of(c.to))), nil)
		// A death just before the change was read, and one just after.
		lower := *r.Policy()
		for name, journal := range map[string][]coordinator.Record{
			"by records": append(slices.Clone(before), r.Records(nil)...), "by a snapshot": r.imaged(),
		} {
			heir := r.heirOf(r.now, journal)
			check(name, reached(heir.opened), nil)
			check(name+", session lost and back", append(reached(heir.apply(coordinator.SessionLost{})),
				reached(heir.apply(coordinator.SessionOpened{}))...), nil)
			check(name+", the next 100", heir.charges("next", 100), c.after)
		}
		r.SetPolicy(&lower)
		check("who takes over before it was told", reached(r.heirOf(r.now, before).opened), c.at)
		check("the next 100", r.charges("next", 100), c.after)
	}
}

// TestQuotaAlertsWithoutASession: what is lowered without a session is told with the next
// session.
func TestQuotaAlertsWithoutASession(t *testing.T) {
	r := leads(t, policyOf(worker("x")).quotas(quotasOf().group("a", 1, daily(5000))))
	r.charges("first", 1000)
	r.apply(coordinator.SessionLost{})
	if got := reached(r.reload(quotasOf().group("a", 1, daily(1100)))); got != nil {
		t.Errorf("told without a session: %q", got)
	}
	if got := reached(r.apply(coordinator.SessionOpened{})); len(got) != 2 {
		t.Errorf("told with the next one: %q, want 80 and 90 %%", got)
	}
}

// A call without a reported end is charged when its time is over: what its budget comes to by
// then is told in that moment, and is in the journal. (460 of 1,000; of 500 that are 92 %, which has not
// been told with the change, because there was no session.)
func TestQuotaAlertsOfACallThatExpires(t *testing.T) {
	of := func(amount int64) *quotaTree { return quotasOf().group("a", 1, daily(amount)) }
	r := leads(t, policyOf(worker("x")).quotas(of(1000)))
	r.apply(coordinator.CallAsked{Calls: []coordinator.Call{{
		Op: coordinator.CallReserve, Key: coordinator.KeyOf("c"), Group: "a", TTL: time.Minute, ChargeUntold: true,
		Usage: coordinator.Usage{InputTokens: 460}, Meant: coordinator.UsagePart,
	}}})
	r.apply(coordinator.SessionLost{})
	if got := reached(r.reload(of(500))); got != nil {
		t.Errorf("without a session %q are told", got)
	}
	r.Records(nil)
	if got, want := reached(r.pass(time.Minute)),
		[]string{"quota pool/a total_tokens 80%", "quota pool/a total_tokens 90%"}; !slices.Equal(got, want) {
		t.Errorf("told of %q, want %q", got, want)
	}
	recorded := 0
	for _, rec := range r.Records(nil) {
		if _, is := rec.(*coordinator.QuotaTold); is {
			recorded++
		}
	}
	if recorded != 2 {
		t.Errorf("%d are in the journal, want 2", recorded)
	}
}

// A group and its only part reach 80 % by the same charge: 80 of 100 each. It is told once, of the group, and is
// in the journal for both, so that the next leader does not tell it of the part.
func TestQuotaAlertIsToldOfOneNode(t *testing.T) {
	r := leads(t, policyOf(worker("x")).quotas(quotasOf().group("labs", 1, daily(100)).in("labs", "a", 1, daily(100))))
	if got, want := r.charges("c", 80), []string{"quota pool/labs total_tokens 80%"}; !slices.Equal(got, want) {
		t.Errorf("told of %q, want %q", got, want)
	}
	for how, heir := range heirs(r) {
		if got := reached(heir.reload(quotasOf().group("labs", 1, daily(100)).in("labs", "a", 1, daily(100)))); got != nil {
			t.Errorf("%s: told again: %q", how, got)
		}
	}
}

package engine_test

import (
	"strings"
	"testing"

	"taskbus/coordinator"
)

// Usage that was told wrongly is corrected: what waits goes, at once; the next leader has it so; it does not
// stand, and made again it corrects again, as far down as nothing is used.
func TestQuotaCorrection(t *testing.T) {
	r := leads(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("x", 1, daily(1000))))
	r.give(job("t1").of("x").tokens(500, 100))
	r.tell(says("a", "t1").used(1e15, 0))
	r.used("pool/x", 2000, 0)
	want(t, r.assign(job("t2").of("x").tokens(500, 100)))
	r.Records(nil)
	got := r.asks([]coordinator.QuotaControl{control(coordinator.ControlCorrect, "pool/x", "total_tokens", "-1600")})
	if text := strings.Join(got, "\n"); !strings.Contains(text, "QuotaControlsStand") ||
		!strings.Contains(text, "dispatch t2.1 a") {
		t.Errorf("a correction is followed by %q, want it told, and the task that waited given", got)
	}
	r.stands()
	r.used("pool/x", 400, 600)
	recorded := 0
	for _, rec := range r.Records(nil) {
		if c, is := rec.(*coordinator.QuotaControlled); is && len(c.Set) == 1 && c.Set[0].By == "ann" &&
			c.Set[0].Value == "-1600" {
			recorded++
		}
	}
	if recorded != 1 {
		t.Errorf("recorded %d times with its operator", recorded)
	}
	r.asks([]coordinator.QuotaControl{control(coordinator.ControlCorrect, "pool/x", "total_tokens", "-1600")})
	r.used("pool/x", 0, 600)
}

// A follower that folds the records of a correction has the books of the leader that made it.
func TestQuotaCorrectionIsFolded(t *testing.T) {
	r := leads(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("x", 1, daily(1000))))
	r.give(job("t1").of("x").tokens(500, 100))
	r.tell(says("a", "t1").used(1e15, 0))
	r.asks([]coordinator.QuotaControl{control(coordinator.ControlCorrect, "pool/x", "total_tokens", "-1600"),
		control(coordinator.ControlCorrect, "pool/x", "cost_usd", "-1")})
	for name, heir := range heirs(r) {
		if n, _ := heir.Ledger().Node(heir.now, "pool/x"); n.Budgets[0].Used != 400 {
			t.Errorf("%s: %+v, want 400 used", name, n.Budgets[0])
		}
		heir.stands()
	}
}

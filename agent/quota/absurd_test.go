package quota_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"

	"taskbus/agent/quota"
)

// One call whose numbers cannot be does not keep the others of its lease from being charged: a coordinator
// refuses what it is told as a whole if any of it is below 0, no number or more than a call can use, and
// then nothing would be.
func TestAbsurdUsageOfOneCallOfALease(t *testing.T) {
	for name, c := range map[string]struct {
		absurd quota.Usage
		want   int // used of the budget by both calls
	}{
		"less than nothing": {quota.Usage{InputTokens: -1_000_000, OutputTokens: 5}, 75}, // 0 + 5, and 30 + 40 of the other
		"no number":         {quota.Usage{InputTokens: 20, OutputTokens: 5, CostUSD: math.NaN()}, 95},
		"more than a call can use": {quota.Usage{InputTokens: math.MaxInt64}, // beyond belief:
			2 * 100}, // as much as was reserved for both
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, pool(100_000, ""), func(r *rig) {
				client := r.client("x", leases(2))
				a, b := admit(t, client, 100), admit(t, client, 100)
				a.Settle(&c.absurd, nil)
				b.Settle(used(30, 40), nil)
				if err := client.Close(context.Background()); (err != nil) != (c.want == 200) { // what is not believed is told
					t.Error(err)
				}
				if n, _ := r.budget("one"); n != c.want {
					t.Errorf("%d used, want %d", n, c.want)
				}
			})
		})
	}
}

// What is expected of a call is no more than a call can use: eight times as much would be less than nothing
// where numbers end, and nothing would be set aside.
func TestAbsurdExpectation(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		c := r.client("x")
		defer r.close(c)
		p, err := c.Admit(context.Background(), taking(math.MaxInt64/2, 1))
		if err == nil {
			n, set := r.budget("one")
			t.Errorf("it passes, with %d used and %d set aside", n, set)
			p.Release(nil)
		}
		synctest.Wait()
	})
}

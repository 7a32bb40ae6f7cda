package quotas

import (
	"strings"
	"testing"

	"taskbus/tests/support/configtest"
)

// Whatever the bytes, ParseQuotas gives quotas that the ledger can rely on, or faults that say
// where.
func FuzzParse(f *testing.F) {
	for _, data := range quotaFiles(f) {
		f.Add(data)
	}
	for _, seed := range []string{
		"groups: [[[", "groups: [{id: &a a}, {id: *a}]", "agents: [{id: 1, group_id: 1}]\ngroups: [{id: 1}]",
		"currencies: {? a : 1}", "groups: {}",
		"groups: [{id: a, limits: {cost_usd: {rate: 0.000001, interval_seconds: 86400}}}]",
		"pool: {limits: {requests: {rate: 0.001, per: day}}}\ngroups: [{id: a, limits: {requests: {rate: 1000000000000, " +
			"per: second, borrow: 0}}}]",
		"prices: [{provider: p, per_request: 0." + strings.Repeat("0", 70) + "1}]",
		"pool: {limits: {concurrency: {amount: 1000000000}}}\ngroups: [{id: a}, {id: b, weight: 0}]\nproviders: " +
			"[{provider: q, share: by_weight, groups: [{group: a}]}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := Parse(data, "quotas.yaml")
		if err == nil {
			checkQuotas(t, q)
			again, err := Parse([]byte(q.Source), "source")
			if err != nil {
				t.Fatalf("its own source is refused: %v\n%s", err, q.Source)
			}
			if outline(again) != outline(q) {
				t.Errorf("its own source says something else:\n%s\ninstead of:\n%s", outline(again), outline(q))
			}
			return
		}
		configtest.CheckFaults(t, err, data)
	})
}

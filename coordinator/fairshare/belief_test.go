package fairshare_test

import (
	"testing"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// An agent's own word is believed as far as it could be true, and no further: what it says of one
// call must not use up what all have in common.
func TestDoubted(t *testing.T) {
	q, err := config.ParseQuotas([]byte(`
pool: {limits: {total_tokens: {amount: 1000000, per: month}}}
groups:
  - {id: own, limits: {total_tokens: {amount: 1000, per: month}}}
  - {id: none}
  - {id: lends, limits: {total_tokens: {amount: 0, per: month}}}
agents: [{id: a, group_id: own}]
`), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l := fairshare.NewLedger()
	l.Install(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), q)
	for _, c := range []struct {
		name           string
		group          string
		reserved, told int64
		most           int64 // -1: it is believed
		node           string
	}{
		{"as reserved", "own", 100, 100, -1, ""},
		{"ten times, as bad as estimates are", "own", 300, 3000, -1, ""},
		{"what uses its budget up twice: 2·1000 − 0", "own", 10, 2000, -1, ""},
		{"one more", "own", 10, 2001, 2000, "pool/own"},
		{"of nothing reserved: what was made without asking", "own", 0, 2001, 2000, "pool/own"},
		{"its part of what the pool has left: 2·(1000000 − 1000)", "none", 1, 1_998_001, 1_998_000, "pool/none"},
		{"a budget of nothing is none of its own", "lends", 1, 2_000_001, 2_000_000, "pool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			charge := fairshare.Charge{Group: c.group, Amounts: coordinator.Amounts{coordinator.DimTotalTokens: c.reserved}}
			d := l.Doubted(&charge, &coordinator.Amounts{coordinator.DimTotalTokens: c.told})
			switch {
			case c.most < 0 && d != nil:
				t.Errorf("it is doubted: %+v", d)
			case c.most >= 0 && (d == nil || *d != fairshare.Doubt{Node: c.node, Dimension: coordinator.DimTotalTokens, Told: c.told, Most: c.most}):
				t.Errorf("got %+v, want at most %d by %s", d, c.most, c.node)
			}
		})
	}
}

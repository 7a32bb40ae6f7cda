package service

import (
	"context"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// A model without a price that a call names, where money is limited, is in the list of quotas, with how
// often it was refused, and in the log.
func TestModelsWithoutAPriceAreListed(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		for i, model := range []string{"new", "new", "newer"} {
			c := aCall(coordinator.CallConsume, string(rune('a'+i)), 10)
			c.Agent, c.Group, c.Usage.Provider, c.Usage.Model = "", "rich", "acme", model
			r.asked(c, coordinator.CallNever)
		}
		q, err := r.service.Quotas(context.Background(), view.QuotaSelection{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]uint64)
		for i := range q.Unpriced {
			m := &q.Unpriced[i]
			if found[m.Name()] = m.Refused; m.Group != "rich" || m.Node != "pool/rich" || m.Admitted != 0 ||
				m.LastSeen.IsZero() {
				t.Errorf("%+v", m)
			}
		}
		if len(found) != 2 || found["acme/new"] != 2 || found["acme/newer"] != 1 {
			t.Errorf("listed: %v, want acme/new twice and acme/newer once", found)
		}
	})
}

package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// Of what an agent names and quotas.yaml does not, 32 names of a day have rows of their own in the
// history. What quotas.yaml names always has, and other agents have theirs.
func TestInventedNames(t *testing.T) {
	r := calls(t, `
groups: [{id: team, limits: {requests: {amount: 100000, per: day}}}]
agents: [{id: x, group_id: team}, {id: y, group_id: team}]
providers: [{provider: lab, limits: {requests: {amount: 100000, per: day}}}]
prices: [{provider: shop, model: priced, per_request: 0.001}]
`)
	r.Record(true)
	n, reserved := 0, []coordinator.Record{}
	call := func(agent coordinator.AgentID, provider, model string, want coordinator.NameKept) {
		t.Helper()
		n++
		c := callOf(coordinator.CallConsume, fmt.Sprint(n))
		c.Agent, c.Usage.Provider, c.Usage.Model = agent, provider, model
		r.state(c, coordinator.CallGranted)
		for _, rec := range r.Records(nil) {
			if one, is := rec.(*coordinator.QuotaReserved); is {
				if reserved = append(reserved, one); one.Known != want || one.Model != model || one.Provider != provider {
					t.Errorf("call %d by %s to %s/%s: %+v, want names kept %d", n, agent, provider, model, one, want)
				}
			}
		}
	}
	const all, model, none = coordinator.NamesKept, coordinator.ProviderKept, coordinator.NoNameKept
	for i := range 16 {
		call("x", "lab", fmt.Sprint("m", i), all)
		call("x", fmt.Sprint("p", i), "", all)
	}
	for i := range 5 {
		call("x", "lab", fmt.Sprint("more", i), model)
		call("x", fmt.Sprint("other", i), "m", none)
	}
	call("x", "lab", "m3", all) // it has its row
	call("x", "lab", "", all)   // quotas.yaml names these
	call("x", "shop", "priced", all)
	call("x", "shop", "", all)
	call("x", "shop", "gratis", model)
	call("y", "lab", "more1", all) // another agent
	r.pass(24 * time.Hour)
	call("x", "lab", "tomorrow", all)

	// A standby that folds these records knows what was named.
	heir := calls(t, `
groups: [{id: team, limits: {requests: {amount: 100000, per: day}}}]
unknown_callers: allow
providers: [{provider: lab, limits: {requests: {amount: 100000, per: day}}}]
`)
	for _, rec := range reserved[:42] {
		heir.FoldQuota(rec)
	}
	heir.now = reserved[41].(*coordinator.QuotaReserved).At
	r = heir
	r.Record(true)
	n = 1000
	call("x", "lab", "m3", all)
	call("x", "lab", "invented", model)
}

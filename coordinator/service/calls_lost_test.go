package service

import (
	"testing"
	"testing/synctest"

	"taskbus/config"
	"taskbus/coordinator"
)

// The pool's safe_limits concern calls without a listed provider alone; a provider's on_loss decides
// for its own.
func TestLossOfAProviderIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		q, err := config.ParseQuotas([]byte(`
pool: {on_loss: safe, safe_limits: {requests: {rate: 1, per: minute, burst: 1}}}
groups: [{id: alpha}]
providers: [{provider: lab, on_loss: allow, limits: {requests: {rate: 1000, per: minute}}}]
`), "quotas.yaml")
		if err != nil {
			t.Fatal(err)
		}
		r.service.underFile(r.service.config.Load().WithQuotas(q))
		for _, id := range []string{"1", "2", "3"} {
			c := aCall(coordinator.CallReserve, id, 10)
			c.Usage.Provider = "lab"
			if a, err := r.ask(c); err != nil || a.State != coordinator.CallGranted {
				t.Errorf("call %s of a provider with on_loss: allow: %+v, %v", id, a, err)
			}
		}
	})
}

// Who speaks for himself alone has nobody else's group, also while nobody leads.
func TestLossOfAForeignGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		q, err := config.ParseQuotas([]byte("pool: {on_loss: allow}\ngroups: [{id: alpha}, {id: beta}]\nagents: [{id: a1, group_id: alpha}]\n"), "quotas.yaml")
		if err != nil {
			t.Fatal(err)
		}
		r.service.underFile(r.service.config.Load().WithQuotas(q))
		c := aCall(coordinator.CallReserve, "1", 10)
		c.Agent, c.Group, c.OwnOnly = "a1", "beta", true
		if a, err := r.ask(c); err == nil && a.State == coordinator.CallGranted {
			t.Errorf("an agent is let pass for another's group: %+v", a)
		}
	})
}

// Who names neither group nor provider is charged to its own group's provider, whose on_loss decides.
func TestLossByTheAgentsOwnGroup(t *testing.T) {
	for name, group := range map[string]string{
		"its group's provider":    "groups: [{id: alpha, provider: lab}]\nagents: [{id: a1, group_id: alpha}]\n",
		"that of the group above": "groups: [{id: top, provider: lab}, {id: alpha, parent: top}]\nagents: [{id: a1, group_id: alpha}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, quotaFleet)
				q, err := config.ParseQuotas([]byte(group+"providers: [{provider: lab, on_loss: allow, limits: {requests: {rate: 1000, per: minute}}}]\n"), "quotas.yaml")
				if err != nil {
					t.Fatal(err)
				}
				r.service.underFile(r.service.config.Load().WithQuotas(q))
				c := aCall(coordinator.CallReserve, "1", 10)
				if name != "its group's provider" {
					c.Group = "alpha"
				}
				if a, err := r.ask(c); err != nil || !a.Own {
					t.Errorf("%+v, %v", a, err)
				}
			})
		})
	}
}

package service

import (
	"context"
	"testing"
	"testing/synctest"

	"taskbus/config/quotas"
	"taskbus/coordinator/view"
)

// A provider's name stands for the pools of all its keys, a key for its own: they are shown so, and
// each can be changed and left alone again.
func TestKeysAreShownAndSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		q, err := quotas.Parse([]byte(`
groups: [{id: rich}]
providers:
  - {provider: openai-eu, limits: {requests: {rate: 9, per: minute}}}
  - {provider: openai, key: a, models: [{model: gpt-4o, limits: {requests: {rate: 100, per: minute}}}]}
  - {provider: openai, key: b, limits: {requests: {rate: 50, per: minute}}}
`), "quotas.yaml")
		if err != nil {
			t.Fatal(err)
		}
		r.service.controls.Under(r.service.config.Load().WithQuotas(q))
		r.start()
		defer r.close()
		for provider, want := range map[string][]string{
			"openai": {"openai@a", "openai@a/gpt-4o", "openai@b"}, "openai@a": {"openai@a", "openai@a/gpt-4o"},
			"openai@b":  {"openai@b"},
			"openai-eu": {"openai-eu"}, "openai@c": nil,
		} {
			got := r.quotas(view.QuotaSelection{Provider: provider})
			for _, id := range want {
				if _, shown := got[id]; !shown || len(got) != len(want) {
					t.Errorf("%s: %d nodes, of which %s is %v; want %v", provider, len(got), id, shown, want)
				}
			}
		}
		rate := func(id string) float64 { return r.quotas(view.QuotaSelection{Node: id})[id].Rates[0].Amount }
		for id, was := range map[string]float64{"openai@b": 50, "openai@a/gpt-4o": 100} {
			set := r.mustSet(id, "requests.rate", "300")
			if got := rate(id); got != 300 {
				t.Errorf("%s: a rate of %v, want 300", id, got)
			}
			r.stands("set " + id + " requests.rate 300")
			if _, err := r.service.UncontrolQuota(context.Background(), set.Controls[0].ID); err != nil {
				t.Errorf("unset %s: %v", id, err)
			}
			if got := rate(id); got != was {
				t.Errorf("%s: without the control a rate of %v, want %v", id, got, was)
			}
			r.stands()
		}
	})
}

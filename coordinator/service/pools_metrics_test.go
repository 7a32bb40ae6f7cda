package service

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/hash"
)

// twoModels are a provider with a model of its own limits, and one without calls.
const twoModels = `
providers:
  - provider: openai
    limits: {requests: {rate: 100, per: second, burst: 100}}
    models: [{model: gpt, limits: {requests: {rate: 50, per: second, burst: 50}}}]
  - {provider: spare, limits: {requests: {rate: 2, per: second, burst: 2}}}
`

// How a model stands whose provider refuses calls: closed for as long as it says, and then used
// less; it is well again with time. What answered says how fast and how reliable it is.
func TestPoolMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		r.under(twoModels)
		r.start()
		defer r.close()

		call := func(op coordinator.CallOp, id string) coordinator.Call {
			c := aCall(op, id, 10)
			c.Usage.Provider, c.Usage.Model = "openai", "gpt"
			return c
		}
		ends := func(op coordinator.CallOp, id string, word coordinator.ProviderWord, want coordinator.CallState) {
			t.Helper()
			c := call(op, id)
			c.Heard = &word
			r.asked(c, want)
		}
		check := func(when string, want map[string]float64, missing ...string) {
			t.Helper()
			got := r.quotaMetrics()
			for key, value := range want {
				if v, there := got[key]; !there || math.Abs(v-value) > 0.01 { // each question takes the journal 1 ms
					t.Errorf("%s: %s is %v (there: %v), want %v", when, key, v, there, value)
				}
			}
			for _, key := range missing {
				if v, there := got[key]; there {
					t.Errorf("%s: %s is %v, want none", when, key, v)
				}
			}
		}
		const (
			blocked, rate    = "taskbus_quota_pool_blocked_seconds ", "taskbus_quota_pool_rate_ratio "
			latency, success = "taskbus_quota_pool_latency_seconds ", "taskbus_quota_pool_success_ratio "
			refusals         = "taskbus_quota_pool_refusals_total "
			gpt              = "openai/gpt"
		)

		check("before any call", map[string]float64{
			blocked + gpt: 0, rate + gpt: 1, blocked + "openai": 0, rate + "openai": 1, blocked + "spare": 0, rate + "spare": 1,
		}, refusals+gpt, latency+gpt, success+gpt, blocked+"pool", rate+"pool") // the pool is no provider's

		for _, id := range []string{"1", "2", "3", "4"} {
			r.asked(call(coordinator.CallReserve, id), coordinator.CallGranted)
		}
		r.pass(time.Second)
		refused := coordinator.ProviderWord{Status: 429, RetryAfter: 40 * time.Second}
		ends(coordinator.CallRelease, "1", refused, coordinator.CallGranted)
		// was on its way already: refused, but no reason to go slower still
		ends(coordinator.CallRelease, "2", refused, coordinator.CallGranted)
		ends(coordinator.CallRelease, "2", refused, coordinator.CallEnded) // told again: nothing new
		// 40 s, and what the chance of the two calls adds to it: the later of both.
		longer := time.Duration(0)
		for _, id := range []string{"1", "2"} {
			longer = max(longer, hash.Spread(40*time.Second, hash.Mix(call(coordinator.CallRelease, id).Key[0])))
		}
		r.pass(10 * time.Second)
		check("after the refusals", map[string]float64{
			refusals + gpt:  2,
			blocked + gpt:   30 + longer.Seconds(),    // of 40 s and some 10 are over
			rate + gpt:      0.7,                      // once less by 30 %
			rate + "spare":  1,                        // another's refusals are no matter
			rate + "openai": 1, blocked + "openai": 0, // the model has limits of its own, which are meant
		}, latency+gpt, success+gpt, refusals+"spare") // a refusal says nothing of how it does its work

		ends(coordinator.CallSettle, "3", coordinator.ProviderWord{Status: 200, Latency: 2 * time.Second},
			coordinator.CallGranted)
		ends(coordinator.CallRelease, "4", coordinator.ProviderWord{Status: 503, Latency: time.Second},
			coordinator.CallGranted)
		r.pass(time.Minute)
		check("a minute later", map[string]float64{
			refusals + gpt: 2,
			blocked + gpt:  0,    // 70 s after 40
			rate + gpt:     0.75, // 0.7 + 0.05 for one whole minute
			latency + gpt:  2,    // how soon an error comes is no merit
			success + gpt:  0.5,  // one of two
		})
	})
}

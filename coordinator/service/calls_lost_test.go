package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi"
)

// inLossRig has a coordinator that has not started, so that there is no leader, under these quotas.
func inLossRig(t *testing.T, quotas string, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		r.under(quotas)
		test(r)
	})
}

// unanswered checks that a call is not let pass, because there is no leader.
func (r *rig) unanswered(c coordinator.Call) {
	r.t.Helper()
	if a, err := r.ask(c); !errors.Is(err, gateway.ErrNotLeading) {
		r.t.Errorf("%s is answered: %+v, %v", c.Op, a, err)
	}
}

// of is a call of a provider.
func of(provider string, c coordinator.Call) coordinator.Call {
	c.Usage.Provider = provider
	return c
}

// The pool's safe_limits concern calls without a listed provider alone; a provider's on_loss decides
// for its own.
func TestLossOfAProviderIsItsOwn(t *testing.T) {
	inLossRig(t, `
pool: {on_loss: safe, safe_limits: {requests: {rate: 1, per: minute, burst: 1}}}
groups: [{id: alpha}]
unknown_callers: allow
providers:
  - {provider: lab, on_loss: allow, limits: {requests: {rate: 1000, per: minute}}}
  - {provider: mill, on_loss: safe, safe_limits: {requests: {rate: 1, per: minute, burst: 2}}}
  - {provider: shut, limits: {requests: {rate: 1000, per: minute}}}
`, func(r *rig) {
		r.unanswered(of("shut", aCall(coordinator.CallReserve, "0", 10))) // deny, whatever the pool says
		r.asked(of("unlisted", aCall(coordinator.CallReserve, "1", 10)), coordinator.CallGranted)
		r.unanswered(aCall(coordinator.CallReserve, "2", 10)) // the pool's one request of the minute is used
		for i := range 5 {
			r.asked(of("lab", aCall(coordinator.CallReserve, fmt.Sprint("lab", i), 10)), coordinator.CallGranted)
		}
		r.asked(of("mill", aCall(coordinator.CallConsume, "3", 10)), coordinator.CallGranted)
		r.asked(of("mill", aCall(coordinator.CallConsume, "4", 10)), coordinator.CallGranted)
		r.unanswered(of("mill", aCall(coordinator.CallConsume, "5", 10))) // its two
		if n := r.value("taskbus_calls_unconfirmed_total"); n != 8 {
			t.Errorf("%v calls counted, want 1 of the pool, 5 of lab and 2 of mill", n)
		}
	})
}

// Each key has its own word; whose key is not said is the first one's that lets the call pass.
func TestLossOfKeys(t *testing.T) {
	inLossRig(t, `
providers:
  - {provider: lab, key: a, limits: {requests: {rate: 1000, per: minute}}}
  - {provider: lab, key: b, on_loss: safe, safe_limits: {requests: {rate: 1, per: minute, burst: 1}}}
  - {provider: lab, key: c, on_loss: allow, limits: {requests: {amount: 9, per: day}}}
groups: [{id: alpha, provider: lab}]
agents: [{id: a1, group_id: alpha}]
`, func(r *rig) {
		r.unanswered(of("lab@a", aCall(coordinator.CallReserve, "1", 10)))
		byGroup := aCall(coordinator.CallReserve, "2", 10)
		if a := r.asked(byGroup, coordinator.CallGranted); a.Pool != "lab@b" || a.Provider != "lab@b" {
			t.Errorf("%+v", a)
		}
		r.unanswered(of("lab@b", aCall(coordinator.CallReserve, "3", 10))) // its one of the minute is used
		if a := r.asked(of("lab", aCall(coordinator.CallConsume, "4", 10)), coordinator.CallGranted); a.Pool != "lab@c" {
			t.Errorf("%+v", a)
		}
		r.start()
		defer r.close()
		r.pass(2 * tellEvery)
		if b := r.quotas(httpapi.QuotaSelection{})["lab@c"].Budgets[0]; b.Used != 1 {
			t.Errorf("lab@c is charged with %v requests, want the one that was answered so", b.Used)
		}
	})
}

// An agent with its own token cannot use another's group, also without a leader; a gateway may name any.
// What is not let pass is not charged later.
func TestLossOfAForeignGroup(t *testing.T) {
	const quotas = `
pool: {on_loss: allow}
groups: [{id: alpha}, {id: beta, limits: {total_tokens: {amount: 1000, per: day}}}]
agents: [{id: a1, group_id: alpha}]
`
	inLossRig(t, quotas, func(r *rig) {
		c := aCall(coordinator.CallReserve, "1", 10)
		c.Group, c.OwnOnly = "beta", true
		r.asked(c, coordinator.CallForeign)
		c.Op = coordinator.CallCheck
		r.asked(c, coordinator.CallForeign)
		c.Op, c.Agent = coordinator.CallReserve, "unlisted"
		r.unanswered(c) // it may have been registered: only a reader of the journal knows
		c.Agent, c.Group = "a1", "alpha"
		r.asked(c, coordinator.CallGranted)
		c.Group, c.OwnOnly, c.Key = "beta", false, coordinator.CallKey("", "2")
		c.Op = coordinator.CallConsume
		r.asked(c, coordinator.CallGranted)
		if n := r.value("taskbus_calls_unconfirmed_total"); n != 2 {
			t.Errorf("%v calls counted as admitted, want 2", n)
		}
		r.start()
		defer r.close()
		r.pass(lossTTL + 2*tellEvery)
		if b := r.quotas(httpapi.QuotaSelection{})["pool/beta"].Budgets[0]; b.Used != 10 {
			t.Errorf("beta is charged with %v tokens, want the gateway's 10", b.Used)
		}
	})
}

// A call that names neither group nor provider is charged to its own group's provider, whose on_loss
// decides.
func TestLossByTheAgentsOwnGroup(t *testing.T) {
	for name, group := range map[string]string{
		"its group's provider":    "groups: [{id: alpha, provider: lab}]\nagents: [{id: a1, group_id: alpha}]\n",
		"that of the group above": "groups: [{id: top, provider: lab}, {id: alpha, parent: top}]\nagents: [{id: a1, group_id: alpha}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			inLossRig(t, group+"providers: [{provider: lab, on_loss: allow, limits: {requests: {rate: 1000, per: minute}}}]\n",
				func(r *rig) {
					c := aCall(coordinator.CallReserve, "1", 10)
					if name != "its group's provider" {
						c.Group = "alpha"
					}
					if a := r.asked(c, coordinator.CallGranted); !a.Own || a.Group != "alpha" || a.Provider != "lab" ||
						a.Pool != "lab" {
						t.Errorf("%+v", a)
					}
				})
		})
	}
}

// What is answered without a leader is what is charged by the next one: what was asked for, at what
// it was settled, or what such calls are assumed to take, with the prices and the group of then.
func TestLossAnswersWhatIsCharged(t *testing.T) {
	inLossRig(t, limited+"default_output_tokens: 40\npool: {on_loss: allow}", func(r *rig) {
		asked := aCall(coordinator.CallReserve, "1", 300)
		asked.Seats = 2
		if a := r.asked(asked, coordinator.CallGranted); a.Group != "poor" ||
			a.Amounts != (coordinator.Amounts{1, 300, 0, 300, 0, 2}) {
			t.Errorf("reserved: %+v", a)
		}
		settled := aCall(coordinator.CallReserve, "2", 300)
		r.asked(settled, coordinator.CallGranted)
		if a := r.asked(settled, coordinator.CallGranted); !a.Standing || a.Amounts[coordinator.DimTotalTokens] != 300 ||
			a.Until.IsZero() {
			t.Errorf("asked again: %+v", a)
		}
		settled.Op, settled.Usage.InputTokens, settled.Usage.OutputTokens = coordinator.CallSettle, 100, 50
		if a := r.asked(settled, coordinator.CallGranted); a.Amounts != (coordinator.Amounts{1, 100, 50, 150, 0, 0}) {
			t.Errorf("settled: %+v", a)
		}
		settled.Op = coordinator.CallReserve
		r.asked(settled, coordinator.CallEnded)

		guessed := aCall(coordinator.CallConsume, "3", 10) // 10 in and the assumed 40 out
		guessed.Meant, guessed.Seats = coordinator.UsageEstimated, 1
		if a := r.asked(guessed, coordinator.CallGranted); a.Amounts != (coordinator.Amounts{1, 10, 40, 50, 0, 0}) {
			t.Errorf("estimated: %+v", a)
		}
		released := aCall(coordinator.CallReserve, "4", 300)
		r.asked(released, coordinator.CallGranted)
		released.Op = coordinator.CallRelease
		if a := r.asked(released, coordinator.CallGranted); a.Amounts != (coordinator.Amounts{}) {
			t.Errorf("released: %+v", a)
		}
		r.start()
		defer r.close()
		r.pass(lossTTL + 2*tellEvery)
		r.used(300+150+50, 0)
	})
}

// The same is charged also if quotas.yaml has changed meanwhile: by then the agent is in another group,
// that group calls another provider, and more is assumed of what is not stated.
func TestLossAnswerOutlastsAReload(t *testing.T) {
	const before = `
pool: {on_loss: allow}
default_output_tokens: 40
groups: [{id: poor, provider: mill, limits: {total_tokens: {amount: 1000, per: day}}}, {id: rich, limits: {total_tokens: {amount: 1000, per: day}}}]
agents: [{id: a1, group_id: poor}]
providers: [{provider: mill, on_loss: allow, limits: {requests: {amount: 9, per: day}}}, {provider: lab, limits: {requests: {amount: 9, per: day}}}]
`
	inLossRig(t, before, func(r *rig) {
		c := aCall(coordinator.CallConsume, "1", 10) // 10 in and the assumed 40 out
		c.Meant, c.OwnOnly = coordinator.UsageEstimated, true
		if a := r.asked(c, coordinator.CallGranted); a.Group != "poor" || a.Pool != "mill" ||
			a.Amounts[coordinator.DimTotalTokens] != 50 {
			t.Errorf("%+v", a)
		}
		after := strings.NewReplacer("group_id: poor", "group_id: rich", "provider: mill, limits: {total",
			"provider: lab, limits: {total", "tokens: 40", "tokens: 400")
		q, err := config.ParseQuotas([]byte(after.Replace(before)), "quotas.yaml")
		if err != nil {
			t.Fatal(err)
		}
		r.service.Reload(r.service.config.Load().WithQuotas(q), nil)
		r.start()
		defer r.close()
		r.pass(2 * tellEvery)
		used := func(node string) float64 { return r.quotas(httpapi.QuotaSelection{})[node].Budgets[0].Used }
		if used("pool/poor") != 50 || used("pool/rich") != 0 || used("mill") != 1 || used("lab") != 0 {
			t.Errorf("poor %v, rich %v tokens; mill %v, lab %v requests; want 50, 0, 1, 0", used("pool/poor"), used("pool/rich"),
				used("mill"), used("lab"))
		}
	})
}

// Of calls that are asked about together all are admitted or none, and none of those is charged.
func TestLossOfCallsTogether(t *testing.T) {
	inLossRig(t,
		limited+
			"pool: {on_loss: safe, safe_limits: {total_tokens: {rate: 1, per: minute, burst: 700}, concurrency: {amount: 2}}}",
		func(r *rig) {
			ask := func(second coordinator.Call) ([]coordinator.CallAnswer, error) {
				return r.service.AskCalls(t.Context(), []coordinator.Call{aCall(coordinator.CallConsume, "1", 400), second})
			}
			if _, err := ask(aCall(coordinator.CallConsume, "2", 400)); !errors.Is(err, gateway.ErrNotLeading) { // 800 of 700
				t.Errorf("%v", err)
			}
			foreign := aCall(coordinator.CallConsume, "2", 10)
			foreign.Group, foreign.OwnOnly = "rich", true
			foreign.Usage.Provider = "unlisted"
			if a, err := ask(foreign); err != nil || a[0].State != coordinator.CallPutBy ||
				a[1].State != coordinator.CallForeign {
				t.Errorf("%+v, %v", a, err)
			}
			if n := r.service.lost.waiting(); n != 0 {
				t.Errorf("%d calls are to be charged, want none", n)
			}
			if a, err := ask(aCall(coordinator.CallConsume, "2", 300)); err != nil || a[0].State != coordinator.CallGranted ||
				a[1].State != coordinator.CallGranted {
				t.Errorf("%+v, %v", a, err)
			}
		})
}

// A seat is free again when the call's end has been told, or is no longer waited for; what is consumed
// takes none.
func TestLossFreesSeats(t *testing.T) {
	inLossRig(t, "pool: {on_loss: safe, safe_limits: {concurrency: {amount: 1}}}", func(r *rig) {
		seated := func(op coordinator.CallOp, id string) coordinator.Call {
			c := aCall(op, id, 10)
			c.Seats = 1
			return c
		}
		r.asked(seated(coordinator.CallConsume, "1"), coordinator.CallGranted)
		if r.service.lost.ledger.IsOpen(coordinator.CallKey("a1", "1")) {
			t.Error("what is consumed is still set aside")
		}
		r.asked(seated(coordinator.CallReserve, "2"), coordinator.CallGranted)
		r.unanswered(seated(coordinator.CallReserve, "3"))
		r.asked(seated(coordinator.CallSettle, "2"), coordinator.CallGranted)
		r.asked(seated(coordinator.CallReserve, "3"), coordinator.CallGranted)
		time.Sleep(lossTTL) // the end is not reported
		r.service.lost.due(r.service.now(), tellAtOne)
		r.asked(seated(coordinator.CallReserve, "4"), coordinator.CallGranted)
	})
}

// A guess must not keep a call out: of what is not stated no more is counted than the safe limits have
// at all.
func TestLossOfAGuess(t *testing.T) {
	inLossRig(t, "pool: {on_loss: safe, safe_limits: {total_tokens: {rate: 1, per: minute, burst: 100}}}", func(r *rig) {
		c := aCall(coordinator.CallConsume, "1", 0) // 2,048 and 512 are assumed
		c.Meant = coordinator.UsageEstimated
		r.asked(c, coordinator.CallGranted)
		c.Key = coordinator.CallKey("a1", "2")
		r.unanswered(c) // that has taken all 100
	})
}

// Of a call that was admitted without a leader and is settled by half the other half is charged as it
// answered: 10 tokens of input, and 512 of output, which were not stated.
func TestLossSettledByHalf(t *testing.T) {
	inLossRig(t, `
pool: {on_loss: allow}
groups: [{id: alpha, limits: {total_tokens: {amount: 10000, per: day}}}]
agents: [{id: a1, group_id: alpha}]
`, func(r *rig) {
		settled := func(id string, meant coordinator.UsageMeant, in, out float64, want int64) {
			c := aCall(coordinator.CallReserve, id, 10)
			c.Meant = coordinator.UsageEstimated
			r.asked(c, coordinator.CallGranted)
			c.Op, c.Meant, c.Usage = coordinator.CallSettle, meant, coordinator.Usage{InputTokens: in, OutputTokens: out}
			if a := r.asked(c, coordinator.CallGranted); a.Amounts[coordinator.DimTotalTokens] != want {
				t.Errorf("%s: %v is to be charged, want %d tokens", id, a.Amounts, want)
			}
		}
		settled("output", coordinator.UsageOutput, 0, 30, 10+30)
		settled("input", coordinator.UsageInput, 7, 0, 7+512)
		settled("both", coordinator.UsageExact, 7, 30, 37)
		settled("none", coordinator.UsageEstimated, 0, 0, 522)
		r.start()
		defer r.close()
		r.pass(lossTTL + 2*tellEvery)
		if b := r.quotas(httpapi.QuotaSelection{})["pool/alpha"].Budgets[0]; b.Used != 40+519+37+522 {
			t.Errorf("%v tokens are charged, want 1118", b.Used)
		}
	})
}

// An id stands for one call while no leader can be asked, too; and a gateway that says a call has used what no call
// does is not believed.
func TestLossOfAnotherCallUnderTheSameID(t *testing.T) {
	inLossRig(t, `
pool: {on_loss: allow, limits: {total_tokens: {amount: 1000, per: day}}}
groups: [{id: alpha}]
unknown_callers: allow
`, func(r *rig) {
		for _, op := range []coordinator.CallOp{coordinator.CallReserve, coordinator.CallConsume} {
			call := func(tokens float64) coordinator.Call {
				c := aCall(op, op.String(), tokens)
				c.Asked = c.HashAsked()
				return c
			}
			r.asked(call(10), coordinator.CallGranted)
			if a := r.asked(call(10), coordinator.CallGranted); !a.Standing {
				t.Errorf("%s again: %+v", op, a)
			}
			r.asked(call(5000), coordinator.CallTaken)
		}
		told := aCall(coordinator.CallSettle, coordinator.CallReserve.String(), 1e12)
		told.Meant = coordinator.UsageExact
		r.asked(told, coordinator.CallDoubted)
	})
}

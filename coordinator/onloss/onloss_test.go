package onloss

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// lone is a coordinator that can ask no leader.
type lone struct {
	*testing.T
	now      time.Time
	quotas   *coordinator.Quotas
	calls    *Calls
	admitted int
	leader   *engine.Engine // once there is one
}

// alone has one under these quotas.
func alone(t *testing.T, quotas string, test func(l *lone)) {
	t.Helper()
	l := &lone{T: t, now: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC), calls: New()}
	l.under(quotas)
	test(l)
}

// quotasIn reads a quotas.yaml.
func quotasIn(t *testing.T, text string) *coordinator.Quotas {
	t.Helper()
	q, err := quotas.Parse([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatalf("quotas of the test: %v", err)
	}
	return q
}

func (l *lone) under(quotas string) {
	l.quotas = quotasIn(l.T, quotas)
	l.calls.Under(l.now, l.quotas)
}

// pass lets time pass.
func (l *lone) pass(d time.Duration) { l.now = l.now.Add(d) }

// aCall is one of agent a1, of which it is known what it takes.
func aCall(op coordinator.CallOp, id string, tokens float64) coordinator.Call {
	return coordinator.Call{
		Op: op, Key: coordinator.CallKey("a1", id), Keep: true, Agent: "a1",
		Usage: coordinator.Usage{InputTokens: tokens}, Meant: coordinator.UsageExact,
		Priority: coordinator.PriorityNormal,
	}
}

// ask asks about calls together; false: that is not answered without a leader.
func (l *lone) ask(calls ...coordinator.Call) ([]coordinator.CallAnswer, bool) {
	answers, admitted, ok := l.calls.Admit(l.now, calls)
	l.admitted += admitted
	return answers, ok
}

// asked checks what becomes of a call.
func (l *lone) asked(c coordinator.Call, want coordinator.CallState) coordinator.CallAnswer {
	l.Helper()
	a, ok := l.ask(c)
	if !ok {
		l.Errorf("%s is not answered; want %s", c.Op, want)
		return coordinator.CallAnswer{}
	}
	if a[0].State != want || want == coordinator.CallGranted && !a[0].Own {
		l.Errorf("%s: %+v; want %s", c.Op, a[0], want)
	}
	return a[0]
}

// unanswered checks that a call is not let pass, because there is no leader.
func (l *lone) unanswered(c coordinator.Call) {
	l.Helper()
	if a, ok := l.ask(c); ok {
		l.Errorf("%s is answered: %+v", c.Op, a)
	}
}

// lead has a leader under the quotas of then, if there is none, and asks it about calls.
func (l *lone) lead(calls ...coordinator.Call) []coordinator.CallAnswer {
	l.Helper()
	if l.leader == nil {
		l.leader = engine.New()
		l.leader.Apply(l.now, coordinator.PolicyChanged{Policy: &coordinator.Policy{Quotas: l.quotas}}, nil)
	}
	for _, f := range l.leader.Apply(l.now, coordinator.CallAsked{Calls: calls}, nil) {
		if a, is := f.(*coordinator.CallAnswered); is {
			return a.Answers
		}
	}
	l.Fatal("the leader does not answer")
	return nil
}

// charged checks what a node has used of its budget when the leader knows all that is due.
func (l *lone) charged(node string, want int64) {
	l.Helper()
	for due := l.calls.Due(l.now, 256); len(due) > 0; due = l.calls.Due(l.now, 256) {
		for i, a := range l.lead(due...) {
			if a.State != coordinator.CallGranted {
				l.Errorf("%+v is not charged: %s", due[i], a.State)
			}
		}
		l.calls.Reported(due)
	}
	if b := l.leader.Quotas(l.now).Nodes([]string{node})[0].Budgets[0]; b.Used != want || b.Reserved != 0 {
		l.Errorf("%s has used %d and %d is set aside, want %d and 0", node, b.Used, b.Reserved, want)
	}
}

const limited = `
groups:
  - {id: poor, weight: 1, limits: {total_tokens: {amount: 1000, per: day}}}
  - {id: rich, weight: 3, provider: openai, limits: {total_tokens: {amount: 10000, per: day}, cost_usd: {amount: 5, per: day}}}
agents:
  - {id: a1, group_id: poor}
providers:
  - {provider: openai, limits: {requests: {rate: 2, per: second, burst: 2}}}
prices:
  - {provider: openai, per_request: 0.5}
  - {provider: nobody, per_request: 0}
`

// of is a call of a provider.
func of(provider string, c coordinator.Call) coordinator.Call {
	c.Usage.Provider = provider
	return c
}

// The pool's safe_limits concern calls without a listed provider alone; a provider's on_loss decides
// for its own.
func TestLossOfAProviderIsItsOwn(t *testing.T) {
	alone(t, `
pool: {on_loss: safe, safe_limits: {requests: {rate: 1, per: minute, burst: 1}}}
groups: [{id: alpha}]
unknown_callers: allow
providers:
  - {provider: lab, on_loss: allow, limits: {requests: {rate: 1000, per: minute}}}
  - {provider: mill, on_loss: safe, safe_limits: {requests: {rate: 1, per: minute, burst: 2}}}
  - {provider: shut, limits: {requests: {rate: 1000, per: minute}}}
`, func(l *lone) {
		l.unanswered(of("shut", aCall(coordinator.CallReserve, "0", 10))) // deny, whatever the pool says
		l.asked(of("unlisted", aCall(coordinator.CallReserve, "1", 10)), coordinator.CallGranted)
		l.unanswered(aCall(coordinator.CallReserve, "2", 10)) // the pool's one request of the minute is used
		for i := range 5 {
			l.asked(of("lab", aCall(coordinator.CallReserve, fmt.Sprint("lab", i), 10)), coordinator.CallGranted)
		}
		l.asked(of("mill", aCall(coordinator.CallConsume, "3", 10)), coordinator.CallGranted)
		l.asked(of("mill", aCall(coordinator.CallConsume, "4", 10)), coordinator.CallGranted)
		l.unanswered(of("mill", aCall(coordinator.CallConsume, "5", 10))) // its two
		if n := l.admitted; n != 8 {
			t.Errorf("%v calls counted, want 1 of the pool, 5 of lab and 2 of mill", n)
		}
	})
}

// Each key has its own on_loss; a call that names no key gets the first that lets it pass.
func TestLossOfKeys(t *testing.T) {
	alone(t, `
providers:
  - {provider: lab, key: a, limits: {requests: {rate: 1000, per: minute}}}
  - {provider: lab, key: b, on_loss: safe, safe_limits: {requests: {rate: 1, per: minute, burst: 1}}}
  - {provider: lab, key: c, on_loss: allow, limits: {requests: {amount: 9, per: day}}}
groups: [{id: alpha, provider: lab}]
agents: [{id: a1, group_id: alpha}]
`, func(l *lone) {
		l.unanswered(of("lab@a", aCall(coordinator.CallReserve, "1", 10)))
		byGroup := aCall(coordinator.CallReserve, "2", 10)
		if a := l.asked(byGroup, coordinator.CallGranted); a.Pool != "lab@b" || a.Provider != "lab@b" {
			t.Errorf("%+v", a)
		}
		l.unanswered(of("lab@b", aCall(coordinator.CallReserve, "3", 10))) // its one of the minute is used
		if a := l.asked(of("lab", aCall(coordinator.CallConsume, "4", 10)), coordinator.CallGranted); a.Pool != "lab@c" {
			t.Errorf("%+v", a)
		}
		l.charged("lab@c", 1) // the one that was answered so
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
	alone(t, quotas, func(l *lone) {
		c := aCall(coordinator.CallReserve, "1", 10)
		c.Group, c.OwnOnly = "beta", true
		l.asked(c, coordinator.CallForeign)
		c.Op = coordinator.CallCheck
		l.asked(c, coordinator.CallForeign)
		c.Op, c.Agent = coordinator.CallReserve, "unlisted"
		l.unanswered(c) // it may have been registered: only a reader of the journal knows
		c.Agent, c.Group = "a1", "alpha"
		l.asked(c, coordinator.CallGranted)
		c.Group, c.OwnOnly, c.Key = "beta", false, coordinator.CallKey("", "2")
		c.Op = coordinator.CallConsume
		l.asked(c, coordinator.CallGranted)
		if n := l.admitted; n != 2 {
			t.Errorf("%v calls counted as admitted, want 2", n)
		}
		l.pass(TTL)
		l.charged("pool/beta", 10) // the gateway's
	})
}

// A call that names neither group nor provider is charged to the provider of its agent's group, and the on_loss of
// that provider decides.
func TestLossByTheAgentsOwnGroup(t *testing.T) {
	for name, group := range map[string]string{
		"its group's provider": "groups: [{id: alpha, provider: lab}]\nagents: [{id: a1, group_id: alpha}]\n",
		"that of the group above": "groups: [{id: top, provider: lab}, {id: alpha, parent: top}]\nagents: [{id: a1, " +
			"group_id: alpha}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, group+"providers: [{provider: lab, on_loss: allow, limits: {requests: {rate: 1000, per: minute}}}]\n",
				func(l *lone) {
					c := aCall(coordinator.CallReserve, "1", 10)
					if name != "its group's provider" {
						c.Group = "alpha"
					}
					if a := l.asked(c, coordinator.CallGranted); !a.Own || a.Group != "alpha" || a.Provider != "lab" ||
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
	alone(t, limited+"default_output_tokens: 40\npool: {on_loss: allow}", func(l *lone) {
		asked := aCall(coordinator.CallReserve, "1", 300)
		asked.Seats = 2
		if a := l.asked(asked, coordinator.CallGranted); a.Group != "poor" ||
			a.Amounts != (coordinator.Amounts{1, 300, 0, 300, 0, 2}) {
			t.Errorf("reserved: %+v", a)
		}
		settled := aCall(coordinator.CallReserve, "2", 300)
		l.asked(settled, coordinator.CallGranted)
		if a := l.asked(settled, coordinator.CallGranted); !a.Standing || a.Amounts[coordinator.DimTotalTokens] != 300 ||
			a.Until.IsZero() {
			t.Errorf("asked again: %+v", a)
		}
		settled.Op, settled.Usage.InputTokens, settled.Usage.OutputTokens = coordinator.CallSettle, 100, 50
		if a := l.asked(settled, coordinator.CallGranted); a.Amounts != (coordinator.Amounts{1, 100, 50, 150, 0, 0}) {
			t.Errorf("settled: %+v", a)
		}
		settled.Op = coordinator.CallReserve
		l.asked(settled, coordinator.CallEnded)

		guessed := aCall(coordinator.CallConsume, "3", 10) // 10 in and the assumed 40 out
		guessed.Meant, guessed.Seats = coordinator.UsageEstimated, 1
		if a := l.asked(guessed, coordinator.CallGranted); a.Amounts != (coordinator.Amounts{1, 10, 40, 50, 0, 0}) {
			t.Errorf("estimated: %+v", a)
		}
		released := aCall(coordinator.CallReserve, "4", 300)
		l.asked(released, coordinator.CallGranted)
		released.Op = coordinator.CallRelease
		if a := l.asked(released, coordinator.CallGranted); a.Amounts != (coordinator.Amounts{}) {
			t.Errorf("released: %+v", a)
		}
		l.pass(TTL)
		l.charged("pool/poor", 300+150+50)
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
	alone(t, before, func(l *lone) {
		c := aCall(coordinator.CallConsume, "1", 10) // 10 in and the assumed 40 out
		c.Meant, c.OwnOnly = coordinator.UsageEstimated, true
		if a := l.asked(c, coordinator.CallGranted); a.Group != "poor" || a.Pool != "mill" ||
			a.Amounts[coordinator.DimTotalTokens] != 50 {
			t.Errorf("%+v", a)
		}
		after := strings.NewReplacer("group_id: poor", "group_id: rich", "provider: mill, limits: {total",
			"provider: lab, limits: {total", "tokens: 40", "tokens: 400")
		l.under(after.Replace(before))
		for node, used := range map[string]int64{"pool/poor": 50, "pool/rich": 0, "mill": 1, "lab": 0} {
			l.charged(node, used)
		}
	})
}

// Of calls that are asked about together all are admitted or none, and none of those is charged.
func TestLossOfCallsTogether(t *testing.T) {
	alone(t,
		limited+
			"pool: {on_loss: safe, safe_limits: {total_tokens: {rate: 1, per: minute, burst: 700}, concurrency: {amount: 2}}}",
		func(l *lone) {
			ask := func(second coordinator.Call) ([]coordinator.CallAnswer, bool) {
				return l.ask(aCall(coordinator.CallConsume, "1", 400), second)
			}
			if a, ok := ask(aCall(coordinator.CallConsume, "2", 400)); ok { // 800 of 700
				t.Errorf("%+v", a)
			}
			foreign := aCall(coordinator.CallConsume, "2", 10)
			foreign.Group, foreign.OwnOnly = "rich", true
			foreign.Usage.Provider = "unlisted"
			if a, ok := ask(foreign); !ok || a[0].State != coordinator.CallPutBy ||
				a[1].State != coordinator.CallForeign {
				t.Errorf("%+v, %v", a, ok)
			}
			if n := l.calls.Owed(); n != 0 {
				t.Errorf("%d calls are to be charged, want none", n)
			}
			if a, ok := ask(aCall(coordinator.CallConsume, "2", 300)); !ok || a[0].State != coordinator.CallGranted ||
				a[1].State != coordinator.CallGranted {
				t.Errorf("%+v, %v", a, ok)
			}
		})
}

// A seat is free again when the end of the call is reported, or is no longer waited for; what is consumed
// takes none.
func TestLossFreesSeats(t *testing.T) {
	alone(t, "pool: {on_loss: safe, safe_limits: {concurrency: {amount: 1}}}", func(l *lone) {
		seated := func(op coordinator.CallOp, id string) coordinator.Call {
			c := aCall(op, id, 10)
			c.Seats = 1
			return c
		}
		l.asked(seated(coordinator.CallConsume, "1"), coordinator.CallGranted)
		if l.calls.ledger.IsOpen(coordinator.CallKey("a1", "1")) {
			t.Error("what is consumed is still set aside")
		}
		l.asked(seated(coordinator.CallReserve, "2"), coordinator.CallGranted)
		l.unanswered(seated(coordinator.CallReserve, "3"))
		l.asked(seated(coordinator.CallSettle, "2"), coordinator.CallGranted)
		l.asked(seated(coordinator.CallReserve, "3"), coordinator.CallGranted)
		l.pass(TTL) // the end is not reported
		l.calls.Due(l.now, 256)
		l.asked(seated(coordinator.CallReserve, "4"), coordinator.CallGranted)
	})
}

// A guess must not keep a call out: of what is not stated no more is counted than the safe limits have
// at all.
func TestLossOfAGuess(t *testing.T) {
	alone(t, "pool: {on_loss: safe, safe_limits: {total_tokens: {rate: 1, per: minute, burst: 100}}}", func(l *lone) {
		c := aCall(coordinator.CallConsume, "1", 0) // 2,048 and 512 are assumed
		c.Meant = coordinator.UsageEstimated
		l.asked(c, coordinator.CallGranted)
		c.Key = coordinator.CallKey("a1", "2")
		l.unanswered(c) // that has taken all 100
	})
}

// Of a call that was admitted without a leader and is settled by half the other half is charged as it
// answered: 10 tokens of input, and 512 of output, which were not stated.
func TestLossSettledByHalf(t *testing.T) {
	alone(t, `
pool: {on_loss: allow}
groups: [{id: alpha, limits: {total_tokens: {amount: 10000, per: day}}}]
agents: [{id: a1, group_id: alpha}]
`, func(l *lone) {
		settled := func(id string, meant coordinator.UsageMeant, in, out float64, want int64) {
			c := aCall(coordinator.CallReserve, id, 10)
			c.Meant = coordinator.UsageEstimated
			l.asked(c, coordinator.CallGranted)
			c.Op, c.Meant, c.Usage = coordinator.CallSettle, meant, coordinator.Usage{InputTokens: in, OutputTokens: out}
			if a := l.asked(c, coordinator.CallGranted); a.Amounts[coordinator.DimTotalTokens] != want {
				t.Errorf("%s: %v is to be charged, want %d tokens", id, a.Amounts, want)
			}
		}
		settled("output", coordinator.UsageOutput, 0, 30, 10+30)
		settled("input", coordinator.UsageInput, 7, 0, 7+512)
		settled("both", coordinator.UsageExact, 7, 30, 37)
		settled("none", coordinator.UsageEstimated, 0, 0, 522)
		l.pass(TTL)
		l.charged("pool/alpha", 40+519+37+522)
	})
}

// An id stands for one call while no leader can be asked, too; and a gateway that says a call has used what no call
// does is not believed.
func TestLossOfAnotherCallUnderTheSameID(t *testing.T) {
	alone(t, `
pool: {on_loss: allow, limits: {total_tokens: {amount: 1000, per: day}}}
groups: [{id: alpha}]
unknown_callers: allow
`, func(l *lone) {
		for _, op := range []coordinator.CallOp{coordinator.CallReserve, coordinator.CallConsume} {
			call := func(tokens float64) coordinator.Call {
				c := aCall(op, op.String(), tokens)
				c.Asked = c.HashAsked()
				return c
			}
			l.asked(call(10), coordinator.CallGranted)
			if a := l.asked(call(10), coordinator.CallGranted); !a.Standing {
				t.Errorf("%s again: %+v", op, a)
			}
			l.asked(call(5000), coordinator.CallTaken)
		}
		told := aCall(coordinator.CallSettle, coordinator.CallReserve.String(), 1e12)
		told.Meant = coordinator.UsageExact
		l.asked(told, coordinator.CallDoubted)
	})
}

// leaves nothing behind, and the process as it was.
func TestLossOfWhatEndsInItsOwnQuestion(t *testing.T) {
	alone(t, `pool: {on_loss: allow}
groups: [{id: alpha}]
unknown_callers: allow
`, func(l *lone) {
		// is not answered; is refused
		for _, last := range []coordinator.CallOp{coordinator.CallExtend, coordinator.CallReserve} {
			c := aCall(last, "2", 10)
			c.OwnOnly, c.Agent, c.Group = last == coordinator.CallReserve, "nobody", "alpha"
			if a, ok := l.ask(aCall(coordinator.CallReserve, "1", 10), aCall(coordinator.CallRelease, "1", 10), c); ok {
				t.Errorf("it is answered: %+v", a)
			}
			if n := l.calls.Owed(); n != 0 {
				t.Errorf("%d calls are owed", n)
			}
		}
	})
}

// What was let pass for a provider that quotas.yaml no longer lists belongs to no other: it does not take
// the safe_limits of one that comes in its place.
func TestLossOfAProviderThatIsTakenOut(t *testing.T) {
	const stays = `
groups: [{id: alpha}]
unknown_callers: allow
providers:
  - {provider: stays, on_loss: safe, safe_limits: {requests: {amount: 1, per: day}}, limits: {requests: {rate: 1000, per: minute}}}
`
	alone(t, stays+`  - {provider: gone, on_loss: safe, safe_limits: {requests: {amount: 1, per: day}},
     limits: {requests: {rate: 1000, per: minute}}}
`, func(l *lone) {
		l.asked(of("gone", aCall(coordinator.CallReserve, "1", 10)), coordinator.CallGranted)
		l.under(stays)
		l.asked(of("stays", aCall(coordinator.CallReserve, "2", 10)), coordinator.CallGranted)
		l.unanswered(of("stays", aCall(coordinator.CallReserve, "3", 10))) // the one of its day is used
		l.asked(of("gone", aCall(coordinator.CallSettle, "1", 10)), coordinator.CallGranted)
		l.unanswered(of("stays", aCall(coordinator.CallReserve, "4", 10))) // still
	})
}

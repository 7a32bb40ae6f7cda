package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/health"
	"taskbus/coordinator/hash"
)

const twoProviders = `
groups: [{id: team}]
unknown_callers: allow
providers:
  - provider: openai
    key: main
    models: [{model: big, limits: {requests: {rate: 100, per: minute, burst: 10}}}]
  - provider: openai
    key: spare
    models: [{model: big, limits: {requests: {rate: 100, per: minute, burst: 10}}}]
  - provider: lab
    limits: {requests: {rate: 600, per: minute, burst: 10}}
prices:
  - {provider: openai, model: big, input_per_million_tokens: 10, output_per_million_tokens: 10}
  - {provider: lab, input_per_million_tokens: 5, output_per_million_tokens: 5}
`

// routed is a call that may go to these, written "provider/model".
func routed(op coordinator.CallOp, id string, routes ...string) *coordinator.Call {
	c := tokens(op, id, 1000, 1000)
	c.Group = "team"
	for _, r := range routes {
		provider, model, _ := strings.Cut(r, "/")
		c.Routes = append(c.Routes, coordinator.Service{Provider: provider, Model: model})
	}
	return c
}

// answered tells how a call has gone.
func answered(op coordinator.CallOp, id string, w coordinator.ProviderWord) *coordinator.Call {
	c := tokens(op, id, 1000, 1000)
	c.Heard = &w
	return c
}

// A provider's name stands for all of its keys; among equals the first is taken, and what it has
// used then counts against it.
func TestCallChoosesAmongKeys(t *testing.T) {
	r := calls(t, twoProviders)
	a := r.state(routed(coordinator.CallReserve, "1", "openai/big"), coordinator.CallGranted)
	if a.Provider != "openai@main" || a.Pool != "openai@main/big" || len(a.Routes) != 2 || !a.Routes[0].Chosen ||
		a.Routes[1].Chosen {
		t.Errorf("%+v", a)
	}
	if a := r.state(routed(coordinator.CallReserve, "2", "openai/big"),
		coordinator.CallGranted); a.Provider != "openai@spare" {
		t.Errorf("%s: %+v", a.Provider, a.Routes) // 9 of 100 are left there, 10 here: 3.09/4 against 3.10/4
	}
	if a := r.state(routed(coordinator.CallReserve, "3", "openai@main/big"),
		coordinator.CallGranted); a.Provider != "openai@main" {
		t.Errorf("the key that was named: %+v", a)
	}
	plain := tokens(coordinator.CallReserve, "4", 1, 1)
	plain.Group, plain.Usage.Provider, plain.Usage.Model = "team", "openai", "big"
	// 8 of 10 are left of main's burst, 9 of spare's
	if a := r.state(plain, coordinator.CallGranted); a.Pool != "openai@spare/big" || len(a.Routes) != 2 {
		t.Errorf("who names the provider alone has the same choice: %+v", a)
	}
}

// What is cheaper, faster, more reliable or has more left is taken, by the weights; what has no
// room is not, whatever its score, and if nothing has it says when to ask again.
func TestCallChoosesByItsTerms(t *testing.T) {
	r := calls(t, twoProviders+"routing: {remaining: 0, price: 2, latency: 1, success: 1}\n")
	// 2,000 tokens cost $0.020 with openai and $0.010 with the lab: 1/2 of 1
	a := r.state(routed(coordinator.CallCheck, "1", "openai@main/big", "lab"), coordinator.CallGranted)
	if a.Provider != "lab" || a.Routes[0].Terms.Price != 0.5 || a.Routes[0].Score != (2*0.5+1+1)/4 ||
		a.Routes[1].Score != 1 {
		t.Errorf("%+v", a.Routes)
	}
	// The lab is slow, and fails half the time: (2·1 + 0.1 + 0.5)/4 = 0.65 < (2·0.5 + 1 + 1)/4 = 0.75.
	for i, w := range []coordinator.ProviderWord{{Status: 200, Latency: 5 * time.Second}, {Status: 503}} {
		id := string(rune('a' + i))
		r.state(routed(coordinator.CallReserve, id, "lab"), coordinator.CallGranted)
		r.state(answered(coordinator.CallSettle, id, w), coordinator.CallGranted)
	}
	r.state(routed(coordinator.CallReserve, "fast", "openai@main/big"), coordinator.CallGranted)
	r.state(answered(coordinator.CallSettle, "fast",
		coordinator.ProviderWord{Status: 200, Latency: 500 * time.Millisecond}), coordinator.CallGranted)
	a = r.state(routed(coordinator.CallCheck, "2", "openai@main/big", "lab"), coordinator.CallGranted)
	if a.Provider != "openai@main" ||
		a.Routes[1].Terms != (coordinator.RouteTerms{Remaining: a.Routes[1].Terms.Remaining, Price: 1, Latency: 0.1,
			Success: 0.5}) || a.Routes[1].Score != 0.65 {
		t.Errorf("%+v", a.Routes)
	}
}

// A provider that refuses a call is left alone for as long as it says, used less after that, and
// more again with time. Calls that were on their way already do not count twice.
func TestProviderRefuses(t *testing.T) {
	r := calls(t, twoProviders)
	for _, id := range []string{"1", "2"} {
		r.state(routed(coordinator.CallReserve, id, "lab"), coordinator.CallGranted)
	}
	r.now = r.now.Add(time.Second)
	refused := coordinator.ProviderWord{Status: 429, RetryAfter: 20 * time.Second}
	r.state(answered(coordinator.CallRelease, "1", refused), coordinator.CallGranted)
	a := r.state(routed(coordinator.CallReserve, "3", "lab"), coordinator.CallRefused)
	closed := 20*time.Second + r.apart(20*time.Second, "1")
	if a.Lacks.Limit != "provider" || !a.Lacks.RetryAt.Equal(r.now.Add(closed)) || a.Lacks.Node != "lab" {
		t.Errorf("%+v", a.Lacks)
	}
	if a := r.state(routed(coordinator.CallCheck, "3", "lab", "openai/big"),
		coordinator.CallGranted); a.Provider != "openai@main" || a.Routes[0].Lacks == nil {
		t.Errorf("%+v", a.Routes)
	}
	r.state(answered(coordinator.CallRelease, "2", refused), coordinator.CallGranted) // of the same round
	health := func() int64 {
		c := r.CallCharge(routed(coordinator.CallCheck, "", "lab"))
		c.Provider = "lab"
		r.Ledger().Now()
		return r.Ledger().HealthOf(&c).PerMille
	}
	if got := health(); got != 700 {
		t.Errorf("it is used at %d per mille, want 700", got)
	}
	r.pass(max(closed, 20*time.Second+r.apart(20*time.Second, "2")))
	r.state(routed(coordinator.CallReserve, "4", "lab"), coordinator.CallGranted)
	r.now = r.now.Add(time.Second)
	r.state(answered(coordinator.CallSettle, "4", coordinator.ProviderWord{Status: 429, RetryAfter: time.Second}),
		coordinator.CallGranted)
	if got := health(); got != 490 { // 0.7 · 700
		t.Errorf("it is used at %d per mille, want 490", got)
	}
	r.pass(time.Minute)
	r.state(callOf(coordinator.CallCheck, "x"), coordinator.CallGranted)
	if got := health(); got != 540 { // and 50 a minute
		t.Errorf("it is used at %d per mille, want 540", got)
	}
	r.pass(10 * time.Minute) // 46 % in 10 minutes
	r.state(callOf(coordinator.CallCheck, "x"), coordinator.CallGranted)
	if got := health(); got != 1000 {
		t.Errorf("it is used at %d per mille, want all", got)
	}
}

// apart is what the chance of a call adds to the time for which its provider wants no other.
func (r callRig) apart(wait time.Duration, id string) time.Duration {
	return hash.Spread(wait, hash.Mix(callOf(coordinator.CallRelease, id).Key[0]^r.Policy().Settings.Seed))
}

// A pool opens again after the moment that its provider has named, and less than a tenth and a minute
// later: each at a moment of its own.
func TestPoolsOpenApart(t *testing.T) {
	for _, c := range []struct{ asked, most time.Duration }{{20 * time.Second, 22 * time.Second},
		{time.Hour, time.Hour + time.Minute}} {
		seen := make(map[time.Duration]bool)
		for i := range 50 {
			r, id := calls(t, twoProviders), fmt.Sprint("call-", i)
			r.state(routed(coordinator.CallReserve, id, "lab"), coordinator.CallGranted)
			r.now = r.now.Add(time.Second)
			r.state(answered(coordinator.CallRelease, id, coordinator.ProviderWord{Status: 429, RetryAfter: c.asked}),
				coordinator.CallGranted)
			closed := r.Ledger().HealthOf(&fairshare.Charge{Provider: "lab"}).BlockedUntil.Sub(r.now)
			if closed < c.asked || closed >= c.most {
				t.Errorf("%s: it is closed for %v, want from %v to %v", id, closed, c.asked, c.most)
			}
			seen[closed] = true
		}
		if len(seen) < 45 {
			t.Errorf("50 pools that are to be left alone for %v open at %d moments", c.asked, len(seen))
		}
	}
}

// One that says nothing but that it refuses (as Gemini does) is left alone for a second, and for
// twice as long each time that it refuses again, up to a minute; an answer ends that.
func TestProviderRefusesWithoutAWord(t *testing.T) {
	r := calls(t, twoProviders)
	silent := coordinator.ProviderWord{Status: 429}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		id := string(rune('a' + i))
		r.now = r.now.Add(time.Second)
		r.state(routed(coordinator.CallReserve, id, "lab"), coordinator.CallGranted)
		r.state(answered(coordinator.CallRelease, id, silent), coordinator.CallGranted)
		a := r.state(routed(coordinator.CallCheck, id, "lab"), coordinator.CallRefused)
		if got := a.Lacks.RetryAt.Sub(r.now); got != want*time.Second {
			t.Errorf("refusal %d: left alone for %v, want %d s", i+1, got, want)
		}
		r.pass(want * time.Second)
	}
	r.state(routed(coordinator.CallReserve, "well", "lab"), coordinator.CallGranted)
	r.state(answered(coordinator.CallSettle, "well", coordinator.ProviderWord{Status: 200}), coordinator.CallGranted)
	r.state(routed(coordinator.CallReserve, "ill", "lab"), coordinator.CallGranted)
	r.now = r.now.Add(time.Second)
	r.state(answered(coordinator.CallRelease, "ill", silent), coordinator.CallGranted)
	if a := r.state(routed(coordinator.CallCheck, "z", "lab"),
		coordinator.CallRefused); a.Lacks.RetryAt.Sub(r.now) != time.Second {
		t.Errorf("%+v", a.Lacks)
	}
}

// Less remains by the provider's word than was thought: no more passes than that.
func TestProviderSaysHowMuchRemains(t *testing.T) {
	r := calls(t, `
groups: [{id: team}]
providers: [{provider: lab, limits: {requests: {rate: 60, per: minute, burst: 60}}}]
`)
	r.state(routed(coordinator.CallReserve, "1", "lab"), coordinator.CallGranted) // 59 are left
	w := coordinator.ProviderWord{Status: 200, Told: 1 << coordinator.DimRequests, Remains: coordinator.Amounts{5}}
	r.state(answered(coordinator.CallSettle, "1", w), coordinator.CallGranted)
	for i := range 5 {
		r.state(routed(coordinator.CallConsume, string(rune('a'+i)), "lab"), coordinator.CallGranted)
	}
	a := r.state(routed(coordinator.CallConsume, "6", "lab"), coordinator.CallRefused)
	if got := a.Lacks.RetryAt.Sub(r.now); got != time.Second { // one a second comes back
		t.Errorf("back after %v", got)
	}
	r.pass(time.Second)
	r.state(routed(coordinator.CallReserve, "7", "lab"), coordinator.CallGranted)
	more := coordinator.ProviderWord{Status: 200, Told: 1 << coordinator.DimRequests, Remains: coordinator.Amounts{50}}
	r.state(answered(coordinator.CallSettle, "7", more), coordinator.CallGranted)
	r.state(routed(coordinator.CallConsume, "8", "lab"), coordinator.CallRefused) // others use it too: what we know counts
}

// By the word of one agent alone a pool is open for as long as it was closed, and cut to half of its
// rates; by that of a second one as by a gateway's.
func TestProviderByOneAgentAlone(t *testing.T) {
	r := calls(t, twoProviders)
	n := 0
	refused := func(agent coordinator.AgentID) {
		t.Helper()
		n++
		c := routed(coordinator.CallReserve, fmt.Sprint(n), "lab")
		c.Agent = agent
		r.state(c, coordinator.CallGranted)
		r.now = r.now.Add(time.Millisecond)
		c = answered(coordinator.CallRelease, fmt.Sprint(n),
			coordinator.ProviderWord{Status: 429, RetryAfter: 10 * time.Second})
		c.Agent, c.OwnOnly = agent, true
		r.state(c, coordinator.CallGranted)
	}
	health := func() health.View { return r.Ledger().HealthOf(&fairshare.Charge{Provider: "lab"}) }
	refused("x") // closed for 10 s, and not again in the 10 s after that
	r.state(routed(coordinator.CallCheck, "z", "lab"), coordinator.CallRefused)
	r.pass(11 * time.Second)
	refused("x")
	r.state(routed(coordinator.CallCheck, "z", "lab"), coordinator.CallGranted)
	for range 5 {
		refused("x")
	}
	if got := health().PerMille; got != 500 { // 700, 490 and so on without the bound
		t.Errorf("one agent cuts it to %d per mille, want 500", got)
	}
	refused("y") // 0.7 · 500
	if h := health(); h.PerMille != 350 || h.BlockedUntil.Sub(r.now) != 10*time.Second+r.apart(10*time.Second,
		fmt.Sprint(n)) {
		t.Errorf("a second agent: %+v", h)
	}
	r.pass(22 * time.Second) // it has rested
	refused("y")
	if h := health(); h.PerMille != 350 || h.BlockedUntil.IsZero() {
		t.Errorf("the second one alone: %+v", h)
	}
}

// The word of an agent, which may lie, closes a pool for a minute at most; that of a gateway for as
// long as it says, and a little longer.
func TestProviderByAnAgentsWord(t *testing.T) {
	r := calls(t, twoProviders)
	for id, want := range map[string]time.Duration{"agent": time.Minute,
		"gateway": time.Hour + r.apart(time.Hour, "gateway")} {
		r.state(routed(coordinator.CallReserve, id, "lab"), coordinator.CallGranted)
		r.now = r.now.Add(time.Second)
		c := answered(coordinator.CallRelease, id, coordinator.ProviderWord{Status: 429, RetryAfter: time.Hour})
		c.OwnOnly = id == "agent"
		r.state(c, coordinator.CallGranted)
		if a := r.state(routed(coordinator.CallCheck, "z", "lab"),
			coordinator.CallRefused); a.Lacks.RetryAt.Sub(r.now) != want {
			t.Errorf("%s: %v", id, a.Lacks.RetryAt.Sub(r.now))
		}
		r.pass(want)
	}
}

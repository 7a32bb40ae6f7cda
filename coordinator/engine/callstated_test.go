package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// What is stated counts in full, also where the rest is estimated: a call that does not say its output must
// not have its input counted for less.
func TestStatedTokensAreCountedInFull(t *testing.T) {
	r := calls(t, `
groups: [{id: team}]
providers: [{provider: lab, limits: {total_tokens: {rate: 1000, per: minute}}}]
`)
	c := tokens(coordinator.CallConsume, "1", 100_000, 0) // 100 minutes' worth; output is not told
	c.Meant, c.Group, c.Usage.Provider = coordinator.UsageEstimated, "team", "lab"
	a := r.state(c, coordinator.CallNever)
	if in, all := a.Amounts[coordinator.DimInputTokens], a.Amounts[coordinator.DimTotalTokens]; all < in {
		t.Errorf("%d input tokens are charged as %d in total", in, all)
	}
}

// A full bucket of a small burst has more left than a large one that is four fifths used.
func TestWhatIsLeftIsOfTheBurst(t *testing.T) {
	r := calls(t, `
groups: [{id: team}]
providers:
  - {provider: lab, limits: {requests: {rate: 100, per: minute, burst: 10}}}
  - {provider: big, limits: {requests: {rate: 100, per: minute, burst: 100}}}
`)
	for i := range 80 {
		r.state(routed(coordinator.CallConsume, string(rune('A'+i)), "big"), coordinator.CallGranted)
	}
	a := r.state(routed(coordinator.CallCheck, "x", "lab", "big"), coordinator.CallGranted)
	if a.Provider != "lab" { // 10 of 10 against 20 of 100
		t.Errorf("%s is taken: %+v", a.Provider, a.Routes)
	}
}

// A pool that has done nothing but refuse has no more left than the part of its rates that is used.
func TestRefusedPoolIsJudgedByIt(t *testing.T) {
	r := calls(t, twoProviders)
	before := r.state(routed(coordinator.CallCheck, "z", "lab"), coordinator.CallGranted).Routes[0].Terms
	r.state(routed(coordinator.CallReserve, "1", "lab"), coordinator.CallGranted)
	r.now = r.now.Add(1)
	r.state(answered(coordinator.CallRelease, "1", coordinator.ProviderWord{Status: 429}), coordinator.CallGranted)
	r.pass(5 * time.Second) // open again, at 70 % of its rates; its bucket is full again
	after := r.state(routed(coordinator.CallCheck, "z", "lab"), coordinator.CallGranted).Routes[0].Terms
	if want := before.Remaining * 0.7; after.Remaining > want {
		t.Errorf("remaining %v after a refusal, %v before; want %v: times the part of its rates that is used",
			after.Remaining, before.Remaining, want)
	}
}

// Of what an agent says of itself nothing is charged that cannot be true; a gateway is believed.
func TestDoubtedUsage(t *testing.T) {
	r := calls(t, oneTeam)
	own := func(op coordinator.CallOp, id string, in float64) *coordinator.Call {
		c := tokens(op, id, in, 0)
		c.OwnOnly = true
		return c
	}
	r.state(own(coordinator.CallReserve, "1", 100), coordinator.CallGranted)
	// 500 of the group's 1000 are the agent's, and it is believed for a tenth of what the other one has.
	r.state(own(coordinator.CallSettle, "1", 551), coordinator.CallDoubted)
	r.state(own(coordinator.CallCharge, "2", 451), coordinator.CallDoubted) // beside the 100
	r.holds("pool/team", coordinator.DimTotalTokens, 0, 100)
	r.state(own(coordinator.CallSettle, "1", 550), coordinator.CallGranted)
	r.state(own(coordinator.CallCharge, "2", 1), coordinator.CallDoubted)
	r.state(tokens(coordinator.CallCharge, "3", 7000, 0), coordinator.CallGranted)
	r.holds("pool/team", coordinator.DimTotalTokens, 7550, 0)
	// Requests no limit concerns here: no agent makes a million by one call, asked for or not.
	many := func(op coordinator.CallOp) *coordinator.Call {
		c := own(op, "4", 0)
		c.Usage.Requests = 1_000_000
		return c
	}
	for _, op := range []coordinator.CallOp{coordinator.CallCharge, coordinator.CallConsume, coordinator.CallReserve,
		coordinator.CallCheck} {
		r.state(many(op), coordinator.CallDoubted)
	}
}

// No agent ends, extends or repeats the reservation of another agent, whatever its key.
func TestReservationOfAnother(t *testing.T) {
	r := calls(t, oneTeam)
	r.state(tokens(coordinator.CallReserve, "1", 100, 0), coordinator.CallGranted)
	for op, want := range map[coordinator.CallOp]coordinator.CallState{
		coordinator.CallSettle: coordinator.CallUnknown, coordinator.CallRelease: coordinator.CallUnknown,
		coordinator.CallExtend:  coordinator.CallUnknown,
		coordinator.CallReserve: coordinator.CallTaken, coordinator.CallConsume: coordinator.CallTaken,
		coordinator.CallCharge: coordinator.CallTaken,
	} {
		c := tokens(op, "1", 50, 0)
		c.Agent, c.OwnOnly = "y", true
		r.state(c, want)
	}
	r.state(tokens(coordinator.CallConsume, "1", 50, 0), coordinator.CallTaken) // nor does it stand for two sorts of calls
	r.holds("pool/team", coordinator.DimTotalTokens, 0, 100)
}

// What has ended is not consumed or charged once more under its id, nor said to be: it is answered
// as what it was.
func TestSpentIDs(t *testing.T) {
	r := calls(t, oneTeam)
	r.state(tokens(coordinator.CallConsume, "told", 10, 0), coordinator.CallGranted)
	if a := r.state(tokens(coordinator.CallConsume, "told", 10, 0), coordinator.CallGranted); !a.Standing {
		t.Errorf("told again: %+v", a)
	}
	r.state(tokens(coordinator.CallReserve, "expired", 100, 0), coordinator.CallGranted)
	r.pass(time.Minute)
	r.state(tokens(coordinator.CallReserve, "released", 100, 0), coordinator.CallGranted)
	r.state(callOf(coordinator.CallRelease, "released"), coordinator.CallGranted)
	for _, id := range []string{"released", "expired"} {
		r.state(tokens(coordinator.CallConsume, id, 10, 0), coordinator.CallEnded)
		r.state(tokens(coordinator.CallCharge, id, 10, 0), coordinator.CallEnded)
	}
	r.holds("pool/team", coordinator.DimTotalTokens, 10, 0)
}

// What an agent tells of itself changes no estimate.
func TestChargesTeachNobody(t *testing.T) {
	r := calls(t,
		"pool: {limits: {total_tokens: {amount: 1000000000, per: month}}}\ngroups: [{id: team}]\nagents: [{id: x, "+
			"group_id: team}]\n")
	asked := func() int64 {
		c := callOf(coordinator.CallCheck, "z")
		c.Usage.Model = "m"
		return r.state(c, coordinator.CallGranted).Amounts[coordinator.DimOutputTokens]
	}
	before := asked()
	for i := range 40 {
		c := tokens(coordinator.CallCharge, fmt.Sprint(i), 10, 400_000)
		c.OwnOnly, c.Usage.Model = true, "m"
		r.state(c, coordinator.CallGranted)
	}
	if after := asked(); after != before {
		t.Errorf("an output of %d tokens is expected, %d before", after, before)
	}
}

// A call that needs no tokens is a call all the same: it passes where the tokens are used up, and is
// counted, and refused, as a request.
func TestCallWithoutTokens(t *testing.T) {
	r := calls(t,
		`groups: [{id: team, limits: {total_tokens: {amount: 1000, per: day}, requests: {amount: 3, per: day}}}]`)
	ask := func(op coordinator.CallOp, id string, in float64, want coordinator.CallState) coordinator.CallAnswer {
		t.Helper()
		c := tokens(op, id, in, 0)
		c.Group = "team"
		return r.state(c, want)
	}
	ask(coordinator.CallConsume, "1", 1000, coordinator.CallGranted)
	ask(coordinator.CallConsume, "2", 1, coordinator.CallRefused)
	for _, id := range []string{"3", "4"} {
		if a := ask(coordinator.CallConsume, id, 0, coordinator.CallGranted); a.Amounts[coordinator.DimRequests] != 1 ||
			a.Amounts[coordinator.DimTotalTokens] != 0 {
			t.Errorf("%+v", a)
		}
	}
	for _, op := range []coordinator.CallOp{coordinator.CallCheck, coordinator.CallConsume} {
		if a := ask(op, "5", 0, coordinator.CallRefused); a.Lacks.Dimension != coordinator.DimRequests {
			t.Errorf("%+v", a.Lacks)
		}
	}
}

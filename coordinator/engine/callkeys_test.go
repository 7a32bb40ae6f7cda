package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// twoKeys is a provider with two keys, of which each has one seat and a day's budget.
const twoKeys = `
groups: [{id: team}, {id: usual, provider: openai, model: big}]
agents: [{id: x, group_id: team}]
providers:
  - {provider: openai, key: a, limits: {concurrency: {amount: 1}, total_tokens: {amount: 1000, per: day}}}
  - {provider: openai, key: b, limits: {concurrency: {amount: 1}, total_tokens: {amount: 1000, per: day}}}
prices:
  - {provider: openai, model: big, input_per_million_tokens: 10, output_per_million_tokens: 20}
`

// toOpenAI is a call that names the provider and leaves it to us with which key it is made.
func toOpenAI(op coordinator.CallOp, id string, in, out float64) *coordinator.Call {
	c := tokens(op, id, in, out)
	c.Group, c.Usage.Provider, c.Seats = "team", "openai", 1
	return c
}

// A call that names a provider goes to the key that has quota for it: it is refused when none has.
// What is set aside stands in the chosen pool, is extended and settled there, and is told by that name.
func TestCallOfAProviderGoesToAKeyThatIsFree(t *testing.T) {
	r := calls(t, twoKeys)
	r.Record(true)
	first := r.state(toOpenAI(coordinator.CallReserve, "1", 100, 0), coordinator.CallGranted)
	second := r.state(toOpenAI(coordinator.CallReserve, "2", 200, 0), coordinator.CallGranted)
	if first.Pool != "openai@a" || first.Provider != "openai@a" || second.Pool != "openai@b" ||
		second.Provider != "openai@b" {
		t.Errorf("they go to %s and %s", first.Pool, second.Pool)
	}
	third := r.state(toOpenAI(coordinator.CallReserve, "3", 1, 0), coordinator.CallRefused)
	if len(third.Routes) != 2 || third.Routes[0].Lacks == nil || third.Routes[1].Lacks == nil ||
		third.Lacks.Limit != "seats" {
		t.Errorf("%+v, %+v", third.Lacks, third.Routes)
	}
	more := tokens(coordinator.CallExtend, "2", 50, 0)
	if a := r.state(more, coordinator.CallGranted); a.Pool != "openai@b" {
		t.Errorf("extended in %s", a.Pool)
	}
	r.holds("openai@a", coordinator.DimTotalTokens, 0, 100)
	r.holds("openai@b", coordinator.DimTotalTokens, 0, 250)
	told := tokens(coordinator.CallSettle, "2", 220, 30)
	told.Usage.Provider = "openai" // as it was asked
	if a := r.state(told, coordinator.CallGranted); a.Pool != "openai@b" {
		t.Errorf("settled in %s", a.Pool)
	}
	r.holds("openai@b", coordinator.DimTotalTokens, 250, 0)
	// its seat is free
	if a := r.state(toOpenAI(coordinator.CallReserve, "3", 1, 0), coordinator.CallGranted); a.Pool != "openai@b" {
		t.Errorf("%s", a.Pool)
	}
	if a := r.state(toOpenAI(coordinator.CallReserve, "1", 1, 0), coordinator.CallGranted); !a.Standing ||
		a.Pool != "openai@a" {
		t.Errorf("asked again: %+v", a)
	}

	// The journal says where each of them stands, so that the next leader has the same books.
	heir := calls(t, twoKeys)
	var pools []string
	for _, rec := range r.Records(nil) {
		heir.Fold(r.now, rec)
		if reserved, is := rec.(*coordinator.QuotaReserved); is {
			pools = append(pools, reserved.Provider)
		}
	}
	if len(pools) != 3 || pools[0] != "openai@a" || pools[1] != "openai@b" || pools[2] != "openai@b" {
		t.Errorf("the records name %v", pools)
	}
	heir.now = r.now
	heir.holds("openai@a", coordinator.DimTotalTokens, 0, 100)
	heir.holds("openai@b", coordinator.DimTotalTokens, 250, 1)
}

// A group's own provider stands for its keys like one that is named; so does one of which only one
// key is listed, and then there is nothing to choose.
func TestCallOfAGroupsProviderGoesToAKey(t *testing.T) {
	r := calls(t, twoKeys)
	c := tokens(coordinator.CallReserve, "1", 100, 0)
	c.Group, c.Seats = "usual", 1
	r.state(c, coordinator.CallGranted)
	d := *c
	d.Key = callOf(coordinator.CallReserve, "2").Key
	// 100 · $10 / 10⁶
	if a := r.state(&d, coordinator.CallGranted); a.Pool != "openai@b" || a.Model != "big" ||
		a.Amounts[coordinator.DimCost] != 1000 {
		t.Errorf("%s, %s for %d", a.Pool, a.Model, a.Amounts[coordinator.DimCost])
	}
	one := calls(t,
		"groups: [{id: team}]\nproviders: [{provider: openai, key: main, limits: {concurrency: {amount: 1}}}]\n")
	if a := one.state(toOpenAI(coordinator.CallReserve, "1", 1, 0),
		coordinator.CallGranted); a.Provider != "openai@main" || a.Pool != "openai@main" || a.Routes != nil {
		t.Errorf("%+v", a)
	}
}

// A key that its provider has refused calls of is left alone, and the others are not.
func TestCallGoesToTheKeyThatIsNotRefused(t *testing.T) {
	r := calls(t, twoKeys)
	r.state(toOpenAI(coordinator.CallReserve, "1", 1, 0), coordinator.CallGranted)
	r.now = r.now.Add(time.Second)
	r.state(answered(coordinator.CallRelease, "1", coordinator.ProviderWord{Status: 429, RetryAfter: time.Minute}),
		coordinator.CallGranted)
	if a := r.state(toOpenAI(coordinator.CallCheck, "2", 1, 0), coordinator.CallGranted); a.Pool != "openai@b" ||
		a.Routes[0].Lacks.Limit != "provider" {
		t.Errorf("%s: %+v", a.Pool, a.Routes)
	}
}

// Parts of one call that are asked about together are made with one key, one that has room for all
// of them; what has been used of several calls may have been used of several keys.
func TestPartsOfACallGoToOneKey(t *testing.T) {
	r := calls(t, `
groups: [{id: team}]
providers:
  - {provider: openai, key: a, limits: {requests: {rate: 100, per: minute}, total_tokens: {amount: 50, per: day}}}
  - {provider: openai, key: b, limits: {requests: {rate: 10, per: minute}, total_tokens: {amount: 500, per: day}}}
`)
	part := func(id string, u coordinator.Usage) *coordinator.Call {
		u.Provider = "openai"
		return &coordinator.Call{Op: coordinator.CallConsume, Key: coordinator.KeyOf(coordinator.TaskID(id)), Group: "team",
			Usage: u, Meant: coordinator.UsagePart}
	}
	// 100 tokens are more than a has left; alone the request would go there.
	both := r.ask(part("1", coordinator.Usage{Requests: 1}), part("2", coordinator.Usage{InputTokens: 100}))
	for i, a := range both {
		if a.State != coordinator.CallGranted || a.Pool != "openai@b" {
			t.Errorf("part %d: state %d in %s", i, a.State, a.Pool)
		}
	}
	// 400 are left of b's
	none := r.ask(part("3", coordinator.Usage{Requests: 1}), part("4", coordinator.Usage{InputTokens: 401}))
	if none[0].State == coordinator.CallGranted || none[1].State == coordinator.CallGranted ||
		none[0].Pool != none[1].Pool {
		t.Errorf("%+v", none)
	}
	r.holds("openai@a", coordinator.DimTotalTokens, 0, 0)
	r.holds("openai@b", coordinator.DimTotalTokens, 100, 0)
}

// The price of a provider is that of all its keys, whichever is named.
func TestKeysCostTheSame(t *testing.T) {
	r := calls(t, twoKeys)
	for i, tc := range []struct{ asked, told, model string }{
		{"openai", "", ""}, {"openai@b", "", ""}, {"openai@b", "openai", ""}, {"openai", "openai@b", ""},
		{"openai@a", "openai", "big"},
	} {
		id := string(rune('a' + i))
		c := toOpenAI(coordinator.CallReserve, id, 10, 5)
		c.Usage.Provider, c.Usage.Model = tc.asked, "big"
		if a := r.state(c, coordinator.CallGranted); a.Amounts[coordinator.DimCost] != 200 { // 10 · 10 + 5 · 20
			t.Errorf("%+v: %d micro-USD are set aside, want 200", tc, a.Amounts[coordinator.DimCost])
		}
		told := tokens(coordinator.CallSettle, id, 20, 10)
		told.Usage.Provider, told.Usage.Model = tc.told, tc.model
		if a := r.state(told, coordinator.CallGranted); a.Amounts[coordinator.DimCost] != 400 { // 20 · 10 + 10 · 20
			t.Errorf("%+v: %d micro-USD are charged, want 400", tc, a.Amounts[coordinator.DimCost])
		}
	}
}

// A task waits for its quota, and does not choose: one that names the provider is charged to the
// first of its keys, by whose name that is told.
func TestTaskOfAProviderHasItsFirstKey(t *testing.T) {
	r := calls(t, twoKeys)
	r.Record(true)
	task := job("1").of("team").tokens(10, 5)
	task.EstimatedUsage.Provider, task.EstimatedUsage.Model = "openai", "big"
	r.assign(task)
	for _, rec := range r.Records(nil) {
		if reserved, is := rec.(*coordinator.QuotaReserved); is {
			if reserved.Provider != "openai@a" || reserved.Amounts[coordinator.DimCost] != 200 { // 10 · 10 + 5 · 20
				t.Errorf("%+v", reserved)
			}
			r.holds("openai@a", coordinator.DimTotalTokens, 0, 15)
			return
		}
	}
	t.Error("nothing was set aside")
}

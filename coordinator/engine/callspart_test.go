package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// ask asks about calls and gives what is answered.
func (r *rig) ask(calls ...coordinator.Call) []coordinator.CallAnswer {
	r.t.Helper()
	r.last++
	for _, f := range r.Apply(r.now, coordinator.CallAsked{Token: uint64(r.last), Calls: calls}, nil) {
		if a, ok := f.(*coordinator.CallAnswered); ok && a.Token == uint64(r.last) {
			return a.Answers
		}
	}
	r.t.Fatal("calls were not answered")
	return nil
}

// A part of a call that was counted before charges what is stated and no request: a gateway counts
// the call when it begins and its tokens when it ends, and the second must not count it again.
func TestPartOfACallIsNoRequest(t *testing.T) {
	r := ready(t, policyOf(worker("a")).quotas(quotasOf().group("team", 1, func(n *coordinator.QuotaNode) {
		daily(1000)(n)
		requests(1, 2)(n) // two at once, then one each second
	})))
	part := func(id string, op coordinator.CallOp, u coordinator.Usage) coordinator.Call {
		return coordinator.Call{Op: op, Key: coordinator.KeyOf(coordinator.TaskID(id)), Group: "team", Usage: u,
			Meant: coordinator.UsagePart}
	}
	for i, tc := range []struct {
		name string
		op   coordinator.CallOp
		u    coordinator.Usage
		want coordinator.CallState
		is   coordinator.Amounts // requests, input, output, total, cost, concurrency
	}{
		{"the call itself: a request and no token", coordinator.CallConsume, coordinator.Usage{Requests: 1},
			coordinator.CallGranted, coordinator.Amounts{1}},
		{"its tokens", coordinator.CallConsume, coordinator.Usage{InputTokens: 300, OutputTokens: 200},
			coordinator.CallGranted, coordinator.Amounts{0, 300, 200, 500}},
		{"two requests at once, with one left", coordinator.CallConsume, coordinator.Usage{Requests: 2},
			coordinator.CallRefused, coordinator.Amounts{2}},
		{"501 tokens where 500 are left", coordinator.CallConsume, coordinator.Usage{OutputTokens: 501},
			coordinator.CallRefused, coordinator.Amounts{0, 0, 501, 501}},
		{"one more can be asked for", coordinator.CallCheck, coordinator.Usage{OutputTokens: 1}, coordinator.CallGranted,
			coordinator.Amounts{0, 0, 1, 1}},
		{"501 tokens that have been used already", coordinator.CallCharge, coordinator.Usage{OutputTokens: 501},
			coordinator.CallGranted, coordinator.Amounts{0, 0, 501, 501}},
		{"now there is none left", coordinator.CallCheck, coordinator.Usage{OutputTokens: 1}, coordinator.CallRefused,
			coordinator.Amounts{0, 0, 1, 1}},
		{"but one request is, for none was counted with the tokens", coordinator.CallConsume, coordinator.Usage{Requests: 1},
			coordinator.CallGranted, coordinator.Amounts{1}},
		{"and that was the last", coordinator.CallConsume, coordinator.Usage{Requests: 1}, coordinator.CallRefused,
			coordinator.Amounts{1}},
	} {
		if a := r.ask(part(string(rune('a'+i)), tc.op, tc.u))[0]; a.State != tc.want || a.Amounts != tc.is {
			t.Errorf("%s: state %d of %v, want %d of %v", tc.name, a.State, a.Amounts, tc.want, tc.is)
		}
	}
	engine.CheckIndexes(t, r.Engine)

	// All or none: of what is asked together nothing is charged if one is refused.
	r.now = r.now.Add(24 * time.Hour)
	both := r.ask(part("x", coordinator.CallConsume, coordinator.Usage{Requests: 1}),
		part("y", coordinator.CallConsume, coordinator.Usage{InputTokens: 5000}))
	if both[0].State != coordinator.CallPutBy || both[1].State != coordinator.CallRefused {
		t.Errorf("states %d and %d, want that the first is put by for the second, which is refused", both[0].State,
			both[1].State)
	}
	if a := r.ask(part("z", coordinator.CallConsume,
		coordinator.Usage{Requests: 2})); a[0].State != coordinator.CallGranted {
		t.Errorf("two requests at once after that: state %d, want granted: the burst is whole", a[0].State)
	}
	engine.CheckIndexes(t, r.Engine)
}

package sharing

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator/simulator"
)

// provider has slots, and takes a millisecond for an input token and two for an output token,
// which is a millisecond for each unit of cost.
func provider(slots int, tenants ...string) *simulator.Sharing {
	s := &simulator.Sharing{Slots: slots, PerInput: time.Millisecond, PerOutput: 2 * time.Millisecond, MaxOutput: 100}
	for _, name := range tenants {
		s.Tenants = append(s.Tenants, simulator.Tenant{Name: name})
	}
	return s
}

func policyOf(t testing.TB, name string) *policy {
	t.Helper()
	for i := range policies {
		if policies[i].name == name {
			return &policies[i]
		}
	}
	t.Fatalf("no policy is called %q", name)
	return nil
}

// sequence plays calls and tells in what order the tenants were dispatched.
func sequence(t *testing.T, r *run) (order string) {
	t.Helper()
	for {
		waiting := r.arrive()
		switch {
		case waiting && r.open.Len() < r.provider.Slots:
			x := r.turn()
			order += x.name
			r.dispatch(x)
			if !r.arriving && x.begun == len(x.calls) {
				return order
			}
		case !r.advance():
			return order
		}
	}
}

func same(n int, c Call) []Call { return slices.Repeat([]Call{c}, n) }

// TestTurnsByHand: one slot, so that every call has ended when the next is dispatched. A
// call of a costs 10 (4 + 2·3), of b 30 (10 + 2·10).
func TestTurnsByHand(t *testing.T) {
	a, b := Call{Input: 4, Output: 3}, Call{Input: 10, Output: 10}
	for _, tt := range []struct {
		policy  string
		weights []int64
		order   string
		gap     float64
	}{
		// Of the same moment, a comes first: all its calls.
		{"fcfs", []int64{1, 1}, "aaaaaa", 60},
		// a b a b …: after the k-th pair b is 20·k ahead; a's sixth call is the eleventh.
		{"round_robin", []int64{1, 1}, "abababababa", 100},
		// The tags of a and b by truth: a 0→10, b 0→30, a →20, a →30, a goes of equals →40,
		// b (30) →60, a (40) →50, a →60: that was a's sixth. The gap is 30−10 after the first b,
		// |40−30| …, and 60−40 after the second b.
		{"at_finish", []int64{1, 1}, "abaaabaa", 20},
		{"reserve_max", []int64{1, 1}, "abaaabaa", 20},
		{"reserve_input", []int64{1, 1}, "abaaabaa", 20},
		// With weight 3, b's call counts 10, as one of a's.
		{"reserve_mean", []int64{1, 3}, "abababababa", 10},
		{"taskbus", []int64{1, 3}, "abababababa", 10},
	} {
		r, err := newRun(provider(1, "a", "b"), policyOf(t, tt.policy), tt.weights, [][]Call{same(6, a), same(9, b)}, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := sequence(t, r); got != tt.order {
			t.Errorf("%s at %v: %s, want %s", tt.policy, tt.weights, got, tt.order)
		}
		if r.evenness.gap != tt.gap {
			t.Errorf("%s at %v: a gap of %v, want %v", tt.policy, tt.weights, r.evenness.gap, tt.gap)
		}
	}
}

// TestWaitsByHand: a sends three calls of 10 ms at once, b one 5 ms later, to one slot.
func TestWaitsByHand(t *testing.T) {
	call := Call{Input: 4, Output: 3}
	late := call
	late.At = 5 * time.Millisecond
	for _, tt := range []struct {
		policy string
		a, b   []float64
	}{
		{"fcfs", []float64{0, 0.010, 0.020}, []float64{0.025}},
		// At 10 ms it is b's turn, which then has waited for 5.
		{"round_robin", []float64{0, 0.020, 0.030}, []float64{0.005}},
		// b begins to wait at virtual time 0, where a was when it was dispatched; a is at 10.
		{"taskbus", []float64{0, 0.020, 0.030}, []float64{0.005}},
	} {
		r, err := newRun(provider(1, "a", "b"), policyOf(t, tt.policy), []int64{1, 1}, [][]Call{same(3, call), {late}}, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.play(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.tenants[0].waited, tt.a) || !slices.Equal(r.tenants[1].waited, tt.b) {
			t.Errorf("%s: waits %v and %v, want %v and %v", tt.policy, r.tenants[0].waited, r.tenants[1].waited, tt.a, tt.b)
		}
	}
}

// drawCalls draws the calls of two to four tenants, and their weights.
func drawCalls(rt *rapid.T) (s *simulator.Sharing, calls [][]Call, weights []int64) {
	s = provider(rapid.IntRange(1, 6).Draw(rt, "slots"),
		[]string{"a", "b", "c", "d"}[:rapid.IntRange(2, 4).Draw(rt, "tenants")]...)
	for range s.Tenants {
		at := time.Duration(0)
		own := make([]Call, rapid.IntRange(1, 40).Draw(rt, "calls"))
		for i := range own {
			at += time.Duration(rapid.IntRange(0, 50).Draw(rt, "pause")) * time.Millisecond
			own[i] = Call{At: at, Input: rapid.Int64Range(1, 200).Draw(rt, "input"), Output: rapid.Int64Range(1, 100).
				Draw(rt, "output")}
		}
		calls = append(calls, own)
		weights = append(weights, rapid.Int64Range(1, 9).Draw(rt, "weight"))
	}
	return s, calls, weights
}

// TestTheBoundHolds: by shares, whatever calls are charged until they end, the service of
// tenants that wait differs by K·c/w of the two at most, at every moment.
func TestTheBoundHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, calls, weights := drawCalls(rt)
		for i := range policies {
			p := &policies[i]
			if p.order != byShares {
				continue
			}
			o, err := playOne(context.Background(), s, p, weights, calls)
			if err != nil {
				rt.Fatal(err)
			}
			if o.gap > o.bound+1e-6 {
				rt.Errorf("%s: a gap of %v is beyond the bound of %v", p.name, o.gap, o.bound)
			}
		}
	})
}

// TestCallsAreConserved: whatever the policy, every call is dispatched once, in its tenant's
// order, not before it comes, and nothing waits while a slot is free.
func TestCallsAreConserved(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, calls, weights := drawCalls(rt)
		p := &policies[rapid.IntRange(0, len(policies)-1).Draw(rt, "policy")]
		r, err := newRun(s, p, weights, calls, true)
		if err != nil {
			rt.Fatal(err)
		}
		for {
			last := r.now
			waiting := r.arrive()
			if waiting && r.open.Len() < s.Slots {
				r.dispatch(r.turn())
				continue
			}
			if r.open.Len() > s.Slots {
				rt.Fatalf("%d calls are open, of %d slots", r.open.Len(), s.Slots)
			}
			if !r.advance() {
				break
			}
			if r.now < last {
				rt.Fatalf("time goes back from %v to %v", last, r.now)
			}
		}
		for i, x := range r.tenants {
			if x.begun != len(calls[i]) || x.come != len(calls[i]) || len(x.waited) != len(calls[i]) || x.open != 0 ||
				x.settled != int64(len(calls[i])) {
				rt.Errorf("%s: of %d calls %d came, %d were dispatched, %d waited, %d ended, %d are open", p.name, len(calls[i]),
					x.come, x.begun, len(x.waited), x.settled, x.open)
			}
			if slices.Min(x.waited) < 0 {
				rt.Errorf("%s: a call was dispatched before it came: %v", p.name, x.waited)
			}
		}
		if r.backlog.Len() != 0 {
			rt.Errorf("%d calls still wait", r.backlog.Len())
		}
	})
}

func TestJain(t *testing.T) {
	for _, tt := range []struct {
		list []float64
		want float64
	}{
		{[]float64{5, 5, 5}, 1},
		{[]float64{7, 0}, 0.5},            // one has everything: 1/n
		{[]float64{3, 1}, 16. / (2 * 10)}, // (3+1)² / (2·(9+1))
		{[]float64{0, 0}, 1},
	} {
		if got := jain(tt.list); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", tt.list, got, tt.want)
		}
	}
}

// TestWorstMinute: in the first minute a is served 30 and b 10, in the second b 40.
func TestWorstMinute(t *testing.T) {
	e := newEvenness(2)
	a, b := &tenant{weight: 1}, &tenant{weight: 1}
	for _, step := range []struct {
		at   time.Duration
		a, b int64
	}{{0, 20, 10}, {time.Minute, 30, 10}, {2 * time.Minute, 30, 50}} {
		a.served, b.served = step.a, step.b
		e.look(step.at, []*tenant{a, b})
	}
	// (30+10)²/(2·(900+100)) = 0.8, then (0+40)²/(2·1600) = 0.5; of both 80²/(2·3400) = 0.94.
	if math.Abs(e.worst-0.5) > 1e-12 || e.gap != 20 {
		t.Errorf("worst minute %v and gap %v, want 0.5 and 20", e.worst, e.gap)
	}
}

func TestPlayRefuses(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Play(gone, shipped(t, "sharing"), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if _, err := Play(t.Context(), shipped(t, "sharing-azure"), Options{}); err == nil ||
		!strings.Contains(err.Error(), "no way to read the trace azure-code") {
		t.Errorf("without a way to read traces: %v", err)
	}
	empty := func(string) ([]simulator.Request, error) { return nil, nil }
	if _, err := Play(t.Context(), shipped(t, "sharing-azure"), Options{Trace: empty}); err == nil ||
		!strings.Contains(err.Error(), "holds no requests") {
		t.Errorf("an empty trace: %v", err)
	}
	if _, err := Play(t.Context(), shipped(t, "herding"), Options{}); err == nil ||
		!strings.Contains(err.Error(), "no tenants that share") {
		t.Errorf("a scenario of strategies: %v", err)
	}
	large := shipped(t, "sharing")
	large.Seeds = simulator.Seeds(simulator.MaxSeeds)
	large.Sharing.Tenants[0].Calls.Count = 1_000_000
	if _, err := Play(t.Context(), large, Options{}); err == nil || !strings.Contains(err.Error(), "have fewer seeds") {
		t.Errorf("a scenario that takes days: %v", err)
	}
}

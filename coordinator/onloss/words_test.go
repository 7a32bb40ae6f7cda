package onloss

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// own is a call of which its agent speaks for itself.
func own(c coordinator.Call) coordinator.Call {
	c.OwnOnly = true
	return c
}

// What an agent says of itself is bounded without a leader, too: of the 1,000 tokens a day of poor, the
// group of a1, and of the pool's million, no more than 2 · 1000 are charged by its word.
func TestOwnWordWithoutALeader(t *testing.T) {
	const pool = "pool: {limits: {total_tokens: {amount: 1000000, per: day}}, "
	for name, c := range map[string]struct {
		pool    string
		ask     func(l *lone)
		charged int64
	}{
		"safe: what is settled": {pool + "on_loss: safe, safe_limits: {total_tokens: {amount: 5000, per: day}}}",
			func(l *lone) {
				l.asked(own(aCall(coordinator.CallReserve, "1", 10)), coordinator.CallGranted)
				if a := l.asked(own(aCall(coordinator.CallSettle, "1", 1e12)),
					coordinator.CallDoubted); a.Amounts[coordinator.DimTotalTokens] != 10 || a.Lacks == nil {
					t.Errorf("%+v", a)
				}
				// Others are let pass, and it stands: it may be told again.
				l.asked(own(aCall(coordinator.CallReserve, "2", 900)), coordinator.CallGranted)
				a := l.asked(own(aCall(coordinator.CallSettle, "1", 1101)), coordinator.CallDoubted)
				if want := "it says 1101 total_tokens, and is believed up to 1100 total_tokens for this call"; !strings.HasPrefix(
					a.Lacks.Text, want) || a.Lacks.Node != "pool/poor/a1" {
					t.Errorf("%+v", a.Lacks) // 2 · 1000 − 900
				}
				l.asked(own(aCall(coordinator.CallSettle, "1", 1100)), coordinator.CallGranted)
				l.asked(own(aCall(coordinator.CallSettle, "2", 900)), coordinator.CallGranted)
				l.asked(own(aCall(coordinator.CallConsume, "3", 1)), coordinator.CallDoubted)
				l.asked(own(aCall(coordinator.CallCheck, "4", 1)), coordinator.CallDoubted)
			}, 2000},
		"safe: its own limits are held against it as well": {pool +
			"on_loss: safe, safe_limits: {total_tokens: {amount: 50, per: day}}}", func(l *lone) {
			l.asked(own(aCall(coordinator.CallReserve, "1", 5)), coordinator.CallGranted)
			a := l.asked(own(aCall(coordinator.CallSettle, "1", 101)), coordinator.CallDoubted) // 10 · 5, or 2 · 50
			if a.Lacks.Node != "pool" {
				t.Errorf("%+v", a.Lacks)
			}
			l.asked(own(aCall(coordinator.CallSettle, "1", 100)), coordinator.CallGranted)
		}, 100},
		"allow: what is consumed": {pool + "on_loss: allow}", func(l *lone) {
			l.asked(own(aCall(coordinator.CallConsume, "1", 1e12)), coordinator.CallDoubted)
			for i := range 4 { // 4 · 500 = 2 · 1000
				l.asked(own(aCall(coordinator.CallConsume, fmt.Sprint("c", i), 500)), coordinator.CallGranted)
			}
			l.asked(own(aCall(coordinator.CallConsume, "2", 1)), coordinator.CallDoubted)
		}, 2000},
		"allow: what is reserved counts until it ends": {pool + "on_loss: allow}", func(l *lone) {
			l.asked(own(aCall(coordinator.CallReserve, "1", 1500)), coordinator.CallGranted)
			l.asked(own(aCall(coordinator.CallReserve, "2", 501)), coordinator.CallDoubted)
			l.asked(own(aCall(coordinator.CallSettle, "1", 20)), coordinator.CallGranted)
			l.asked(own(aCall(coordinator.CallReserve, "2", 1980)), coordinator.CallGranted)
			l.asked(own(aCall(coordinator.CallRelease, "2", 0)), coordinator.CallGranted)
			l.asked(own(aCall(coordinator.CallReserve, "3", 1980)), coordinator.CallGranted)
		}, 2000}, // 20, and the 1980 without a reported end
		"allow: whose end is told late": {pool + "on_loss: allow}", func(l *lone) {
			l.asked(own(aCall(coordinator.CallReserve, "1", 100)), coordinator.CallGranted)
			l.pass(TTL)
			l.calls.Due(l.now, 256) // its 100 are counted
			l.asked(own(aCall(coordinator.CallSettle, "1", 2001)), coordinator.CallDoubted)
			l.asked(own(aCall(coordinator.CallSettle, "1", 2000)), coordinator.CallGranted)
			l.asked(own(aCall(coordinator.CallReserve, "2", 1)), coordinator.CallDoubted)
		}, 2000},
		"a gateway is believed": {pool + "on_loss: allow}", func(l *lone) {
			l.asked(aCall(coordinator.CallConsume, "1", 100_000), coordinator.CallGranted)
			l.asked(own(aCall(coordinator.CallReserve, "2", 10)), coordinator.CallGranted)
			l.asked(aCall(coordinator.CallSettle, "2", 50_000), coordinator.CallGranted)
		}, 150_000},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, limited+c.pool, func(l *lone) {
				c.ask(l)
				l.pass(TTL)
				l.charged("pool/poor", c.charged)
			})
		})
	}
}

// A leader charges what was answered without one, also if by what it knows the agent would not be
// believed any more.
func TestOwnWordThatWasAdmittedIsCharged(t *testing.T) {
	alone(t, limited+"pool: {on_loss: allow}", func(l *lone) {
		l.asked(own(aCall(coordinator.CallConsume, "1", 1900)), coordinator.CallGranted)
		if a := l.lead(aCall(coordinator.CallCharge, "2", 1800)); a[0].State != coordinator.CallGranted { // by a gateway
			t.Errorf("%+v", a)
		}
		l.charged("pool/poor", 1800+1900)
		if a := l.lead(own(aCall(coordinator.CallCharge, "3", 1))); a[0].State != coordinator.CallDoubted {
			t.Errorf("%+v", a)
		}
	})
}

// One agent does not keep all others out: it may have a quarter of what is held, as with a leader.
func TestOneAgentHasNotAllOfWhatIsOwed(t *testing.T) {
	alone(t, limited+"unknown_callers: allow\npool: {on_loss: allow}", func(l *lone) {
		if mostOf != 16_384 {
			t.Errorf("one agent has %d of %d places", mostOf, most)
		}
		for i := range mostOf {
			if a, ok := l.ask(aCall(coordinator.CallReserve, fmt.Sprint(i), 0)); !ok ||
				a[0].State != coordinator.CallGranted {
				t.Fatalf("call %d: %+v, %v", i, a, ok)
			}
		}
		one := aCall(coordinator.CallReserve, "one more", 0)
		if a := l.asked(one, coordinator.CallRefused); a.Lacks == nil || a.Lacks.Limit != "open" {
			t.Errorf("%+v", a)
		}
		other := one
		other.Agent, other.Key = "a2", coordinator.CallKey("a2", "one more")
		l.asked(other, coordinator.CallGranted)
		l.asked(aCall(coordinator.CallRelease, "0", 0), coordinator.CallGranted)
		l.asked(one, coordinator.CallGranted)
	})
}

// An id stands for one sort of call, also where no leader answers.
func TestLossOfAnotherSortOfCall(t *testing.T) {
	alone(t, limited+"pool: {on_loss: allow}", func(l *lone) {
		l.asked(aCall(coordinator.CallReserve, "1", 300), coordinator.CallGranted)
		l.asked(aCall(coordinator.CallConsume, "1", 300), coordinator.CallTaken)
		l.asked(aCall(coordinator.CallSettle, "1", 1), coordinator.CallGranted)
		l.asked(aCall(coordinator.CallConsume, "1", 300), coordinator.CallEnded)
		l.asked(aCall(coordinator.CallReserve, "1", 300), coordinator.CallEnded)
		l.asked(aCall(coordinator.CallConsume, "2", 300), coordinator.CallGranted)
		if a := l.asked(aCall(coordinator.CallConsume, "2", 300), coordinator.CallGranted); !a.Standing {
			t.Errorf("%+v", a)
		}
		l.asked(aCall(coordinator.CallReserve, "2", 300), coordinator.CallEnded)
		l.charged("pool/poor", 301)
	})
}

// Whatever an agent says, in any order: of what is charged by its own word, or waits to be, no more is
// than twice the 1,000 tokens of the budget that is most its own.
func TestOwnWordNeverExceedsItsBound(t *testing.T) {
	q := quotasIn(t, limited+"pool: {on_loss: allow, limits: {total_tokens: {amount: 1000000, per: day}}}")
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
		o := New()
		o.Under(now, q)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
			op := rapid.SampledFrom([]coordinator.CallOp{coordinator.CallReserve, coordinator.CallConsume,
				coordinator.CallSettle, coordinator.CallSettle, coordinator.CallRelease}).Draw(t, "op")
			tokens := rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, 2500), rapid.Int64Range(0, 1e12)).
				Draw(t, "tokens")
			c := own(aCall(op, fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "id")), float64(tokens)))
			if op == coordinator.CallSettle && tokens == 0 {
				c.Meant = coordinator.UsageEstimated // as it was reserved
			}
			o.Admit(now, []coordinator.Call{c})
			o.Due(now, 0) // what is overdue ends
			sum := int64(0)
			for _, held := range o.owed {
				if !held.told.OwnOnly || !held.told.Admitted {
					t.Fatalf("the leader is not told that it is the agent's word, and admitted: %+v", held.told)
				}
				sum += int64(held.told.Usage.InputTokens)
			}
			if sum > 2000 {
				t.Fatalf("%d tokens are charged by its word", sum)
			}
		}
	})
}

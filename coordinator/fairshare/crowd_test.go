package fairshare

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// What is open of calls, and remembered of those that have expired, is bounded: reservations without an end
// do not fill the memory.
func TestCallsAreBounded(t *testing.T) {
	l := newTree(monthly(coordinator.DimRequests, 1<<20)).ledger()
	start := epoch
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	call := Charge{Agent: "x", Call: true}
	key := func(n int) coordinator.TaskKey { return keyOf(fmt.Sprint("call ", n)) }
	for n := range MostOpenOf {
		if _, crowded := l.Crowded("x"); crowded {
			t.Fatalf("crowded with %d open", n)
		}
		if v := l.Reserve(at(0), key(n), &call, at(10)); !v.Charged {
			t.Fatalf("%+v", v)
		}
	}
	if of, crowded := l.Crowded("x"); !crowded || of != MostOpenOf {
		t.Errorf("%d, %v", of, crowded)
	}
	if _, crowded := l.Crowded("y"); crowded {
		t.Error("another agent has no room")
	}
	l.Settle(at(1), key(0), coordinator.Amounts{}, true)
	if _, crowded := l.Crowded("x"); crowded {
		t.Error("there is no room again")
	}
	for k, due := l.Due(at(10)); due; k, due = l.Due(at(10)) {
		l.Expire(at(10), k)
	}
	if l.openCalls != 0 || len(l.opened) != 0 {
		t.Errorf("%d are open, of %d agents", l.openCalls, len(l.opened))
	}
	for n := range 10 { // ten more that expire: the first ten are forgotten
		l.Reserve(at(20), key(-1-n), &call, at(30))
	}
	for k, due := l.Due(at(30)); due; k, due = l.Due(at(30)) {
		l.Expire(at(30), k)
	}
	if n := l.lapsed.Len(); n != mostLapsed {
		t.Errorf("%d that have expired are remembered, want %d", n, mostLapsed)
	}
}

// What was charged without a reservation is remembered for the time of a tombstone, what was reserved for a
// minute: the first is not repeated for long.
func TestHowLongCallsAreRemembered(t *testing.T) {
	l := newTree(monthly(coordinator.DimRequests, 1<<20)).ledger() // with tombstones of an hour
	start := epoch
	call := Charge{Agent: "x", Call: true}
	l.Reserve(start, keyOf("reserved"), &call, start.Add(time.Minute))
	l.Settle(start, keyOf("reserved"), coordinator.Amounts{}, true)
	l.Charge(start, keyOf("told"), &call)
	l.Settle(start, keyOf("told"), coordinator.Amounts{}, true)
	for _, c := range []struct {
		after          time.Duration
		reserved, told bool
	}{{59 * time.Second, true, true}, {61 * time.Second, false, true}, {59 * time.Minute, false, true},
		{61 * time.Minute, false, false}} {
		l.Due(start.Add(c.after))
		if got := l.Knows(keyOf("reserved")); got != c.reserved {
			t.Errorf("after %v: what was reserved is known: %v", c.after, got)
		}
		if got := l.Counted(keyOf("told")); got != c.told {
			t.Errorf("after %v: what was told is known: %v", c.after, got)
		}
	}
}

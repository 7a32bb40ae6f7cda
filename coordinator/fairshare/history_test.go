package fairshare

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// TestHardCaps: whatever is reserved, extended, settled within what was reserved, released or
// left to expire, over periods and with a clock that goes back: no node ever uses more than it
// may, all sums fit, and what is refused leaves no trace.
func TestHardCaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawQuotas(t, true))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step()
			w.judge()
		}
	})
}

// TestOverdrafts: when settlements tell of more than was reserved, what is admitted still never
// takes a node beyond what it may use (world.reserve looks), and all sums fit.
func TestOverdrafts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawQuotas(t, true))
		w.overdraws = true
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step()
			w.judge()
		}
	})
}

// TestTwins: a ledger that is given a history by records, and the quotas that were installed in between,
// knows what the first ledger knows, and answers alike; so does one that is given the ledger's state at
// some moment, and the records after it.
func TestTwins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuotas(t, true)
		w := newWorld(t, q)
		w.overdraws = true
		step := w.step
		if rapid.Bool().Draw(t, "reloads") {
			step = func() {
				if rapid.IntRange(0, 9).Draw(t, "now") == 0 {
					w.reload(q)
				} else {
					w.step()
				}
			}
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps before") {
			step()
		}
		image, after, then := w.l.Export(w.now), len(w.records), w.quotas
		for range rapid.IntRange(0, 40).Draw(t, "steps after") {
			step()
		}
		told := func(q *coordinator.Quotas, records ...[]coordinator.Record) *Ledger {
			l, at := NewLedger(), epoch
			if len(records[0]) > 0 && !isInstalled(records[0][0]) { // the first record tells the time
				at = at.Add(time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "installed")))
			}
			l.Install(at, q)
			for _, some := range records {
				fold(l, some)
			}
			return l
		}
		heirs := map[string]*Ledger{
			"told from the beginning": told(q, w.records), "told from the middle": told(then, image, w.records[after:]),
			"told at last": told(w.quotas, w.l.Export(w.now)),
		}
		w.now = w.l.Now() // what has been asked, and left nothing behind, they know nothing of
		want := w.picture()
		for name, heir := range heirs {
			if got := (picture{heir.Export(w.now), heir.View(w.now)}); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s:\n%s", name, differences(want.exported, got.exported))
			}
		}
		for range 10 {
			c, key := w.drawCharge(), id(1000+len(w.keys))
			w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "on")))
			want := w.reserve(key, c)
			for name, heir := range heirs {
				got := heir.Reserve(w.now, key, c, time.Time{})
				// A ledger that has refused before remembers a little of it, and may say a sooner time, or
				// another of the limits that refuse.
				if !want.OK && !got.OK && want.Permanent == got.Permanent {
					continue
				}
				if got != want {
					t.Fatalf("%s: %+v, want %+v", name, got, want)
				}
			}
		}
	})
}

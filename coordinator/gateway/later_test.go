package gateway

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// A chance of 7/10 adds 7/10 of a tenth of the wait, in whole seconds, up to 7/10 of a minute.
func TestLater(t *testing.T) {
	const tenths = math.MaxUint64 / 10
	for _, tc := range []struct{ wait, want time.Duration }{
		{0, 0},
		{time.Second, time.Second}, // 0.07 s more is none
		{2500 * time.Millisecond, 2500 * time.Millisecond},              // is told as 3 s: 0.21 s
		{10 * time.Second, 10 * time.Second},                            // 0.7 s
		{15 * time.Second, 16 * time.Second},                            // 1.05 s
		{89500 * time.Millisecond, 95500 * time.Millisecond},            // is told as 90 s: 6.3 s
		{10 * time.Minute, 10*time.Minute + 41*time.Second},             // 0.7 of 60 s, less the last nanosecond
		{8 * 24 * time.Hour, 8*24*time.Hour + 41*time.Second},           // and no more than that
		{100 * 365 * 24 * time.Hour, 876000*time.Hour + 41*time.Second}, // nothing overflows
	} {
		if got := Later(tc.wait, coordinator.TaskKey{7 * tenths}); got != tc.want {
			t.Errorf("%v: told as %v, want %v", tc.wait, got, tc.want)
		}
	}
}

// No wait is shorter than it must be, or longer than by a tenth or a minute, and a longer one is never
// told as a shorter: Retry-After is not earlier than what RateLimit says.
func TestLaterIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := coordinator.TaskKey{rapid.Uint64().Draw(t, "key")}
		wait := time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(t, "wait"))
		more := time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(t, "more"))
		told := Later(wait, key)
		if over := told - wait; over < 0 || over >= time.Minute || over > (wait+time.Second)/10 || over%time.Second != 0 {
			t.Fatalf("%v is told as %v", wait, told)
		}
		if longer := Later(wait+more, key); longer < told {
			t.Fatalf("%v is told as %v, and %v as %v", wait, told, wait+more, longer)
		}
	})
}

// Of a thousand calls that are refused until the same moment none comes before it, and no more than a
// sixth in the same second: 100 s and 0 to 9 more are ten seconds, a tenth of them in each.
func TestRefusedCallsAreSpread(t *testing.T) {
	x := &coordinator.CallAnswer{
		Lacks: &coordinator.QuotaLack{Node: "pool", Dimension: coordinator.DimTotalTokens, Limit: "budget"},
		Limits: []coordinator.QuotaLeft{{Node: "pool", Dimension: coordinator.DimTotalTokens, Limit: "budget",
			Window: time.Hour, Reset: 100 * time.Second}},
	}
	const calls = 1000
	in := make(map[int64]int)
	for i := range calls {
		in[retryAfter(t, x, coordinator.CallKey("a", fmt.Sprint("call-", i)))]++
	}
	for second, n := range in {
		if second < 100 || second > 109 || n > calls/6 {
			t.Errorf("%d of %d calls are told to wait for %d s", n, calls, second)
		}
	}
	if len(in) != 10 {
		t.Errorf("they are spread over %d seconds, want ten: %v", len(in), in)
	}
}

// retryAfter is what Retry-After says, in seconds; Retry-After-Ms says less than a second less than that, or
// a twentieth of a second more: its part of chance.
func retryAfter(t *testing.T, x *coordinator.CallAnswer, key coordinator.TaskKey) int64 {
	t.Helper()
	h := make(http.Header)
	RetryAfter(h, x, key)
	told, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
	ms, err2 := strconv.ParseInt(h.Get("retry-after-ms"), 10, 64)
	if err != nil || err2 != nil || told < 1 || ms < (told-1)*1000 || ms > told*1000+told*100 {
		t.Errorf("Retry-After %q, in milliseconds %q", h.Get("Retry-After"), h.Get("Retry-After-Ms"))
	}
	return told
}

// A call that a limit refuses is told when one such call fits there, not when the limit is whole again.
func TestRetryAfter(t *testing.T) {
	left := func(d coordinator.Dimension, limit string, reset time.Duration) coordinator.QuotaLeft {
		return coordinator.QuotaLeft{Node: "pool/a", Dimension: d, Limit: limit, Quota: 5, Window: time.Hour, Reset: reset}
	}
	lack := func(d coordinator.Dimension, limit string, in time.Duration) *coordinator.QuotaLack {
		l := &coordinator.QuotaLack{Node: "pool/a", Dimension: d, Limit: limit}
		if in > 0 {
			l.RetryAt = time.Now().Add(in)
		}
		return l
	}
	const tokens, calls = coordinator.DimTotalTokens, coordinator.DimRequests
	month, moment := left(tokens, "budget", 200*time.Hour), left(calls, "rate", 13*time.Second)
	for _, tc := range []struct {
		name   string
		lack   *coordinator.QuotaLack
		limits []coordinator.QuotaLeft
		want   int64
	}{
		{"the rate: whole again in 13 s, room for one in 0.1 s", lack(calls, "rate", 100*time.Millisecond),
			[]coordinator.QuotaLeft{moment, month}, 1},
		{"the rate: room for one in 2.5 s", lack(calls, "rate", 2500*time.Millisecond),
			[]coordinator.QuotaLeft{moment, month}, 3},
		{"the rate: of which no more is known", lack(calls, "rate", 0), []coordinator.QuotaLeft{moment, month}, 13},
		{"the budget: 200 hours", lack(tokens, "budget", 200*time.Hour), []coordinator.QuotaLeft{month, moment}, 720_000},
		{"seats: no time is known", lack(coordinator.DimConcurrency, "seats", 0),
			[]coordinator.QuotaLeft{left(coordinator.DimConcurrency, "seats", 0), month}, 1},
		{"one of which no numbers are known, room in 59.5 s",
			lack(coordinator.DimInputTokens, "rate", 59500*time.Millisecond), []coordinator.QuotaLeft{month, moment}, 60},
		{"not refused by itself", nil, []coordinator.QuotaLeft{month, moment}, 1},
	} {
		// The key that adds nothing; the tests above have the others.
		if got := retryAfter(t, &coordinator.CallAnswer{Lacks: tc.lack, Limits: tc.limits},
			coordinator.TaskKey{}); got != tc.want {
			t.Errorf("%s: after %d s, want %d", tc.name, got, tc.want)
		}
	}
	// Half of all chances: 0.1 s and 0.05 s, half of a tenth of a second.
	h := make(http.Header)
	RetryAfter(h, &coordinator.CallAnswer{Lacks: lack(calls, "rate", 100*time.Millisecond)},
		coordinator.TaskKey{math.MaxUint64 / 2})
	if ms := h.Get("Retry-After-Ms"); ms < "140" || ms > "151" {
		t.Errorf("after %s ms, want 150", ms)
	}
}

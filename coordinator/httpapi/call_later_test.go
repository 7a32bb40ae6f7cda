package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
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
		Lacks:  &coordinator.QuotaLack{Node: "pool", Dimension: coordinator.DimTotalTokens, Limit: "budget"},
		Limits: []coordinator.QuotaLeft{{Node: "pool", Dimension: coordinator.DimTotalTokens, Limit: "budget", Window: time.Hour, Reset: 100 * time.Second}},
	}
	const calls = 1000
	in := make(map[int64]int)
	for i := range calls {
		in[retryAfter(x, CallKey("a", fmt.Sprint("call-", i)))]++
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

// Who asks over POST and who asks as nginx does is told the same of the same call, in every header;
// when there may be room is told as it is.
func TestWaitsAgree(t *testing.T) {
	room := time.Now().Add(80 * time.Second).UTC()
	src := refusedBy(coordinator.CallRefused)
	src.callAnswers[0].Lacks.RetryAt = room
	src.callAnswers[0].Limits[0].Reset = 90 * time.Second
	opts := callOptions
	opts.LegacyLimitHeaders = true
	longer := 0
	for i := range 20 {
		id := fmt.Sprint("call-", i)
		posted := changeWith(src, opts, request{http.MethodPost, "/v1/quota/consume", `{"agent_id":"a","reservation_id":"` + id + `"}`, [][2]string{asGateway, {"Content-Type", "application/json"}}})
		asked := changeWith(src, opts, request{http.MethodGet, "/v1/quota/auth", "", [][2]string{asGateway, {"X-Quota-Agent", "a"}, {"X-Quota-Reservation", id}}})
		wait := posted.Header.Get("Retry-After")
		if n, err := strconv.Atoi(wait); err != nil || n < 90 || n > 98 {
			t.Errorf("%s: Retry-After %q, want 90 s and less than a tenth more", id, wait)
		} else if n > 90 {
			longer++
		}
		for _, resp := range []*http.Response{posted, asked} {
			h := resp.Header
			if h.Get("Retry-After") != wait || !strings.HasSuffix(h.Get("RateLimit"), ";t="+wait) || h.Get("RateLimit-Reset") != wait {
				t.Errorf("%s: Retry-After %s, RateLimit %s, RateLimit-Reset %s; want %s everywhere", id, h.Get("Retry-After"), h.Get("RateLimit"), h.Get("RateLimit-Reset"), wait)
			}
			var p QuotaProblem
			if err := json.Unmarshal([]byte(body(t, resp)), &p); err != nil || !p.RetryAt.Equal(room) {
				t.Errorf("%s: retry_at %v, %v; want %v", id, p.RetryAt, err, room)
			}
		}
	}
	if longer == 0 {
		t.Error("nobody of 20 waits longer than he must")
	}
}

package httpapi

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
)

// The three headers of the older draft, where they are asked for: over POST and to nginx, of what is
// granted and of what is refused. Without the switch there are none, and RateLimit is always there.
func TestLegacyLimitHeaders(t *testing.T) {
	seats := refusedBy(coordinator.CallRefused)
	seats.callAnswers[0].Lacks = &coordinator.QuotaLack{Node: "pool/a", Dimension: coordinator.DimConcurrency,
		Limit: "seats", Text: "all are taken"}
	seats.callAnswers[0].Limits = append([]coordinator.QuotaLeft{{Node: "pool/a", Dimension: coordinator.DimConcurrency,
		Limit: "seats", Quota: 2}}, seats.callAnswers[0].Limits...)
	month := coordinator.QuotaLeft{Node: "pool", Dimension: coordinator.DimTotalTokens, Limit: "budget", Quota: 1000,
		Left: 10, Window: time.Hour, Reset: time.Minute}
	both := granted()
	both.callAnswers[0].Limits = append([]coordinator.QuotaLeft{month}, both.callAnswers[0].Limits...)
	budget := &fakeSource{callAnswers: []coordinator.CallAnswer{{Limits: []coordinator.QuotaLeft{month}}}}
	exhausted := refusedBy(coordinator.CallRefused)
	month.Left, month.Reset = 3, 90*time.Second
	exhausted.callAnswers[0].Limits = append([]coordinator.QuotaLeft{month}, exhausted.callAnswers[0].Limits...)
	alone := refusedBy(coordinator.CallRefused)
	alone.callAnswers[0].Lacks = &coordinator.QuotaLack{Node: "openai", Dimension: coordinator.DimRequests,
		Limit: "provider", Text: "it is left alone"}
	alone.callAnswers[0].Limits = append([]coordinator.QuotaLeft{{Node: "openai", Dimension: coordinator.DimRequests,
		Limit: "provider", Window: 20 * time.Second, Reset: 20 * time.Second}}, alone.callAnswers[0].Limits...)
	exhausted.callAnswers[0].Lacks = &coordinator.QuotaLack{Node: "pool", Dimension: coordinator.DimTotalTokens,
		Limit: "budget", Text: "it is used up"}

	type limit struct{ limit, remaining, reset string }
	for _, tc := range []struct {
		name   string
		src    *fakeSource
		posted int // the status over POST; nginx has 200 or 403 instead
		want   limit
	}{
		{"granted, of 5 a second 4 are left", granted(), 200, limit{"5", "4", "1"}},
		{"granted, of two limits the one that is nearer to its end", both, 200, limit{"1000", "10", "60"}},
		{"granted, there is a budget alone", budget, 200, limit{"1000", "10", "60"}},
		{"granted, no limit concerns it", &fakeSource{callAnswers: []coordinator.CallAnswer{{}}}, 200, limit{}},
		{"refused by a rate that is whole in 2.5 s", refusedBy(coordinator.CallRefused), 429, limit{"5", "0", "3"}},
		{"refused by the budget, too much for what is left", exhausted, 429, limit{"1000", "3", "90"}},
		{"refused for ever by the rate", refusedBy(coordinator.CallNever), 422, limit{"5", "0", "3"}},
		{"refused by seats: the rate's 0 of 5 is not why", seats, 429, limit{}},
		{"its provider is left alone for 20 s", alone, 429, limit{"0", "0", "20"}},
		{"no such reservation", refusedBy(coordinator.CallUnknown), 404, limit{}},
	} {
		for _, on := range []bool{false, true} {
			opts, want := callOptions, limit{}
			if opts.LegacyLimitHeaders = on; on {
				if want = tc.want; want.reset != "" { // what this call is told to wait longer is in call_waits_test.go
					want.reset = told(t, want.reset, coordinator.CallKey("a", "r1"))
				}
			}
			behind := 403
			if tc.posted == 200 {
				behind = 200
			}
			for _, ask := range []struct {
				by     request
				status int
			}{
				{request{http.MethodPost, "/v1/quota/consume", `{"agent_id":"a","reservation_id":"r1"}`,
					[][2]string{asGateway, {"Content-Type", "application/json"}}}, tc.posted},
				{request{http.MethodGet, "/v1/quota/auth", "",
					[][2]string{asGateway, {"X-Quota-Agent", "a"}, {"X-Quota-Reservation", "r1"}}}, behind},
			} {
				resp := changeWith(tc.src, opts, ask.by)
				h := resp.Header
				got := limit{h.Get("RateLimit-Limit"), h.Get("RateLimit-Remaining"), h.Get("RateLimit-Reset")}
				if resp.StatusCode != ask.status || got != want {
					t.Errorf("%s, %s %s, switched on: %v: %d with %q, want %d with %q", tc.name, ask.by.method, ask.by.target, on,
						resp.StatusCode, got, ask.status, want)
				}
				if limited := len(tc.src.callAnswers[0].Limits) > 0; limited && tc.posted != 404 && h.Get("RateLimit") == "" {
					t.Errorf("%s, %s, switched on: %v: no RateLimit", tc.name, ask.by.method, on)
				}
				// A client that waits as long as Retry-After says does not come before the reset.
				if wait := h.Get("Retry-After"); got.reset != "" && wait != "" && wait != got.reset {
					t.Errorf("%s: Retry-After %s, RateLimit-Reset %s", tc.name, wait, got.reset)
				}
			}
		}
	}
}

// told is what a wait of so many seconds is told as.
func told(t *testing.T, seconds string, key coordinator.TaskKey) string {
	t.Helper()
	n, err := strconv.Atoi(seconds)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(int(gateway.Later(time.Duration(n)*time.Second, key) / time.Second))
}

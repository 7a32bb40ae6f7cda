package heard

import (
	"math"
	"net/http"
	"testing"
	"time"

	"taskbus/coordinator"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const (
	requests, input, output, total = coordinator.DimRequests, coordinator.DimInputTokens, coordinator.DimOutputTokens,
		coordinator.DimTotalTokens
)

func TestWhatProvidersSay(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		headers map[string]string
		after   time.Duration
		remains map[coordinator.Dimension]int64
	}{
		"nothing": {status: 200},
		"OpenAI": {status: 200, headers: map[string]string{
			"x-ratelimit-limit-requests": "60", "x-ratelimit-limit-tokens": "150000", "x-ratelimit-remaining-requests": "59",
			"x-ratelimit-remaining-tokens": "149984", "x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s",
		}, remains: map[coordinator.Dimension]int64{requests: 59, total: 149984}},
		"OpenAI refuses, and says when by its limits only": {status: 429, headers: map[string]string{
			"x-ratelimit-remaining-requests": "12", "x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-tokens": "0",
			"x-ratelimit-reset-tokens": "6m0.5s",
		}, after: 6*time.Minute + 500*time.Millisecond, remains: map[coordinator.Dimension]int64{requests: 12, total: 0}},
		"Azure in milliseconds": {status: 429, headers: map[string]string{"retry-after-ms": "1250", "retry-after": "2"},
			after: 1250 * time.Millisecond},
		"Anthropic": {status: 200, headers: map[string]string{
			"anthropic-ratelimit-requests-remaining": "49", "anthropic-ratelimit-requests-reset": "2026-11-23T12:00:01Z",
			"anthropic-ratelimit-input-tokens-remaining": "39000", "anthropic-ratelimit-output-tokens-remaining": "8000",
			"anthropic-ratelimit-tokens-remaining": "47000",
		}, remains: map[coordinator.Dimension]int64{requests: 49, input: 39000, output: 8000, total: 47000}},
		"Anthropic refuses": {status: 429, headers: map[string]string{
			"anthropic-ratelimit-output-tokens-remaining": "0",
			"anthropic-ratelimit-output-tokens-reset":     "2026-11-23T12:00:41Z", "retry-after": "43",
		}, after: 43 * time.Second, remains: map[coordinator.Dimension]int64{output: 0}},
		"Anthropic is overloaded": {status: 529, headers: map[string]string{"retry-after": "5"},
			after: 5 * time.Second},
		"a date": {status: 429,
			headers: map[string]string{"retry-after": "Mon, 23 Nov 2026 12:01:30 GMT"}, after: 90 * time.Second},
		"a date that has passed": {status: 429,
			headers: map[string]string{"retry-after": "Mon, 23 Nov 2026 11:01:30 GMT"}},
		"Gemini says nothing": {status: 429},
		"what it cannot read says less": {status: 429,
			headers: map[string]string{"retry-after": "soon", "x-ratelimit-remaining-tokens": "many",
				"x-ratelimit-remaining-requests": "-4"}},
		"numbers that are none": {status: 429,
			headers: map[string]string{"retry-after": "NaN", "x-ratelimit-remaining-tokens": "Inf"}},
		"more than a day is asked again": {status: 429, headers: map[string]string{"retry-after": "1e300"},
			after: 24 * time.Hour},
		"milliseconds beyond all numbers": {status: 429, headers: map[string]string{"retry-after-ms": "9223372036854775807"},
			after: 24 * time.Hour},
		"a number with a fraction": {status: 200, headers: map[string]string{"x-ratelimit-remaining-tokens": "1.5e3"},
			remains: map[coordinator.Dimension]int64{total: 1500}},
	} {
		t.Run(name, func(t *testing.T) {
			h := make(http.Header)
			for k, v := range c.headers {
				h.Set(k, v)
			}
			w := Of(now, c.status, h)
			if w.Status != c.status || w.RetryAfter != c.after {
				t.Errorf("status %d, after %v; want %d, %v", w.Status, w.RetryAfter, c.status, c.after)
			}
			for d := range coordinator.Dimension(coordinator.NumDimensions) {
				want, told := c.remains[d]
				if got := w.Told&(1<<d) != 0; got != told || w.Remains[d] != want {
					t.Errorf("%s: told %v, %d; want %v, %d", d, got, w.Remains[d], told, want)
				}
			}
		})
	}
}

// Whatever a header holds, what is understood is within bounds.
func FuzzOf(f *testing.F) {
	f.Add(429, "120ms", "0", "6m0s")
	f.Add(429, "-1", "1e9", "9999-12-31T23:59:59Z")
	f.Fuzz(func(t *testing.T, status int, after, remaining, reset string) {
		h := http.Header{"Retry-After": {after}, "X-Ratelimit-Remaining-Tokens": {remaining},
			"X-Ratelimit-Reset-Tokens": {reset}}
		w := Of(now, status, h)
		if w.RetryAfter < 0 || w.RetryAfter > longest || w.Remains[total] < 0 || w.Remains[total] == math.MinInt64 {
			t.Errorf("%+v", w)
		}
	})
}

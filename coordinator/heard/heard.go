package heard

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
)

// longest bounds what is believed of a wait; whatever is longer is asked for again.
const longest = 24 * time.Hour

// limits are what providers count, with the names that they have for it.
var limits = []struct {
	dimension coordinator.Dimension
	remaining []string
	reset     []string
}{
	{coordinator.DimRequests, []string{"X-Ratelimit-Remaining-Requests", "Anthropic-Ratelimit-Requests-Remaining"},
		[]string{"X-Ratelimit-Reset-Requests", "Anthropic-Ratelimit-Requests-Reset"}},
	{coordinator.DimTotalTokens, []string{"X-Ratelimit-Remaining-Tokens", "Anthropic-Ratelimit-Tokens-Remaining"},
		[]string{"X-Ratelimit-Reset-Tokens", "Anthropic-Ratelimit-Tokens-Reset"}},
	{coordinator.DimInputTokens, []string{"Anthropic-Ratelimit-Input-Tokens-Remaining"},
		[]string{"Anthropic-Ratelimit-Input-Tokens-Reset"}},
	{coordinator.DimOutputTokens, []string{"Anthropic-Ratelimit-Output-Tokens-Remaining"},
		[]string{"Anthropic-Ratelimit-Output-Tokens-Reset"}},
}

// Of tells what an answer of that status and with these headers says, now. The latency is the
// caller's to add.
//
// Of a refusal that does not say for how long, the wait is that of the limits of which nothing
// remains, by what is said of their reset; 0 where nothing is said of that either.
func Of(now time.Time, status int, h http.Header) coordinator.ProviderWord {
	w := coordinator.ProviderWord{Status: status, RetryAfter: retryAfter(now, h)}
	var empty time.Duration
	for _, l := range limits {
		remains, ok := amount(first(h, l.remaining))
		if !ok {
			continue
		}
		w.Told |= 1 << l.dimension
		w.Remains[l.dimension] = remains
		if remains == 0 {
			empty = max(empty, wait(now, first(h, l.reset)))
		}
	}
	if w.Throttled() && w.RetryAfter == 0 {
		w.RetryAfter = empty
	}
	return w
}

// first is the value of the first header that is there.
func first(h http.Header, names []string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// amount is a number from 0; some providers write 1e+06, or 12.0.
func amount(text string) (int64, bool) {
	if text == "" {
		return 0, false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return max(0, n), n >= 0
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0) || f >= math.MaxInt64 {
		return 0, false
	}
	return int64(f), true
}

func retryAfter(now time.Time, h http.Header) time.Duration {
	if ms, ok := amount(strings.TrimSpace(h.Get("Retry-After-Ms"))); ok {
		return bounded(time.Duration(min(ms, longest.Milliseconds())) * time.Millisecond)
	}
	return wait(now, strings.TrimSpace(h.Get("Retry-After")))
}

// wait reads for how long: seconds, a duration such as 6m0s or 120ms, or a date.
func wait(now time.Time, text string) time.Duration {
	if text == "" {
		return 0
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if !(s > 0) {
			return 0
		}
		return bounded(time.Duration(min(s, longest.Seconds()) * float64(time.Second)))
	}
	if d, err := time.ParseDuration(text); err == nil {
		return bounded(d)
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return bounded(at.Sub(now))
	}
	if at, err := http.ParseTime(text); err == nil {
		return bounded(at.Sub(now))
	}
	return 0
}

func bounded(d time.Duration) time.Duration { return min(max(d, 0), longest) }

package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
)

// A request over POST and one as nginx makes it get the same answer for the same call, in every header;
// when there may be room is answered as it is. Retry-After is when one such call fits, in 80 s; RateLimit
// when the
// limit is whole again, in 90 s.
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
		posted := changeWith(src, opts, request{http.MethodPost, "/v1/quota/consume", `{"agent_id":"a","reservation_id":"` +
			id + `"}`, [][2]string{asGateway, {"Content-Type", "application/json"}}})
		asked := changeWith(src, opts,
			request{http.MethodGet, "/v1/quota/auth", "",
				[][2]string{asGateway, {"X-Quota-Agent", "a"}, {"X-Quota-Reservation", id}}})
		wait := posted.Header.Get("Retry-After")
		if n, err := strconv.Atoi(wait); err != nil || n < 80 || n > 87 {
			t.Errorf("%s: Retry-After %q, want 80 s and less than a tenth more", id, wait)
		} else if n > 80 {
			longer++
		}
		whole := posted.Header.Get("RateLimit-Reset")
		if n, err := strconv.Atoi(whole); err != nil || n < 90 || n > 98 {
			t.Errorf("%s: RateLimit-Reset %q, want 90 s and less than a tenth more", id, whole)
		}
		for _, resp := range []*http.Response{posted, asked} {
			h := resp.Header
			ms, err := strconv.Atoi(h.Get("Retry-After-Ms"))
			if h.Get("Retry-After") != wait || err != nil || strconv.Itoa((ms+999)/1000) != wait &&
				strconv.Itoa(ms/1000) != wait || !strings.HasSuffix(h.Get("RateLimit"), ";t="+whole) ||
				h.Get("RateLimit-Reset") != whole {
				t.Errorf("%s: Retry-After %s, in milliseconds %s, RateLimit %s, RateLimit-Reset %s; want %s and %s everywhere", id,
					h.Get("Retry-After"), h.Get("Retry-After-Ms"), h.Get("RateLimit"), h.Get("RateLimit-Reset"), wait, whole)
			}
			var p gateway.QuotaProblem
			if err := json.Unmarshal([]byte(body(t, resp)), &p); err != nil || !p.RetryAt.Equal(room) {
				t.Errorf("%s: retry_at %v, %v; want %v", id, p.RetryAt, err, room)
			}
		}
	}
	if longer == 0 {
		t.Error("none of 20 waits longer than it must")
	}
}

package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi/calls"
)

// The answer about a call says in a word why it could not be decided. Where the leader is, and what its
// network says, is in the log alone.
func TestWhyUnansweredNamesNoAddress(t *testing.T) {
	const address = "http://10.1.2.3:8551"
	refused := &url.Error{Op: "Post", URL: address + calls.ForwardPath,
		Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect 10.1.2.3:8551: connection refused")}}
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"no leader", fmt.Errorf("ask the leader at %s: %w", address, gateway.ErrNotLeading), "No coordinator leads"},
		{"no connection", fmt.Errorf("ask the leader: %w", refused), "cannot be asked"},
		{"another secret", fmt.Errorf("the leader at %s answers 401: see that all have the same TASKBUS_AGENT_SECRET",
			address), "cannot be asked"},
		{"too slow", fmt.Errorf("ask the leader at %s: %w", address, context.DeadlineExceeded), "has not answered in time"},
		{"too many", gateway.ErrCallsBusy, "Too many calls"},
	} {
		if got := gateway.WhyUnanswered(tc.err); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q in it", tc.name, got, tc.want)
		}
		src := granted()
		src.callErr = tc.err
		resp := changeWith(src, callOptions, request{http.MethodPost, "/v1/quota/reserve", `{"agent_id": "a"}`,
			[][2]string{asGateway, {"Content-Type", "application/json"}}})
		text := body(t, resp)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d, Retry-After %q; want 503 and 1", tc.name, resp.StatusCode, resp.Header.Get("Retry-After"))
		}
		for _, secret := range []string{"10.1.2.3", "8551", "dial", "SECRET"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: the answer has %q: %s", tc.name, secret, text)
			}
		}
	}
}

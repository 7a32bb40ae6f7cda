package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// FAIR-SHARE's code lets pass whatever needs 0 tokens or fewer, and counts nothing. Here 0 is a call
// without tokens, which the engine is asked about like any other, and less than that is refused
// without a question.
func TestTokensNeeded(t *testing.T) {
	for _, op := range []string{"check", "consume", "reserve", "charge"} {
		for _, tc := range []struct {
			needed string
			status int
			input  float64 // that the engine is asked about
			says   string
		}{
			{"7", 200, 7, ""},
			{"0", 200, 0, ""},
			{"-0", 200, 0, ""},
			{"-5", 400, 0, "tokens_needed is out of range: it must be a whole number from 0 to 1000000000000"},
			{"-1e-9", 400, 0, "tokens_needed is not a whole number"},
		} {
			src := granted()
			resp := changeWith(src, callOptions, request{http.MethodPost, "/v1/quota/" + op, `{"agent_id":"a","tokens_needed":` + tc.needed + `}`, [][2]string{asGateway, {"Content-Type", "application/json"}}})
			if text := body(t, resp); resp.StatusCode != tc.status || !strings.Contains(text, tc.says) || (len(src.calls) == 1) != (tc.status == 200) {
				t.Errorf("%s of %s: %d %s, %d questions; want %d %q", op, tc.needed, resp.StatusCode, text, len(src.calls), tc.status, tc.says)
				continue
			}
			for _, c := range src.calls {
				if c.Usage != (coordinator.Usage{InputTokens: tc.input}) || c.Meant != coordinator.UsageExact {
					t.Errorf("%s of %s: the engine is asked about %+v, exact: %v", op, tc.needed, c.Usage, c.Meant == coordinator.UsageExact)
				}
			}
		}
	}
}

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
			resp := changeWith(src, callOptions, request{http.MethodPost, "/v1/quota/" + op, `{"agent_id":"a","tokens_needed":` +
				tc.needed + `}`, [][2]string{asGateway, {"Content-Type", "application/json"}}})
			if text := body(t, resp); resp.StatusCode != tc.status || !strings.Contains(text, tc.says) ||
				(len(src.calls) == 1) != (tc.status == 200) {
				t.Errorf("%s of %s: %d %s, %d questions; want %d %q", op, tc.needed, resp.StatusCode, text, len(src.calls),
					tc.status, tc.says)
				continue
			}
			for _, c := range src.calls {
				if c.Usage != (coordinator.Usage{InputTokens: tc.input}) || c.Meant != coordinator.UsageExact {
					t.Errorf("%s of %s: the engine is asked about %+v, exact: %v", op, tc.needed, c.Usage,
						c.Meant == coordinator.UsageExact)
				}
			}
		}
	}
}

// A gateway that has lost its body, or what it fills it from, gets an error: the question would set aside
// what is estimated, of the pool and for no group. An agent is known by its token.
func TestQuestionsAboutNobody(t *testing.T) {
	asAgent := [][2]string{tokenOf("a"), {"X-Quota-Agent", "a"}}
	gateway := [][2]string{asGateway}
	for _, tc := range []struct {
		name, body string
		headers    [][2]string
		status     int
		says       string
	}{
		{"no body", "", gateway, 400, `such as {\"agent_id\": \"agent-1\"`},
		{"an empty object", "{}", gateway, 400, `such as {\"agent_id\": \"agent-1\"`},
		{"tokens alone", `{"reservation_id":"r","input_tokens":5,"operation":"chat"}`, gateway, 400,
			"names no agent, group, provider or model"},
		{"empty names", `{"agent_id":"","group_id":null}`, gateway, 400, "names no agent"},
		{"an agent", `{"agent_id":"a"}`, gateway, 200, ""},
		{"a group", `{"group_id":"g"}`, gateway, 200, ""},
		{"a provider", `{"provider":"openai"}`, gateway, 200, ""},
		{"a model", `{"model":"gpt-4o"}`, gateway, 200, ""},
		{"alternatives", `{"alternatives":[{"provider":"openai"}]}`, gateway, 200, ""},
		{"an agent, without a body", "", asAgent, 400, "it is empty"},
		{"an agent that says nothing more", "{}", asAgent, 200, ""},
	} {
		for _, op := range []string{"check", "consume", "reserve", "charge"} {
			src := granted()
			resp := changeWith(src, callOptions, request{http.MethodPost, "/v1/quota/" + op, tc.body,
				append([][2]string{{"Content-Type", "application/json"}}, tc.headers...)})
			if text := body(t, resp); resp.StatusCode != tc.status || !strings.Contains(text, tc.says) ||
				(len(src.calls) == 1) != (tc.status == 200) {
				t.Errorf("%s, %s: %d %s, %d questions; want %d %q", tc.name, op, resp.StatusCode, text, len(src.calls), tc.status,
					tc.says)
			}
		}
	}
}

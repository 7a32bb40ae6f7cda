package httpapi

import (
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi/calls"
)

// gatewayToken is that of the gateways of these tests, secretOfAgents what agents' tokens are made of.
const (
	gatewayToken   = "gateways-0123456789-abcdefghijklmn"
	secretOfAgents = "agents-0123456789-abcdefghijklmnop"
)

var callOptions = Options{GatewayToken: []byte(gatewayToken), AgentSecret: []byte(secretOfAgents)}

func tokenOf(agent string) [2]string {
	return [2]string{"Authorization", "Bearer " + credential.AgentToken([]byte(secretOfAgents), agent)}
}

var asGateway = [2]string{"Authorization", "Bearer " + gatewayToken}

// granted is a source that grants whatever it is asked.
func granted() *fakeSource {
	return &fakeSource{callAnswers: []coordinator.CallAnswer{{
		Limits: []coordinator.QuotaLeft{{Node: "pool/a", Dimension: coordinator.DimRequests, Limit: "rate", Quota: 5, Left: 4,
			Window: time.Second, Reset: time.Second}},
	}}}
}

// refusedBy is a source whose limits refuse.
func refusedBy(state coordinator.CallState) *fakeSource {
	return &fakeSource{callAnswers: []coordinator.CallAnswer{{
		State: state,
		Lacks: &coordinator.QuotaLack{Node: "pool/a", Dimension: coordinator.DimRequests, Limit: "rate",
			Text: "it is used up"},
		Limits: []coordinator.QuotaLeft{{Node: "pool/a", Dimension: coordinator.DimRequests, Limit: "rate", Quota: 5,
			Window: time.Second, Reset: 2500 * time.Millisecond}},
	}}}
}

// What headers say of a call is what the engine is asked.
func TestAuthReadsHeaders(t *testing.T) {
	with := func(h ...string) (all [][2]string) {
		for i := 0; i < len(h); i += 2 {
			all = append(all, [2]string{"X-Quota-" + h[i], h[i+1]})
		}
		return all
	}
	usage := func(in, out float64) coordinator.Usage {
		return coordinator.Usage{InputTokens: in, OutputTokens: out, Provider: "openai", Model: "meta/llama-3@8b"}
	}
	const auth, settle = "/v1/quota/auth", "/v1/quota/auth/settle"
	for _, tc := range []struct {
		name, target string
		headers      [][2]string
		want         coordinator.Call
	}{
		{"no more than the agent", auth, with("Agent", "a"), coordinator.Call{Op: coordinator.CallConsume, Agent: "a"}},
		{"everything", auth, with("Agent", "a", "Group", "g", "Provider", "openai", "Model", "meta/llama-3@8b", "Operation",
			"chat", "Input-Tokens", "100", "Output-Tokens", "50", "Reservation", "r1"),
			coordinator.Call{Op: coordinator.CallConsume, Agent: "a", Group: "g", Operation: "chat", Usage: usage(100, 50),
				Meant: coordinator.UsageExact, Keep: true}},
		{"401 bytes are 101 tokens, and the output is estimated", auth,
			with("Agent", "a", "Provider", "openai", "Model", "meta/llama-3@8b", "Input-Bytes", "401"),
			coordinator.Call{Op: coordinator.CallConsume, Agent: "a", Usage: usage(101, 0)}},
		{"tokens are known better than bytes", auth, with("Agent", "a", "Input-Tokens", "7", "Input-Bytes", "401"),
			coordinator.Call{Op: coordinator.CallConsume, Agent: "a", Usage: coordinator.Usage{InputTokens: 7}}},
		{"a reservation holds a seat, and is charged if its end is not reported", auth,
			with("Agent", "a", "Mode", "reserve", "Reservation", "r1", "Ttl-Seconds", "60"),
			coordinator.Call{Op: coordinator.CallReserve, Agent: "a", Seats: 1, ChargeUntold: true, TTL: time.Minute,
				Keep: true}},
		{"settled by bytes", settle, with("Agent", "a", "Reservation", "r1", "Input-Bytes", "8", "Output-Bytes", "40"),
			coordinator.Call{Op: coordinator.CallSettle, Agent: "a", Usage: coordinator.Usage{InputTokens: 2, OutputTokens: 10},
				Meant: coordinator.UsageExact, Keep: true}},
		{"settled without output: that is charged as reserved", settle,
			with("Agent", "a", "Reservation", "r1", "Input-Tokens", "8"),
			coordinator.Call{Op: coordinator.CallSettle, Agent: "a", Usage: coordinator.Usage{InputTokens: 8},
				Meant: coordinator.UsageInput, Keep: true}},
		{"settled without input: that is charged as reserved", settle, with("Agent", "a", "Reservation", "r1", "Output-Bytes",
			"40"),
			coordinator.Call{Op: coordinator.CallSettle, Agent: "a", Usage: coordinator.Usage{OutputTokens: 10},
				Meant: coordinator.UsageOutput, Keep: true}},
		{"the provider answered", settle, with("Agent", "a", "Reservation", "r1", "Upstream-Status", "502, 200"),
			coordinator.Call{Op: coordinator.CallSettle, Agent: "a", Keep: true}},
		{"the provider refused: nothing was used", settle, with("Agent", "a", "Reservation", "r1", "Upstream-Status",
			"502, 429", "Output-Tokens", "9"),
			coordinator.Call{Op: coordinator.CallRelease, Agent: "a", Usage: coordinator.Usage{OutputTokens: 9},
				Meant: coordinator.UsageOutput, Keep: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := granted()
			src.callAnswers[0].Provider = "openai@b" // the key that was chosen
			resp := changeWith(src, callOptions, request{http.MethodGet, tc.target, "", append(tc.headers, asGateway)})
			if resp.StatusCode != 200 || resp.Header.Get("X-Quota-Status") != "200" || len(src.calls) != 1 {
				t.Fatalf("%d %s, %d calls; want 200 and one", resp.StatusCode, body(t, resp), len(src.calls))
			}
			if got := resp.Header.Get("X-Quota-Provider"); got != "openai@b" {
				t.Errorf("it is charged to %q", got)
			}
			id := resp.Header.Get("X-Quota-Reservation")
			tc.want.Key, tc.want.Priority = coordinator.CallKey("a", id), coordinator.PriorityNormal
			if tc.want.Op == coordinator.CallReserve || tc.want.Op == coordinator.CallConsume && tc.want.Keep {
				tc.want.Asked = tc.want.HashAsked()
			}
			if got := src.calls[0]; !reflect.DeepEqual(got, tc.want) || id == "" {
				t.Errorf("asked  %+v\nwanted %+v, of the reservation %q", got, tc.want, id)
			}
			if got, want := resp.Header.Get("RateLimit"), `"pool/a:requests:rate";r=4;t=1`; got != want {
				t.Errorf("RateLimit: %s, want %s", got, want)
			}
		})
	}
}

// nginx understands 200, 401 and 403: whatever happens is one of them, and the header says what.
// A refusal by a limit may be kept for a second; nothing else may be kept at all.
func TestAuthAnswersWhatNginxUnderstands(t *testing.T) {
	of := func(name, value string) [2]string { return [2]string{"X-Quota-" + name, value} }
	down := granted()
	down.callErr = errors.New("this instance stands by")
	for _, tc := range []struct {
		name       string
		src        *fakeSource
		target     string
		headers    [][2]string
		status     int
		said, wait string // X-Quota-Status, Retry-After
		kept       string // Cache-Control
	}{
		{"granted", granted(), "", [][2]string{asGateway, of("Provider", "openai")}, 200, "200", "", "no-store"},
		{"no token", granted(), "", nil, 401, "401", "", "no-store"},
		{"a token, and no agent", granted(), "", [][2]string{tokenOf("a")}, 403, "400", "", "no-store"},
		{"the token of another agent", granted(), "", [][2]string{of("Agent", "a"), tokenOf("b")}, 401, "401", "",
			"no-store"},
		// The limit is whole again in 2.5 s: in 3 whole seconds.
		{"a limit refuses", refusedBy(coordinator.CallRefused), "", [][2]string{asGateway, of("Provider", "openai")}, 403,
			"429", "3", "max-age=1"},
		{"it will never have room", refusedBy(coordinator.CallNever), "", [][2]string{asGateway, of("Provider", "openai")},
			403, "422", "", "no-store"},
		{"no leader", down, "", [][2]string{asGateway, of("Provider", "openai")}, 403, "503", "1", "no-store"},
		{"not its group", refusedBy(coordinator.CallForeign), "",
			[][2]string{of("Agent", "a"), of("Group", "z"), tokenOf("a")}, 403, "403", "", "no-store"},
		{"unknown reservation", refusedBy(coordinator.CallUnknown), "/settle", [][2]string{asGateway, of("Reservation", "r")},
			403, "404", "", "no-store"},
		{"settled before", refusedBy(coordinator.CallEnded), "/settle", [][2]string{asGateway, of("Reservation", "r")}, 403,
			"409", "", "no-store"},
		{"no reservation named", granted(), "/settle", [][2]string{asGateway}, 403, "400", "", "no-store"},
		{"a gateway without an owner", granted(), "", [][2]string{asGateway, of("Input-Tokens", "3")}, 403, "400", "",
			"no-store"},
		{"a misspelt header", granted(), "", [][2]string{asGateway, of("Imput-Tokens", "3")}, 403, "400", "", "no-store"},
		{"a header twice", granted(), "", [][2]string{asGateway, of("Agent", "a"), of("Agent", "b")}, 403, "400", "",
			"no-store"},
		{"less than nothing", granted(), "", [][2]string{asGateway, of("Input-Tokens", "-1")}, 403, "400", "", "no-store"},
		{"too much", granted(), "", [][2]string{asGateway, of("Input-Tokens", "1000000000001")}, 403, "400", "", "no-store"},
		{"no number", granted(), "", [][2]string{asGateway, of("Input-Tokens", "1e3")}, 403, "400", "", "no-store"},
		{"no such mode", granted(), "", [][2]string{asGateway, of("Mode", "peek")}, 403, "400", "", "no-store"},
		{"a query", granted(), "?agent=a", [][2]string{asGateway}, 403, "400", "", "no-store"},
		{"a page of another origin", granted(), "", [][2]string{asGateway, {"Sec-Fetch-Site", "cross-site"}}, 403, "403", "",
			"no-store"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp := changeWith(tc.src, callOptions, request{http.MethodGet, "/v1/quota/auth" + tc.target, "", tc.headers})
			h := resp.Header
			if resp.StatusCode != tc.status || h.Get("X-Quota-Status") != tc.said || h.Get("Retry-After") != tc.wait ||
				h.Get("Cache-Control") != tc.kept {
				t.Errorf("%d, X-Quota-Status %s, Retry-After %s, Cache-Control %s; want %d, %s, %s, %s",
					resp.StatusCode, h.Get("X-Quota-Status"), h.Get("Retry-After"), h.Get("Cache-Control"), tc.status, tc.said,
					tc.wait, tc.kept)
			}
			if asked := len(tc.src.calls); tc.said == "400" && asked > 0 || tc.said == "401" && asked > 0 {
				t.Errorf("%d calls were asked about", asked)
			}
		})
	}
	if resp := changeWith(granted(), callOptions,
		request{http.MethodHead, "/v1/quota/auth", "", [][2]string{asGateway}}); resp.StatusCode != 405 {
		t.Errorf("HEAD: %d, want 405: it only asks, and this changes something", resp.StatusCode)
	}
	if resp := changeWith(granted(), Options{},
		request{http.MethodGet, "/v1/quota/auth", "", [][2]string{asGateway}}); resp.StatusCode != 403 ||
		resp.Header.Get("X-Quota-Status") != "403" {
		t.Errorf("without any token that counts: %d %s, want 403 twice", resp.StatusCode, resp.Header.Get("X-Quota-Status"))
	}
}

// Whatever the headers hold, the answer is one that nginx understands, and what is let through to
// the engine is within its bounds.
func TestAuthAnswersAnything(t *testing.T) {
	names := append([]string{"X-Quota-Other", "Authorization"}, calls.Headers()...)
	rapid.Check(t, func(t *rapid.T) {
		src := granted()
		var headers [][2]string
		if rapid.Bool().Draw(t, "authorised") {
			headers = append(headers, asGateway)
		}
		for range rapid.IntRange(0, 5).Draw(t, "headers") {
			value := rapid.OneOf(rapid.StringMatching(`[ -~]{0,12}`),
				rapid.Map(rapid.Int64(), func(n int64) string { return strconv.FormatInt(n, 10) })).Draw(t, "value")
			headers = append(headers, [2]string{rapid.SampledFrom(names).Draw(t, "name"), value})
		}
		target := rapid.SampledFrom([]string{"/v1/quota/auth", "/v1/quota/auth/settle"}).Draw(t, "target")
		resp := changeWith(src, callOptions, request{http.MethodGet, target, "", headers})
		if s := resp.StatusCode; s != 200 && s != 401 && s != 403 ||
			(s == 200) != (resp.Header.Get("X-Quota-Status") == "200") {
			t.Fatalf("%d with X-Quota-Status %s", s, resp.Header.Get("X-Quota-Status"))
		}
		for _, c := range src.calls {
			if u := c.Usage; u.InputTokens < 0 || u.OutputTokens < 0 || u.InputTokens > 1e12 ||
				u.OutputTokens > 1e12 || c.TTL > 24*time.Hour || c.Seats > 1 {
				t.Fatalf("the engine is asked about %+v", c)
			}
		}
	})
}

package rls

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi"
)

// overHTTP is a source for the server of HTTP; what is not asked for here it does not have.
type overHTTP struct {
	httpapi.Source
	calls Source
}

func (o overHTTP) AskCalls(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error) {
	return o.calls.AskCalls(ctx, calls)
}

// saidOf is the answer of a limit by the agent that asks.
func saidOf(c coordinator.Call) coordinator.CallAnswer {
	back := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	lack := func(node string, d coordinator.Dimension, limit string) *coordinator.QuotaLack {
		return &coordinator.QuotaLack{Node: node, Dimension: d, Limit: limit, RetryAt: back, Text: "the " + limit + " of " +
			node + " is used up"}
	}
	switch c.Agent {
	case "budget":
		return coordinator.CallAnswer{State: coordinator.CallRefused,
			Lacks: lack("pool/b", coordinator.DimTotalTokens, "budget")}
	case "rate":
		return coordinator.CallAnswer{State: coordinator.CallRefused, Lacks: lack("pool", coordinator.DimRequests, "rate")}
	case "never":
		l := lack("pool/b", coordinator.DimTotalTokens, "budget")
		l.RetryAt = time.Time{}
		return coordinator.CallAnswer{State: coordinator.CallNever, Lacks: l}
	case "routed":
		a := coordinator.CallAnswer{State: coordinator.CallRefused,
			Lacks: lack("openai@a", coordinator.DimRequests, "provider")}
		a.Routes = []coordinator.RouteScore{{Service: coordinator.Service{Provider: "openai@a"}, Lacks: a.Lacks}}
		return a
	case "foreign":
		return coordinator.CallAnswer{State: coordinator.CallForeign, Agent: c.Agent}
	}
	return coordinator.CallAnswer{State: coordinator.CallPutBy}
}

// A refusal over gRPC says the same as over HTTP: there is one problem of a refusal.
func TestProblemIsThatOfHTTP(t *testing.T) {
	src := &fake{answer: saidOf}
	client := served(t, src)
	server := httpapi.New(overHTTP{calls: src}, nil, httpapi.Options{GatewayToken: []byte(token)})
	for agent, want := range map[string]string{
		"budget": "pool/b:total_tokens:budget", "rate": "pool:requests:rate", "never": "pool/b:total_tokens:budget",
		"routed": "openai@a:requests:provider",
	} {
		ask := httptest.NewRequest(http.MethodPost, "/v1/quota/consume",
			strings.NewReader(`{"reservation_id":"r1","agent_id":"`+agent+`"}`))
		ask.Header.Set("Authorization", "Bearer "+token)
		heard := httptest.NewRecorder()
		server.ServeHTTP(heard, ask)
		answer, err := client.ShouldRateLimit(as(t.Context(), token),
			&pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{saying("agent", agent)}})
		if err != nil {
			t.Fatal(err)
		}
		web, rpc := problemIn(t, heard.Body.Bytes()), problemIn(t, answer.GetRawBody())
		if got, _ := rpc["violated-policies"].([]any); !slices.Equal(got, []any{want}) {
			t.Errorf("%s: violated %v, want %s", agent, got, want)
		}
		// All that differs: the id that was given over HTTP, and the status, which is Envoy's own.
		if web["reservation_id"] != "r1" || rpc["reservation_id"] != nil || rpc["status"] != 429. ||
			web["status"] != float64(heard.Code) {
			t.Errorf("%s: %v over HTTP, %v over gRPC", agent, web, rpc)
		}
		delete(web, "reservation_id")
		delete(web, "status")
		delete(rpc, "status")
		if a, b := asText(t, web), asText(t, rpc); a != b {
			t.Errorf("%s:\nHTTP %s\ngRPC %s", agent, a, b)
		}
	}
}

// Of several descriptors the first that is over its limit has the word, and every limit that refuses
// one of them is named once. What no limit refuses violates none.
func TestProblemOfSeveral(t *testing.T) {
	client := served(t, &fake{answer: saidOf})
	for _, tc := range []struct {
		agents   string // in the order of the descriptors; "?": one that is at fault
		detail   string
		policies []any // nil: no problem of a limit
	}{
		{"free budget rate budget", "the budget of pool/b is used up",
			[]any{"pool/b:total_tokens:budget", "pool:requests:rate"}},
		{"rate foreign", "the rate of pool is used up", []any{"pool:requests:rate"}},
		{"foreign rate", "Agent foreign does not belong to the group", nil},
		{"free ?", "A descriptor of the gateway is refused: unit must be", nil},
	} {
		q := &pb.RateLimitRequest{}
		for agent := range strings.FieldsSeq(tc.agents) {
			d := saying("agent", agent)
			if agent == "?" {
				d = saying("agent", "x", "unit", "bytes")
			}
			q.Descriptors = append(q.Descriptors, d)
		}
		answer, err := client.ShouldRateLimit(as(t.Context(), token), q)
		if err != nil {
			t.Fatal(err)
		}
		p := problemIn(t, answer.GetRawBody())
		got, _ := p["violated-policies"].([]any)
		if detail, _ := p["detail"].(string); !strings.Contains(detail, tc.detail) || !slices.Equal(got, tc.policies) ||
			(p["type"] == gateway.QuotaExceededType) != (tc.policies != nil) {
			t.Errorf("%s: %v, want %q, violated %v", tc.agents, p, tc.detail, tc.policies)
		}
	}
}

func problemIn(t *testing.T, body []byte) (p map[string]any) {
	t.Helper()
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return p
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

package httpapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/credential"
)

// BenchmarkReserve is what the interface itself costs for one call, beside a handler that gives
// back what it was sent.
func BenchmarkReserve(b *testing.B) {
	secret := []byte("0123456789012345678901234567890123456789")
	src := &benchSource{answer: coordinator.CallAnswer{
		Agent: "agent_1", Group: "team-a", Provider: "openai", Model: "gpt-4o", Pool: "openai/gpt-4o",
		Amounts: coordinator.Amounts{1, 1200, 300, 1500, 12_000, 1}, Until: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC),
		Limits: []coordinator.QuotaLeft{
			{Node: "pool/team-a/agent_1", Dimension: coordinator.DimTotalTokens, Limit: "budget", Quota: 1e6, Left: 5e5,
				Window: 720 * time.Hour, Reset: time.Hour},
			{Node: "openai/gpt-4o", Dimension: coordinator.DimTotalTokens, Limit: "rate", Quota: 1e6, Left: 5e5,
				Window: time.Minute, Reset: time.Second},
		},
	}}
	body := []byte(`{"agent_id":"agent_1","provider":"openai","model":"gpt-4o","input_tokens":1200,"output_tokens":300}`)
	for name, handler := range map[string]http.Handler{
		"taskbus": New(src, http.NotFoundHandler(), Options{AgentSecret: secret}),
		"echo": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(got)
		}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				r := httptest.NewRequest(http.MethodPost, "/v1/quota/reserve", bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+credential.AgentToken(secret, "agent_1"))
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// benchSource answers every call alike.
type benchSource struct {
	fakeSource
	answer coordinator.CallAnswer
}

func (s *benchSource) AskCalls(context.Context, []coordinator.Call) ([]coordinator.CallAnswer, error) {
	return []coordinator.CallAnswer{s.answer}, nil
}

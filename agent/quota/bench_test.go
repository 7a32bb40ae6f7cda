package quota_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskbus/agent/quota"
)

// granting is a coordinator that grants everything at once, so that what is measured is the client.
type granting struct{}

func (granting) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"reservation_id":"r","granted":true,"expires_at":"` + time.Now().Add(time.Minute).UTC().
		Format(time.RFC3339) + `"}`
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r},
		nil
}

func benchClient(b *testing.B, calls int) *quota.Client {
	c, err := quota.New(quota.Options{URLs: []string{"http://one"}, Agent: "x", Token: "t",
		HTTP: &http.Client{Transport: granting{}}, Lease: quota.Lease{Calls: calls}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return c
}

// What a call costs besides the questions to the coordinator: out of leases of 8, and of 1000.
func BenchmarkAdmit(b *testing.B) {
	for name, calls := range map[string]int{"leases of 8": 8, "leases of 1000": 1000} {
		b.Run(name, func(b *testing.B) {
			c, call := benchClient(b, calls), taking(50, 50)
			b.ReportAllocs()
			for b.Loop() {
				p, err := c.Admit(context.Background(), call)
				if err != nil {
					b.Fatal(err)
				}
				p.Settle(used(50, 50), nil)
			}
		})
	}
}

// A streamed answer of 200 events through the transport, and without it.
func BenchmarkStream(b *testing.B) {
	text := strings.Repeat("data: {\"id\":\"x\",\"choices\":[{\"delta\":{\"content\":\" word\"}}]}\n\n", 200) +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":200}}\n\ndata: [DONE]\n\n"
	base := answers(200, "text/event-stream", text)
	for name, tr := range map[string]http.RoundTripper{"bare": base,
		"with quota": &quota.Transport{Client: benchClient(b, 1000), Base: base}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				resp, err := (&http.Client{Transport: tr}).Post(chat, "application/json", strings.NewReader(chatBody))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				if err := resp.Body.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

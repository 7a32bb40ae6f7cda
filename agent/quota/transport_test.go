package quota_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent/quota"
)

// provider is a stub of one.
type provider func(r *http.Request) (*http.Response, error)

func (p provider) RoundTrip(r *http.Request) (*http.Response, error) {
	defer func() { _ = r.Body.Close() }()
	return p(r)
}

// answers is a provider that gives one answer.
func answers(status int, kind, body string, headers ...string) provider {
	return func(r *http.Request) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		h := http.Header{"Content-Type": {kind}}
		for i := 0; i+1 < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)),
			ContentLength: int64(len(body)), Request: r}, nil
	}
}

// watched reports whether it was closed.
type watched struct {
	io.Reader
	closed bool
}

func (w *watched) Close() error { w.closed = true; return nil }

const (
	chat     = "https://api.openai.com/v1/chat/completions"
	chatBody = `{"model":"gpt-4o","max_tokens":100,"messages":[{"role":"user","content":"Hello"}]}`
)

// post sends a body through a transport and gives the answer, read to its end.
func post(t *testing.T, tr *quota.Transport, url, body string) (*http.Response, string) {
	t.Helper()
	resp, err := (&http.Client{Transport: tr}).Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// What a call has used is charged by the provider's word, whatever form it has; where there is none,
// what was expected; and the answer is what it was.
func TestTransportSettlesByUsage(t *testing.T) {
	const expected = (len(chatBody)+3)/4 + 100 // a quarter of the bytes, and max_tokens
	for name, c := range map[string]struct {
		kind, body string
		headers    []string
		want       int
	}{
		"JSON": {"application/json; charset=utf-8", `{"usage":{"prompt_tokens":19,"completion_tokens":10}}`,
			nil, 29},
		"a stream": {"text/event-stream",
			"data: {\"choices\":[]}\n\ndata: {\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":11}}\n\ndata: [DONE]\n\n",
			nil, 30},
		"a silent stream":    {"text/event-stream", "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", nil, expected},
		"compressed":         {"application/json", "\x1f\x8b", []string{"Content-Encoding", "gzip"}, expected},
		"nothing understood": {"text/html", "<p>usage</p>", nil, expected},
		"long JSON": {"application/json", `{"pad":"` + strings.Repeat("x", 1<<20) +
			`","usage":{"prompt_tokens":19,"completion_tokens":10}}`, nil, expected},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, pool(100_000, ""), func(r *rig) {
				client := r.client("x")
				resp, text := post(t, &quota.Transport{Client: client, Base: answers(200, c.kind, c.body, c.headers...)}, chat,
					chatBody)
				if resp.StatusCode != 200 || text != c.body {
					t.Errorf("%d with %d bytes, want the provider's %d", resp.StatusCode, len(text), len(c.body))
				}
				r.close(client)
				r.stands("one", c.want, 0)
			})
		})
	}
}

// A call that fails is not charged, whatever the failure, and its answer or error arrives as it was.
func TestFailedCallsAreReleased(t *testing.T) {
	broken := errors.New("connection reset")
	for name, c := range map[string]struct {
		base   provider
		status int
	}{
		"no answer":  {func(*http.Request) (*http.Response, error) { return nil, broken }, 0},
		"an error":   {answers(500, "application/json", `{"usage":{"prompt_tokens":19,"completion_tokens":10}}`), 500},
		"throttled":  {answers(429, "application/json", `{}`, "Retry-After", "7"), 429},
		"a bad call": {answers(400, "application/json", `{}`), 400},
		"out of time": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil,
				r.Context().Err()
		}, 0},
		"sent further": {answers(307, "text/html", ``), 307},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, pool(100_000, ""), func(r *rig) {
				client := r.client("x")
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, chat, strings.NewReader(chatBody))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := (&quota.Transport{Client: client, Base: c.base}).RoundTrip(req)
				switch {
				case c.status == 0 && !errors.Is(err, broken) && !errors.Is(err, context.DeadlineExceeded), c.status != 0 &&
					(err != nil || resp.StatusCode != c.status):
					t.Errorf("%+v, %v", resp, err)
				}
				r.close(client)
				r.stands("one", 0, 0)
			})
		})
	}
}

// What is refused looks as if the provider had refused it, or is an error; the body is closed, and
// the provider hears nothing.
func TestRefusalIsAnAnswer(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		client := r.client("x", func(o *quota.Options) { o.Patience = -1 })
		tr := &quota.Transport{Client: client, Base: provider(func(*http.Request) (*http.Response, error) {
			t.Error("the provider was asked")
			return nil, errors.New("no")
		})}
		admit(t, client, 1000).Settle(nil, nil)
		time.Sleep(time.Second)
		ask := func(status int, retries bool) {
			t.Helper()
			resp, text := post(t, tr, chat, chatBody)
			var problem struct {
				Status int    `json:"status"`
				Detail string `json:"detail"`
			}
			if err := json.Unmarshal([]byte(text), &problem); err != nil || resp.StatusCode != status ||
				problem.Status != status || problem.Detail == "" ||
				resp.Header.Get("Content-Type") != "application/problem+json" || (resp.Header.Get("Retry-After") != "") != retries {
				t.Errorf("%d %v %s", resp.StatusCode, resp.Header, text)
			}
		}
		ask(429, true)
		tr.Describe = func(_ *http.Request, c *quota.Call, ok bool) bool { *c.InputTokens = 2000; return ok }
		ask(422, false)
		tr.Describe = nil
		r.kill("one")
		ask(503, true)

		tr.Errors = true
		body := &watched{Reader: strings.NewReader(chatBody)}
		req, err := http.NewRequest(http.MethodPost, chat, body)
		if err != nil {
			t.Fatal(err)
		}
		var none *quota.Unavailable
		if resp, err := tr.RoundTrip(req); !errors.As(err, &none) || resp != nil || !body.closed {
			t.Errorf("%v, body closed: %v", err, body.closed)
		}
		r.start("two")
		r.close(client)
	})
}

// What is no call of a model passes without quota, and what is one can be corrected.
func TestDescribeDecides(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		client := r.client("x")
		tr := &quota.Transport{Client: client, Base: answers(200, "application/json", `{}`)}
		post(t, tr, "https://api.openai.com/v1/files", `{}`)
		if s := client.Stats(); s.Admitted != 0 {
			t.Errorf("%+v", s)
		}
		tr.Describe = func(req *http.Request, c *quota.Call, ok bool) bool {
			c.Provider, c.Operation = "mine", "summary"
			c.InputTokens, c.OutputTokens = new(int64(30)), new(int64(3))
			return !ok && req.URL.Host == "llm.internal"
		}
		post(t, tr, "https://llm.internal/generate", `anything`)
		post(t, tr, chat, chatBody) // Describe says that it is none
		r.close(client)
		r.stands("one", 33, 0)
	})
}

// An answer passes as it comes: each event is read before the next is sent. It is charged at its
// end; when it is closed early, or its context ends, for what has come until then.
func TestStreamsAreNotDelayed(t *testing.T) {
	const start = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25," +
		"\"output_tokens\":1}}}\n\n"
	const delta = "data: {\"type\":\"content_block_delta\"}\n\n"
	const end = "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n"
	for name, c := range map[string]struct {
		events []string
		close  bool
		want   int
	}{
		"to its end":        {[]string{start, delta, delta, end}, false, 25 + 15},
		"closed early":      {[]string{start, delta, delta}, true, 25 + 3}, // three events
		"its context ended": {[]string{start, delta}, false, 25 + 2},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, pool(100_000, ""), func(r *rig) {
				client := r.client("x")
				from, to := io.Pipe()
				tr := &quota.Transport{Client: client, Base: provider(func(req *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: from,
						Request: req}, nil
				})}
				ctx, cancel := context.WithCancel(context.Background())
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.anthropic.com/v1/messages",
					strings.NewReader(chatBody))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				buffer := make([]byte, 1024)
				for _, e := range c.events {
					go func() { _, _ = to.Write([]byte(e)) }() // a pipe: it returns when e has been read
					if n, err := resp.Body.Read(buffer); err != nil || string(buffer[:n]) != e {
						t.Fatalf("%q, %v; want %q before anything else is sent", buffer[:n], err, e)
					}
					time.Sleep(30 * time.Second) // the lease is extended meanwhile
				}
				switch {
				case name == "its context ended":
					cancel()
				case c.close:
				default:
					_ = to.Close()
					if _, err := resp.Body.Read(buffer); err != io.EOF {
						t.Error(err)
					}
				}
				if c.close {
					if err := resp.Body.Close(); err != nil {
						t.Error(err)
					}
				}
				synctest.Wait()
				r.close(client)
				r.stands("one", c.want, 0)
				cancel()
				_ = resp.Body.Close()
			})
		})
	}
}

// Neither a prompt nor a token is in what an error says.
func TestErrorsTellNoSecrets(t *testing.T) {
	inRig(t, pool(10, ""), func(r *rig) {
		client := r.client("x", func(o *quota.Options) { o.Patience = -1 })
		tr := &quota.Transport{Client: client, Errors: true, Base: answers(500, "text/plain", "")}
		for _, lost := range []bool{false, true} {
			if lost {
				r.kill("one")
			}
			_, err := (&http.Client{Transport: tr}).Post(chat, "application/json",
				strings.NewReader(`{"model":"m","max_tokens":9,"messages":["a prompt"]}`))
			if err == nil || !strings.Contains(err.Error(), "quota") || strings.Contains(err.Error(), "prompt") ||
				strings.Contains(err.Error(), "Bearer") {
				t.Errorf("%v", err)
			}
		}
		r.start("two")
		r.close(client)
	})
}

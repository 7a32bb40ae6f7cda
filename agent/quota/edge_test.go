package quota_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent/quota"
)

// What is no call of a model passes as it is, its body unread: a program that sends a body bit by
// bit, each when it has heard of the one before, would wait for ever else.
func TestBodiesOfOtherRequestsAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := quota.New(quota.Options{URLs: []string{"http://nobody"}, Token: "x"})
		if err != nil {
			t.Fatal(err)
		}
		body, write := io.Pipe()
		tr := &quota.Transport{Client: client, Base: provider(func(req *http.Request) (*http.Response, error) {
			if req.Body != io.ReadCloser(body) {
				t.Error("the body is not the one that was given")
			}
			return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
		})}
		req, err := http.NewRequest(http.MethodPost, "https://files.internal/upload", body)
		if err != nil {
			t.Fatal(err)
		}
		answered := false
		go func() {
			if _, err := tr.RoundTrip(req); err != nil {
				t.Error(err)
			}
			answered = true
		}()
		synctest.Wait()
		if !answered {
			t.Error("the transport waits for a body that it has no use for")
		}
		_ = write.Close()
		synctest.Wait()
		if err := client.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// pieces is a body whose type cannot be compared: == of two of them ends the process.
type pieces struct {
	_ []string
	io.Reader
}

func (pieces) Close() error { return nil }

// A body of any type can be sent, also one that comes with the means to send it again.
func TestBodyThatCannotBeCompared(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		client := r.client("x")
		tr := &quota.Transport{Client: client,
			Base: answers(200, "application/json", `{"usage":{"prompt_tokens":19,"completion_tokens":10}}`)}
		req, err := http.NewRequest(http.MethodPost, chat, pieces{Reader: strings.NewReader(chatBody)})
		if err != nil {
			t.Fatal(err)
		}
		req.GetBody = func() (io.ReadCloser, error) { return pieces{Reader: strings.NewReader(chatBody)}, nil }
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Error(err)
		}
		_ = resp.Body.Close()
		r.close(client)
		r.stands("one", 29, 0)
	})
}

// A base that gives neither an answer nor an error is at fault: the call is given back, and its caller gets
// an error from net/http, as without the transport.
func TestBaseThatGivesNothing(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		client := r.client("x")
		tr := &quota.Transport{Client: client,
			Base: provider(func(*http.Request) (*http.Response, error) { return nil, nil })}
		resp, err := (&http.Client{Transport: tr}).Post(chat, "application/json", strings.NewReader(chatBody))
		if err == nil {
			_ = resp.Body.Close()
			t.Error("no error")
		}
		r.close(client)
		r.stands("one", 0, 0)
	})
}

// Closing a client that is being closed waits for that: a program that ends when its second Close has
// returned would else lose what the first one was about to report.
func TestCloseTwice(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		client := r.client("x", func(o *quota.Options) { o.Lease.Calls = 1 })
		pass, err := client.Admit(context.Background(), taking(100, 10))
		if err != nil {
			t.Fatal(err)
		}
		r.set("one", func(c *coordinator) { c.deaf = true })
		pass.Settle(used(100, 10), nil)
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- client.Close(context.Background()) }()
		synctest.Wait()
		go func() { second <- client.Close(context.Background()) }()
		late, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := client.Close(late); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the third, which waits no longer: %v", err)
		}
		if len(first)+len(second) > 0 {
			t.Error("closed before what was used is told")
		}
		r.set("one", func(c *coordinator) { c.deaf = false })
		if err := errors.Join(<-first, <-second, client.Close(context.Background())); err != nil {
			t.Error(err)
		}
		r.stands("one", 110, 0)
	})
}

// A server that is no coordinator (a portal that answers everything, a URL that is a letter off) and
// says "OK" in JSON has granted nothing.
func TestOKThatGrantsNothing(t *testing.T) {
	for _, body := range []string{`{}`, `null`, `{"status":"ok"}`} {
		synctest.Test(t, func(t *testing.T) {
			client, err := quota.New(quota.Options{
				URLs: []string{"http://portal"}, Token: "x", Patience: -1,
				HTTP: &http.Client{Transport: answers(200, "application/json", body)},
			})
			if err != nil {
				t.Fatal(err)
			}
			var none *quota.Unavailable
			if pass, err := client.Admit(context.Background(), taking(10, 1)); !errors.As(err, &none) {
				t.Errorf("%s: a call is admitted: %v, %v", body, pass, err)
			}
			if a, err := client.Reserve(context.Background(), taking(10, 1)); !errors.As(err, &none) {
				t.Errorf("%s: a reservation is made: %+v, %v", body, a, err)
			}
			if a, err := client.Settle(context.Background(), "r-1", used(1, 1), nil); !errors.As(err, &none) {
				t.Errorf("%s: what was used is taken for told: %+v, %v", body, a, err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = client.Close(ctx) // what it could not give back is of no interest here
		})
	}
}

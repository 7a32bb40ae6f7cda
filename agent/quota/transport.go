package quota

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Transport is an http.RoundTripper that asks for quota before a call of a model and tells
// afterwards what it has used, by the usage fields of the provider's answer. What is no such call
// passes untouched. It is safe for concurrent use; its fields must not change meanwhile.
//
// A call's input is expected to be a quarter of its body's bytes; its output what it says at most
// (max_tokens and the like), else what such calls have used of late. It is settled at the end of the
// answer, a JSON document or a stream of events; at what is known if it is closed early; and at
// what was expected where the provider does not say: a stream of OpenAI does with stream_options
// {"include_usage": true}. A call that fails (no answer, or a status other than 2xx) is released.
type Transport struct {
	// Client that asks; required.
	Client *Client
	// Base makes the calls; nil: http.DefaultTransport.
	Base http.RoundTripper
	// Describe may correct what a request is taken for, before quota is asked for it: its group,
	// operation, provider, expected tokens. ok reports whether it was recognised, with c empty if not.
	// false: it passes without quota. The request's body is not to be read. nil: nothing is corrected.
	Describe func(r *http.Request, c *Call, ok bool) bool
	// Errors has what is refused returned as an error (*Refused, *Unavailable), and not as an
	// answer 429 (422, 503) with Retry-After, as a provider would: the libraries of providers know
	// what to do with these.
	Errors bool
}

// RoundTrip makes a call, if there is quota for it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, call, ok := r, Call{}, false
	if whose, is := calledBy(r); is { // of anything else the body is not touched
		body, err := beginning(r)
		if err != nil {
			closeBody(r)
			return nil, fmt.Errorf("quota: reading the request's body: %w", err)
		}
		call, ok = described(r, whose, body.start, body.size), true
		if body.rest != nil {
			sent = r.WithContext(r.Context()) // a copy: a RoundTripper leaves the request of its caller alone
			sent.Body = body.rest
		}
	}
	if t.Describe != nil {
		ok = t.Describe(r, &call, ok)
	}
	r = sent
	if !ok {
		return t.base().RoundTrip(r)
	}
	pass, err := t.Client.Admit(r.Context(), call)
	if err != nil {
		closeBody(r)
		return t.refuse(r, err)
	}
	begun := time.Now()
	resp, err := t.base().RoundTrip(r)
	if err != nil {
		if r.Context().Err() != nil {
			pass.Release(nil) // the caller's doing says nothing of the provider
		} else {
			pass.Release(&Response{})
		}
		return resp, err
	}
	if resp == nil { // against its contract; net/http says so
		pass.Release(nil)
		return nil, nil
	}
	heard := Heard(resp.StatusCode, time.Since(begun), resp.Header)
	if resp.StatusCode < 200 || resp.StatusCode > 299 || resp.Body == nil {
		pass.Release(heard)
		return resp, nil
	}
	t.meter(r.Context(), resp, pass, heard)
	return resp, nil
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// meter has a call settled when its answer has been read, or closed, or its context ends.
func (t *Transport) meter(ctx context.Context, resp *http.Response, pass *Pass, heard *Response) {
	m := &meter{ReadCloser: resp.Body, listen: listenTo(resp)}
	m.mu.Lock() // a context that has ended already waits
	defer m.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { m.end(false) })
	m.settle = func(u *Usage) {
		stop()
		pass.Settle(u, heard)
	}
	resp.Body = m
}

// listenTo is the part that finds the usage in an answer; nil: none can.
func listenTo(resp *http.Response) listener {
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case kind == "text/event-stream":
		return &events{}
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return &document{}
	}
	return nil
}

// refuse answers a call that was not admitted, as a provider would.
func (t *Transport) refuse(r *http.Request, err error) (*http.Response, error) {
	var refused *Refused
	var none *Unavailable
	isRefused, isNone := errors.As(err, &refused), errors.As(err, &none)
	if t.Errors || !isRefused && !isNone {
		return nil, err
	}
	status, after, body := http.StatusServiceUnavailable, time.Duration(0), []byte(nil)
	if isRefused {
		status, after, body = refused.status(), refused.RetryAfter, refused.body
	} else {
		after = none.RetryAfter
	}
	if body == nil {
		// texts and a number
		body, _ = json.Marshal(map[string]any{"title": http.StatusText(status), "status": status, "detail": err.Error()})
	}
	h := http.Header{"Content-Type": {"application/problem+json"}}
	if status != http.StatusUnprocessableEntity {
		h.Set("Retry-After", strconv.Itoa(int(max(1, math.Ceil(after.Seconds())))))
		h.Set("Retry-After-Ms", strconv.FormatInt(max(1, after.Milliseconds()), 10))
	}
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // a RoundTripper closes it, whatever becomes of the call
	}
}

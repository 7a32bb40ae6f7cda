package callcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"taskbus/coordinator/httpapi/calls"
)

// forwardTimeout bounds the wait for a coordinator.
const forwardTimeout = 10 * time.Second

// forwarded are the questions about calls: all of them need a token, which the coordinator looks at.
var forwarded = []string{"reserve", "extend", "settle", "release", "consume", "charge", "check", "auth", "auth/settle"}

const nobody = `{"title":"No coordinator answers","status":502,"detail":"Ask again, with the same id."}` + "\n"

const tooLarge = `{"title":"Body too large","status":413,"detail":"What is asked about a call has at most 8192 ` +
	`bytes."}` + "\n"

// newForwarder hands on what it is asked about calls, as it came, and gives back what is answered.
func newForwarder(urls []string, by http.RoundTripper) (http.Handler, error) {
	if by == nil {
		by = http.DefaultTransport
	}
	a := &anyOf{by: by}
	for _, text := range urls {
		u, err := url.Parse(strings.TrimSuffix(strings.TrimSpace(text), "/"))
		if err != nil {
			return nil, fmt.Errorf("URL of a coordinator: %w", err)
		}
		a.urls = append(a.urls, u)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: a, ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Cache-Control", "no-store")
			status, text := http.StatusBadGateway, nobody
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				status, text = http.StatusRequestEntityTooLarge, tooLarge
			}
			w.WriteHeader(status)
			// A reader that has gone away is no fault of ours.
			_, _ = io.WriteString(w, text)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation, ours := strings.CutPrefix(r.URL.Path, "/v1/quota/")
		if !ours || !slices.Contains(forwarded, operation) {
			http.NotFound(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, calls.MaxCallBody)
		proxy.ServeHTTP(w, r)
	}), nil
}

// anyOf asks one of the coordinators, first the one that has answered last; one that has not, or could not say, is
// asked last the next time.
type anyOf struct {
	urls []*url.URL
	by   http.RoundTripper
	last atomic.Int32
}

// RoundTrip asks the next one only where one was not reached at all: what was asked may have been done.
func (a *anyOf) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("read what is asked: %w", err)
		}
	}
	first := int(a.last.Load())
	var failed error
	for i := range a.urls {
		at := (first + i) % len(a.urls)
		to := r.Clone(r.Context())
		to.URL.Scheme, to.URL.Host, to.Host = a.urls[at].Scheme, a.urls[at].Host, ""
		to.URL.Path = a.urls[at].Path + r.URL.Path
		to.Body, to.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		answer, err := a.by.RoundTrip(to)
		if err == nil && !unable(answer) {
			a.last.Store(int32(at))
		} else {
			a.last.Store(int32((at + 1) % len(a.urls)))
		}
		if err == nil {
			return answer, nil
		}
		failed = err
		var unreached *net.OpError
		if !errors.As(err, &unreached) || unreached.Op != "dial" {
			break
		}
	}
	return nil, failed
}

// unable tells whether a coordinator says that it cannot answer: it does not lead, and reaches none that does.
func unable(answer *http.Response) bool {
	return answer.StatusCode >= 500 || answer.Header.Get(calls.StatusHeader) == "503"
}

package httpapi

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi/internal/web"
)

// A coordinator that stands by forwards changes to the one that leads, so that it does not matter which
// of them a load balancer picks. The admin token does not go along: where the leader answers is read
// from the journal, and writers of the journal must not get the token. What goes along is a
// signature of this one request, by the token that all coordinators share.

const (
	// forwardedHeader has when a forwarded change was signed, in seconds since 1970, a colon, and the
	// signature in hexadecimal digits.
	forwardedHeader = "X-Taskbus-Forwarded"
	// forwardedFor bounds how old a signature may be, and how far the clocks of two coordinators
	// are apart.
	forwardedFor = time.Minute
	// maxAnswered bounds the leader's answer, in bytes.
	maxAnswered = 1 << 20
)

// NewPeers is what coordinators ask each other with, whose certificates these authorities have signed
// (nil: those of the system): connections are kept, redirects not followed, because a token or a
// signature goes along. 0: the context of each request alone bounds how long it waits.
func NewPeers(authorities *x509.CertPool, timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: false,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// sign signs a change by the hash of the admin token: the token itself is not kept.
func sign(token *credential.Hashed, method, uri string, body []byte, at int64) string {
	sum := sha256.Sum256(body)
	mac := token.MAC(fmt.Appendf(nil, "taskbus change\n%s\n%s\n%d\n%x", method, uri, at, sum))
	return strconv.FormatInt(at, 10) + ":" + hex.EncodeToString(mac)
}

// signed reports whether a forwarded request was signed by the admin token of late, and reads its body.
func (p *permission) signed(w http.ResponseWriter, r *http.Request, now time.Time) bool {
	given := r.Header.Values(forwardedHeader)
	seconds, _, _ := strings.Cut(given[0], ":")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || len(given) != 1 || !p.token.Given() || now.Sub(time.Unix(at, 0)).Abs() > forwardedFor {
		return false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxChangeBody))
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return hmac.Equal([]byte(given[0]), []byte(sign(&p.token, r.Method, r.URL.RequestURI(), body, at)))
}

// byLeader is a change that the coordinator that leads makes: another one forwards it to that, once.
func (a *api) byLeader(change http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.leader == nil || r.Header.Get(forwardedHeader) != "" {
			change(w, r)
			return
		}
		if address := a.leader(); address != "" {
			a.forwardChange(w, r, address)
			return
		}
		change(w, r)
	}
}

// forwardChange has the leader answer what was asked here.
func (a *api) forwardChange(w http.ResponseWriter, r *http.Request, address string) {
	body, err := io.ReadAll(r.Body) // bounded (admin)
	if err != nil {
		web.BadBody(w, fmt.Sprintf("of at most %d bytes", maxChangeBody))
		return
	}
	uri := r.URL.RequestURI()
	request, err := http.NewRequestWithContext(r.Context(), r.Method, address+uri, bytes.NewReader(body))
	if err != nil {
		notForwarded(w, address, "its address is no URL; see http.advertise_url of its agents.yaml")
		return
	}
	request.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	request.Header.Set(forwardedHeader, sign(&a.permission.token, r.Method, uri, body, a.now().Unix()))
	response, err := a.peer.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the address is said already
		}
		notForwarded(w, address, "it does not answer ("+err.Error()+
			"); it may have made the change all the same, and every change may be repeated")
		return
	}
	defer func() { _ = response.Body.Close() }()
	if s := response.StatusCode; s == http.StatusUnauthorized || s == http.StatusForbidden {
		notForwarded(w, address,
			"it does not know what this one has signed: all coordinators need the same admin token (TASKBUS_ADMIN_TOKEN), "+
				"and clocks that are less than a minute apart")
		return
	}
	answered, err := io.ReadAll(io.LimitReader(response.Body, maxAnswered+1))
	if err != nil || len(answered) > maxAnswered {
		notForwarded(w, address, "its answer cannot be read to its end; the change may have been made, and may be repeated")
		return
	}
	if after := response.Header.Get(web.RetryAfter); after != "" {
		w.Header().Set(web.RetryAfter, after)
	}
	web.Send(w, response.StatusCode, response.Header.Get("Content-Type"), bytes.TrimSuffix(answered, []byte("\n")))
}

// notForwarded answers a change that the leader has not answered.
func notForwarded(w http.ResponseWriter, address, why string) {
	web.Problem(w, http.StatusServiceUnavailable, "Not done",
		"This coordinator stands by, and has forwarded the change to the one that leads, at "+address+": "+why+".")
}

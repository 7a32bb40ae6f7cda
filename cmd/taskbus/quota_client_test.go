package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbus/agent/quota"
)

// certified is a client that shows a certificate, of an agent that need not be its own.
func (a *authority) certified(url, agent string, shown ...tls.Certificate) *quota.Client {
	a.t.Helper()
	c, err := quota.New(quota.Options{URLs: []string{url}, Agent: agent, TLS: a.trusting(shown...), Patience: -1,
		Timeout: time.Minute})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		if err := c.Close(a.t.Context()); err != nil && a.t.Context().Err() == nil {
			a.t.Error(err)
		}
	})
	return c
}

// usedBy is what a coordinator says that an agent has used of its 1000 tokens.
func usedBy(t *testing.T, a *authority, url, agent string) float64 {
	t.Helper()
	resp, err := using(a.trusting()).Get(url + "/v1/quota/agents/" + agent)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var q struct {
		Nodes []struct {
			Name    string
			Budgets []struct{ Used, Reserved float64 }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&q); err != nil {
		t.Fatal(err)
	}
	for _, n := range q.Nodes {
		if n.Name == agent && len(n.Budgets) == 1 {
			if r := n.Budgets[0].Reserved; r != 0 {
				t.Errorf("%v tokens of %s are set aside still", r, agent)
			}
			return n.Budgets[0].Used
		}
	}
	t.Fatalf("no budget of %s in %+v", agent, q)
	return 0
}

// The Go client with a certificate, at a real coordinator: it spends the quota of the agent that the
// certificate names, and of no other, whatever it calls itself.
func TestClientWithACertificate(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	s, _ := startTLS(t, a)
	mine := a.issue("agent-1")
	takes := func(tokens int64) quota.Call {
		return quota.Call{InputTokens: &tokens, OutputTokens: new(int64)}
	}
	spent := func(when string, first, second float64) {
		t.Helper()
		for agent, want := range map[string]float64{"agent-1": first, "agent-2": second} {
			if got := usedBy(t, a, s.url, agent); got != want {
				t.Errorf("%s: %s has used %v, want %v", when, agent, got, want)
			}
		}
	}

	for _, name := range []string{"agent-1", ""} { // with and without its own id
		c := a.certified(s.url, name, mine)
		if answer, err := c.Consume(t.Context(), takes(30)); err != nil || answer.AgentID != "agent-1" {
			t.Errorf("as %q: %+v, %v", name, answer, err)
		}
	}
	spent("consumed twice", 60, 0)

	c := a.certified(s.url, "agent-1", mine)
	pass, err := c.Admit(t.Context(), takes(100))
	if err != nil {
		t.Fatal(err)
	}
	pass.Settle(&quota.Usage{InputTokens: 40}, nil)
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	spent("admitted and settled by a lease", 100, 0)

	var problem *quota.Problem
	if answer, err := a.certified(s.url, "agent-2", mine).Consume(t.Context(), takes(5)); !errors.As(err, &problem) ||
		problem.Status != http.StatusForbidden {
		t.Errorf("as another agent than its certificate's: %+v, %v; want 403", answer, err)
	}
	if _, err := a.certified(s.url, "agent-1").Consume(t.Context(), takes(5)); !errors.As(err, &problem) ||
		problem.Status != http.StatusUnauthorized {
		t.Errorf("without a certificate: %v, want 401", err)
	}
	var none *quota.Unavailable
	for what, c := range map[string]*quota.Client{
		"a coordinator of another authority": stranger.certified(s.url, "agent-1", mine),
		"a certificate of another authority": forging(t, a, s.url, stranger.issue("agent-1")),
		"a certificate whose time is over":   a.certified(s.url, "agent-1", a.outdated("agent-1")),
	} {
		if _, err := c.Consume(t.Context(), takes(5)); !errors.As(err, &none) ||
			!strings.Contains(err.Error(), "certificate") && !strings.Contains(err.Error(), "authority") {
			t.Errorf("%s: %v, want no answer because of it", what, err)
		}
	}
	spent("at the end", 100, 0)
}

// forging is a client that shows a certificate although the server did not name its authority.
func forging(t *testing.T, a *authority, url string, shown tls.Certificate) *quota.Client {
	t.Helper()
	config := a.trusting()
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
	c, err := quota.New(quota.Options{URLs: []string{url}, Agent: "agent-1", TLS: config, Patience: -1,
		Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) }) // it has told nothing
	return c
}

// A server that lets no client in without a certificate, as a proxy before the coordinators may: the
// client shows its own in every connection. One configuration of TLS serves many clients at a time.
func TestClientShowsItsCertificateWhereItMust(t *testing.T) {
	a := newAuthority(t)
	var mu sync.Mutex
	shown := make(map[string]int)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		shown[r.TLS.PeerCertificates[0].Subject.CommonName+" at "+r.URL.Path]++
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write([]byte(`{"granted":true,"reservation_id":"r"}`)); err != nil {
			t.Error(err)
		}
	}))
	ca := a.trusting(a.issue("server"))
	server.TLS = &tls.Config{Certificates: ca.Certificates, ClientCAs: ca.RootCAs,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are meant to fail
	server.StartTLS()
	defer server.Close()

	config := a.trusting(a.issue("agent-1"))
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			c, err := quota.New(quota.Options{URLs: []string{server.URL}, Agent: "agent-1", TLS: config, Patience: -1,
				Timeout: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			for range 3 {
				if _, err := c.Consume(t.Context(), quota.Call{}); err != nil {
					t.Error(err)
				}
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := shown["agent-1 at /v1/quota/consume"]; n != 12 || len(shown) != 1 {
		t.Errorf("%v, want agent-1's certificate with each of 4 · 3 questions", shown)
	}
	if config.NextProtos != nil {
		t.Errorf("the client has changed the configuration that it was given: %q", config.NextProtos)
	}
	var none *quota.Unavailable
	began := time.Now()
	if _, err := a.certified(server.URL, "agent-1").Consume(t.Context(), quota.Call{}); !errors.As(err, &none) ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("without a certificate: %v after %v, want no answer because of it", err, time.Since(began))
	}
}

package credential

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
)

// A coordinator without a token lets no request in, not even with an empty one.
func TestNoTokenIsNobodys(t *testing.T) {
	none, one := Hash(nil), Hash([]byte("thirty-two letters, or even more"))
	for _, tc := range []struct {
		kept  Hashed
		given string
		want  bool
	}{
		{none, "", false},
		{none, "x", false},
		{one, "", false},
		{one, "thirty-two letters, or even mor", false},
		{one, "thirty-two letters, or even more ", false},
		{one, "thirty-two letters, or even more", true},
	} {
		if tc.kept.Is(tc.given) != tc.want {
			t.Errorf("%q is let in: %v", tc.given, !tc.want)
		}
	}
	if none.Given() || !one.Given() {
		t.Error("whether there is a token is told wrongly")
	}
	other := Hash([]byte("another token of thirty-two letters"))
	if bytes.Equal(one.MAC([]byte("m")), other.MAC([]byte("m"))) ||
		bytes.Equal(one.MAC([]byte("m")), one.MAC([]byte("n"))) {
		t.Error("a code fits another token, or another message")
	}
}

func TestBearer(t *testing.T) {
	for _, tc := range []struct {
		header []string
		token  string
		ok     bool
	}{
		{nil, "", false},
		{[]string{"Bearer abc"}, "abc", true},
		{[]string{"bearer   abc"}, "abc", true}, // RFC 9110, 11.1: the scheme has no case
		{[]string{"Basic abc"}, "abc", false},
		{[]string{"Bearer"}, "", true},
		{[]string{"Bearer abc", "Bearer abc"}, "", false}, // which of them would count?
	} {
		if token, ok := Bearer(tc.header); token != tc.token || ok != tc.ok {
			t.Errorf("%q: %q, %v", tc.header, token, ok)
		}
	}
}

// A certificate that was shown, but not verified, says nothing.
func TestCertifiedIsVerified(t *testing.T) {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: "agent-1"}}
	shown := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
	if name, ok := Certified(shown); ok {
		t.Errorf("%q is taken for granted", name)
	}
	if _, ok := Certified(nil); ok {
		t.Error("without TLS somebody is certified")
	}
	shown.VerifiedChains = [][]*x509.Certificate{{c}}
	if name, ok := Certified(shown); name != "agent-1" || !ok {
		t.Errorf("%q, %v; want agent-1", name, ok)
	}
}

// Tokens of different agents, of peers, and of other secrets have nothing to do with each other.
func TestDerivedTokensDiffer(t *testing.T) {
	seen := make(map[string]string)
	for name, token := range map[string]string{
		"a": AgentToken([]byte("s"), "a"), "b": AgentToken([]byte("s"), "b"), "peer": AgentToken([]byte("s"), "peer"),
		"a of another secret": AgentToken([]byte("r"), "a"), "peers": PeerToken([]byte("s")),
	} {
		if other, taken := seen[token]; taken || len(token) != 64 {
			t.Errorf("the token of %s is that of %q: %s", name, other, token)
		}
		seen[token] = name
	}
}

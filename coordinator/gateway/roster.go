package gateway

import (
	"crypto/tls"
	"slices"

	"taskbus/coordinator/credential"
)

// Roster decides which requests come from a gateway.
type Roster struct {
	token credential.Hashed
	// names of certificates whose holders are gateways.
	names []string
}

// NewRoster knows gateways by a token, of which it keeps the hash only (empty: there is none), and
// by the common names of their certificates.
func NewRoster(token []byte, names []string) *Roster {
	return &Roster{token: credential.Hash(token), names: slices.Clone(names)}
}

// Known reports whether there can be any gateway.
func (g *Roster) Known() bool { return g.token.Given() || len(g.names) > 0 }

// Shown reports whether a request comes from a gateway: by its verified certificate if it has one (nil:
// no TLS), else by the one value of its header Authorization. It takes as long for any token.
func (g *Roster) Shown(authorization []string, connection *tls.ConnectionState) bool {
	if name, ok := credential.Certified(connection); ok {
		return slices.Contains(g.names, name)
	}
	given, ok := credential.Bearer(authorization)
	return ok && g.token.Is(given)
}

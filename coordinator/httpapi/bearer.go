package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
)

// hashedToken is a token of which nothing but its hash is kept.
type hashedToken struct {
	sum [sha256.Size]byte
	on  bool // there is one
}

// hashToken keeps the hash of a token; empty: there is none.
func hashToken(token []byte) hashedToken {
	return hashedToken{sha256.Sum256(token), len(token) > 0}
}

// is tells whether that is the token. Both are hashed first: the time that the comparison takes then
// tells neither where a guess goes wrong nor how long the token is.
func (h *hashedToken) is(given string) bool {
	sum := sha256.Sum256([]byte(given))
	return h.on && subtle.ConstantTimeCompare(sum[:], h.sum[:]) == 1
}

// bearerOf is the token of a header Authorization that is there once.
func bearerOf(authorization []string) (token string, ok bool) {
	if len(authorization) != 1 {
		return "", false
	}
	scheme, given, _ := strings.Cut(authorization[0], " ")
	return strings.TrimLeft(given, " "), strings.EqualFold(scheme, "Bearer")
}

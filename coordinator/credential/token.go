package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"strings"
)

// Hashed is a token of which nothing but its hash is kept.
type Hashed struct {
	sum   [sha256.Size]byte
	given bool
}

// Hash keeps the hash of a token; empty: there is none.
func Hash(token []byte) Hashed {
	return Hashed{sha256.Sum256(token), len(token) > 0}
}

// Given tells whether there is a token.
func (h *Hashed) Given() bool { return h.given }

// Is tells whether that is the token. Both are hashed first: the time that the comparison takes then
// tells neither where a guess goes wrong nor how long the token is.
func (h *Hashed) Is(given string) bool {
	sum := sha256.Sum256([]byte(given))
	return h.given && subtle.ConstantTimeCompare(sum[:], h.sum[:]) == 1
}

// Bearer is the token of a header Authorization that is there once.
func Bearer(authorization []string) (token string, ok bool) {
	if len(authorization) != 1 {
		return "", false
	}
	scheme, given, _ := strings.Cut(authorization[0], " ")
	return strings.TrimLeft(given, " "), strings.EqualFold(scheme, "Bearer")
}

// MAC is the HMAC-SHA256 of a message under the hash: a holder of the token can make it, too.
func (h *Hashed) MAC(message []byte) []byte {
	mac := hmac.New(sha256.New, h.sum[:])
	mac.Write(message)
	return mac.Sum(nil)
}

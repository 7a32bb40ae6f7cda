package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// AgentToken is the bearer token by which an agent shows over HTTP who it is: the
// HMAC-SHA256 of "agent:" and its id under the secret, in hexadecimal. A holder of the
// token of one agent learns nothing of the others'.
func AgentToken(secret []byte, agent string) string {
	return derived(secret, "agent:"+agent)
}

// PeerToken is the token by which coordinators with the same secret know each other.
func PeerToken(secret []byte) string {
	return derived(secret, "peer")
}

func derived(secret []byte, whose string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(whose))
	return hex.EncodeToString(mac.Sum(nil))
}

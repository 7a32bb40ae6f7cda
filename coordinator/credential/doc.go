// Package credential answers "who is this?" of a token or a certificate that was shown: the hash of a
// token that was configured ([Hashed]), the tokens that are derived from a secret ([AgentToken],
// [PeerToken]), what a request shows ([Bearer], [Certified]).
//
// It must never keep a configured token itself, nor take longer for a guess that is nearly right. It
// decides nothing about what somebody may do.
package credential

// Package credential answers one question: whose is this token or certificate? It has the hash of a
// configured token ([Hashed]), the tokens that are derived from a secret ([AgentToken], [PeerToken]),
// and what a request shows ([Bearer], [Certified]).
//
// It must never keep a configured token itself, nor take longer for a guess that is nearly right. It
// decides nothing about permissions.
package credential

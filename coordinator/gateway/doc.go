// Package gateway is what questions about LLM calls over HTTP and over gRPC have in common.
//
// It answers "does a gateway ask?" ([Roster]), "what do the headers say of the limits, and when may
// one ask again?" ([RateLimits], [RetryAfter], [Later]), "what is the body of a refusal?"
// ([QuotaRefusal]) and "why is there no answer?" ([WhyUnanswered]).
//
// It must never decide: what is granted has been decided by the engine, and what is said is made of
// its answer alone. It must never name an address, a token, or another agent's use.
package gateway

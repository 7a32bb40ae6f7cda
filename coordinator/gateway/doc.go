// Package gateway is what those who ask about LLM calls have in common, over HTTP and over gRPC
// alike: who is a gateway, and the words in which an answer is told.
//
// It answers "does a gateway ask?" ([Roster]), "what do the headers say of the limits, and when may
// one ask again?" ([RateLimits], [RetryAfter], [Later]), "what is the body of a refusal?"
// ([QuotaRefusal]) and "why has nobody answered?" ([WhyUnanswered]).
//
// It must never decide: what is granted has been decided by the engine, and what is told is made of
// its answer alone. It must never name an address, a token, or another agent's use.
package gateway

// Package callgate answers "which coordinator answers this question about LLM calls?"
//
// The engine, where this coordinator leads; else the leader over HTTP; else package onloss, as far as quotas.yaml lets
// each coordinator admit calls by itself. What was admitted so is reported to the next leader that can be asked.
//
//	gate.go     one question: asked, forwarded, or answered without a leader
//	waiting.go  questions that wait for the engine
//	report.go   calls that are to be reported to a leader
//	alone.go    the time without a leader, for people
//	metrics.go  what is counted
//
// # What it must never do
//
// It decides nothing: the engine does, or onloss. It does not know the session: the caller says with each question
// which coordinator leads.
package callgate

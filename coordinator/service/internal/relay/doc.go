// Package relay answers "what does a coordinator publish for an agent that reports over HTTP, and may it report again
// already?"
//
// # What it must never do
//
// It publishes nothing, and asks the engine no more than once a second, however many agents report.
package relay

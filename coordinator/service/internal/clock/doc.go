// Package clock answers "what time is it, and does the broker agree?"
//
//	steady.go  the time that the engine is given
//	broker.go  the broker's clock, beside ours
//
// # What it must never do
//
// It sets no clock and ends no session: whether a coordinator may lead is for the session to say, with what it is
// answered.
package clock

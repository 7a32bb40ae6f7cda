// Package vetting answers "what does this message say, and may its sender say it?"
//
//	vetting.go   messages of each kind, read or refused
//	requests.go  cancels, bids and claims, which come by one queue
//	senders.go   by which key and of which user a message came
//
// # What it must never do
//
// It posts nothing to the engine, and acknowledges, parks and answers nothing: the session does, with the verdict. It
// must never log a payload.
package vetting

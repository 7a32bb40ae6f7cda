// Package history follows the journal into a database of usage, and answers questions from it.
//
// A [History] follows the journal with a session of its own, beside the coordinator and with nothing in
// common with it: when its database is slow or away, it is late, and nothing else is affected. What it had
// not written when it was stopped it reads again from the journal, as well as which reservations are open: only
// those that are so for longer than a minute are stored.
//
// # Its parts
//
//	history.go   what it is made of, and its life
//	states.go    what it may be doing
//	follow.go    reading on from where the database is
//	rebuild.go   making the rows anew, as far as the journal reaches back
//	stream.go    the journal's messages, one after the other
//	ask.go       questions
//
// # What it must never do
//
// It never waits for the coordinator, nor the coordinator for it. It decides nothing of what
// counts (package usage) and knows no database (package store). Of a database that was named
// by a URL it logs no secret.
package history

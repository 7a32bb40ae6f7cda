// Package outbox answers "what is to be published, in which form, and what waits for the broker's answer?"
//
//	queue.go    what waits to be published, in order
//	tickets.go  publications with an awaited confirm
//	publications.go  how each effect is published
//	offers.go   offers and rejections gather, to go together or later
//
// # What it must never do
//
// It publishes nothing: the goroutine that empties it does, and gives the tokens.
package outbox

// Package outbox answers "what is to be published, in which form, and what waits for the broker's answer?"
//
//	queue.go    what waits to be published, in order
//	tickets.go  publications with an awaited confirm
//	outputs.go  how many bytes of outputs are held
//	notices.go  what the broker must have before a delivery may be settled
//	publications.go  how each effect is published
//	offers.go   offers and rejections gather, to go together or later
//
// # What it must never do
//
// It publishes nothing by itself: the goroutine that empties the queue does, and calls what is in it. It acknowledges
// nothing: the session does, when it hears that a delivery may be settled.
package outbox

// Package background answers "what does a goroutine of a session do next?"
//
//	queue.go  what waits for it, one after the other
//	time.go   what it does from time to time
//
// # What it must never do
//
// It begins no goroutine and knows no session: it is given when that ends.
package background

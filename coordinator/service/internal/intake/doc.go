// Package intake answers "what does this delivery say, which deliveries are held, and what became of each?"
//
//	read.go        what a delivery says, as an event
//	deliveries.go  the deliveries that are not acknowledged yet
//	books.go       every delivery, and what became of it
//	requests.go    cancels by message that are not done with yet
//	window.go      how many tasks are taken
//	fence.go       where what stood in a stream before the session ends
//
// # What it must never do
//
// It subscribes and acknowledges nothing, and posts nothing: the session does, with what it is answered.
package intake

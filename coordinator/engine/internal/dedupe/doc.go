// Package dedupe answers "was this task id seen before, and what became of it?"
//
// A Window has one Record for each task id seen within a time, and for a number of ids at most. A
// record takes 40 bytes and its place in the index 12 to 19; both grow and shrink in small steps, so
// that no task pays for all the others. An Image is a copy for another goroutine that copies almost
// nothing.
//
//	window.go  records, their life in the window, reasons of cancels
//	blocks.go  records in the order in which they were seen; images
//	index.go   from the key of an id to its record
//
// # What it must never do
//
// It reads no clock and calls nothing of its caller. It knows neither tasks nor agents: Record.Ref is a number of the
// caller's. It never drops the record of an open task by itself: Evict hands it to the caller, which
// drops or keeps it.
package dedupe

// Package unresolved answers "may the broker deliver the message of this task again although it is done with?"
//
// A session that ends leaves two things open: dispatches that were published and never answered, so that the
// messages of their tasks are the broker's, and acknowledgements that were under way and may be lost with it. Should
// such a task have ended badly by the time its message comes again, that would look like a new submission.
//
// Messages counts, by task, what may come in the session at hand. It knows neither tasks nor their ends, and
// acknowledges nothing. The kernel says what is published, acknowledged and lost, and decides what a message is.
package unresolved

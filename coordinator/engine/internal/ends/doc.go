// Package ends answers "which ends of tasks must be announced again, and with what?"
//
// An end may have to be announced again: because the broker has not taken it, or because the leader that announced
// it has died. And a result may come for a dispatch of which nothing but the record of its id is left. What is said
// then is to be as whole as the first time. Ends keeps
//
//   - the tasks of the latest dispatches that were let go of (Keep, Task, Recent);
//   - failures that no delivery stands behind: the broker does not remind of them, so they are published in every
//     session until they are acknowledged (AddFailure, AckFailure, Failures);
//   - the tasks of which the end was announced while results were read again (Announce, IsAnnounced).
//
// It publishes and records nothing, and knows neither open tasks nor the dedupe window.
package ends

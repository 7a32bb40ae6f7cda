// Package task answers: how are tasks given, what becomes of each, and why?
//
// It is `taskbus submit`, `tasks`, `explain`, `whatif` and `dead`. It publishes as any producer would, and must never
// decide anything about a task itself.
package task

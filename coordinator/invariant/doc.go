// Package invariant answers "what must always hold?" of the books of a coordinator.
//
// It must never check anything: that is for the packages that have the books.
package invariant

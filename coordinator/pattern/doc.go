// Package pattern answers one question: does a text match a regular expression that the program may never ask for?
//
// It must never compile an expression before a text is held against it: the program has dozens, and most starts of
// it are of a command that needs none.
package pattern

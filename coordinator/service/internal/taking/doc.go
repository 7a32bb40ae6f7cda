// Package taking answers "by which consumers does a session take tasks?"
//
// A window is read by several consumers, which come and go as the sizes of tasks change.
//
// # What it must never do
//
// It does not know what is taken, and acknowledges nothing.
package taking

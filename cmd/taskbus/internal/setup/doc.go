// Package setup answers: is what Taskbus needs there, and in order?
//
// It is `taskbus check`, `doctor` and `topology`: the files, and what should be at the broker. The doctor must never
// change anything, and nothing here may read a queue that is no stream.
package setup

// Package nearest answers "which name was meant?" of one that is not known.
//
// It must never offer a name that is not known, or one that merely has some letters in common.
package nearest

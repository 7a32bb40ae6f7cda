// Package billing answers: what is charged for a call or task, and where?
//
// A Directory finds by the names in a request, quotas.yaml and its prices the Charge and the Path of nodes that it
// goes to; what is not stated it has package estimates guess, and says which amounts are guesses. It must never know
// what is used or what a limit allows, change after it is made, or count money in floating point.
package billing

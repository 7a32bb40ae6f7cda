// Package recent answers: what became of recent tasks?
//
// It keeps the newest tasks with their attempts. A leader notes what it does, a standby the same out of the journal
// ([Tasks.Follow]), in one ring, so that the next leader shows what this one did. It must never be asked
// by what decides: it forgets.
package recent

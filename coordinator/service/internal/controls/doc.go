// Package controls answers: what do operators change of quotas.yaml at this moment, and what are the quotas with that?
//
// The engine has the list of standing changes, which is in the journal. Here it is merged with the files, because the
// engine reads none: by a leader, which works a change out before it is made, and by a standby, which has read of it.
//
//	controls.go  what is in force: the files with what stands
//	change.go    a change worked out, and refused if the quotas would not be in order with it
//	requests.go  what operators ask for, and the answers
//
// # What it must never do
//
// It decides nothing that the engine has not in its journal: a change is made by [Leader], and is in force when the
// engine says that it stands.
package controls

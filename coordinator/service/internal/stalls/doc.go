// Package stalls answers "does work wait, and does nothing come of it?"
//
// A leader that cannot go on is worse than none: its lock keeps a standby away. What is counted here notices that
// work waits and nothing comes of it, whatever the reason is, so that the session ends and another leads,
// or this one anew.
//
// # What it must never do
//
// It counts nothing itself, has no clock, and ends no session: it is given what was counted, and says what that means.
package stalls

// Package dead answers: what lies in task.dead, and what do operators do with it?
//
// Each request consumes the queue for a moment, holds all of it unacknowledged, acts on some of it and gives the rest
// back. A message leaves the queue by an acknowledgement alone: of one that is sent again after the broker has
// confirmed the new one. Whatever ends the process in between leaves at most a copy.
//
// # What it must never do
//
// It never acknowledges what the broker has not confirmed elsewhere, unless it is to be dropped, and keeps no more of a
// message than a request has asked for.
package dead

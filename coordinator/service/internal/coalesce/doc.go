// Package coalesce answers "which of the many reports of progress go on?": the latest of each task, five times a
// second.
//
// It must never hold up an agent or another agent's report, and never keep more than its limits say: what is too much
// is dropped, because a later report says more.
package coalesce

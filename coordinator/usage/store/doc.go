// Package store keeps the rows of package usage in a database, and sums them.
//
// Sums are by time, group, agent, provider and model.
//
// A [Store] is a SQLite file or a PostgreSQL database: the same statements, the same tables
// (migrations/). Its rows and the mark up to where the journal is in them are changed in one
// transaction, and only if the mark is the one that the change begins at ([ErrMoved]). So a
// change that comes twice changes nothing, a crash loses nothing, and several coordinators may
// share one database. What another program has made is refused before anything is changed in it,
// and what only an operator can mend says so ([UnusableError]). conformance_test.go holds both to it.
//
// # What it must never do
//
// It decides nothing about what counts; it starts no goroutine of its own; no password of a
// database is in its errors.
package store

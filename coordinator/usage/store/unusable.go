package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	"modernc.org/sqlite"
)

// The codes of SQLite for files that others use, and for those of which nothing can be made; its details
// are in higher bits.
const (
	sqliteBusy    = 5
	sqliteLocked  = 6
	sqliteCorrupt = 11
	sqliteNotADB  = 26
)

// UnusableError says that a place cannot be used until an operator has mended it: trying again is of no
// use. Its text says what to do.
type UnusableError struct {
	// Why it is of no use, and what to Do.
	Why, Do string
	// Err is what the database said; nil if it was not that.
	Err error
}

func (e *UnusableError) Error() string {
	why := e.Why
	if e.Err != nil {
		why += " (" + e.Err.Error() + ")"
	}
	return why + ": " + e.Do
}

func (e *UnusableError) Unwrap() error { return e.Err }

// Passes reports whether an error says that another program uses the database at the moment.
func Passes(err error) bool {
	var said *sqlite.Error
	if errors.As(err, &said) {
		code := said.Code() & 0xff
		return code == sqliteBusy || code == sqliteLocked
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// ErrGone says that the file was deleted, or another one put in its place, while it was open:
// what is written now could not be found. The owner of the store closes it and opens it anew.
var ErrGone = errors.New("the file was deleted or replaced while it was in use")

// Gone reports whether the file is still the one that was opened: nil or ErrGone. It asks the
// file system alone, and never says so of a PostgreSQL database.
func (s *Store) Gone() error {
	if s.file == nil {
		return nil
	}
	if now, err := os.Stat(s.name); err == nil && os.SameFile(now, s.file) {
		return nil
	}
	return fmt.Errorf("the history in %s: %w", s.name, ErrGone)
}

// wrong says what was being done when something went wrong, and what to do about a broken file.
func (s *Store) wrong(doing string, err error) error {
	var said *sqlite.Error
	if errors.As(err, &said) {
		switch said.Code() & 0xff {
		case sqliteNotADB:
			err = s.broken("the file is no SQLite database", err)
		case sqliteCorrupt:
			err = s.broken("the file is damaged", err)
		}
	}
	return fmt.Errorf("%s in %s: %w", doing, s.name, err)
}

// broken is the error of a file of which nothing can be made.
func (s *Store) broken(why string, err error) error {
	return &UnusableError{Why: why, Err: err,
		Do: fmt.Sprintf("move %[1]s away, and %[1]s-wal and %[1]s-shm with it if they are there, "+
			"then run `taskbus quota history --rebuild`: it makes the history anew from the journal, as far as that reaches "+
			"back",
			s.name)}
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Store keeps rows of usage. It is safe for concurrent use.
type Store struct {
	// db is for writing rows, reads for asking for them: however many ask, writing does not wait
	// for a connection.
	db, reads *sql.DB
	// marks is what parameters are called: "$1" or "?1".
	mark string
	name string
	// file is what was opened; nil if it is no file.
	file os.FileInfo
}

// ErrMoved says that the rows are not at the mark that a change begins at: another writer has changed them.
// Nothing was changed; State says where they are now.
var ErrMoved = errors.New("the history has moved on: another coordinator writes to it, too")

// Postgres reports whether a place is the URL of a PostgreSQL database.
func Postgres(place string) bool {
	return strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://")
}

// CheckURL says what is wrong with the URL of a PostgreSQL database, without repeating any of it.
func CheckURL(place string) error {
	if _, err := pgx.ParseConfig(place); err != nil {
		return errors.New(
			"is not the URL of a PostgreSQL database; write postgres://user:password@host:5432/database?sslmode=verify-full, " +
				"with special characters in user and password percent-encoded")
	}
	return nil
}

// Open opens the database at a place, a SQLite file or the URL of a PostgreSQL database, and
// brings its tables up to date; the file and its directory are made where they are missing, for
// their owner alone. UnusableError: it is another program's, or broken. The caller closes it.
func Open(ctx context.Context, place string) (*Store, error) {
	s, err := open(place)
	if err != nil {
		return nil, err
	}
	err = s.migrate(ctx)
	if err == nil && s.file != nil {
		// Readers do not wait for writers. It stays in the file: not before that is ours.
		_, err = s.db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	}
	if s.Gone() != nil {
		err = ErrGone
	}
	if err != nil {
		return nil, errors.Join(s.wrong("open the history", err), s.Close())
	}
	return s, nil
}

func open(place string) (*Store, error) {
	if Postgres(place) {
		cfg, err := pgx.ParseConfig(place)
		if err != nil {
			return nil, fmt.Errorf("open the history: the URL %w", CheckURL(place))
		}
		s := &Store{db: stdlib.OpenDB(*cfg), reads: stdlib.OpenDB(*cfg), mark: "$",
			name: fmt.Sprintf("PostgreSQL, database %s at %s:%d", cfg.Database, cfg.Host, cfg.Port)}
		return s.bounded(), nil
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the history: %w", err)
	}
	// It says what each tenant uses: only its owner may read it.
	file, err := os.OpenFile(place, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the history: %w", err)
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("open the history: %w", err)
	}
	// What a power failure takes off the end is read from the journal again, for the mark goes with
	// it. SQLite makes no file of its own (rw) but those beside this one, which get its mode: one that
	// it made for a later connection, after ours was deleted, could be read by others.
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "synchronous(NORMAL)"},
		"mode": {"rw"}}
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: place}).EscapedPath(), RawQuery: query.Encode()}
	s := &Store{mark: "?", name: place, file: info}
	for _, db := range []**sql.DB{&s.db, &s.reads} {
		if *db, err = sql.Open("sqlite", name.String()); err != nil {
			return nil, fmt.Errorf("open the history in %s: %w", place, err)
		}
	}
	return s.bounded(), nil
}

// bounded is the store with as many connections as it may open.
func (s *Store) bounded() *Store {
	s.db.SetMaxOpenConns(1)
	s.reads.SetMaxOpenConns(3)
	return s
}

// Name of the place for people, without a secret.
func (s *Store) Name() string { return s.name }

// Close closes the database.
func (s *Store) Close() error { return errors.Join(s.db.Close(), s.reads.Close()) }

// Exec runs a statement by itself, for tests that meddle with the tables.
func (s *Store) Exec(ctx context.Context, statement string) error {
	_, err := s.db.ExecContext(ctx, statement)
	return err
}

// text is a statement in the words of the database.
func (s *Store) text(query string) string {
	if s.mark == "$" {
		return query
	}
	return strings.ReplaceAll(query, "$", s.mark)
}

// within runs f in a transaction, all of which is done or nothing.
func (s *Store) within(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // what matters is why
		return err
	}
	return tx.Commit()
}

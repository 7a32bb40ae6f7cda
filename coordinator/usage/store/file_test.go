package store_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/store"
)

// raw runs statements in a SQLite file as another program would.
func raw(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statements); err != nil {
		t.Fatal(err)
	}
}

func applicationID(t *testing.T, path string) (id int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("PRAGMA application_id").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// refused opens a place that must not be, and gives the error.
func refused(t *testing.T, place string) error {
	t.Helper()
	s, err := store.Open(t.Context(), place)
	if err == nil {
		s.Close()
		t.Fatal("it is opened")
	}
	var unusable *store.UnusableError
	if !errors.As(err, &unusable) {
		t.Errorf("it would be tried again and again: %v", err)
	}
	return err
}

// The file of another program, or none of SQLite, is left as it is, to the byte; the error says
// which file it is and what to do.
func TestSQLiteRefusesAnotherFile(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string)
		want []string
	}{
		"no database": {func(path string) {
			const notes = "this is no database, but somebody's notes, and they are longer than a header of one hundred bytes," +
				" which they must be"
			if err := os.WriteFile(path, []byte(notes), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"the file is no SQLite database", "move ", "taskbus quota history --rebuild"}},
		"another's customers": {func(path string) { raw(t, path, "CREATE TABLE customers (name TEXT)") },
			[]string{"belongs to another program (it has a table customers)", "TASKBUS_HISTORY"}},
		"another's views": {func(path string) { raw(t, path, "CREATE VIEW v AS SELECT 1") }, []string{"it has a table v"}},
		"a number that is not ours": {
			func(path string) { raw(t, path, "PRAGMA application_id = 7; CREATE TABLE x (y); DROP TABLE x") },
			[]string{"belongs to another program (its application_id is 7)", "TASKBUS_HISTORY"}},
		"a table called as one of ours": {func(path string) { raw(t, path, "CREATE TABLE usage_rows (day TEXT)") },
			[]string{"a table usage_rows that taskbus has not made", "move "}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "another.db")
			c.make(path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text := refused(t, path).Error()
			for _, want := range append(c.want, path) {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in: %s", want, text)
				}
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
				t.Errorf("the file has %d bytes, had %d, and is another: %v", len(after), len(before), err)
			}
		})
	}
}

// A history that was made before files said whose they are is taken over as it is, and says so from then
// on. One that had come into another program's file goes on, and the file stays theirs.
func TestSQLiteFilesOfBefore(t *testing.T) {
	const ours = 0x54427573 // "TBus"
	for name, c := range map[string]struct {
		beside string
		id     int64
	}{
		"a file of its own": {"PRAGMA application_id = 0", ours},
		"in another's":      {"PRAGMA application_id = 0; CREATE TABLE customers (name TEXT)", 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.db")
			s, err := store.Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			next := usage.NoMark()
			next.Offset = 5
			row := usage.Row{Key: usage.Key{Day: "2026-11-22", Group: "g"}, Counts: usage.Counts{Requests: 1}}
			if err := errors.Join(s.Apply(t.Context(), &usage.Batch{From: usage.NoMark(), To: next, Rows: []usage.Row{row}}),
				s.Close()); err != nil {
				t.Fatal(err)
			}
			if id := applicationID(t, path); id != ours {
				t.Errorf("a new file has the id %#x", id)
			}
			raw(t, path, c.beside)
			s = open(t, path)
			if rows, _, err := s.Usage(t.Context(), usage.Query{By: usage.ByDay}); err != nil || len(rows) != 1 ||
				rows[0] != row {
				t.Errorf("the rows are %+v, %v", rows, err)
			}
			if id := applicationID(t, path); id != c.id {
				t.Errorf("the file has the id %#x, want %#x", id, c.id)
			}
		})
	}
}

// A file that is damaged while it is in use says what to do with it, whatever is asked.
func TestSQLiteDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // all is in the file, nothing beside it
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(text); i++ { // the header and the list of tables are in the first page
		text[i] = 0xff
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = store.Open(t.Context(), path)
	if err == nil {
		defer s.Close()
		_, err = s.Mark(t.Context())
	}
	var unusable *store.UnusableError
	if !errors.As(err, &unusable) || !strings.Contains(err.Error(), "the file is damaged") ||
		!strings.Contains(err.Error(), "taskbus quota history --rebuild") {
		t.Errorf("got %v", err)
	}
}

// A file that is deleted or replaced while it is open is missed, at once; SQLite makes none in
// its place. The files of a history are their owner's alone.
func TestSQLiteGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	s := open(t, path)
	next := usage.NoMark()
	next.Offset = 1
	if err := errors.Join(s.Gone(), s.Apply(t.Context(), &usage.Batch{From: usage.NoMark(), To: next})); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	// Long questions at one time, for which connections are opened: answered of what was open, or
	// not at all.
	const long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) SELECT count(*) FROM n"
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() { _ = s.Exec(t.Context(), long) })
	}
	wait.Wait()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a file again: %v", err)
	}
	if err := s.Gone(); !errors.Is(err, store.ErrGone) || !strings.Contains(err.Error(), path) {
		t.Errorf("deleted, it says %v", err)
	}
	again := open(t, path)
	if err := s.Gone(); !errors.Is(err, store.ErrGone) {
		t.Errorf("replaced, it says %v", err)
	}
	// When the old one is closed, what is beside the new one stays.
	if err := errors.Join(again.Apply(t.Context(), &usage.Batch{From: usage.NoMark(), To: next}), s.Close(),
		again.Gone()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		t.Errorf("the log of the new file: %v, %v", info, err)
	}
	if m, err := again.Mark(t.Context()); err != nil || m != next {
		t.Errorf("the new one is at %+v, %v", m, err)
	}
}

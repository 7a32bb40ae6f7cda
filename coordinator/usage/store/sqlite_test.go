package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/store"
	"taskbus/coordinator/usage/store/storetest"
	"taskbus/tests/postgrestest"
)

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) string {
		// A directory that is not there yet, and letters that mean something in URLs.
		return filepath.Join(t.TempDir(), "taskbus state", "50%?#ä", "history.db")
	})
}

// A file that is no database is left as it is.
func TestSQLiteRefusesAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	const notes = "this is no database, but somebody's notes, and they are longer than a header of one hundred bytes, which they must be"
	if err := os.WriteFile(path, []byte(notes), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), path)
	if err == nil {
		s.Close()
		t.Fatal("it is opened")
	}
	if !strings.Contains(err.Error(), path) {
		t.Errorf("the error names no file: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != notes {
		t.Errorf("the file is %q now, %v", text, err)
	}
}

func BenchmarkSQLite(b *testing.B) {
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "history.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	bench(b, s)
}

func BenchmarkPostgreSQL(b *testing.B) {
	s, err := store.Open(b.Context(), postgrestest.Start(b).Database(b))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	bench(b, s)
}

// bench writes transactions of 1,000 rows and 1,000 reservations, as a busy second has them.
func bench(b *testing.B, s *store.Store) {
	m := usage.NoMark()
	for b.Loop() {
		next := m
		next.Offset++
		batch := usage.Batch{From: m, To: next}
		for i := range 1000 {
			k := usage.Key{Day: "2026-11-22", Group: "g", Agent: fmt.Sprint("agent-", i)}
			batch.Rows = append(batch.Rows, usage.Row{Key: k, Counts: usage.Counts{Requests: 1, TotalTokens: 100, Settled: 1}})
			batch.Put = append(batch.Put, usage.Reservation{ID: coordinator.TaskKey{uint64(i), uint64(next.Offset)}, Key: k})
			if next.Offset > 0 {
				batch.Drop = append(batch.Drop, coordinator.TaskKey{uint64(i), uint64(m.Offset)})
			}
		}
		if err := s.Apply(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
		m = next
	}
}

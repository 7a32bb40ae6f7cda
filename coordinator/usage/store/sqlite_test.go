package store_test

import (
	"fmt"
	"path/filepath"
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

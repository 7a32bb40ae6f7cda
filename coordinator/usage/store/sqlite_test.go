package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/store"
	"taskbus/tests/support/postgrestest"
)

func TestSQLite(t *testing.T) {
	conformance(t, func(t *testing.T) string {
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

// BenchmarkSQLiteSize: one operation is the file of a year in which 100 agents use two models each day. It reports
// the size of the file for each row.
func BenchmarkSQLiteSize(b *testing.B) {
	const days, agents = 365, 100
	models := []string{"gpt-4o", "claude-sonnet-4-5"}
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		file := filepath.Join(b.TempDir(), "history.db")
		s, err := store.Open(b.Context(), file)
		if err != nil {
			b.Fatal(err)
		}
		from := usage.NoMark()
		for day := range days {
			to := from
			to.Offset++
			batch := usage.Batch{From: from, To: to}
			for agent := range agents {
				for _, model := range models {
					batch.Rows = append(batch.Rows, usage.Row{
						Key: usage.Key{
							Day: first.AddDate(0, 0, day).Format(time.DateOnly), Group: fmt.Sprint("project_", agent%10),
							Agent: fmt.Sprint("agent_", agent), Provider: "openai", Model: model, Source: usage.SourceTask,
						},
						Counts: usage.Counts{
							Requests: 400, InputTokens: 500_000, OutputTokens: 90_000, TotalTokens: 590_000, Cost: 2_150_000_000,
							Settled: 400,
						},
					})
				}
			}
			if err := s.Apply(b.Context(), &batch); err != nil {
				b.Fatal(err)
			}
			from = to
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/float64(days*agents*len(models)), "bytes/row")
		b.ReportMetric(float64(info.Size())/1e6, "MB")
	}
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

package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"taskbus/coordinator/usage"
)

// However many ask, and however long the database takes for them, writing waits for none of them.
func TestWritingDoesNotWaitForReaders(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reading, enough := context.WithCancel(t.Context())
	defer enough()
	for range s.reads.Stats().MaxOpenConnections { // as many questions as are answered at a time
		rows, err := s.reads.QueryContext(reading, "SELECT journal_offset FROM usage_mark")
		if err != nil || !rows.Next() {
			t.Fatalf("begin to read: %v", err)
		}
		defer rows.Close()
	}
	asked := make(chan error, 60)
	for i := range cap(asked) {
		go func() {
			var err error
			switch i % 3 {
			case 0:
				_, _, err = s.Usage(reading, usage.Query{By: usage.ByDay})
			case 1:
				_, err = s.Mark(reading)
			default:
				_, err = s.Gaps(reading)
			}
			asked <- err
		}()
	}
	for s.reads.Stats().WaitCount < int64(cap(asked)) { // all of them wait for a connection
		time.Sleep(time.Millisecond)
	}
	writing, late := context.WithTimeout(t.Context(), 20*time.Second)
	defer late()
	state, err := s.State(writing)
	if err != nil {
		t.Fatalf("the writer reads where it is: %v", err)
	}
	to := state.Mark
	to.Offset, to.Epoch, to.Next = 7, 1, 2
	if err := s.Apply(writing, &usage.Batch{From: state.Mark, To: to}); err != nil {
		t.Fatalf("write: %v", err)
	}
	enough()
	for range cap(asked) {
		<-asked
	}
	if m, err := s.Mark(t.Context()); err != nil || m.Offset != 7 {
		t.Errorf("it is at %+v, %v", m, err)
	}
}

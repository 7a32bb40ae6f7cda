package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/tests/support/clitest"
)

// exportOfLogbook writes an export of these messages.
func exportOfLogbook(t *testing.T, bodies [][]byte, first int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.tbj")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := journal.WriteExport(file, func(yield func(journal.Exported, error) bool) {
		for i, body := range bodies[first:] {
			if !yield(journal.Exported{Offset: int64(first + i), Body: body}, nil) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return path
}

// folded is what a coordinator that starts would make of a journal.
func folded(t *testing.T, bodies [][]byte, from int) (*journal.Reader, int) {
	t.Helper()
	r, n := journal.NewReader(), 0
	for i, body := range bodies[from:] {
		records, err := r.Take(int64(from+i), body)
		if err != nil {
			t.Fatal(err)
		}
		n += len(records)
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	return r, n
}

// An export from its snapshot (at offset 5) on, or of everything, begins an empty journal that says the same, with its
// snapshot where that is now; the last message is a claim by which no coordinator leads.
func TestJournalImport(t *testing.T) {
	bodies := logbook(t)
	for _, first := range []int{5, 0} {
		path := exportOfLogbook(t, bodies, first)
		runJournal(t, nil, "journal import "+path, func(r *clitest.Rig, code int) {
			want := fmt.Sprintf("%s: %d messages, ", path, len(bodies)-first)
			if text := r.Out.String(); code != cli.ExitOK || !strings.HasPrefix(text, want) ||
				!strings.Contains(text, "--history names it") {
				t.Fatalf("exit code %d: %s%s; want %s", code, text, r.Err.String(), want)
			}
			var imported [][]byte
			for _, d := range r.Broker.Messages(bus.StreamJournal) {
				imported = append(imported, d.Body)
			}
			was, n := folded(t, bodies, first)
			is, m := folded(t, imported, 0)
			leader, _ := is.Leader()
			if m != n || is.Next() != was.Next() || is.Epoch() != was.Epoch()+1 || leader.Instance != journal.Imported ||
				is.SnapshotOffset() != int64(5-first) {
				t.Errorf("from %d: %d records, next %d, epoch %d of %+v, snapshot at %d; exported were %d, next %d, epoch %d",
					first, m, is.Next(), is.Epoch(), leader, is.SnapshotOffset(), n, was.Next(), was.Epoch())
			}
			if again := r.App.Run(context.Background(), r.Root(&r.App),
				[]string{"journal", "import", path}); again != cli.ExitFailed ||
				!strings.Contains(r.Err.String(), "the journal is not empty") {
				t.Errorf("again: exit code %d: %s", again, r.Err.String())
			}
		})
	}
	runJournal(t, nil, "journal import -o json "+exportOfLogbook(t, bodies, 0), func(r *clitest.Rig, code int) {
		var said imported
		if err := json.Unmarshal([]byte(r.Out.String()), &said); err != nil || code != cli.ExitOK ||
			said.Messages != len(bodies) || said.Records == 0 || said.Note == "" {
			t.Errorf("exit code %d, %v: %s", code, err, r.Out.String())
		}
	})
}

// Nothing is written where a coordinator leads, nor of an export from which no coordinator could go on.
func TestJournalImportRefuses(t *testing.T) {
	bodies := logbook(t)
	whole := exportOfLogbook(t, bodies, 5)
	cut := filepath.Join(t.TempDir(), "cut.tbj")
	text, err := os.ReadFile(whole)
	if err == nil {
		err = os.WriteFile(cut, text[:len(text)-9], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path, flags string
		led               bool
		says              string
	}{
		{"a coordinator leads", whole, "", true, "stop all of them first, standbys too"},
		{"cut off", cut, "", false, "not as one that is complete"},
		{"without its snapshot", exportOfLogbook(t, bodies, 6), "", false, "no complete snapshot"},
		{"no file", filepath.Join(t.TempDir(), "none.tbj"), "", false, "no such file"},
		{"no history", whole, "--history /nonexistent/history.db ", false, "`--history off` goes without"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := journalRig(t)
				if tc.led {
					s, err := r.Broker.Open(t.Context(), bus.SessionSpec{OnSettled: func(uint64, bus.Outcome) {}})
					if err == nil {
						err = s.TakeLock(t.Context(), bus.QueueLeader, nil)
					}
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close(t.Context())
				}
				code := r.Run(t, strings.Fields("journal import "+tc.flags+tc.path)...)
				if code != cli.ExitFailed || !strings.Contains(r.Err.String(), tc.says) {
					t.Errorf("exit code %d, want %q in %s", code, tc.says, r.Err.String())
				}
				if left := r.Broker.Messages(bus.StreamJournal); len(left) != 0 {
					t.Errorf("%d messages were written", len(left))
				}
			})
		})
	}
}

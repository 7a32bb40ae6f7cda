package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/tests/support/clitest"
)

// logbook is the journal of two leaders, of which the first does not know that it has
// been succeeded, with offsets from 0.
func logbook(t *testing.T) [][]byte {
	t.Helper()
	var bodies [][]byte
	r := journal.NewReader()
	publish := func(list ...[]byte) {
		for _, body := range list {
			if _, err := r.Take(int64(len(bodies)), body); err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, body)
		}
	}
	lead := func(at time.Time, instance string) *journal.Writer {
		publish(journal.Claim(r, at, journal.Epoch{Nonce: "nonce-" + instance, Instance: instance,
			Address: instance + ":8551", Version: "1.4.0"}))
		w, err := journal.NewWriter(r)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	ago := func(d time.Duration) time.Time { return clitest.Noon.Add(-d) }
	key := coordinator.KeyOf("task-1")

	first := lead(ago(time.Hour), "host-1")
	publish(first.Batch(ago(9*time.Minute), []coordinator.Record{
		&coordinator.Assigned{Task: taskNamed("task-1"), Agent: "gpu-1", Attempt: 1, Strategy: "least_loaded", Eligible: 3,
			Fleet: 6, At: ago(9 * time.Minute), Timeout: time.Minute},
		&coordinator.Settled{Key: key, Attempt: 1, At: ago(9 * time.Minute)},
	})...)
	publish(first.Batch(ago(8*time.Minute), []coordinator.Record{
		&coordinator.LeaseChanged{Key: key, Attempt: 1, Withdrawn: true, Reason: "no longer wanted"},
		&coordinator.Learnt{Agent: "gpu-1", Type: "embed", At: ago(8 * time.Minute), Duration: 1500 * time.Millisecond},
		&coordinator.Remembered{Key: key, Fate: coordinator.FateSucceeded, Seen: ago(9 * time.Minute), Agent: "gpu-1",
			Attempt: 1},
	})...)
	second := lead(ago(2*time.Minute), "host-2")
	publish(first.Batch(ago(2*time.Minute),
		[]coordinator.Record{&coordinator.Ordered{Agent: "gpu-1", Order: coordinator.OrderDrain}})...)
	opening, rest := second.Snapshot(ago(time.Minute), "s-1", slices.Values([]coordinator.Record{
		&coordinator.Remembered{Key: key, Fate: coordinator.FateSucceeded, Seen: ago(9 * time.Minute)},
	}))
	publish(opening)
	second.Results(77)
	publish(second.Batch(ago(50*time.Second), []coordinator.Record{
		&coordinator.Assigned{Task: taskNamed("task-2"), Agent: "gpu-2", Attempt: 2, Strategy: "least_loaded", Eligible: 1,
			Fleet: 6, At: ago(50 * time.Second), MaybeDuplicate: true},
	})...)
	publish(slices.Collect(rest)...)
	second.SnapshotAt(5)
	publish(second.Batch(ago(10*time.Second), []coordinator.Record{
		&coordinator.BreakerChanged{Agent: "gpu-2", Capability: "gpu", State: 1, Faults: []coordinator.TaskID{"t-8", "t-9"}},
		&coordinator.Settled{Key: coordinator.KeyOf("task-0"), Attempt: 1, Nowhere: true},
	})...)
	return bodies
}

func taskNamed(id coordinator.TaskID) *coordinator.Task {
	return &coordinator.Task{ID: id, Type: "embed",
		Carried: coordinator.Carried{CorrelationID: "trace-" + string(id[5:])}, Priority: coordinator.PriorityHigh,
		Required: []string{"gpu"}, Labels: map[string]string{"zone": "b"}, AcceptedAt: clitest.Noon.Add(-9 * time.Minute),
		ContentHash: 42}
}

// journalRig is a rig with a broker that has a journal with these messages.
func journalRig(t *testing.T, bodies ...[]byte) *clitest.Rig {
	t.Helper()
	r := newRig()
	settled := make(chan struct{}, len(bodies))
	s, err := r.Broker.Open(t.Context(), bus.SessionSpec{
		Topology:  bus.Standard(bus.Declare, bus.ProfileQuorum, nil),
		OnSettled: func(uint64, bus.Outcome) { settled <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, body := range bodies {
		if err := s.Publish(bus.Publication{Token: uint64(i), Key: bus.StreamJournal, Apart: true, Body: body}); err != nil {
			t.Fatal(err)
		}
		<-settled
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// runJournal runs a command in a bubble, where waiting for more takes no time.
func runJournal(t *testing.T, bodies [][]byte, args string, check func(r *clitest.Rig, code int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := journalRig(t, bodies...)
		check(r, r.Run(t, strings.Fields(args)...))
	})
}

func TestJournalOutput(t *testing.T) {
	bodies := logbook(t)
	for _, tc := range []struct{ golden, args string }{
		{"journal-ls.txt", "journal ls --since 2h"},
		{"journal-ls-limit.txt", "journal ls --since 2h --limit 2"},
		{"journal-ls-task.txt", "journal ls --task task-1"},
		{"journal-ls-agent.txt", "journal ls --agent gpu-2"},
		{"journal-ls-nothing.txt", "journal ls --since 5s"},
		{"journal-ls.json", "journal ls --since 1m -o json"},
		{"journal-show-batch.txt", "journal show 2"},
		{"journal-show-epoch.txt", "journal show 3"},
		{"journal-show-snapshot.txt", "journal show 7"},
		{"journal-show-snapshot.json", "journal show 7 -o json"},
		{"journal-show-limit.txt", "journal show 2 --limit 1"},
		{"journal-show-task.txt", "journal show task-1"},
		{"journal-show-task.json", "journal show task-2 -o json"},
		{"journal-show-nothing.txt", "journal show task-7"},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			runJournal(t, bodies, tc.args, func(r *clitest.Rig, code int) {
				if code != cli.ExitOK || r.Err.String() != "" {
					t.Fatalf("exit code %d: %s", code, r.Err.String())
				}
				clitest.Golden(t, tc.golden, r.Out.String())
			})
		})
	}
}

func TestJournalRefuses(t *testing.T) {
	bodies := logbook(t)
	damaged := bytes.Clone(bodies[0])
	damaged[20] ^= 1
	for _, tc := range []struct {
		name   string
		bodies [][]byte
		args   string
		code   int
		says   string // on stdout or stderr
	}{
		{"empty", nil, "journal ls", cli.ExitFailed, "the journal is empty: no coordinator has written to it yet"},
		{"beyond the end", bodies, "journal show 99", cli.ExitFailed, "the journal ends at offset 8"},
		{"damaged, listed", [][]byte{damaged}, "journal ls", cli.ExitOK, "cannot be read: its checksum is wrong"},
		{"damaged, shown", [][]byte{damaged}, "journal show 0", cli.ExitFailed, "damaged"},
		{"damaged, exported from the snapshot", [][]byte{damaged}, "journal export x.tbj", cli.ExitFailed,
			"--all exports everything"},
		{"limit", bodies, "journal ls --limit 0", cli.ExitUsage, "--limit must be"},
		{"since", bodies, "journal ls --since -1m", cli.ExitUsage, "--since must be positive"},
		{"task", bodies, "journal ls --task ?", cli.ExitUsage, "not a task id"},
		{"neither offset nor task", bodies, "journal show ?", cli.ExitUsage, "not a task id"},
		{"all and not all", bodies, "journal export --all --since-snapshot x.tbj", cli.ExitUsage, "exclude each other"},
		{"no such folder", bodies, "journal export /nonexistent/x.tbj", cli.ExitFailed, "write the export"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runJournal(t, tc.bodies, tc.args, func(r *clitest.Rig, code int) {
				if text := r.Out.String() + r.Err.String(); code != tc.code || !strings.Contains(text, tc.says) {
					t.Errorf("exit code %d, want %d, and %q in %s", code, tc.code, tc.says, text)
				}
			})
		})
	}
	t.Run("no journal", func(t *testing.T) {
		if r := newRig(); r.Run(t, "journal", "ls") != cli.ExitFailed ||
			!strings.Contains(r.Err.String(), "no coordinator has run there with journal.enabled") {
			t.Error(r.Err.String())
		}
	})
}

// A queue of that name is not emptied.
func TestJournalThatIsAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		s, err := r.Broker.Open(t.Context(), bus.SessionSpec{
			Topology:  bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{{Name: bus.StreamJournal, Kind: bus.Classic}}},
			OnSettled: func(uint64, bus.Outcome) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.WithoutCancel(t.Context()))
		if err := s.Publish(bus.Publication{Key: bus.StreamJournal, Body: []byte("precious")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if code := r.Run(t, "journal", "ls"); code != cli.ExitFailed ||
			!strings.Contains(r.Err.String(), "a queue and no stream") {
			t.Errorf("exit code %d: %s", code, r.Err.String())
		}
		synctest.Wait()
		if d, err := s.Depth(t.Context(), bus.StreamJournal); err != nil || d.Ready != 1 {
			t.Errorf("%d messages are left, %v", d.Ready, err)
		}
	})
}

// An export has the messages as they are, from the newest complete snapshot (offset
// 5) or all, and nothing that came while it was written.
func TestJournalExport(t *testing.T) {
	bodies := logbook(t)
	for _, tc := range []struct {
		flags string
		first int
	}{{"", 5}, {"--since-snapshot", 5}, {"--all", 0}} {
		t.Run(tc.flags, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.tbj")
			runJournal(t, bodies, "journal export "+tc.flags+" "+path, func(r *clitest.Rig, code int) {
				want := fmt.Sprintf("%s: %d messages, offsets %d to 8, ", path, len(bodies)-tc.first, tc.first)
				if code != cli.ExitOK || !strings.HasPrefix(r.Out.String(), want) {
					t.Fatalf("exit code %d: %s%s; want %s", code, r.Out.String(), r.Err.String(), want)
				}
			})
			expectExport(t, path, bodies, tc.first)
			runJournal(t, bodies, "journal export "+path, func(r *clitest.Rig, code int) {
				if code != cli.ExitFailed || !strings.Contains(r.Err.String(), "exists; --force replaces it") {
					t.Errorf("again: exit code %d: %s", code, r.Err.String())
				}
			})
			runJournal(t, bodies, "journal export --force -o json "+path, func(r *clitest.Rig, code int) {
				var said exported
				if err := json.Unmarshal([]byte(r.Out.String()), &said); err != nil || code != cli.ExitOK || said.Messages != 4 ||
					said.First != 5 || said.Last != 8 {
					t.Errorf("again with --force: exit code %d, %v: %s", code, err, r.Out.String())
				}
			})
			left, err := os.ReadDir(filepath.Dir(path))
			if err != nil || len(left) != 1 {
				t.Errorf("the folder has %v, %v", left, err)
			}
		})
	}
}

// What is put in the place of something else is put in that of a file: never of a device or a pipe, of
// which there would be none any more, and of what a link leads to.
func TestJournalExportReplacesFilesAlone(t *testing.T) {
	bodies := logbook(t)
	folder := t.TempDir()
	pipe, file, link := filepath.Join(folder, "pipe"), filepath.Join(folder, "x.tbj"), filepath.Join(folder, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, nil, 0o600),
		os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	runJournal(t, bodies, "journal export --force "+pipe, func(r *clitest.Rig, code int) {
		if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != fs.ModeNamedPipe || code != cli.ExitFailed ||
			!strings.Contains(r.Err.String(), "is no regular file") {
			t.Errorf("exit code %d, %s; there is %v, %v", code, r.Err.String(), info, err)
		}
	})
	runJournal(t, bodies, "journal export --force "+link, func(r *clitest.Rig, code int) {
		if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink || code != cli.ExitOK {
			t.Errorf("exit code %d, %s; there is %v, %v", code, r.Err.String(), info, err)
		}
	})
	expectExport(t, file, bodies, 5)
}

func expectExport(t *testing.T, path string, bodies [][]byte, first int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	next := first
	for m, err := range journal.ReadExport(file) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Offset != int64(next) || !bytes.Equal(m.Body, bodies[next]) {
			t.Errorf("message %d is another one, at offset %d", next, m.Offset)
		}
		next++
	}
	if next != len(bodies) {
		t.Errorf("messages %d to %d, want up to %d", first, next-1, len(bodies)-1)
	}
}

// Every kind of record has words of its own.
func TestEveryRecordIsPutIntoWords(t *testing.T) {
	for _, r := range []coordinator.Record{
		&coordinator.Assigned{Task: taskNamed("task-1")}, &coordinator.Settled{}, &coordinator.LeaseChanged{},
		&coordinator.Remembered{},
		&coordinator.Learnt{}, &coordinator.Forgiven{}, &coordinator.LearntBefore{}, &coordinator.BreakerChanged{},
		&coordinator.Ordered{},
		&coordinator.Tracked{}, &coordinator.Joined{}, &coordinator.AgentBefore{}, &coordinator.Calibrated{},
		&coordinator.Owed{Task: taskNamed("task-1")}, &coordinator.Paid{},
		&coordinator.EndedBefore{Task: taskNamed("task-1")}, &coordinator.BatchSealed{Tasks: make([]coordinator.TaskKey, 2)},
	} {
		lines, err := newTeller().
			linesOf(journal.Exported{Body: journal.AppendBatch(nil, journal.Header{First: 1}, []coordinator.Record{r})})
		if err != nil || len(lines) != 1 || lines[0].Text == "" {
			t.Errorf("%T: %+v, %v", r, lines, err)
		}
	}
	for fate := range coordinator.Fate(coordinator.NumFates) {
		if fateText(&coordinator.Remembered{Fate: fate}) == "" {
			t.Errorf("no words for the fate %s", fate)
		}
	}
}

// A batch is among what happened to each of its tasks.
func TestBatchIsListedWithEachOfItsTasks(t *testing.T) {
	one, two := coordinator.KeyOf("task-1"), coordinator.KeyOf("task-2")
	lines, err := newTeller().linesOf(journal.Exported{Body: journal.AppendBatch(nil, journal.Header{First: 1},
		[]coordinator.Record{
			&coordinator.Assigned{Task: taskNamed("task-1"), Agent: "gpu-1"},
			&coordinator.BatchSealed{Batch: "task-1.1", Tasks: []coordinator.TaskKey{one, two}},
			&coordinator.BatchSealed{Batch: "damaged"},
		})})
	if err != nil || len(lines) != 3 {
		t.Fatalf("%+v, %v", lines, err)
	}
	if l := lines[1]; l.Task != "task-1" || l.Agent != "gpu-1" || l.Text != "2 tasks share batch task-1.1" {
		t.Errorf("%+v", l)
	}
	for task, want := range map[string]bool{"task-1": true, "task-2": true, "task-3": false} {
		f := filter{task: task}
		if f.passes(&lines[1], time.Time{}) != want || f.passes(&lines[2], time.Time{}) {
			t.Errorf("%s: the batch is listed: %v, want %v", task, !want, want)
		}
	}
}

func TestShortDuration(t *testing.T) {
	for in, want := range map[time.Duration]string{
		10 * time.Second: "10s", 10 * time.Minute: "10m", 24 * time.Hour: "24h", 90 * time.Minute: "1h30m",
		100 * time.Second: "1m40s", time.Hour + time.Second: "1h0m1s",
	} {
		if got := shortDuration(in); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestSnakeCase(t *testing.T) {
	for in, want := range map[string]string{"ID": "id", "TraceID": "trace_id", "CostUSD": "cost_usd", "AsOf": "as_of",
		"HTTPBind": "http_bind", "": ""} {
		if got := snakeCase(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

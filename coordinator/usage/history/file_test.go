package history

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator/usage/store"
)

// remove takes the history's files away, as `rm history.db*` does.
func (r *rig) remove() {
	r.t.Helper()
	files, err := filepath.Glob(r.file + "*")
	if err != nil || len(files) == 0 {
		r.t.Fatalf("there is %v, %v", files, err)
	}
	for _, name := range files {
		if err := os.Remove(name); err != nil {
			r.t.Fatal(err)
		}
	}
}

// eventually waits for a state whose detail has some words.
func (r *rig) eventually(h *History, state string, words ...string) {
	r.t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		s, err := h.Status(context.Background())
		ok := s.State == state
		for _, word := range words {
			ok = ok && strings.Contains(s.Detail, word)
		}
		if ok {
			return
		}
		if time.Now().After(late) {
			r.t.Fatalf("it is %+v (%v), want %s, %q", s, err, state, words)
		}
	}
}

// The file is deleted while it is in use: it is missed, said, and made anew by itself, for
// its owner alone.
func TestFileIsDeletedWhileInUse(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	h, _ := r.follow()
	r.is(h, "20 a 1")
	r.remove()
	r.use("a", 20)
	r.is(h, "20 a 21")
	files, err := filepath.Glob(r.file + "*")
	if err != nil || len(files) != 3 { // with -wal and -shm
		t.Errorf("there are %v, %v", files, err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != fs.FileMode(0o600) {
			t.Errorf("%s: %v, %v; want it to be its owner's alone", name, info, err)
		}
	}
	if text := r.log.String(); strings.Count(text, "was deleted or replaced while it was in use") == 0 ||
		strings.Contains(text, "no such table") {
		t.Errorf("the log: %s", text)
	}
	// What is written now is in a file that others can open.
	s, err := store.Open(t.Context(), r.file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if m, err := s.Mark(t.Context()); err != nil || m.Offset != 2 {
		t.Errorf("in the file it is at %+v, %v", m, err)
	}
}

// To make it anew right after the file was deleted makes rows in a file that is there.
func TestRebuildAfterTheFileIsDeleted(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	r.use("b", 20)
	h, stop := r.follow()
	r.is(h, "20 a 1, 20 b 20")
	r.remove()
	if made := r.rebuild(h); made.Rows != 2 || made.Kept {
		t.Errorf("made anew: %+v", made)
	}
	r.is(h, "20 a 1, 20 b 20")
	stop()
	h, _ = r.follow() // another process
	r.is(h, "20 a 1, 20 b 20")
}

// A file that is broken, or another program's, is reported with what to do, once, and not asked again and
// again, also if no file was configured. Once it is moved away and the history is
// ordered anew, that is done at once.
func TestUnusableFileIsMovedAway(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*rig)
		words []string
	}{
		"another program's": {func(r *rig) {
			s, err := store.Open(r.t.Context(), r.file)
			if err != nil {
				r.t.Fatal(err)
			}
			if err := errors.Join(s.Exec(r.t.Context(), "PRAGMA application_id = 7"), s.Close()); err != nil {
				r.t.Fatal(err)
			}
		}, []string{"belongs to another program", "TASKBUS_HISTORY"}},
		"broken": {func(r *rig) {
			if err := os.WriteFile(r.file, []byte(strings.Repeat("no database ", 50)), 0o600); err != nil {
				r.t.Fatal(err)
			}
		}, []string{"is no SQLite database", "taskbus quota history --rebuild"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.use("a", 1)
			c.spoil(r)
			h := New(Options{
				Bus: r.broker, Session: "history", Place: r.file, ByDefault: true,
				Zone: func() (*time.Location, bool) { return nil, true }, Logger: zerolog.New(r.log),
			})
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { defer close(done); h.Run(ctx) }()
			t.Cleanup(func() { cancel(); <-done })

			r.eventually(h, Failing, append(c.words, "move ", r.file)...)
			order, end := context.WithTimeout(t.Context(), patience)
			defer end()
			if _, err := h.Rebuild(order); err == nil || !strings.Contains(err.Error(), c.words[0]) {
				t.Errorf("made anew in such a file: %v", err)
			}
			if err := os.Rename(r.file, r.file+".broken"); err != nil {
				t.Fatal(err)
			}
			if made := r.rebuild(h); made.Rows != 1 {
				t.Errorf("made anew: %+v", made)
			}
			r.is(h, "20 a 1")
			r.eventually(h, Following)
			if n := strings.Count(r.log.String(), "does not follow the journal"); n != 1 {
				t.Errorf("it is told %d times: %s", n, r.log)
			}
		})
	}
}

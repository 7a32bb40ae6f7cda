package history

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/store"
)

// meddle does something to the database behind the history's back.
func (r *rig) meddle(statement string) {
	r.t.Helper()
	s, err := store.Open(r.t.Context(), r.file)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := errors.Join(s.Exec(r.t.Context(), statement), s.Close()); err != nil {
		r.t.Fatal(err)
	}
}

// TestWhatCannotBeWrittenIsToldOnce: with a full disk the journal can be read each time, and nothing of
// it written.
func TestWhatCannotBeWrittenIsToldOnce(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	h, _ := r.follow()
	r.is(h, "20 a 1")
	r.meddle(
		"CREATE TRIGGER no_room BEFORE UPDATE ON usage_mark BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END")
	r.use("a", 20)
	r.eventually(h, Failing, "disk is full")
	// It tries again after 2 s, then after 4 s, and reads for a second each time.
	for end := time.Now().Add(7 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if s, err := h.Status(t.Context()); err != nil || s.State != Failing {
			t.Fatalf("it is %+v, %v", s, err)
		}
	}
	if text := r.log.String(); strings.Count(text, "does not follow the journal") != 1 ||
		strings.Contains(text, "follows the journal again") {
		t.Errorf("the log: %s", text)
	}
	r.meddle("DROP TRIGGER no_room")
	r.is(h, "20 a 21")
	r.eventually(h, Following)
	if text := r.log.String(); strings.Count(text, "does not follow the journal") != 1 ||
		strings.Count(text, "follows the journal again") != 1 {
		t.Errorf("the log: %s", text)
	}
}

// TestLockedFileIsBeingOpened: as long as another program has the file locked nothing can be asked, but
// there are quotas.
func TestLockedFileIsBeingOpened(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	_, stop := r.follow()
	stop()
	another, err := sql.Open("sqlite", r.file)
	if err != nil {
		t.Fatal(err)
	}
	defer another.Close()
	conn, err := another.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	h, _ := r.follow()
	r.eventually(h, Waiting, "is being opened")
	if _, _, err := h.Usage(t.Context(), usage.Query{}); err == nil || strings.Contains(err.Error(), "no quotas") {
		t.Errorf("asked meanwhile: %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	r.is(h, "20 a 1")
}

// TestLockedForLong: a file that another program keeps locked for longer than is waited for is tried again,
// also where no one has named a place for the history: it is there.
func TestLockedForLong(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	_, stop := r.follow()
	stop()
	another, err := sql.Open("sqlite", r.file)
	if err != nil {
		t.Fatal(err)
	}
	defer another.Close()
	conn, err := another.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	h, _ := r.followBy(func(o *Options) { o.ByDefault = true })
	r.eventually(h, Failing, "locked")
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	r.is(h, "20 a 1")
}

// TestRebuildOverADeletedJournal: what was used between the end of what was followed and the beginning
// of the journal that there is now is missing, and is said to be.
func TestRebuildOverADeletedJournal(t *testing.T) {
	r := newRig(t)
	r.use("a", 1) // the last message is two minutes after noon
	h, stop := r.follow()
	r.is(h, "20 a 1")
	stop()

	other := anotherRig(t)
	other.file, other.log = r.file, r.log
	other.at = noon.AddDate(0, 0, 10)
	other.snapshot() // ten days and a minute after noon
	other.use("b", 20)
	other.broker.Trim(bus.StreamJournal, 1) // where it begins
	h, _ = other.follow()
	other.eventually(h, Failing, "is not the one that the history was made from")
	if made := other.rebuild(h); !made.Kept || made.From != "" {
		t.Errorf("made anew: %+v", made)
	}
	other.is(h, "20 a 1, 30 b 20")
	s, err := h.Status(t.Context())
	if err != nil || len(s.Gaps) != 1 {
		t.Fatalf("the gaps are %+v, %v", s.Gaps, err)
	}
	g := s.Gaps[0]
	if !g.From.Equal(noon.Add(2*time.Minute)) || !g.To.Equal(noon.AddDate(0, 0, 10).Add(time.Minute)) ||
		!strings.Contains(g.Reason, "was deleted") {
		t.Errorf("the gap is %+v", g)
	}
	if made := other.rebuild(h); made.Kept != true {
		t.Errorf("made anew again: %+v", made)
	}
	other.is(h, "20 a 1, 30 b 20")
	if s, err := h.Status(t.Context()); err != nil || len(s.Gaps) != 1 {
		t.Errorf("then the gaps are %+v, %v", s.Gaps, err)
	}
}

// A journal that was begun anew after all that is in the rows has nothing that they have: it is followed by itself,
// also where it is shorter than the one before, and what lies between is said to be missing.
func TestJournalBegunAnewIsFollowed(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	r.use("a", 2) // the last message is three minutes after noon
	h, stop := r.follow()
	r.is(h, "20 a 3")
	stop()

	other := rigFrom(t, noon.AddDate(0, 0, 1))
	other.file, other.log = r.file, r.log
	for range 3 { // it reaches beyond where the other one ended
		other.use("b", 10)
	}
	h, _ = other.follow()
	other.is(h, "20 a 3, 21 b 30")
	other.use("b", 1)
	other.is(h, "20 a 3, 21 b 31")
	s, err := h.Status(t.Context())
	if err != nil || len(s.Gaps) != 1 || !s.Gaps[0].From.Equal(noon.Add(3*time.Minute)) ||
		!s.Gaps[0].To.Equal(noon.AddDate(0, 0, 1).Add(time.Minute)) {
		t.Errorf("the gaps are %+v, %v", s.Gaps, err)
	}
	if text := r.log.String(); strings.Count(text, "the journal is another one") != 1 {
		t.Errorf("the log: %s", text)
	}
}

// TestSilenceIsNotFollowing: while the journal does not give the message of the mark, it is not said to be followed.
func TestSilenceIsNotFollowing(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, heard := range []bool{false, true} {
		h := New(Options{})
		h.fail(errEnded)
		mark := usage.Mark{Offset: 70, At: noon}
		f := &follower{h: h, store: s, projection: usage.New(usage.State{Mark: mark}, nil), began: time.Now().Add(-markEvery),
			heard: heard}
		if err := f.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		if status, err := h.Status(t.Context()); err != nil || (status.State == Following) != heard ||
			status.Follows != heard {
			t.Errorf("heard %t: it is %+v, %v", heard, status, err)
		}
	}
}

// TestBusyJournalBegunAnew: the new journal is never quiet and shorter than the one before. It is followed at once, and
// can be made anew.
func TestBusyJournalBegunAnew(t *testing.T) {
	r := newRig(t)
	for range 100 {
		r.use("a", 1)
	}
	h, stop := r.follow()
	r.is(h, "20 a 100")
	stop()

	other := rigFrom(t, r.at.AddDate(0, 0, 1))
	other.file, other.log = r.file, r.log
	other.use("b", 1)
	h, _ = other.follow()
	for began, used := time.Now(), false; !used; time.Sleep(500 * time.Millisecond) {
		if other.use("b", 1); other.stored() > 90 || time.Since(began) > patience {
			t.Fatalf("at offset %d of the new journal none of it is in the history: %s", other.stored(), r.log)
		}
		rows, _, err := h.Usage(t.Context(), usage.Query{By: usage.ByDay})
		used = err == nil && len(rows) == 2
	}
	if made := other.rebuild(h); !made.Kept {
		t.Errorf("made anew: %+v", made)
	}
}

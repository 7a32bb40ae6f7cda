package history

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/usage"
	"taskbus/tests/support/brokertest"
	"taskbus/tests/support/membus"
)

// patience is how long anything may take that should happen at once.
const patience = 30 * time.Second

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// rig is a broker in memory whose journal a test writes.
type rig struct {
	t       *testing.T
	broker  *membus.Broker
	session bus.Session
	next    uint64
	at      time.Time
	file    string
	log     *brokertest.LogBook
}

// atOnce is how many tests run side by side, whatever the machine: nearly all their time they
// wait until something is due.
const atOnce = 6

func TestMain(m *testing.M) {
	brokertest.SideBySide(atOnce)
	os.Exit(m.Run())
}

// newRig makes one for a test that runs beside others.
func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	return anotherRig(t)
}

// anotherRig makes one more for a test.
func anotherRig(t *testing.T) *rig {
	t.Helper()
	return rigFrom(t, noon)
}

// rigFrom makes one whose journal begins a minute after a time.
func rigFrom(t *testing.T, at time.Time) *rig {
	t.Helper()
	r := &rig{t: t, broker: membus.New(), next: 1, at: at, file: filepath.Join(t.TempDir(), "history.db"),
		log: &brokertest.LogBook{}}
	var err error
	r.session, err = r.broker.Open(t.Context(), bus.SessionSpec{
		Name: "leader", OnSettled: func(uint64, bus.Outcome) {},
		Topology: bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{{Name: bus.StreamJournal, Kind: bus.Stream}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.session.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r.publish(journal.AppendEpoch(nil, r.header(), journal.Epoch{Nonce: "n"}))
	return r
}

func (r *rig) header() journal.Header {
	r.at = r.at.Add(time.Minute)
	return journal.Header{Epoch: 1, First: r.next, At: r.at, ResultOffset: -1, SnapshotOffset: -1}
}

func (r *rig) publish(body []byte) {
	r.t.Helper()
	before := r.stored()
	if err := r.session.Publish(bus.Publication{Key: bus.StreamJournal, Body: body}); err != nil {
		r.t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); r.stored() == before; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			r.t.Fatal("the journal does not take what is published")
		}
	}
}

// stored is where the newest message of the journal is; -1: there is none.
func (r *rig) stored() int64 {
	all := r.broker.Messages(bus.StreamJournal)
	if len(all) == 0 {
		return -1
	}
	return all[len(all)-1].Offset
}

// use writes one call of an agent, begun and ended.
func (r *rig) use(agent string, tokens int64) {
	r.t.Helper()
	key, at := coordinator.TaskKey{r.next, 1}, r.at.Add(time.Minute)
	r.write(
		&coordinator.QuotaReserved{Key: key, Group: "g", Agent: coordinator.AgentID(agent), At: at},
		&coordinator.QuotaEnded{Key: key, At: at, Used: coordinator.Amounts{coordinator.DimRequests: 1,
			coordinator.DimTotalTokens: tokens}})
}

// write writes records, a minute after those before.
func (r *rig) write(records ...coordinator.Record) {
	r.t.Helper()
	r.publish(journal.AppendBatch(nil, r.header(), records))
	r.next += uint64(len(records))
}

// snapshot writes a snapshot in which nothing is open.
func (r *rig) snapshot() {
	r.t.Helper()
	h := r.header()
	for i := range 2 {
		r.publish(journal.AppendSnapshot(nil, h, journal.Chunk{Snapshot: fmt.Sprint("s", r.next), Number: i, Last: i == 1,
			Leader: journal.Epoch{Nonce: "n"}}, nil))
	}
}

// follow runs a history until the test ends, or it is stopped.
func (r *rig) follow() (*History, func()) {
	r.t.Helper()
	return r.followBy(func(*Options) {})
}

// followBy is follow with other options.
func (r *rig) followBy(change func(*Options)) (*History, func()) {
	r.t.Helper()
	o := Options{
		Bus: r.broker, Session: "history", Place: r.file, Zone: func() (*time.Location, bool) { return nil, true },
		Logger: zerolog.New(r.log),
	}
	change(&o)
	h := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	var once sync.Once
	stop := func() { once.Do(func() { cancel(); <-done }) }
	r.t.Cleanup(stop)
	return h, stop
}

// is waits until the history is so many tokens by day.
func (r *rig) is(h *History, want string) {
	r.t.Helper()
	late := time.Now().Add(patience)
	for {
		rows, _, err := h.Usage(context.Background(), usage.Query{By: usage.ByDay})
		var b strings.Builder
		for _, row := range rows {
			fmt.Fprintf(&b, "%s %s %d, ", row.Day[8:], row.Agent, row.TotalTokens)
		}
		got := strings.TrimSuffix(b.String(), ", ")
		if err == nil && got == want {
			return
		}
		if time.Now().After(late) {
			r.t.Fatalf("the history is %q (%v), want %q; the log: %s", got, err, want, r.log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *rig) rebuild(h *History) Rebuilt {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	made, err := h.Rebuild(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

func TestFollowsAndGoesOn(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	h, stop := r.follow()
	r.is(h, "20 a 1")
	r.use("a", 20)
	r.is(h, "20 a 21")
	stop()
	r.use("b", 300) // while it does not follow
	h, _ = r.follow()
	r.is(h, "20 a 21, 20 b 300")
	s, err := h.Status(t.Context())
	if err != nil || s.State != Following || s.Mark.Offset != 3 || !s.Mark.Since.Equal(noon.Add(time.Minute)) ||
		s.Place != r.file {
		t.Errorf("got %+v, %v", s, err)
	}
}

// A call is open while the history is stopped, and the next one is told of its end alone.
func TestGoesOnWithWhatIsOpen(t *testing.T) {
	r := newRig(t)
	key := coordinator.TaskKey{9, 9}
	r.write(&coordinator.QuotaReserved{Key: key, Group: "g", Agent: "a", At: noon})
	r.use("b", 1)
	h, stop := r.follow()
	r.is(h, "20 b 1")
	stop()
	r.write(&coordinator.QuotaEnded{Key: key, At: noon, Used: coordinator.Amounts{coordinator.DimTotalTokens: 20}})
	h, _ = r.follow()
	r.is(h, "20 a 20, 20 b 1")
}

// The broker's retention has dropped the first days: what is made anew is what is left; the day
// on which the journal now begins, and those before, stay as they were.
func TestRebuildKeepsWhatTheJournalHasNoMore(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	r.at = noon.AddDate(0, 0, 1)
	r.use("a", 20) // the 21st: in part only in what is left
	r.snapshot()
	r.use("b", 300)
	r.at = noon.AddDate(0, 0, 2)
	r.use("c", 4000)
	h, stop := r.follow()
	r.is(h, "20 a 1, 21 a 20, 21 b 300, 22 c 4000")
	r.broker.Trim(bus.StreamJournal, 3) // where the snapshot begins

	made := r.rebuild(h)
	if made.From != "2026-11-22" || !made.Kept || !made.Since.Equal(noon.AddDate(0, 0, 1).Add(2*time.Minute)) {
		t.Errorf("made anew: %+v", made)
	}
	r.is(h, "20 a 1, 21 a 20, 21 b 300, 22 c 4000")
	r.use("c", 1)
	r.is(h, "20 a 1, 21 a 20, 21 b 300, 22 c 4001")
	stop()

	// The rows were spoilt: those that can be made anew are as they were.
	h, _ = r.follow()
	r.is(h, "20 a 1, 21 a 20, 21 b 300, 22 c 4001")
	s, err := h.asked()
	if err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []string{"UPDATE usage_rows SET total_tokens = 7 WHERE agent_id = 'c'",
		"DELETE FROM usage_rows WHERE agent_id = 'b'"} {
		if err := s.Exec(t.Context(), spoil); err != nil {
			t.Fatal(err)
		}
	}
	r.rebuild(h)
	r.is(h, "20 a 1, 21 a 20, 22 c 4001")

	// Without a history of before, all is taken that there is.
	r.file = filepath.Join(t.TempDir(), "another.db")
	h, _ = r.follow()
	r.is(h, "21 b 300, 22 c 4001")
}

// The history was off for longer than the journal is kept: what is missing is told.
func TestRetentionWasFaster(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	h, stop := r.follow()
	r.is(h, "20 a 1")
	stop()
	r.use("a", 20)
	r.snapshot()
	r.use("b", 300)
	r.broker.Trim(bus.StreamJournal, 3)
	h, _ = r.follow()
	r.is(h, "20 a 1, 20 b 300")
	s, err := h.Status(t.Context())
	if err != nil || len(s.Gaps) != 1 || s.Gaps[0].Reason != "records 3 to 4 are missing before it" {
		t.Errorf("the gaps are %+v, %v", s.Gaps, err)
	}
}

// A gap that is still in the journal is told once, however often the history is made anew.
func TestGapIsToldOnce(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	r.at = noon.AddDate(0, 0, 1)
	r.snapshot()
	r.use("b", 20)
	r.publish([]byte("no message of the journal")) // at offset 5
	r.use("b", 1)
	r.at = noon.AddDate(0, 0, 2)
	r.use("c", 300)
	h, _ := r.follow()
	r.is(h, "20 a 1, 21 b 21, 22 c 300")
	r.broker.Trim(bus.StreamJournal, 2) // the first day is the history's alone
	for range 3 {
		if made := r.rebuild(h); !made.Kept || made.From != "2026-11-22" {
			t.Fatalf("made anew: %+v", made)
		}
	}
	s, err := h.Status(t.Context())
	if err != nil || len(s.Gaps) != 1 || s.Gaps[0].Offset != 5 {
		t.Errorf("the gaps are %+v, %v", s.Gaps, err)
	}
}

// The broker is away for a while: it is said once, and when it is back nothing is missing.
func TestBrokerGoesAway(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	h, _ := r.follow()
	r.is(h, "20 a 1")
	r.broker.Cut()
	var err error
	if r.session, err = r.broker.Open(t.Context(), bus.SessionSpec{Name: "leader", OnSettled: func(uint64, bus.Outcome) {},
		Topology: bus.Topology{Mode: bus.Off}}); err != nil {
		t.Fatal(err)
	}
	r.use("a", 20)
	r.is(h, "20 a 21")
	if n := strings.Count(r.log.String(), "does not follow the journal"); n != 1 {
		t.Errorf("it is told %d times: %s", n, r.log)
	}
}

// Nothing is kept while there are no quotas; and an order to make it anew says why it cannot be.
func TestWithoutQuotas(t *testing.T) {
	r := newRig(t)
	h := New(Options{Bus: r.broker, Session: "history", Place: r.file,
		Zone: func() (*time.Location, bool) { return nil, false }, Logger: zerolog.New(r.log)})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go h.Run(ctx)
	short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if _, err := h.Rebuild(short); err == nil || !strings.Contains(err.Error(), "no quotas are configured") {
		t.Errorf("got %v", err)
	}
	if s, err := h.Status(t.Context()); err != nil || s.State != Waiting || s.Place != "" {
		t.Errorf("got %+v, %v", s, err)
	}
}

// The journal was deleted and begun anew, by a coordinator whose clock is behind: it is known by what is
// in it, and not by its times. What is in the rows stays, and what is new is added, also of the same day.
func TestAnotherJournalByAClockBehind(t *testing.T) {
	r := newRig(t)
	r.use("a", 1)
	r.use("a", 2)
	h, stop := r.follow()
	r.is(h, "20 a 3")
	stop()

	other := anotherRig(t)
	other.file, other.log = r.file, r.log
	other.at = noon.Add(-time.Hour)
	for range 5 { // it reaches beyond where the other one ended
		other.use("b", 100)
	}
	h, _ = other.follow()
	other.eventually(h, Failing, "is not the one that the history was made from")
	if made := other.rebuild(h); !made.Kept || made.From != "" {
		t.Errorf("made anew: %+v", made)
	}
	other.is(h, "20 a 3, 20 b 500")
	other.use("b", 1)
	other.is(h, "20 a 3, 20 b 501")
}

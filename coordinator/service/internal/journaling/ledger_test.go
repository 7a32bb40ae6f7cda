package journaling

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
)

// A starting coordinator folds few changes of quotas: each counts as 500 records, so that the 400th of
// them, and
// not the 200,000th, brings the next snapshot, of 200,000 records.
func TestSnapshotsFollowChangesOfQuotas(t *testing.T) {
	s := &Snapshots{}
	s.begin(epoch, -1, false)
	s.wrote(toFold([]coordinator.Record{registered(0, true), registered(0, false)}), 1000) // 2 of them
	s.wrote(toFold([]coordinator.Record{&coordinator.QuotaControlled{Day: epoch}}), 100)   // changes nothing: 1 record
	for i := range 397 {
		s.wrote(toFold([]coordinator.Record{registered(i, true)}), 500)
	}
	if s.Due(epoch.Add(time.Minute), "early") { // 399 · 500 + 1 = 199,501 records
		t.Error("a snapshot is due after 399 changes, want none before the 400th")
	}
	s.wrote(toFold([]coordinator.Record{registered(400, true)}), 500)
	if !s.Due(epoch.Add(time.Minute), "due") {
		t.Error("no snapshot is due after 400 changes")
	}
}

// While one is being written no other begins; however many changes come meanwhile, one more is due
// when it is complete, and that one is of all of them.
func TestSnapshotsOutOfTurnAreOneAtATime(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	s := &Snapshots{}
	s.begin(now, -1, false)
	complete := func(name string, offset int64) {
		s.read(offset, &journal.Chunk{Snapshot: name})
		s.read(offset+1, &journal.Chunk{Snapshot: name, Number: 1, Last: true})
	}
	if !s.Want(now, "first") {
		t.Error("nothing is being written, and it does not begin")
	}
	for range 3 {
		if s.Want(now, "others") {
			t.Error("one begins while another is being written")
		}
	}
	if s.Due(now, "too early") {
		t.Error("one is due while another is being written")
	}
	complete("first", 10)
	if !s.Unnamed() {
		t.Error("no message has named the one that begins at 10")
	}
	if s.names(10); s.Unnamed() {
		t.Error("a message has named it")
	}
	if !s.Due(now, "second") {
		t.Error("what came meanwhile is in no snapshot")
	}
	complete("second", 20)
	if s.Due(now, "third") {
		t.Error("all are in the second one")
	}
	if got := s.complete.Load(); got != 20 {
		t.Errorf("the newest begins at %d, want 20", got)
	}
}

// What /readyz says while the journal is read: its messages have offsets, from that of the snapshot on.
func TestReadingTellsHowFar(t *testing.T) {
	var p progress
	p.from.Store(-1)
	for _, step := range []struct {
		from, at, until int64
		want            string
	}{
		{-1, 0, -1, ""},
		{-1, 0, 1099, "begins to read the journal"},
		{100, 0, 1099, "reads the journal: 0 of 1000 messages"},
		{100, 350, 1099, "reads the journal: 250 of 1000 messages"},
		{100, 1099, -1, ""},
	} {
		p.from.Store(step.from)
		p.at.Store(step.at)
		p.until.Store(step.until)
		if got := p.String(); got != step.want {
			t.Errorf("from %d at %d until %d: %q, want %q", step.from, step.at, step.until, got, step.want)
		}
	}
}

// A lost connection is tried again; only what no other try would change stops the
// coordinator.
func TestUnusableIsNoOtherError(t *testing.T) {
	var u *Unusable
	if err := fmt.Errorf("session: %w", (&Ledger{}).fatal(bus.ErrClosed)); errors.As(err, &u) {
		t.Error("a lost connection is taken for a journal that cannot be used")
	}
}

var epoch = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)

// registered is the record of an agent that comes, or goes.
func registered(i int, comes bool) *coordinator.QuotaControlled {
	one := coordinator.QuotaControl{Kind: coordinator.ControlAgent, Target: fmt.Sprint("r", i),
		Value: `{"group_id":"team"}`}.Named()
	if comes {
		return &coordinator.QuotaControlled{Set: []coordinator.QuotaControl{one}}
	}
	return &coordinator.QuotaControlled{Removed: []string{one.ID}}
}

// TestStandbyKeepsReportsOfTheFleet: one that records and stands by keeps what agents of the fleet have
// reported, and nothing of unknown agents, or of those that have left.
func TestStandbyKeepsReportsOfTheFleet(t *testing.T) {
	policy := parsePolicy(t, "agents: {a1: {max_concurrent_tasks: 1}}")
	e := engine.New()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	under := func(agents int) {
		p := *policy
		p.Agents = nil
		for i := range agents {
			a := policy.Agents[0]
			a.ID = coordinator.AgentID(fmt.Sprintf("pod-%05d", i))
			a.Queue = "agent." + string(a.ID)
			p.Agents = append(p.Agents, a)
		}
		e.Apply(now, coordinator.PolicyChanged{Policy: &p}, nil)
	}
	l := NewReports()
	report := func(from, to int) {
		for i := range to - from {
			l.Note(e, coordinator.AgentReported{
				Report: coordinator.AgentReport{Agent: coordinator.AgentID(fmt.Sprintf("pod-%05d", from+i))}})
		}
	}
	under(1000)
	report(0, 20_000)
	if len(l.of) != 1000 {
		t.Errorf("%d reports of a fleet of 1,000", len(l.of))
	}
	under(10)
	for range 3 {
		report(0, 10)
	}
	under(2000)
	report(1000, 2000)
	under(10)
	report(0, 10)
	for i := range 30 { // pods that come and go
		under(10 + 100*i)
		report(0, 10+100*i)
		under(10)
		report(0, 10)
	}
	if n := len(l.of); n > 3*3000 {
		t.Errorf("%d reports", n)
	}
	last := ""
	l.Each(func(r coordinator.AgentReport) {
		if string(r.Agent) <= last {
			t.Errorf("%s after %s", r.Agent, last)
		}
		last = string(r.Agent)
	})
}

func parsePolicy(t testing.TB, text string) *coordinator.Policy {
	t.Helper()
	c, err := config.Parse([]byte(text), "agents.yaml")
	if err != nil {
		t.Fatalf("configuration of the test: %v", err)
	}
	return c.Policy()
}

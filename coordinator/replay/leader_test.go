package replay

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/strategy"
)

// epoch is where virtual time begins in every test.
var epoch = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// book is where recorded policies are found again, by their version.
type book map[string]*coordinator.Policy

func (b book) find(recorded *coordinator.Policy) (*coordinator.Policy, error) {
	if p := b[recorded.Version]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no policy %q", recorded.Version)
}

// under gives every policy of the book another strategy.
func (b book) under(strategy string) Policies {
	return func(recorded *coordinator.Policy) (*coordinator.Policy, error) {
		p, err := b.find(recorded)
		if err != nil {
			return nil, err
		}
		return WithStrategy(p, strategy)
	}
}

// fleetOf is a policy with agents of three slots each, and one of one slot for each
// further id.
func policyOf(version, chosen string, ids ...coordinator.AgentID) *coordinator.Policy {
	p := &coordinator.Policy{
		Version: version, Strategy: chosen, Strategies: strategy.All(),
		Routes: map[string]coordinator.Route{
			"embed":     {Required: []string{"gpu"}},
			"translate": {Batch: coordinator.Batch{MaxSize: 4, MaxWait: 300 * time.Millisecond}},
		},
		Settings: coordinator.Settings{
			MaxRetryAttempts: 3, PoisonedAfter: 3, StaleAfter: 20 * time.Second, MaxQueueSize: 1000,
			AssignmentTimeout: 20 * time.Second, MaxLoad: 1.1,
			DedupeWindow: time.Hour, DedupeMaxIDs: 10_000, Seed: 1,
		},
	}
	for i, id := range ids {
		p.Agents = append(p.Agents, coordinator.AgentSpec{
			ID: id, Queue: "agent." + string(id), Capabilities: []string{"gpu"}, MaxConcurrent: 3, Rank: 1 + i%5,
			HealthCheckInterval: 5 * time.Second, Timeout: 30 * time.Second, AcceptTimeout: 10 * time.Second,
		})
	}
	return p
}

// leader is a coordinator that journals and records, without a broker.
type leader struct {
	engine   *engine.Engine
	recorder *journal.Recorder
	header   journal.Header
	// act carries out an effect.
	act func(coordinator.Effect)
	// asked is called before each event: by people, metrics and auditors.
	asked func(now time.Time, e *engine.Engine)

	messages  [][]byte // of the journal
	next      uint64   // number of the next record
	decisions int
	records   int
}

// lead begins a term, but for its session, with the state of an engine before, which was told history.
func lead(t testing.TB, now time.Time, p *coordinator.Policy, snapshot string, bound int64,
	history ...journal.Input) *leader {
	t.Helper()
	before := engine.New()
	before.Apply(now.Add(-time.Hour), coordinator.PolicyChanged{Policy: p}, nil)
	for _, in := range history {
		before.Apply(in.At, in.Event, nil)
	}
	l := &leader{
		engine: engine.New(), recorder: journal.NewRecorder(snapshot, bound), next: 101,
		header: journal.Header{Epoch: 7, ResultOffset: -1, SnapshotOffset: 0},
	}
	h := l.header
	h.At, h.First = now, l.next
	var state []coordinator.Record
	image := before.Image(now)
	for r := range image.Records {
		if m, ok := r.(*coordinator.Remembered); ok {
			one := *m
			r = &one
		}
		state = append(state, r)
	}
	half := len(state) / 2
	l.messages = append(l.messages,
		journal.AppendEpoch(nil, h, journal.Epoch{Nonce: "n"}),
		journal.AppendSnapshot(nil, h, journal.Chunk{Snapshot: snapshot}, state[:half]),
		journal.AppendSnapshot(nil, h, journal.Chunk{Snapshot: snapshot, Number: 1, Last: true}, state[half:]))

	changed := coordinator.PolicyChanged{Policy: p}
	l.recorder.Add(now, changed)
	l.engine.Follow()
	l.engine.Apply(now, changed, nil)
	for _, r := range state {
		l.engine.Fold(now, r)
	}
	l.engine.Lead(now)
	l.engine.Record(true)
	return l
}

// apply gives the engine an event, records it, journals what comes of it, and then
// has the effects carried out.
func (l *leader) apply(now time.Time, ev coordinator.Event) {
	if l.asked != nil {
		l.asked(now, l.engine)
	}
	l.recorder.Add(now, ev)
	effects := l.engine.Apply(now, ev, nil)
	if records := l.engine.Records(nil); len(records) > 0 {
		h := l.header
		h.At, h.First = now, l.next
		l.messages = append(l.messages, journal.AppendBatch(nil, h, records))
		l.next += uint64(len(records))
		l.records += len(records)
		for _, r := range records {
			if _, ok := r.(*coordinator.Assigned); ok {
				l.decisions++
			}
		}
	}
	l.flush(false)
	for _, f := range effects {
		l.act(f)
	}
}

// flush journals what has been recorded.
func (l *leader) flush(all bool) {
	for {
		message, ok := l.recorder.Take(nil, l.header, all)
		if !ok {
			return
		}
		l.messages = append(l.messages, message)
	}
}

// recording reads the only recording of some messages.
func recording(t testing.TB, messages [][]byte) *Recording {
	t.Helper()
	var c Collector
	for i, m := range messages {
		if err := c.Take(int64(i), m); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.Recordings()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("%d recordings, want 1", len(list))
	}
	return list[0]
}

package main

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
)

// A past is the journal of a leader that has seen many tasks to their end: its engine
// is the real one, told of everything that would have happened, and so are the records
// and the snapshot. Nothing but the clock is invented.
const (
	// pastTurn is how many tasks come in one turn of the leader's loop, which makes
	// one message of the journal, before the snapshot; tailTurn after it. A leader
	// with 1,000 tasks a second writes four to six records at a time: the smaller
	// messages are, the longer they take to read.
	pastTurn = 4
	tailTurn = 1
	pastPace = time.Millisecond // from one task to the next
	pastWork = 250 * time.Millisecond
	pastBeat = 5 * time.Second // each agent's
	// tailRecords is how many follow the newest snapshot: just under what makes the
	// service begin another, the most that a start has to fold beside one.
	tailRecords = 199_000
)

type past struct {
	engine  *engine.Engine
	writer  *journal.Writer
	now     time.Time
	tasks   int // in all
	next    int // the number of the next task
	each    int // tasks that come in a turn
	kinds   [len(kinds)]coordinator.Task
	open    []coordinator.Result // of the tasks that were dispatched a turn ago, by the order of their handles
	beaten  time.Time
	effects []coordinator.Effect
	records []coordinator.Record
	counted int // records
}

// newPast begins the past of a fleet with n tasks. end is when it is over; the first
// message of it claims the journal.
func newPast(fleet []byte, n int, end time.Time) (p *past, claim []byte, err error) {
	c, err := config.Parse(fleet, "agents.yaml")
	if err != nil {
		return nil, nil, fmt.Errorf("read the fleet: %w", err)
	}
	p = &past{engine: engine.New(), tasks: n, each: pastTurn, now: end.Add(-time.Duration(n)*pastPace - time.Second)}
	for i, k := range kinds {
		p.kinds[i] = coordinator.Task{
			Type: k.name, Priority: coordinator.Priority(i % 4), Timeout: 5 * time.Minute,
			Labels: map[string]string{"team": "operations", "cost_center": fmt.Sprintf("cc-%04d", i)},
		}
	}
	reader := journal.NewReader()
	claim = journal.Claim(reader, p.now, journal.Epoch{Nonce: "past", Instance: "taskbus@past#1", Version: "bench"})
	if _, err := reader.Take(0, claim); err != nil {
		return nil, nil, fmt.Errorf("read the claim back: %w", err)
	}
	if p.writer, err = journal.NewWriter(reader); err != nil {
		return nil, nil, fmt.Errorf("write a journal: %w", err)
	}
	p.engine.Record(true)
	p.apply(coordinator.PolicyChanged{Policy: c.Policy()})
	p.apply(coordinator.SessionOpened{})
	return p, claim, nil
}

func (p *past) apply(ev coordinator.Event) []coordinator.Effect {
	p.effects = p.engine.Apply(p.now, ev, p.effects[:0])
	p.records = p.engine.Records(p.records)
	return p.effects
}

// over tells that every task has come and ended.
func (p *past) over() bool { return p.next == p.tasks && len(p.open) == 0 }

// turn is one turn of the leader's loop: what was dispatched in the one before is
// confirmed, and ends, and a few tasks come. It gives the messages of the journal.
func (p *past) turn() ([][]byte, error) {
	p.now = p.now.Add(time.Duration(p.each) * pastPace)
	if p.now.Sub(p.beaten) >= pastBeat {
		p.beat()
	}
	for i, result := range p.open {
		handle := coordinator.Handle(p.next - len(p.open) + i + 1)
		p.apply(coordinator.DispatchSettled{Handle: handle, Outcome: coordinator.PublishConfirmed})
		p.apply(coordinator.ResultReported{Result: result, Live: true})
	}
	p.open = p.open[:0]
	for range min(p.each, p.tasks-p.next) {
		if err := p.assign(); err != nil {
			return nil, err
		}
	}
	p.writer.Results(0) // there is no stream of results behind this past: all is dealt with
	messages := p.writer.Batch(p.now, p.records)
	p.counted += len(p.records)
	clear(p.records)
	p.records = p.records[:0]
	return messages, nil
}

// beat has every agent report.
func (p *past) beat() {
	p.beaten = p.now
	for i := range fleetSize {
		p.apply(coordinator.AgentReported{Live: true, Report: coordinator.AgentReport{
			Agent: coordinator.AgentID(agentID(i)), Status: coordinator.StatusReady, Available: 1_000_000,
			ActiveTasks: []coordinator.TaskID{}, Timestamp: p.now,
		}})
	}
}

// assign has the next task come and be dispatched.
func (p *past) assign() error {
	t := p.kinds[p.next%len(kinds)]
	t.ID, t.AcceptedAt, t.ContentHash = coordinator.TaskID(taskID(p.next)), p.now, uint64(p.next)
	t.TraceID = fmt.Sprintf("trace-%08x-%s", p.next*7919, t.ID)
	p.next++
	for _, f := range p.apply(coordinator.TaskReceived{Handle: coordinator.Handle(p.next), Task: &t}) {
		d, ok := f.(*coordinator.Dispatch)
		if !ok {
			continue
		}
		p.open = append(p.open, coordinator.Result{
			Task: t.ID, Agent: d.Agent, DispatchID: d.DispatchID, Outcome: coordinator.OutcomeSucceeded, TraceID: t.TraceID,
			Timestamp: p.now.Add(pastPace), Duration: pastWork, Offset: -1,
			Usage: &coordinator.Usage{Requests: 1, InputTokens: 1200, OutputTokens: 350, CostUSD: 0.0125, Provider: "example", Model: "large-2"},
		})
		return nil
	}
	return fmt.Errorf("the engine did not dispatch %s", t.ID)
}

// snapshot is a whole state as of now, and the messages of it after the first.
func (p *past) snapshot() (first []byte, rest iter.Seq[[]byte]) {
	image := p.engine.Image(p.now)
	return p.writer.Snapshot(image.At(), "past", image.Records)
}

// write gives the messages to publish, which says at which offset the first of them
// came to lie if it is told to look. The snapshot lies so that tailRecords follow.
func (p *past) write(publish func(body []byte) error, begin func(body []byte) (offset int64, err error)) error {
	const perTask = 4 // records: assigned, settled, learnt, remembered
	from := max(0, p.tasks-tailRecords/perTask)
	if err := p.writeUntil(from, publish); err != nil {
		return err
	}
	first, rest := p.snapshot()
	offset, err := begin(first)
	if err != nil {
		return err
	}
	for part := range rest { // commits pass between its parts
		if err := errors.Join(publish(part), p.writeTurn(publish)); err != nil {
			return err
		}
	}
	p.writer.SnapshotAt(offset)
	p.each = tailTurn
	return p.writeUntil(p.tasks, publish)
}

// writeUntil writes turns until so many tasks have come and, of all of them, ended.
func (p *past) writeUntil(task int, publish func([]byte) error) error {
	for p.next < task || task == p.tasks && !p.over() {
		if err := p.writeTurn(publish); err != nil {
			return err
		}
	}
	return nil
}

func (p *past) writeTurn(publish func([]byte) error) error {
	messages, err := p.turn()
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := publish(m); err != nil {
			return err
		}
	}
	return nil
}

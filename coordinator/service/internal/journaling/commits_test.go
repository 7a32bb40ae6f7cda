package journaling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/outbox"
)

// paper is a journal that takes what it is given, and an engine's effects carried out.
type paper struct {
	written []*commit
	said    []string
}

func (p *paper) write(c *commit) { p.written = append(p.written, c) }

func (p *paper) perform(f coordinator.Effect) {
	switch f := f.(type) {
	case *coordinator.Dispatch:
		p.said = append(p.said, "dispatch "+string(f.Task.ID))
	case coordinator.Ack:
		p.said = append(p.said, fmt.Sprint("ack ", f.Handle))
	case *coordinator.Offer:
		p.said = append(p.said, "offer "+string(f.Task.ID))
	case coordinator.Award:
		p.said = append(p.said, "award "+string(f.Task))
	case coordinator.RejectBid:
		p.said = append(p.said, "reject "+string(f.Task))
	case coordinator.ClaimAnswered:
		p.said = append(p.said, "grant "+f.ClaimID)
	case coordinator.AgentChanged:
		p.said = append(p.said, "agent "+f.State.String())
	}
}

// desk is an engine with one agent of many slots whose effects wait for the journal.
type desk struct {
	t *testing.T
	*paper
	c   *Commits
	e   *engine.Engine
	o   *outbox.Queue[int]
	now time.Time
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, paper: &paper{}, e: engine.New(), o: outbox.NewQueue[int](), now: time.Unix(1000, 0)}
	d.c = NewCommits(d, d.perform, NewCursor(-1), d.o)
	d.e.Apply(d.now, coordinator.PolicyChanged{
		Policy: parsePolicy(t,
			"agents: {a1: {max_concurrent_tasks: 50}}\ntask_routing: {build: {required_capabilities: []}}")}, nil)
	d.e.Record(true)
	d.apply(coordinator.SessionOpened{})
	d.apply(coordinator.AgentReported{Live: true,
		Report: coordinator.AgentReport{Agent: "a1", Status: coordinator.StatusReady, Available: 50, Timestamp: d.now}})
	d.said = nil
	return d
}

func (d *desk) apply(ev coordinator.Event) { d.c.Take(d.e, d.e.Apply(d.now, ev, nil)) }

func (d *desk) task(handle coordinator.Handle) {
	d.apply(coordinator.TaskReceived{Handle: handle,
		Task: &coordinator.Task{ID: coordinator.TaskID(fmt.Sprint("t", handle)), Type: "build", AcceptedAt: d.now}})
}

func (d *desk) settled(handle coordinator.Handle) {
	d.apply(coordinator.DispatchSettled{Handle: handle, Outcome: coordinator.PublishConfirmed})
}

// turn ends a turn of the loop; confirm is the broker's answer to the oldest commit.
func (d *desk) turn()    { d.c.Flush(d.now) }
func (d *desk) confirm() { d.c.Confirmed(d.now) }

func (d *desk) expect(written int, said string) {
	d.t.Helper()
	if got := strings.Join(d.said, ", "); len(d.written) != written || got != said {
		d.t.Fatalf("%d commits written, and %q; want %d and %q", len(d.written), got, written, said)
	}
}

func (d *desk) after(t time.Duration) { d.now = d.now.Add(t) }

// Nothing is done before its records are confirmed; commits follow each other without
// waiting, and their effects in their order.
func TestCommitsHoldEffectsBack(t *testing.T) {
	d := newDesk(t)
	d.task(1)
	d.task(2)
	d.expect(0, "")
	d.turn()
	d.expect(1, "") // one for both
	d.task(3)
	d.after(Pause)
	d.turn()
	d.expect(2, "")
	if d.o.Waiting() != 3 {
		t.Errorf("%d effects count as waiting, want 3", d.o.Waiting())
	}
	d.confirm()
	d.expect(2, "dispatch t1, dispatch t2")
	d.confirm()
	d.expect(2, "dispatch t1, dispatch t2, dispatch t3")
	if !d.c.Idle() || d.o.Waiting() != 0 {
		t.Errorf("idle %v, %d waiting", d.c.Idle(), d.o.Waiting())
	}
}

// What is not urgent goes along with the next that is, or after Linger.
func TestLazyCommits(t *testing.T) {
	d := newDesk(t)
	d.task(1)
	d.turn()
	d.confirm()
	d.settled(1)
	d.turn()
	d.after(Linger - 1)
	d.turn()
	d.expect(1, "dispatch t1")
	d.after(1)
	d.turn()
	d.expect(2, "dispatch t1") // no other came along
	d.confirm()
	d.expect(2, "dispatch t1, ack 1")
	d.after(Pause)
	d.task(2)
	d.turn()
	d.confirm()
	d.after(Pause)
	d.settled(2)
	d.turn()
	d.expect(3, "dispatch t1, ack 1, dispatch t2") // the acknowledgement of t2 can wait
	d.task(3)
	d.turn()
	d.expect(4, "dispatch t1, ack 1, dispatch t2") // and goes along
	if n := len(d.written[3].records); n != 2 {
		t.Errorf("%d records in the last commit, want those of the acknowledgement and of t3", n)
	}
	d.confirm()
	d.expect(4, "dispatch t1, ack 1, dispatch t2, ack 2, dispatch t3")
}

// Two commits are Pause apart, and the loop learns when to look again.
func TestCommitsPause(t *testing.T) {
	d := newDesk(t)
	d.task(1)
	d.turn()
	d.expect(1, "") // after a rest: at once
	if due, ok := d.c.Due(); ok {
		t.Errorf("due at %v, though nothing has gathered", due)
	}
	d.after(Pause / 2)
	for handle := range coordinator.Handle(3) {
		d.task(handle + 2)
		d.turn()
	}
	d.expect(1, "")
	if due, ok := d.c.Due(); !ok || due.Sub(d.now) != Pause/2 {
		t.Errorf("due %v from now (%v), want half a pause", due.Sub(d.now), ok)
	}
	d.after(Pause / 2)
	d.turn()
	if n := len(d.written[len(d.written)-1].records); len(d.written) != 2 || n != 3 {
		t.Errorf("%d commits, the last with %d records; want 2, and all 3 that waited", len(d.written), n)
	}
}

// No more than maxCommits are on their way; what comes then makes the next one larger.
func TestCommitsAreBounded(t *testing.T) {
	d := newDesk(t)
	for i := range coordinator.Handle(2 * maxCommits) {
		d.task(i + 1)
		d.turn()
		d.after(Pause)
	}
	d.expect(maxCommits, "")
	if due, ok := d.c.Due(); ok {
		t.Errorf("due at %v, though %d are on their way", due, maxCommits)
	}
	d.confirm()
	if n := len(d.written); n != maxCommits+1 || len(d.written[maxCommits].records) != maxCommits {
		t.Errorf("%d commits, the last with %d records; want %d, with all %d that waited", n, len(d.written[n-1].records),
			maxCommits+1, maxCommits)
	}
}

// Effects without records keep their place among the others.
func TestEffectsWithoutRecordsKeepTheirPlace(t *testing.T) {
	d := newDesk(t)
	offline := coordinator.AgentReported{Live: true,
		Report: coordinator.AgentReport{Agent: "a1", Status: coordinator.StatusOffline, Timestamp: d.now}}
	d.task(1)
	d.turn()
	called := false
	d.apply(offline)
	d.c.Afterwards(func() { called = true })
	d.turn()
	d.expect(1, "")
	d.confirm()
	d.expect(1, "dispatch t1, agent offline")
	if !called {
		t.Error("what was to follow did not")
	}
	offline.Report.Status = coordinator.StatusReady
	d.apply(offline)
	d.expect(1, "dispatch t1, agent offline, agent online") // nothing waits: at once
}

// A winner is told when the journal knows it, right before the dispatch, and a claim is answered behind
// those that it is granted. Offers and refused bids are not delayed.
func TestCommitsOfAnAuction(t *testing.T) {
	d := newDesk(t)
	task := &coordinator.Task{ID: "t1", Type: "build", AcceptedAt: d.now}
	decided := d.e.Apply(d.now, coordinator.TaskReceived{Handle: 1, Task: task}, nil)
	effects := []coordinator.Effect{coordinator.RejectBid{Task: "t1"}, coordinator.Award{Task: "t1"}}
	effects = append(effects, decided...)
	effects = append(effects, &coordinator.Offer{Task: &coordinator.Task{ID: "t2"}},
		coordinator.ClaimAnswered{ClaimID: "c1"})
	d.c.Take(d.e, effects)
	d.expect(0, "reject t1, offer t2")
	if n := d.o.Waiting(); n != 3 {
		t.Errorf("%d effects count as waiting, want the award, the dispatch and the grant", n)
	}
	d.turn()
	d.expect(1, "reject t1, offer t2")
	d.confirm()
	d.expect(1, "reject t1, offer t2, award t1, dispatch t1, grant c1")
	if !d.c.Idle() || d.o.Waiting() != 0 {
		t.Errorf("idle %v, %d waiting", d.c.Idle(), d.o.Waiting())
	}
}

// A commit with an answer has waited long enough: it does not linger.
func TestCommitsWithRepliesAreUrgent(t *testing.T) {
	for _, reply := range []coordinator.Effect{coordinator.Award{Task: "t1"}, coordinator.ClaimAnswered{ClaimID: "c1"}} {
		d := newDesk(t)
		d.task(1)
		d.turn()
		d.confirm()
		d.after(Pause)
		d.settled(1) // which is not awaited
		d.turn()
		d.expect(1, "dispatch t1")
		d.c.Take(d.e, []coordinator.Effect{reply})
		d.turn()
		if len(d.written) != 2 {
			t.Errorf("%T lingers", reply)
		}
	}
}

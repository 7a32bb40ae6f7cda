package engine_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/hash"
	"taskbus/coordinator/heap"
)

// depot is a broker and a fleet around an engine, in virtual time: task.assign with the window in
// which it is read, the queues of lanes with theirs, answers that take a while, and agents that need
// a second for a task.
type depot struct {
	t   testing.TB
	e   *engine.Engine
	now time.Time

	queues map[string]*tray // "" is task.assign
	stirs  []*tray          // that may have something to hand out
	held   map[coordinator.Handle]letter
	handed map[string]int // how many of held are a group's
	handle coordinator.Handle
	sent   int

	coming  heap.Heap[*occurrence]
	numbers int
	service time.Duration // of a task
	spread  time.Duration // and up to so much more
	begins  time.Duration // until a consumer does, or has ended
	begun   []start
}

// tray is a queue.
type tray struct {
	lane  string
	tasks []*coordinator.Task // ready
	out   int                 // delivered and not acknowledged
	most  int                 // of them, where it is read
	gone  bool                // or never declared
	stirs bool
}

// letter is a delivery.
type letter struct {
	task *coordinator.Task
	of   *tray
}

// start is a dispatch.
type start struct {
	task *coordinator.Task
	at   time.Time
}

// occurrence is something that is going to happen.
type occurrence struct {
	at     time.Time
	number int
	do     func()
	place  int
}

const (
	brokerTakes = 5 * time.Millisecond // to confirm, or to let a consumer begin
	depotWindow = 4000                 // the default of `window`
)

// newDepot has these agents' slots taken for a second each by a task.
func newDepot(t testing.TB, p *policyBuilder) *depot {
	p.set(func(s *coordinator.Settings) {
		s.AssignmentTimeout, s.StaleAfter, s.MaxQueueSize, s.DedupeMaxIDs, s.DedupeWindow = 24*time.Hour, 1000*time.Hour,
			10_000, 1_000_000, 24*time.Hour
	})
	d := &depot{
		t: t, e: engine.New(), now: epoch, service: time.Second, begins: brokerTakes,
		queues: make(map[string]*tray), held: make(map[coordinator.Handle]letter),
		handed: make(map[string]int),
		coming: heap.Heap[*occurrence]{
			Before: func(a, b *occurrence) bool {
				return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.number, b.number)) < 0
			},
			Place: func(o *occurrence, i int) { o.place = i },
		},
	}
	d.queue("").most = depotWindow
	d.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	d.apply(coordinator.SessionOpened{})
	d.apply(coordinator.IntakeChanged{Window: depotWindow})
	d.now = d.now.Add(interval)
	for _, a := range p.Agents {
		if a.ID != "absent" {
			d.apply(coordinator.AgentReported{Live: true, Report: coordinator.AgentReport{
				Agent: a.ID, Status: coordinator.StatusReady, Available: 100, Timestamp: d.now, ActiveTasks: []coordinator.TaskID{},
			}})
		}
	}
	d.look()
	return d
}

// narrow has a window of only so many.
func (d *depot) narrow(window int) {
	d.queue("").most = window
	d.apply(coordinator.IntakeChanged{Window: window})
}

// InTurn sends so many, a millisecond after one another: or which of two is first would be
// not said.
func (d *depot) inTurn(n int, b *taskBuilder) {
	for range n {
		d.send(1, b)
		d.now = d.now.Add(time.Millisecond)
	}
}

// send puts tasks into task.assign.
func (d *depot) send(n int, b *taskBuilder) {
	for range n {
		d.sent++
		task := b.Task
		task.ID, task.AcceptedAt = coordinator.TaskID(fmt.Sprint(b.ID, d.sent)), d.now
		d.put("", &task)
	}
}

func (d *depot) queue(lane string) *tray {
	q := d.queues[lane]
	if q == nil {
		q = &tray{lane: lane, gone: true}
		d.queues[lane] = q
	}
	return q
}

func (d *depot) put(lane string, task *coordinator.Task) {
	q := d.queue(lane)
	q.tasks, q.gone = append(q.tasks, task), false
	d.stir(q)
}

// stir notes that a queue may have something to hand out.
func (d *depot) stir(q *tray) {
	if !q.stirs {
		q.stirs = true
		d.stirs = append(d.stirs, q)
	}
}

// apply has the engine decide, and what it wants happen.
func (d *depot) apply(ev coordinator.Event) {
	for _, f := range d.e.Apply(d.now, ev, nil) {
		switch f := f.(type) {
		case *coordinator.Dispatch:
			d.begun = append(d.begun, start{f.Task, d.now})
			d.after(brokerTakes, func() {
				d.apply(coordinator.DispatchSettled{Handle: f.Handle, Outcome: coordinator.PublishConfirmed})
			})
			more := time.Duration(hash.Unit(hash.Of(string(f.Task.ID), 1)) * float64(d.spread))
			d.after(d.service+more, func() {
				r := coordinator.Result{Task: f.Task.ID, Agent: f.Agent, Timestamp: d.now, Usage: f.Task.EstimatedUsage}
				d.apply(coordinator.ResultReported{Live: true, Result: r})
			})
		case coordinator.Ack:
			l := d.held[f.Handle]
			l.of.out--
			d.handed[l.task.Group]--
			delete(d.held, f.Handle)
			d.stir(l.of)
		case coordinator.MoveToLane:
			d.after(brokerTakes, func() {
				d.put(f.Lane, f.Task)
				d.apply(coordinator.LaneMoved{Handle: f.Handle, Outcome: coordinator.PublishConfirmed})
			})
		case coordinator.ReadLane:
			d.after(d.begins, func() {
				q := d.queue(f.Lane)
				q.most = f.Window
				d.stir(q)
			})
		case coordinator.DropLane:
			d.after(brokerTakes, func() {
				q := d.queue(f.Lane)
				q.gone = len(q.tasks) == 0
				d.apply(coordinator.LaneSeen{Lane: f.Lane, Missing: q.gone, Dropped: true})
			})
		case *coordinator.Fail:
			d.t.Fatalf("%s fails: %+v", f.Task.ID, f.Failure)
		}
	}
}

func (d *depot) after(wait time.Duration, do func()) {
	d.numbers++
	d.coming.Push(&occurrence{at: d.now.Add(wait), number: d.numbers, do: do})
}

// look is the look at the queues of lanes, once a second.
func (d *depot) look() {
	for _, lane := range d.e.LanesWatched(d.now, 100) {
		d.lookAt(lane)
	}
	d.after(time.Second, d.look)
}

func (d *depot) lookAt(lane string) {
	q := d.queue(lane)
	d.apply(coordinator.LaneSeen{Lane: lane, Ready: len(q.tasks), Missing: q.gone})
}

// deliver hands out all that may be.
func (d *depot) deliver() {
	for len(d.stirs) > 0 {
		q := d.stirs[0]
		d.stirs, q.stirs = d.stirs[1:], false
		for len(q.tasks) > 0 && q.out < q.most {
			task := q.tasks[0]
			q.tasks = q.tasks[1:]
			q.out++
			d.handle++
			d.held[d.handle] = letter{task, q}
			d.handed[task.Group]++
			d.apply(coordinator.TaskReceived{Handle: d.handle, Task: task, Lane: q.lane})
		}
	}
}

// until lets time go by until that is so, for so long at most.
func (d *depot) until(most time.Duration, so func() bool) {
	d.t.Helper()
	end := d.now.Add(most)
	for d.deliver(); !so(); d.deliver() {
		next := d.coming.Items[0].at
		due, ok := d.e.NextDeadline()
		if ok && due.Before(next) {
			next = due
		}
		if next.After(end) {
			d.t.Fatalf("not within %v; %d wait, %d are begun, in queues %v", most, d.e.Backlog(), len(d.begun), d.ready())
		}
		if next.After(d.now) {
			d.now = next
		}
		if ok && !due.After(d.now) {
			d.apply(coordinator.Tick{})
			continue
		}
		d.coming.Remove(0).do()
	}
}

func (d *depot) ready() map[string]int {
	n := make(map[string]int)
	for key, q := range d.queues {
		n[key] = len(q.tasks)
	}
	return n
}

// of counts the dispatches of a group from the one with that number on.
func (d *depot) of(group string, since int) (n int) {
	for _, s := range d.begun[since:] {
		if s.task.Group == group {
			n++
		}
	}
	return n
}

// urgent counts those of critical priority.
func (d *depot) urgent(since int) (n int) {
	for _, s := range d.begun[since:] {
		if s.task.Priority == coordinator.PriorityCritical {
			n++
		}
	}
	return n
}

// sees tells whether something of the group waits here.
func (d *depot) sees(group string) bool {
	return d.handed[group] > 0 && d.e.IsInLine(group) // which looks at every task
}

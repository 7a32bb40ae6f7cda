package replay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// term is a term of a leader in a small world of its own, which has nothing in common
// with the modelled one: dice decide how long tasks take and how they end.
type term struct {
	*leader
	now     time.Time
	dice    *rand.Rand
	due     []due
	workers map[coordinator.AgentID]*worker
	handle  coordinator.Handle
	held    map[coordinator.Handle]coordinator.Event
	up      bool
	told    map[coordinator.TaskID]bool // whose end its agent has told
}

type due struct {
	at   time.Time
	what func()
}

// worker is an agent: how it does.
type worker struct {
	id               coordinator.AgentID
	mean             time.Duration
	fails, refuses   float64
	plain            bool // says no more than heartbeats, without its tasks
	gone             bool
	has              map[coordinator.TaskID]*coordinator.Dispatch
	order            []coordinator.TaskID
	ticks            time.Duration // of its clock behind ours
	consumedByLeader bool
}

func newTerm(t testing.TB, p *coordinator.Policy, bound int64, workers []*worker, history ...journal.Input) *term {
	return newTermOf(t, 1, p, bound, workers, history...)
}

// newTermOf is a term with dice of its own.
func newTermOf(t testing.TB, seed uint64, p *coordinator.Policy, bound int64, workers []*worker,
	history ...journal.Input) *term {
	w := &term{
		leader: lead(t, epoch, p, "s-1", bound, history...), now: epoch, dice: rand.New(rand.NewPCG(seed, 2)),
		workers: make(map[coordinator.AgentID]*worker), held: make(map[coordinator.Handle]coordinator.Event),
		told: make(map[coordinator.TaskID]bool),
	}
	w.act = w.perform
	for _, a := range workers {
		a.has = make(map[coordinator.TaskID]*coordinator.Dispatch)
		w.workers[a.id] = a
	}
	for _, a := range workers[:len(workers)/2] { // it has heard of them before it led
		w.do(coordinator.AgentReported{Live: true, Report: w.report(a)})
	}
	w.open()
	for i, a := range workers {
		w.after(time.Duration(i)*100*time.Millisecond, func() { w.beat(a) })
	}
	return w
}

func (w *term) after(d time.Duration, what func()) { w.due = append(w.due, due{w.now.Add(d), what}) }

func (w *term) do(ev coordinator.Event) { w.apply(w.now, ev) }

// until lets time pass; ticks come late, as they do.
func (w *term) until(end time.Time) {
	for {
		i := -1
		for k := range w.due {
			if i < 0 || w.due[k].at.Before(w.due[i].at) {
				i = k
			}
		}
		next := end
		if i >= 0 && w.due[i].at.Before(end) {
			next = w.due[i].at
		}
		if deadline, ok := w.engine.NextDeadline(); ok && deadline.Before(next) {
			if late := deadline.Add(300 * time.Microsecond); late.After(w.now) {
				w.now = late
			}
			w.do(coordinator.Tick{})
			continue
		}
		if i < 0 || !w.due[i].at.Before(end) {
			break
		}
		d := w.due[i]
		w.due = slices.Delete(w.due, i, i+1)
		if d.at.After(w.now) {
			w.now = d.at
		}
		d.what()
	}
	if end.After(w.now) {
		w.now = end
	}
}

func (w *term) perform(f coordinator.Effect) {
	switch f := f.(type) {
	case *coordinator.Dispatch:
		w.after(2*time.Millisecond, func() {
			if _, held := w.held[f.Handle]; held && w.up {
				w.do(coordinator.DispatchSettled{Handle: f.Handle, Outcome: coordinator.PublishConfirmed})
			}
		})
		w.after(3*time.Millisecond, func() { w.work(f) })
	case *coordinator.Fail:
		if f.Handle == 0 {
			w.after(time.Millisecond, func() { w.do(coordinator.FailureTold{Task: f.Task.ID}) })
		}
		delete(w.held, f.Handle)
	case coordinator.Ack:
		delete(w.held, f.Handle)
	case coordinator.TakeBack:
		a := w.workers[f.Agent]
		a.consumedByLeader = true
		w.after(time.Millisecond, func() { w.takeBack(a) })
	case coordinator.LeaveQueue:
		w.workers[f.Agent].consumedByLeader = false
	}
}

// deliver brings a message of the broker.
func (w *term) deliver(make func(coordinator.Handle) coordinator.Event) {
	w.handle++
	ev := make(w.handle)
	w.held[w.handle] = ev
	if w.up {
		w.do(ev)
	}
}

func (w *term) submit(id, kind string) {
	task := &coordinator.Task{
		ID: coordinator.TaskID(id), Type: kind, Carried: coordinator.Carried{CorrelationID: "trace-" + id},
		Priority:   coordinator.Priority(w.dice.IntN(4)),
		AcceptedAt: w.now, ContentHash: 1, Labels: map[string]string{"zone": "a"},
	}
	w.deliver(func(h coordinator.Handle) coordinator.Event { return coordinator.TaskReceived{Handle: h, Task: task} })
}

// work has an agent take a dispatch.
func (w *term) work(d *coordinator.Dispatch) {
	a := w.workers[d.Agent]
	if a.has[d.Task.ID] != nil {
		return
	}
	a.has[d.Task.ID] = d
	a.order = append(a.order, d.Task.ID)
	if a.gone {
		return
	}
	took := time.Duration(float64(a.mean) * (0.5 + w.dice.Float64()))
	roll := w.dice.Float64()
	w.after(took, func() {
		if a.gone || a.has[d.Task.ID] != d {
			return
		}
		a.drop(d.Task.ID)
		if a.plain {
			return
		}
		r := coordinator.Result{Task: d.Task.ID, Agent: a.id, DispatchID: d.DispatchID, Timestamp: w.now.Add(-a.ticks),
			Duration: took, TraceID: d.Task.CorrelationID, Error: "it says why"}
		switch {
		case roll < a.fails:
			r.Outcome = coordinator.OutcomeFailed
		case roll < a.fails+a.refuses:
			r.Outcome = coordinator.OutcomeRejected
		}
		w.do(coordinator.ResultReported{Result: r, Live: true})
		if r.Outcome == coordinator.OutcomeRejected {
			w.giveBack(a, d, coordinator.ReturnRejected)
		}
	})
}

func (a *worker) drop(id coordinator.TaskID) {
	delete(a.has, id)
	a.order = slices.DeleteFunc(a.order, func(o coordinator.TaskID) bool { return o == id })
}

func (w *term) giveBack(a *worker, d *coordinator.Dispatch, cause coordinator.ReturnCause) {
	a.drop(d.Task.ID)
	w.deliver(func(h coordinator.Handle) coordinator.Event {
		return coordinator.TaskReturned{
			Handle: h, Task: d.Task, Agent: a.id, Attempt: d.Attempt, Cause: cause,
			Tried: append(slices.Clone(d.Tried), a.id), Failed: slices.Clone(d.Failed),
			Redelivered: cause == coordinator.ReturnTakenBack,
		}
	})
}

func (w *term) takeBack(a *worker) {
	if !a.gone {
		return
	}
	for _, id := range slices.Clone(a.order) {
		w.giveBack(a, a.has[id], coordinator.ReturnTakenBack)
	}
}

// beat sends a heartbeat, and the next one in five seconds.
func (w *term) beat(a *worker) {
	w.after(5*time.Second, func() { w.beat(a) })
	if a.gone || !w.up {
		return
	}
	w.do(coordinator.AgentReported{Report: w.report(a), Live: true})
}

func (w *term) report(a *worker) coordinator.AgentReport {
	r := coordinator.AgentReport{
		Agent: a.id, Status: coordinator.StatusReady, Active: len(a.order), Available: max(0, 3-len(a.order)),
		Load: float64(len(a.order)) / 3, Timestamp: w.now.Add(-a.ticks - 500*time.Microsecond),
	}
	if !a.plain {
		r.ActiveTasks = append([]coordinator.TaskID{}, a.order...)
	}
	return r
}

// vanish has an agent die; what it held comes back when the broker notices.
func (w *term) vanish(a *worker, again time.Duration) {
	a.gone = true
	w.after(6*time.Second, func() {
		for _, id := range slices.Clone(a.order) {
			if a.gone {
				w.giveBack(a, a.has[id], coordinator.ReturnExpired)
			}
		}
	})
	w.after(again, func() {
		a.gone = false
		clear(a.has)
		a.order = nil
	})
}

func (w *term) open() {
	w.up = true
	w.do(coordinator.SessionOpened{})
	handles := make([]coordinator.Handle, 0, len(w.held))
	for h := range w.held {
		handles = append(handles, h)
	}
	slices.SortFunc(handles, cmp.Compare)
	for _, h := range handles {
		ev := w.held[h]
		delete(w.held, h)
		w.after(5*time.Millisecond, func() {
			w.deliver(func(h coordinator.Handle) coordinator.Event {
				switch ev := ev.(type) {
				case coordinator.TaskReceived:
					ev.Handle, ev.Redelivered = h, true
					return ev
				case coordinator.TaskReturned:
					ev.Handle, ev.Redelivered = h, true
					return ev
				}
				return ev
			})
		})
	}
}

func (w *term) loseSession(d time.Duration) {
	w.do(coordinator.SessionLost{})
	w.up = false
	w.after(d, w.open)
}

// arrive submits tasks of a type, as many a second.
func (w *term) arrive(kind string, perSecond float64, for_ time.Duration) {
	n := 0
	for at := 0.0; at < for_.Seconds(); at += w.dice.ExpFloat64() / perSecond {
		n++
		id := fmt.Sprintf("%s-%d", kind, n)
		w.after(time.Duration(at*float64(time.Second)), func() { w.submit(id, kind) })
	}
}

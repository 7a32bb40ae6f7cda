package simulator

import (
	"context"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// epoch is when every simulated world begins.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// world is one run: one variant under one seed.
type world struct {
	scenario *Scenario
	variant  *Variant
	seed     uint64

	engine  *engine.Engine
	now     int64 // nanoseconds since epoch
	moments Timeline[moment]
	agents  []agent
	byID    map[coordinator.AgentID]int32
	tasks   ledger
	open    int // tasks that have not ended
	streams []stream
	kinds   kinds
	closing bool // no further arrivals
	stopped bool
	// How many tasks may arrive, and be open at once.
	maxTasks, maxOpen int

	// inbox holds what follows from effects: the engine gets it when all effects of
	// the event before have been carried out.
	inbox   []coordinator.Event
	effects []coordinator.Effect
	events  int // given to the engine

	tally tally
}

// task is one simulated task.
type task struct {
	task     *coordinator.Task // nil once it is not needed any more
	dispatch *coordinator.Dispatch
	arrived  int64
	started  int64   // first start of work on it; −1: never
	began    int64   // latest start of work on it by the agent that has it; −1: not yet
	queued   int64   // when it came into its agent's queue
	size     float64 // seconds of work at speed 1 that it brings with it; 0: as the agent's group says
	kind     int32   // number of its task type
	stream   int32
	draws    uint64 // its workload and its number within that: what chance has for it is the same under every strategy
	agent    int32  // that has it; −1: the coordinator
	place    place
	life     uint32 // counts what happened to it, so that moments of before are void
	handed   uint32 // deliveries of it to the coordinator so far
	ended    bool   // its outcome is known
}

// moment is something that is going to happen.
type moment struct {
	kind  momentKind
	index int32 // workload, agent, or task
	life  uint32
}

type momentKind uint8

const (
	momentArrival momentKind = iota // the next task of the workload
	momentBeat                      // the heartbeat of the agent, in its life
	momentFinish                    // the task is done, if it is still in that life
	momentExpiry                    // the task has not been taken in time
	momentCrash                     // the agent, in its life
	momentRestart
	momentJoin  // the agent comes for the first time
	momentDrift // step index of all steps
	momentLook  // the shell looks at the queues that the engine watches
	momentEnd   // no further arrivals
	momentStop  // whatever is open stays open
)

// place is where a task is.
type place uint8

const (
	withCoordinator place = iota
	inQueue               // of its agent
	atWork
	gone
)

// kinds is what the truth says of every group and task type, by their numbers.
type kinds struct {
	names []string
	// capable has bit g set for a type that agents of group g can do, useful if they
	// may succeed at this moment. ever is all that were useful for some type so far.
	capable, useful []uint64
	ever            uint64
	steps           []driftStep
	mean            [][]float64 // [group][type] seconds, Speed included
	success         [][]float64 // [group][type] at this moment
}

type driftStep struct {
	Step
	group int
}

// run plays until everything has ended, or the scenario's time is over.
func (w *world) run(ctx context.Context, progress func(share float64)) error {
	total := int64(w.scenario.Duration)
	for n := 0; !w.stopped; n++ {
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if progress != nil {
				progress(min(1, float64(w.now)/float64(total)))
			}
		}
		at := w.moments.First() // there is always one: the stop
		if due, ok := w.engine.NextDeadline(); ok {
			if d := max(w.now, int64(due.Sub(epoch))); d < at {
				w.advance(d)
				if err := w.apply(coordinator.Tick{}); err != nil {
					return err
				}
				continue
			}
		}
		_, m := w.moments.Next()
		w.advance(at)
		if err := w.happen(m); err != nil {
			return err
		}
		if w.open == 0 && (w.closing || w.exhausted()) {
			break
		}
	}
	w.close()
	return nil
}

// advance moves the clock. What held since the last time it moved is added up.
func (w *world) advance(to int64) {
	if to > w.now {
		w.tally.pass(w.now, to, &w.kinds)
		w.now = to
	}
}

// happen carries out one moment.
func (w *world) happen(m moment) error {
	switch m.kind {
	case momentArrival:
		return w.arrive(m.index)
	case momentBeat:
		return w.beat(m.index, m.life)
	case momentFinish:
		return w.finish(m.index, m.life)
	case momentExpiry:
		return w.expire(m.index, m.life)
	case momentCrash:
		return w.crash(m.index, m.life)
	case momentRestart:
		return w.restart(m.index)
	case momentJoin:
		return w.join(m.index)
	case momentDrift:
		w.kinds.drift(int(m.index))
	case momentLook:
		return w.look()
	case momentEnd:
		w.closing = true
	case momentStop:
		w.stopped = true
	}
	return nil
}

// apply gives the engine one event, carries out the effects, and goes on with
// what follows from them.
func (w *world) apply(ev coordinator.Event) error {
	w.inbox = append(w.inbox, ev)
	if len(w.inbox) > 1 {
		return nil // the caller that carries out effects goes on with it
	}
	for i := 0; i < len(w.inbox); i++ {
		w.events++
		w.effects = w.engine.Apply(epoch.Add(time.Duration(w.now)), w.inbox[i], w.effects[:0])
		for _, f := range w.effects {
			if err := w.act(f); err != nil {
				return err
			}
		}
	}
	clear(w.inbox)
	w.inbox = w.inbox[:0]
	return nil
}

// act is the shell: it carries out one effect.
func (w *world) act(f coordinator.Effect) error {
	switch f := f.(type) {
	case *coordinator.Dispatch:
		return w.deliver(f)
	case *coordinator.Fail:
		w.failed(f)
	case coordinator.Withdraw:
		return w.withdraw(f)
	case coordinator.TakeBack:
		return w.takeBack(w.byID[f.Agent])
	case coordinator.LeaveQueue:
		w.agents[w.byID[f.Agent]].takenBack = false
	case coordinator.EnsureQueue:
		return w.apply(coordinator.QueueChecked{Agent: f.Agent, Exists: true})
	}
	return nil
}

// hand gives the engine a delivery of the task to hold. Its handle says the task, and
// which of its deliveries it is.
func (w *world) hand(number int32) coordinator.Handle {
	t := w.tasks.at(number)
	t.handed++
	return coordinator.Handle(t.handed)<<32 | coordinator.Handle(number)
}

// handedTask is the number of the task that was delivered under a handle.
func handedTask(h coordinator.Handle) int32 { return int32(uint32(h)) }

// failed notes that the coordinator has refused or given up a task.
func (w *world) failed(f *coordinator.Fail) {
	t := w.tasks.at(numberOf(f.Task))
	if t == nil || t.ended {
		return // its agent was done first, and the word of it comes too late or never: done is done
	}
	if t.place == withCoordinator {
		t.place = gone
		w.tally.waiting(t.kind, -1)
	}
	w.tally.end(w.now, t, ending(f.Failure.Reason))
	w.ended(t)
	w.replace(t.stream, true)
}

// ended sees to what follows when a task has ended, however it did.
func (w *world) ended(t *task) {
	t.ended = true
	w.open--
	w.release(t)
}

// release lets go of what is not needed of a task that has ended.
func (w *world) release(t *task) {
	if t.ended && t.place == gone && t.task != nil {
		w.tasks.release(numberOf(t.task))
		t.task, t.dispatch = nil, nil
	}
}

// numberOf says which task it is by what arrive gave it.
func numberOf(t *coordinator.Task) int32 { return int32(t.ContentHash) - 1 }

package replay

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// world is the modelled one: broker and agents, as the engine sees them.
type world struct {
	facts   *facts
	habits  *habits
	player  *player
	watch   func(at time.Time, ev coordinator.Event, effects []coordinator.Effect)
	latency time.Duration // of a confirm

	now     time.Time
	moments moments
	agents  map[coordinator.AgentID]*agent

	// connected: a session stands. Sessions are counted, so that what was on its way
	// in one that is over does not arrive.
	connected bool
	sessions  int
	handles   coordinator.Handle
	held      map[coordinator.Handle]*delivery
	// queued is what the broker delivers once there is a session; late are the results
	// that are read from the stream's past then.
	queued []coordinator.Event
	late   []coordinator.ResultReported

	// inbox holds what follows from effects: the engine gets it when all effects of
	// the event before have been carried out.
	inbox []coordinator.Event
	busy  bool
	err   error
	// sources counts where the endings of dispatches came from.
	sources [numSources]int
}

// run plays the recording in a modelled world until its last input.
func (r *Recording) run(f *facts, h *habits, policies Policies,
	watch func(time.Time, coordinator.Event, []coordinator.Effect)) (*world, error) {
	w := &world{
		facts: f, habits: h, watch: watch, latency: f.latency(),
		agents: make(map[coordinator.AgentID]*agent), held: make(map[coordinator.Handle]*delivery), moments: newMoments(),
	}
	err := r.each(func(n int, in *journal.Input) (err error) {
		switch {
		case n == 0:
			w.now = in.At
			if w.player, err = r.play(in, withoutLanes(policies), w.begin); err == nil {
				w.populate()
			}
			return err
		case f.kept[n]:
			w.until(in.At)
			w.feed(n, in.Event)
		}
		return w.err
	})
	if err != nil {
		return nil, err
	}
	w.until(f.until)
	return w, w.err
}

// until lets happen what happens up to that moment.
func (w *world) until(at time.Time) {
	for w.err == nil {
		due, ok := w.player.engine.NextDeadline()
		if ok = ok && !due.After(at); ok && (w.moments.Len() == 0 || !w.moments.Items[0].at.Before(due)) {
			if due.After(w.now) {
				w.now = due
			}
			w.apply(coordinator.Tick{})
			continue
		}
		m, ok := w.moments.next(at)
		if !ok {
			break
		}
		w.now = m.at
		m.what()
	}
	if at.After(w.now) {
		w.now = at
	}
}

// after schedules something for later.
func (w *world) after(d time.Duration, what func()) { w.moments.schedule(w.now.Add(d), what) }

// answer gives the engine an event later, unless its session is over by then.
func (w *world) answer(ev coordinator.Event) {
	session := w.sessions
	w.after(w.latency, func() {
		if w.connected && w.sessions == session {
			w.apply(ev)
		}
	})
}

// apply gives the engine one event, carries out the effects, and goes on with what
// follows from them.
func (w *world) apply(ev coordinator.Event) {
	w.inbox = append(w.inbox, ev)
	if w.busy {
		return // the caller that carries out effects goes on with it
	}
	w.busy = true
	for i := 0; i < len(w.inbox) && w.err == nil; i++ {
		in := journal.Input{At: w.now, Event: w.inbox[i]}
		if w.err = w.player.apply(&in); w.err != nil {
			break
		}
		w.watch(w.now, in.Event, w.player.effects)
		for _, effect := range w.player.effects {
			w.act(effect)
		}
	}
	clear(w.inbox)
	w.inbox, w.busy = w.inbox[:0], false
}

// act is the shell: it carries out one effect.
func (w *world) act(effect coordinator.Effect) {
	switch f := effect.(type) {
	case *coordinator.Dispatch:
		w.deliver(f)
		w.answer(coordinator.DispatchSettled{Handle: f.Handle, Outcome: coordinator.PublishConfirmed})
	case *coordinator.Fail:
		if f.Handle == 0 {
			w.answer(coordinator.FailureTold{Task: f.Task.ID})
			return
		}
		delete(w.held, f.Handle)
	case coordinator.Ack:
		delete(w.held, f.Handle)
	case coordinator.Withdraw:
		w.withdraw(f)
	case coordinator.TakeBack:
		w.agent(f.Agent).takeBack(w)
	case coordinator.LeaveQueue:
		w.agent(f.Agent).consumed = false
	case coordinator.EnsureQueue:
		w.answer(coordinator.QueueChecked{Agent: f.Agent, Exists: true})
	}
}

// hand delivers a TaskReceived or TaskReturned, now or once there is a session.
func (w *world) hand(ev coordinator.Event) {
	if !w.connected {
		w.queued = append(w.queued, ev)
		return
	}
	w.handles++
	d := &delivery{handle: w.handles, event: ev}
	w.held[d.handle] = d
	w.apply(d.under(d.handle))
}

// tell brings a result, now or once there is a session.
func (w *world) tell(r coordinator.Result) {
	if w.connected {
		w.apply(coordinator.ResultReported{Result: r, Live: true})
		return
	}
	w.late = append(w.late, coordinator.ResultReported{Result: r, Untold: true})
}

// opened begins a session: results of the past are read in it, and the broker delivers
// again what was not acknowledged, when it truly began to deliver.
func (w *world) opened(input int, ev coordinator.SessionOpened) {
	w.connected = true
	w.apply(ev)
	for _, r := range w.late {
		w.apply(r)
	}
	w.late = nil
	at, known := w.facts.redelivery[input]
	if !known {
		return
	}
	session := w.sessions
	w.moments.schedule(at, func() {
		if !w.connected || w.sessions != session {
			return
		}
		queued := w.queued
		w.queued = nil
		for _, ev := range queued {
			w.hand(ev)
		}
	})
}

// lost ends a session: everything that is held is the broker's again.
func (w *world) lost() {
	w.connected = false
	w.sessions++
	w.apply(coordinator.SessionLost{})
	held := slices.SortedFunc(maps.Values(w.held), func(a, b *delivery) int { return cmp.Compare(a.handle, b.handle) })
	again := make([]coordinator.Event, 0, len(held)+len(w.queued))
	for _, d := range held {
		again = append(again, d.again())
	}
	w.queued = append(again, w.queued...)
	clear(w.held)
	for _, a := range w.agents {
		a.consumed = false
	}
}

// withoutLanes are the same policies, but that nothing is moved to a lane: this world holds
// whatever waits, however much it is.
func withoutLanes(policies Policies) Policies {
	return func(recorded *coordinator.Policy) (*coordinator.Policy, error) {
		p, err := policies(recorded)
		if err != nil || p.Lanes == nil {
			return p, err
		}
		without := *p
		without.Lanes = nil
		return &without, nil
	}
}

package fleet

import (
	"time"

	"taskbus/coordinator"
)

// Change is one thing that follows from what has become of an agent, or of the fleet.
type Change[A any] struct {
	Kind   ChangeKind
	Timer  Timer // of SetTimer
	Agent  A     // not of every Emit, Write and Joins
	At     time.Time
	Effect coordinator.Effect // of Emit
	Record coordinator.Record // of Write
}

// ChangeKind says what the kernel has to do for a change.
type ChangeKind uint8

const (
	Emit      ChangeKind = iota // emit the effect
	Write                       // record the record
	SetTimer                    // call Due at that time, for that timer alone; never when At is zero
	CameOn                      // the agent is online from now on: breakers count it
	WentOff                     // it is not any more
	OffMarket                   // it gets nothing: auctions that asked it go on without it
	Wake                        // it may have room for what waits
	Joins                       // call Join soon
)

// Timer is for what an agent may be waited.
type Timer uint8

const (
	Silence   Timer = iota // it may have been silent for too long
	Recheck                // look again whether its queue exists
	Cool                   // its full queue may have room again
	Steady                 // it came and went, and has been steady
	Forget                 // it had joined, and has been gone for long
	SlowStart              // it is new, and may have more tasks at once
	NumTimers
)

// begin empties the changes, which are those of one call.
func (f *Fleet[T, A]) begin() { f.changes = f.changes[:0] }

// add notes that something follows for the agent.
func (f *Fleet[T, A]) add(kind ChangeKind, m A) {
	f.changes = append(f.changes, Change[A]{Kind: kind, Agent: m})
}

func (f *Fleet[T, A]) emit(effect coordinator.Effect) {
	f.changes = append(f.changes, Change[A]{Effect: effect})
}

func (f *Fleet[T, A]) write(r coordinator.Record) {
	f.changes = append(f.changes, Change[A]{Kind: Write, Record: r})
}

// set has Due be called at that time.
func (f *Fleet[T, A]) set(m A, t Timer, at time.Time) {
	m.Core().due[t] = at
	f.changes = append(f.changes, Change[A]{Kind: SetTimer, Agent: m, Timer: t, At: at})
}

// unset has Due not be called.
func (f *Fleet[T, A]) unset(m A, t Timer) {
	if !m.Core().due[t].IsZero() {
		f.set(m, t, time.Time{})
	}
}

// Due does what was to be done for the agent at this time.
func (f *Fleet[T, A]) Due(now time.Time, m A, t Timer) []Change[A] {
	f.begin()
	a := m.Core()
	a.due[t] = time.Time{}
	switch t {
	case Silence:
		f.watch(now, m)
	case Recheck:
		f.askForQueue(now, m)
	case Cool:
		a.QueueFull = false
		f.refreshed(m)
	case Steady:
		a.unsteady = false
		f.announce(m)
		if a.LeftAlone() {
			f.leaveQueue(m)
		}
		f.refreshed(m)
	case Forget:
		f.forgetDue(now, m)
	case SlowStart:
		f.ramp(now, m)
		f.add(Wake, m)
	}
	return f.changes
}

// refreshed refreshes an agent that may have room for what waits.
func (f *Fleet[T, A]) refreshed(m A) {
	f.Refresh(m)
	f.add(Wake, m)
}

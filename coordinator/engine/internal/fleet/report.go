package fleet

import (
	"time"

	"taskbus/coordinator"
)

// Verdict is what a report is.
type Verdict struct {
	Kind VerdictKind
	// Shared is how many processes are at work under the agent's id, when that is news; else 0.
	Shared int
	// Made is when an accepted report was made, by our clock; zero: that is not known.
	Made time.Time
	// Untracked: its ends were known until now (see Agent.Tracked).
	Untracked bool
}

// VerdictKind says what follows from a report.
type VerdictKind uint8

const (
	Accepted VerdictKind = iota
	Refused              // it is out of order or replayed
	Ignored              // it says nothing new of the agent
	Alive                // it says of an agent that reports for itself that it is alive, and its capacity
)

// Accept takes over what one report of the agent says, but for what it says of the dispatches on its account.
//
// A report with an older timestamp than the newest accepted is out of order or replayed and changes nothing (of two
// with the same timestamp, the later in the stream is the newer), with one exception: when nothing newer has arrived
// for two health intervals the agent's clock was set back, and refusing would silence it until the clock catches up.
func (f *Fleet[T, A]) Accept(now time.Time, m A, ev *coordinator.AgentReported) (v Verdict) {
	a, r := m.Core(), &ev.Report
	if r.Relayed {
		if !ev.Live && !r.Timestamp.After(a.relayedAt) {
			return Verdict{Kind: Ignored} // a new session reads the stream's past again
		}
		a.relayedAt = r.Timestamp
		if !a.Heard.IsZero() && !a.Report.Relayed {
			if ev.Live {
				a.outlive(now, false)
			}
			a.heardOf(now, r)
			a.Heard, a.Beat = now, now
			a.Measure(now)
			return Verdict{Kind: Alive}
		}
	}
	var oneOfSeveral bool
	if oneOfSeveral, v.Shared = f.hearInstance(now, m, ev); oneOfSeveral {
		v.Kind = Ignored
		return v
	}
	// The clocks of an agent and of the coordinator that relays for it are two: the agent's first report of its own is
	// new, whatever its timestamp.
	own := !r.Relayed && a.Report.Relayed
	if own {
		a.Clock = Clock{}
	}
	if !a.Heard.IsZero() && !own {
		age := r.Timestamp.Compare(a.Report.Timestamp)
		if !ev.Live && age <= 0 {
			v.Kind = Ignored // a new session reads the stream's past again: nothing new
			return v
		}
		if age < 0 {
			if now.Sub(a.Heard) <= 2*a.Spec.HealthCheckInterval {
				v.Kind = Refused
				return v
			}
			a.Clock = Clock{}
		}
	}
	if ev.Live && !r.Relayed {
		a.Clock.observe(now, r.Timestamp)
	}
	again := !own && ev.Live && r.Timestamp.Equal(a.Report.Timestamp)
	a.Knows = r.Timestamp
	if again && a.Clock.Known && !r.Relayed {
		// A clock that stands, or is coarse, does not say when the report was made: it came just now. Else every end
		// since would be remembered for good.
		a.Knows = now.Add(-a.Clock.Offset)
	}
	a.Report, a.Heard, a.Beat = *r, now, now
	if !ev.Live && !r.Relayed && r.Timestamp.Before(now) { // read from the past: when that was only its sender says
		a.Beat = r.Timestamp
	}
	a.heardOf(now, r)
	if r.ActiveTasks == nil && a.Listed != nil {
		// Another program speaks for it now, one that may send no results.
		v.Untracked, a.Tracked = a.Tracked, false
	}
	a.list(r.ActiveTasks)
	switch { // else it is not known what the report includes
	case r.Relayed:
		v.Made = r.Timestamp // a coordinator's
	case a.Clock.Known:
		v.Made = a.Clock.Ours(r.Timestamp)
	}
	if ev.Live {
		a.outlive(now, true)
	}
	return v
}

// Audited counts the ends that the report does not include yet. It is called with every report, once it is known what
// the report says of the dispatches on the account.
func (a *Account[T]) Audited(now, made time.Time) {
	a.recount(made)
	a.lookForStrays(now)
	a.Measure(now)
}

// silentInstances is how many of its heartbeats a process may miss beside another before it is taken to have ended.
const silentInstances = 3

// staleAfter returns how long the agent may be silent.
func (f *Fleet[T, A]) staleAfter(a *Account[T]) time.Duration {
	if n := f.settings.DeadIntervals; n > 0 {
		return time.Duration(n) * a.Spec.HealthCheckInterval
	}
	return f.settings.StaleAfter
}

// InstanceSilence returns how long one of several processes may be silent.
func (f *Fleet[T, A]) InstanceSilence(m A) time.Duration {
	a := m.Core()
	return min(silentInstances*a.Spec.HealthCheckInterval, f.staleAfter(a))
}

// hearInstance notes which process a report is of. It returns whether the report is the goodbye of one of several, and
// says nothing of the agent; and how many are at work, when that is news.
func (f *Fleet[T, A]) hearInstance(now time.Time, m A, ev *coordinator.AgentReported) (oneOfSeveral bool, news int) {
	a, r := m.Core(), &ev.Report
	if r.Instance == "" || !ev.Live || r.Relayed {
		return false, 0
	}
	silent := f.InstanceSilence(m)
	if r.Status == coordinator.StatusOffline {
		return a.Instances.Leaves(now, r.Instance, silent), 0
	}
	if a.Instances.Note(now, r.Instance, silent) {
		news = a.Instances.Among(now, silent)
	}
	return false, news
}

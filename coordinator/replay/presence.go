package replay

import (
	"slices"
	"time"
)

// missedBeats is after how many of its intervals without a heartbeat an agent was not
// there.
const missedBeats = 3

// absences are the times at which the agent was not there: after it said so, or when
// it missed several heartbeats although there was a session to hear them. Before its
// first heartbeat nothing is known of it.
func (f *facts) absences(a *agentFacts) []span {
	usual := a.interval()
	var found []span
	add := func(from, until time.Time) {
		if n := len(found); n > 0 && !from.After(found[n-1].until) {
			found[n-1].until = until
			return
		}
		found = append(found, span{from, until})
	}
	for i, b := range a.reports {
		next := f.until.Add(time.Nanosecond) // the end of the recording belongs to it
		if i+1 < len(a.reports) {
			next = a.reports[i+1].at
		}
		silent := next.Sub(b.at) - f.down(span{b.at, next})
		switch {
		case b.offline:
			add(b.at, next)
		case usual > 0 && silent > missedBeats*usual:
			add(b.at.Add(usual), next)
		}
	}
	return found
}

// away reports whether the agent was not there at some time between the two.
func (a *agentFacts) away(from, until time.Time) bool {
	return slices.ContainsFunc(a.absent, func(s span) bool { return s.from.Before(until) && from.Before(s.until) })
}

// interval is the usual time between two heartbeats; 0 when it is not known.
func (a *agentFacts) interval() time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(a.reports); i++ {
		if gap := a.reports[i].at.Sub(a.reports[i-1].at); gap > 0 { // else they were read from the stream's past
			gaps = append(gaps, gap)
		}
	}
	if len(gaps) < 2 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// down is for how long of that time there was no session.
func (f *facts) down(of span) time.Duration {
	var sum time.Duration
	for _, d := range f.downs {
		from, until := d.from, d.until
		if from.Before(of.from) {
			from = of.from
		}
		if until.After(of.until) {
			until = of.until
		}
		if until.After(from) {
			sum += until.Sub(from)
		}
	}
	return sum
}

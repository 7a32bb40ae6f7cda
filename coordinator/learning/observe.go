package learning

import (
	"math"
	"time"

	"taskbus/coordinator"
)

// Attribution says what the end of a dispatch is put down to.
type Attribution uint8

// The attributions. A timeout is the agent's fault: the others finish such tasks
// in time, or the type's own rate says that they do not. What was withdrawn, or
// fails everywhere, says nothing about the agent and is not counted. Those that count are the journal's.
const (
	Succeeded  = Attribution(coordinator.AttributedSuccess)
	AgentFault = Attribution(coordinator.AttributedAgentFault)
	TimedOut   = Attribution(coordinator.AttributedTimeout)
	TaskFault  = Attribution(coordinator.NumAttributions)
	Cancelled  = TaskFault + 1
)

// What is believed of the cost of one task, in US dollars.
const minCost, maxCost = 1e-12, 1e12

// Counts reports whether an outcome of this attribution teaches anything.
func (a Attribution) Counts() bool { return a <= TimedOut }

// Outcome is how one dispatch ended.
type Outcome struct {
	Attribution Attribution
	// Duration of the work; 0 when not known. Only that of a success is used.
	Duration time.Duration
	// CostUSD is what the task cost in US dollars; 0 when not known. What is outside
	// 10^-12 to 10^12 is not believed.
	CostUSD float64
}

// Observe takes in how a task of this type ended at agent i. An outcome that does
// not count, and an agent outside the fleet, change nothing.
func (l *Learner) Observe(at time.Time, i int, t *Type, o Outcome) {
	if !o.Attribution.Counts() || i < 0 || i >= len(l.agents) {
		return
	}
	if !l.started || at.Sub(l.asOf) >= refresh {
		l.Advance(at)
	}
	l.settleType(t)
	l.version++
	w := math.Exp2(l.halfLives(at))
	a, own := &l.agents[i], t.of(i, len(l.agents))
	a.ageing = 0

	success := 0.0
	if o.Attribution == Succeeded {
		success = w
	}
	own.count(l.keepOwn, success, w)
	t.fleet.count(l.keepAll, success, w)
	l.fleet.count(l.keepAll, success, w)
	a.successes = a.successes*l.keepOwn + success
	a.expected = a.expected*l.keepOwn + w*t.success

	if seconds := o.Duration.Seconds(); success > 0 && seconds > 0 {
		pace := 1.0 // the first of its type is its own measure
		if t.reference > 0 {
			pace = min(max(seconds/t.reference, minPace), maxPace)
		}
		own.time(l.keepOwn, seconds*w, w)
		t.fleet.time(l.keepAll, seconds*w, w)
		a.paces = a.paces*l.keepOwn + pace*w
		a.paced = a.paced*l.keepOwn + w
	}
	if o.CostUSD >= minCost && o.CostUSD <= maxCost { // which NaN is not
		a.dollars = a.dollars*l.keepOwn + o.CostUSD*w
		a.costed = a.costed*l.keepOwn + w
	}
}

// Forgive takes back the failure that was observed of agent i at that time,
// because its task turned out to be the cause. How many outcomes have followed it
// is not known any more, so its weight is taken as time alone has decayed it: of
// one failure up to 1 - 2^(-k/HalfLifeOutcomes) too much after k later outcomes
// (7 % after 20), and never more than there is.
func (l *Learner) Forgive(i int, t *Type, when time.Time) {
	if i < 0 || i >= len(l.agents) || i >= len(t.agents) || !l.started {
		return
	}
	l.settleType(t)
	l.version++
	w := math.Exp2(min(l.halfLives(when), l.halfLives(l.asOf)+1))
	own, a := &t.agents[i], &l.agents[i]
	w = min(w, own.Outcomes-own.Successes) // never more than its failures
	own.forgive(w)
	t.fleet.forgive(w)
	l.fleet.forgive(w)
	a.expected = max(0, a.expected-w*t.success)
	a.ageing = 0
}

// of gives agent i's tally, with the table made long enough for a fleet of n.
func (t *Type) of(i, n int) *Tally {
	if i >= len(t.agents) {
		grown := make([]Tally, n)
		copy(grown, t.agents)
		t.agents = grown
	}
	return &t.agents[i]
}

// count decays the tally by one outcome and adds that.
func (t *Tally) count(keep, success, w float64) {
	t.Successes = t.Successes*keep + success
	t.Outcomes = t.Outcomes*keep + w
}

// time decays the measured durations by one and adds that.
func (t *Tally) time(keep, seconds, w float64) {
	t.Seconds = t.Seconds*keep + seconds
	t.Timed = t.Timed*keep + w
}

func (t *Tally) forgive(w float64) { t.Outcomes = max(t.Successes, t.Outcomes-w) }

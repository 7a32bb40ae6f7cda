package learning

import (
	"math"
	"time"
)

// Bounds of what is derived, so that no history, however one-sided, makes an
// agent certain to fail or to succeed, or infinitely fast or slow.
const (
	minSuccess, maxSuccess = 0.001, 0.999
	minPace, maxPace       = 0.01, 100
)

const (
	// refresh is the least time between two readings of the clock that count.
	refresh = time.Second
	// maxAge is how many half-lives the landmark may lie in the past. A sum is at
	// most 2^maxAge times its outcomes: far from the range of float64, 2^1024.
	maxAge = 512
	// forgotten is the weight below which an outcome has never been: 332 half-lives
	// on, before float64 runs out of digits for it.
	forgotten = 1e-100
)

// Tally is what the outcomes of one row add up to, each with its weight.
type Tally struct {
	// Successes among Outcomes.
	Successes, Outcomes float64
	// Seconds that Timed successes took: those whose duration is known.
	Seconds, Timed float64
}

func (t *Tally) scale(f float64) {
	t.Successes = scaled(t.Successes, f)
	t.Outcomes = scaled(t.Outcomes, f)
	t.Seconds = scaled(t.Seconds, f)
	t.Timed = scaled(t.Timed, f)
}

func scaled(sum, f float64) float64 {
	if sum *= f; sum < forgotten {
		return 0
	}
	return sum
}

// agent is what is known of one agent over all task types.
type agent struct {
	// success and pace are derived from the sums under the factor of this ageing;
	// 0 means that the sums have changed since.
	ageing        uint64
	success, pace float64
	// successes, and how many the fleet would have had with the same tasks.
	successes, expected float64
	// paces is the sum of durations as multiples of the type's mean, paced their count.
	paces, paced float64
	// dollars that costed tasks have cost.
	dollars, costed float64
}

func (a *agent) scale(f float64) {
	a.successes = scaled(a.successes, f)
	a.expected = scaled(a.expected, f)
	a.paces = scaled(a.paces, f)
	a.paced = scaled(a.paced, f)
	a.dollars = scaled(a.dollars, f)
	a.costed = scaled(a.costed, f)
	a.ageing = 0
}

// Type is the record of one task type, for all agents. It belongs to the Learner
// that made it and stays valid for its life.
type Type struct {
	name  string
	fleet Tally
	// agents by number; shorter than the fleet where the rest has no outcome.
	agents []Tally
	// success and reference are derived from the sums at this version.
	version            uint64
	success, reference float64
}

// Name is the task type; empty for the record that is shared.
func (t *Type) Name() string { return t.name }

// Learner keeps what a fleet has shown. Agents are the numbers 0 to n-1. It is
// not safe for concurrent use, not even for reading. Make one with [New].
type Learner struct {
	settings Settings
	weight   float64 // m
	keepOwn  float64 // what a later outcome of an agent leaves of an earlier one
	keepAll  float64 // and one of the fleet
	perSec   float64 // half-lives in a second

	started  bool
	landmark time.Time // sums are kept as of then
	asOf     time.Time // and read as of then
	factor   float64   // by multiplying with this
	scaledM  float64   // m as of the landmark: what a prior weighs beside the sums
	ageing   uint64    // counts the factors
	version  uint64    // counts all changes

	fleet  Tally
	agents []agent
	types  map[string]*Type
	shared Type
}

// New makes a Learner for a fleet of n agents of which nothing is known.
func New(s Settings, n int) *Learner {
	s = s.withDefaults()
	l := &Learner{
		settings: s,
		weight:   s.Weight,
		keepOwn:  math.Exp2(-1 / s.HalfLifeOutcomes),
		perSec:   1 / s.HalfLife.Seconds(),
		types:    map[string]*Type{},
	}
	l.setFactor(1)
	l.resize(make([]agent, max(n, 0)))
	return l
}

// resize takes over the agents, and lets the fleet's memory grow with them.
func (l *Learner) resize(agents []agent) {
	l.agents = agents
	l.keepAll = math.Exp2(-1 / (l.settings.HalfLifeOutcomes * float64(max(1, len(agents)))))
}

// Follows reports whether the learner has these settings.
func (l *Learner) Follows(s Settings) bool { return l.settings == s.withDefaults() }

// Type finds or makes the record of a task type. The empty name, and every new
// name beyond Settings.MaxTypes, gives the one that all of these share. To be
// called once for each task, not once for each agent.
func (l *Learner) Type(name string) *Type {
	if t := l.types[name]; t != nil {
		return t
	}
	t := l.Peek(name)
	if t != &l.shared {
		l.types[name] = t
	}
	return t
}

// Peek is Type for a question: a record that it makes is known to the caller alone.
func (l *Learner) Peek(name string) *Type {
	switch t := l.types[name]; {
	case t != nil:
		return t
	case name == "", len(l.types) >= l.settings.MaxTypes:
		return &l.shared
	}
	return &Type{name: name}
}

// Agents is how many agents the fleet has.
func (l *Learner) Agents() int { return len(l.agents) }

// AsOf is the time as of which everything is read: the latest that counted.
func (l *Learner) AsOf() time.Time { return l.asOf }

// Advance sets the time as of which everything is read. A time before the
// latest changes nothing. Observe calls it at most once a second of its own
// accord; calling it more often than that gains nothing.
func (l *Learner) Advance(now time.Time) {
	if !l.started {
		l.started, l.landmark, l.asOf = true, now, now
		return
	}
	if !now.After(l.asOf) {
		return
	}
	l.asOf = now
	age := l.halfLives(now)
	if age > maxAge {
		l.each(math.Exp2(-age))
		l.landmark, age = now, 0
	}
	l.setFactor(math.Exp2(-age))
}

// NotAfter says that it is no later than now, whatever was said before: by a clock that was
// ahead. What was learnt by that is as old as it was, and what is learnt from now on counts in full.
func (l *Learner) NotAfter(now time.Time) {
	if !l.started || !l.asOf.After(now) {
		return
	}
	l.landmark = now.Add(-l.asOf.Sub(l.landmark))
	l.asOf = now
}

// setFactor changes the time as of which the sums are read. (m·p + S·f)/(m + N·f)
// is read as (m/f·p + S)/(m/f + N).
func (l *Learner) setFactor(f float64) {
	l.factor = f
	l.scaledM = l.weight / f
	l.ageing++
	l.version++
}

// halfLives is how many have passed between the landmark and then.
func (l *Learner) halfLives(then time.Time) float64 {
	return then.Sub(l.landmark).Seconds() * l.perSec
}

// each multiplies every sum.
func (l *Learner) each(f float64) {
	l.fleet.scale(f)
	for i := range l.agents {
		l.agents[i].scale(f)
	}
	l.shared.scale(f)
	for _, t := range l.types {
		t.scale(f)
	}
}

func (t *Type) scale(f float64) {
	t.fleet.scale(f)
	for i := range t.agents {
		t.agents[i].scale(f)
	}
}

// Renumber says that the fleet has changed: it has n agents now, and the one
// numbered i was was[i] before, or is new (-1). Agents that are no longer named
// are forgotten; what they taught of a task type stays. An old number should
// occur once. It copies every table, some milliseconds in a fleet of 10,000
// agents with 100 types.
func (l *Learner) Renumber(n int, was []int) {
	n = max(n, 0)
	was = was[:min(n, len(was))]
	l.resize(renumbered(l.agents, n, was))
	l.shared.renumber(was)
	for _, t := range l.types {
		t.renumber(was)
	}
	l.version++
}

func (t *Type) renumber(was []int) {
	if len(t.agents) > 0 { // else it has no table, and needs none yet
		t.agents = renumbered(t.agents, len(was), was)
	}
}

// renumbered gives n elements, of which number i is old[was[i]], if there is one.
func renumbered[T any](old []T, n int, was []int) []T {
	fresh := make([]T, n)
	for i := 0; i < len(was); {
		if was[i] < 0 || was[i] >= len(old) {
			i++
			continue
		}
		run := i + 1 // most keep their neighbours: copied together
		for run < len(was) && was[run] == was[run-1]+1 && was[run] < len(old) {
			run++
		}
		copy(fresh[i:run], old[was[i]:])
		i = run
	}
	return fresh
}

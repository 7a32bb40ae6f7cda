package learning

import (
	"time"

	"taskbus/coordinator"

	"gonum.org/v1/gonum/mathext"
)

// settleType derives what is read of a type, if anything has changed.
func (l *Learner) settleType(t *Type) {
	if t.version == l.version {
		return
	}
	t.version = l.version
	t.success = (l.scaledM*l.FleetSuccess() + t.fleet.Successes) / (l.scaledM + t.fleet.Outcomes)
	if t.reference = 0; min(t.fleet.Timed, t.fleet.Seconds)*l.factor > forgotten { // short ones are forgotten first
		t.reference = t.fleet.Seconds / t.fleet.Timed
	}
}

// settleAgent derives what is read of an agent, once for each ageing and outcome.
func (l *Learner) settleAgent(a *agent) {
	a.ageing = l.ageing
	a.success = (l.scaledM + a.successes) / (l.scaledM + a.expected)
	a.pace = (l.scaledM + a.paces) / (l.scaledM + a.paced)
}

// prior is the success rate expected of agent a with this type before its own
// outcomes are looked at. Both must be settled.
func prior(a *agent, t *Type) float64 {
	p := t.success * a.success
	if p < minSuccess {
		return minSuccess
	}
	if p > maxSuccess {
		return maxSuccess
	}
	return p
}

// Standing reads what is expected of agent i with a task of this type: the mean
// of the posterior, and the seconds, 0 while no task of the type has been timed.
// An agent outside the fleet is a newcomer.
func (l *Learner) Standing(i int, t *Type) coordinator.Standing {
	if t.version != l.version {
		l.settleType(t)
	}
	if uint(i) >= uint(len(l.agents)) {
		return coordinator.Standing{Success: min(max(t.success, minSuccess), maxSuccess), Duration: t.reference}
	}
	a := &l.agents[i]
	if a.ageing != l.ageing {
		l.settleAgent(a)
	}
	s := coordinator.Standing{Success: prior(a, t), Duration: t.reference * a.pace}
	if uint(i) < uint(len(t.agents)) {
		own, m := &t.agents[i], l.scaledM
		s.Success = (m*s.Success + own.Successes) / (m + own.Outcomes)
		s.Duration = (m*s.Duration + own.Seconds) / (m + own.Timed)
	}
	return s
}

// Outcomes is how many outcomes of agent i with tasks of this type are known, older ones
// counting less.
func (l *Learner) Outcomes(i int, t *Type) float64 {
	if uint(i) >= uint(len(t.agents)) {
		return 0
	}
	if t.version != l.version {
		l.settleType(t)
	}
	return t.agents[i].Outcomes * l.weight / l.scaledM
}

// FleetSuccess is the success rate of the fleet over all types.
func (l *Learner) FleetSuccess() float64 {
	return (l.scaledM*l.settings.Prior + l.fleet.Successes) / (l.scaledM + l.fleet.Outcomes)
}

// TypeSuccess is the success rate of the fleet with tasks of this type.
func (l *Learner) TypeSuccess(t *Type) float64 {
	l.settleType(t)
	return t.success
}

// Reference is how many seconds a task of this type takes on average over the
// fleet; 0 while none has been timed.
func (l *Learner) Reference(t *Type) float64 {
	l.settleType(t)
	return t.reference
}

// Cost is how many US dollars a task of agent i has cost on average; false when
// none of its tasks' costs is known.
func (l *Learner) Cost(i int) (usd float64, known bool) {
	if i < 0 || i >= len(l.agents) {
		return 0, false
	}
	a := &l.agents[i]
	if min(a.costed, a.dollars)*l.factor <= forgotten {
		return 0, false
	}
	return a.dollars / a.costed, true
}

// posterior gives the parameters of the Beta distribution whose mean is
// Standing.Success. They add up to Weight at least.
func (l *Learner) posterior(i int, t *Type) (alpha, beta float64) {
	l.settleType(t)
	if i < 0 || i >= len(l.agents) {
		p := min(max(t.success, minSuccess), maxSuccess)
		return l.weight * p, l.weight * (1 - p)
	}
	a := &l.agents[i]
	l.settleAgent(a)
	p := prior(a, t)
	s, f := l.own(i, t)
	return l.weight*p + s, l.weight*(1-p) + f
}

// own gives the agent's successes and failures with this type.
func (l *Learner) own(i int, t *Type) (successes, failures float64) {
	if i < 0 || i >= len(t.agents) {
		return 0, 0
	}
	own := &t.agents[i]
	return own.Successes * l.factor, max(0, own.Outcomes-own.Successes) * l.factor
}

// Draw gives a success rate, 0 to 1, drawn from agent i's posterior for this type
// (Thompson sampling). u, 0 < u < 1, is the chance: equal u give equal draws, and
// the draws of independent uniform u are independent. See [betaDraw] for why this
// is no inverse distribution function.
func (l *Learner) Draw(i int, t *Type, u float64) float64 {
	alpha, beta := l.posterior(i, t)
	return betaDraw(alpha, beta, u)
}

// What convicts an agent: it is held to half of what the fleet achieves with the
// type, on its own outcomes, the fleet's rate counting for no more than two.
// Among agents that succeed in 0.9 of all cases that takes seven failures in a
// row, or some fifty outcomes at 0.3.
const (
	failingShare      = 0.5
	failingConfidence = 0.95
	failingWeight     = 2
)

// Failing reports whether agent i does so badly with this type that, by its own
// outcomes with it, its rate is below half of the fleet's with a probability above
// 0.95. It costs a fraction of a microsecond: to be asked after a failure, not for
// each decision. What follows from it is for others to say.
func (l *Learner) Failing(i int, t *Type) bool {
	successes, failures := l.own(i, t)
	if failures <= 0 {
		return false
	}
	l.settleType(t)
	p := t.success
	return mathext.RegIncBeta(failingWeight*p+successes, failingWeight*(1-p)+failures, failingShare*p) > failingConfidence
}

// Record is what agent i has shown over all types: the mean of the success rates by which it is chosen
// ([Learner.Standing]), each type counting by its outcomes of the type, or by the fleet's where it has
// none of any; how many outcomes are known of it, older ones counting less; and how long its successes
// took on average, 0 while none has been timed. It looks at every type: for people, not for decisions.
func (l *Learner) Record(i int) (success, outcomes float64, mean time.Duration) {
	var sum Tally
	var own, fleet weighted
	add := func(t *Type) {
		one, rate := t.tally(i), l.Standing(i, t).Success
		sum.add(one)
		own.add(rate, one.Outcomes)
		fleet.add(rate, t.fleet.Outcomes)
	}
	add(&l.shared)
	for _, t := range l.types { // order does not matter but for the last bits
		add(t)
	}
	switch {
	case own.weight > 0:
		success = own.sum / own.weight
	case fleet.weight > 0:
		success = fleet.sum / fleet.weight
	default:
		success = min(max(l.FleetSuccess(), minSuccess), maxSuccess)
	}
	if sum.Timed > 0 {
		mean = time.Duration(sum.Seconds / sum.Timed * float64(time.Second))
	}
	return success, sum.Outcomes * l.factor, mean
}

// weighted is a sum of values, each times its weight.
type weighted struct{ sum, weight float64 }

func (w *weighted) add(v, weight float64) { w.sum, w.weight = w.sum+v*weight, w.weight+weight }

// tally is agent i's with this type.
func (t *Type) tally(i int) Tally {
	if uint(i) >= uint(len(t.agents)) {
		return Tally{}
	}
	return t.agents[i]
}

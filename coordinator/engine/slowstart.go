package engine

import "time"

// rampSteps is how many steps an agent takes to all of its slots: one each five
// seconds of the usual minute.
const rampSteps = 12

// ramp gives a new agent its part of its slots, and asks to be called again until
// it has all of them. Whoever counts as new again begins anew.
func (e *Engine) ramp(now time.Time, a *agent) {
	window := e.policy.Settings.SlowStart
	a.slots = 0
	if age := now.Sub(a.since); window > 0 && !a.since.IsZero() && age < window {
		a.slots = max(1, int(float64(a.maximum())*max(0.1, float64(age)/float64(window))))
		e.timers.schedule(&a.ramping, now.Add(window/rampSteps))
	} else {
		e.timers.cancel(&a.ramping)
	}
	e.fleet.refresh(a)
}

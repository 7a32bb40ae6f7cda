package engine

import (
	"time"

	"taskbus/coordinator/breaker"
)

// rampSteps is how many steps an agent takes to all of its slots: one each five
// seconds of the usual minute.
const rampSteps = 12

// ramp gives a new agent its part of its slots, and asks to be called again until
// it has all of them. Whoever counts as new again begins anew.
func (e *Engine) ramp(now time.Time, a *agent) {
	window := e.policy.Settings.SlowStart
	a.Slots = 0
	if age := now.Sub(a.Since); window > 0 && !a.Since.IsZero() && age < window {
		a.Slots = breaker.Ramp(a.Maximum(), age, window, 1)
		step := max(window/rampSteps, time.Millisecond)
		e.timers.schedule(&a.ramping, earlier(now.Add(step), a.Since.Add(window)))
	} else {
		e.timers.cancel(&a.ramping)
	}
	e.fleet.Refresh(a)
}

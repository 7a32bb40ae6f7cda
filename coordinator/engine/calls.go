package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/llmcalls"
)

// Package llmcalls manages the quota that is reserved for LLM calls; this file records and announces it.

// callAsked answers what is asked about calls that no task stands for.
func (e *Engine) callAsked(now time.Time, ev *coordinator.CallAsked) {
	answered, out := e.calls.Answer(now, ev)
	e.callsChanged(&out)
	e.quotaAlerts()
	e.emit(answered)
}

// callsChanged takes over what has happened to calls.
func (e *Engine) callsChanged(out *llmcalls.Outcome) {
	for i := range out.Settled {
		e.countDay(&out.Settled[i].Charge, out.Settled[i].Ended)
	}
	for _, r := range out.Records {
		e.record(r)
	}
	for _, f := range out.Effects {
		e.emit(f)
	}
}

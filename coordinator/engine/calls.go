package engine

import (
	"time"

	"taskbus/coordinator"
)

// Package llmcalls manages the quota that is reserved for LLM calls; this file records and announces it.

// callAsked answers what is asked about calls that no task stands for.
func (k *kernel) callAsked(now time.Time, ev *coordinator.CallAsked) {
	answered, out := k.Calls.Answer(now, ev)
	k.CallsChanged(&out)
	k.QuotaAlerts()
	k.Emit(answered)
}

package service

import (
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/background"
	"taskbus/coordinator/service/internal/metrics"
	"taskbus/coordinator/service/internal/outbox"
)

// pulsePeriod is the time between two pulses. It is less than what a lease lasts longer than
// its agent may work: an alarm is known before it can make anything overdue.
const pulsePeriod = 500 * time.Millisecond

// pulseKey is the name of no queue: the broker confirms a pulse and forgets it.
const pulseKey = "taskbus.pulse"

// pulse is a publication to nowhere, again and again. The broker reports an alarm only to connections that
// publish: a coordinator with nothing to publish while agents work would notice it only by failing their
// tasks.
type pulse struct{ unanswered atomic.Bool }

// feelPulse publishes pulses until the session ends, one at a time.
func (r *session) feelPulse() {
	background.Every(r.bus.Done(), pulsePeriod, func() bool {
		if !r.pulse.unanswered.CompareAndSwap(false, true) {
			return true // held up, as the one before
		}
		err := r.bus.Publish(bus.Publication{
			Token: outbox.Pulse, Key: pulseKey, Optional: true,
			Properties: bus.Properties{ContentType: outbox.ContentJSON, Type: "coordinator.pulse",
				AppID: outbox.AppID, UserID: r.userID(),
				Timestamp: r.s.now()},
			Body: []byte(`{"message_type":"coordinator.pulse"}`),
		})
		return err == nil
	})
}

// onBlocked hears that the broker holds up publishers.
func (r *session) onBlocked(blocked bool, reason string) {
	r.s.metrics.Blocked.Set(metrics.Bool(blocked))
	if blocked {
		r.s.state.block(reason)
		r.s.log.Warn().Str("reason", reason).Msg("the broker holds up publishers (memory or disk alarm); waiting")
	} else {
		r.s.state.unblock()
		r.s.log.Info().Msg("the broker takes publications again")
	}
	r.post(coordinator.PublishingHeld{Held: blocked})
}

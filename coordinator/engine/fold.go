package engine

import (
	"time"

	"taskbus/coordinator"
)

// Following another engine: what it records is folded, so that this one can go on where that one stops.

// fold takes over what a record says.
func (k *kernel) fold(at time.Time, r coordinator.Record) {
	k.Fold(at, r)
	if _, joined := r.(*coordinator.Joined); joined {
		k.install(at, k.Policy)
	}
	k.Out = nil // the leader has announced it
}

// lead ends following.
func (k *kernel) lead(now time.Time) {
	k.Recollect()
	k.AdoptReservations()
	k.Following, k.Fleet.Following = false, false
	k.Controls.Installed() // it has the policy already
	k.quotasNotAfter(now)
	k.ScheduleBreakers()
	k.scheduleControls()
	k.scheduleDay()
	for _, a := range k.Fleet.Agents {
		a.HeldByUs = true // the leader before may have taken its queue back, until it has been empty
	}
}

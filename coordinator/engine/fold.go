package engine

import (
	"time"

	"taskbus/coordinator"
)

// Following another engine: what it records is folded here, so that this one can go on where that one stops. Reports
// of agents are applied meanwhile as ever; nothing ends and nothing begins but by a record.

// fold takes over what a record says.
func (k *kernel) fold(at time.Time, r coordinator.Record) {
	k.Now, k.Fleet.Now = at, at
	if row, ok := r.(*coordinator.LearntBefore); ok {
		if row.First {
			k.LearntBefore = nil
		}
		k.LearntBefore = append(k.LearntBefore, row)
		return
	}
	k.Recollect()
	switch r := r.(type) {
	case *coordinator.Assigned:
		k.FoldAssigned(r)
	case *coordinator.Settled:
		k.FoldSettled(r)
	case *coordinator.LeaseChanged:
		if t := k.LeaseOf(r.Key, r.Attempt); t != nil {
			t.Withdrawn, t.CancelReason, t.Returning, t.Attempted = r.Withdrawn, r.Reason, r.Returning, r.Begun
			t.Failed, t.BreakerFaults, t.LearnerFaults = r.Failed, r.Blamed, r.Taught
			t.Said, t.RetryAfter = r.Said, r.RetryAfter
			if t.Returning && t.On() {
				k.SettleAccount(at, t)
			}
		}
	case *coordinator.Remembered:
		k.FoldRemembered(at, r)
	case *coordinator.Learnt:
		k.FoldLearnt(r)
	case *coordinator.Forgiven:
		k.Forgiven(r)
	case *coordinator.BreakerChanged:
		k.ApplyBreakers(k.Ejections.Fold(at, r))
		k.Out = nil // the leader has announced it
	case *coordinator.Joined:
		k.foldJoined(at, r)
	case *coordinator.QuotaReserved, *coordinator.QuotaExtended, *coordinator.QuotaEnded, *coordinator.QuotaBefore,
		*coordinator.QuotaTold, *coordinator.EstimateBefore, *coordinator.ShareBefore, *coordinator.PoolHeard:
		k.FoldQuota(r)
	case *coordinator.QuotaControlled:
		k.Controls.Fold(k.Quotas.Ledger, at, r)
	case *coordinator.LaneKnown:
		k.Lanes.Fold(r)
	default:
		k.FoldAgent(at, r)
	}
}

// lead ends following.
func (k *kernel) lead(now time.Time) {
	k.Recollect()
	k.AdoptReservations()
	k.Following, k.Fleet.Following = false, false
	k.Controls.Installed() // it has the policy already
	k.quotasNotAfter(now)
	k.scheduleControls()
	k.scheduleDay()
	for _, a := range k.Fleet.Agents {
		a.HeldByUs = true // the leader before may have taken its queue back, until it has been empty
	}
}

// foldJoined takes over which agents have joined by themselves, and which have left.
func (k *kernel) foldJoined(at time.Time, r *coordinator.Joined) {
	k.Fleet.FoldJoined(r, k.Policy)
	k.install(at, k.Policy)
	k.Out = nil // the world has heard of them
}

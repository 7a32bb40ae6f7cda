package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/quotacontrol"
)

// Package quotacontrol holds the changes that apply in addition to quotas.yaml; this file changes them when that is
// requested or due, and records and announces it.

// changeControls makes a change, records it and announces it. A request is answered even if it changes nothing.
func (k *kernel) changeControls(set []coordinator.QuotaControl, remove []string, token uint64) {
	stand := coordinator.QuotaControlsStand{Token: token}
	changed := &coordinator.QuotaControlled{}
	for _, id := range remove {
		if one, stood := k.Controls.Remove(id); stood {
			stand.Removed, changed.Removed = append(stand.Removed, one), append(changed.Removed, id)
		}
	}
	for _, one := range set {
		does := false
		if one.Kind == coordinator.ControlCorrect {
			if one, does = quotacontrol.Correct(k.Quotas.Ledger, k.Now, one); does {
				k.QuotaAlerts()
			}
		} else {
			does = k.Controls.Put(one)
		}
		if does {
			stand.Set, changed.Set = append(stand.Set, one), append(changed.Set, one)
		}
	}
	if len(changed.Set)+len(changed.Removed) > 0 {
		k.Commit(changed)
		k.scheduleControls()
	} else if token == 0 {
		return
	}
	k.Emit(stand)
}

// scheduleControls sees that the next control which ends by itself does so in time.
func (k *kernel) scheduleControls() { k.scheduleLeading(&k.controlsEnd, k.Controls.NextEnd()) }

// scheduleDay sees that the end of the day is noticed, and that what a rule has changed is taken back
// when it is no longer in the file.
func (k *kernel) scheduleDay() {
	k.scheduleLeading(&k.dayEnd, k.Controls.NextDay(k.Now, k.Quotas.Ledger.Quotas()))
}

// scheduleLeading schedules what the leader alone does; zero: it is never due.
func (k *kernel) scheduleLeading(t *state.Timer, at time.Time) {
	if k.Timers.Cancel(t); !k.Following && !at.IsZero() {
		k.Timers.Schedule(t, at)
	}
}

// controlsDue ends the controls that are due, one after the other if there are several, however late it is.
func (k *kernel) controlsDue() {
	if k.Following {
		return
	}
	k.changeControls(nil, k.Controls.Expired(k.controlsEnd.At), 0)
	k.scheduleControls()
}

// dayDue ends a day, or begins or stops the count, and changes what rules change by that.
func (k *kernel) dayDue(now time.Time) {
	if k.Following {
		return
	}
	end := k.Controls.EndDay(now, k.dayEnd.At, k.Quotas.Ledger)
	k.changeControls(end.Set, end.Remove, 0)
	records := k.Controls.DayRecords()
	if end.Stopped {
		records = k.Controls.Records()
	}
	for _, r := range records {
		k.Commit(r)
	}
	k.scheduleDay()
}

// foldPolicy goes on under a policy, as of when the record was written that changed it.
func (k *kernel) foldPolicy(at time.Time, p *coordinator.Policy) {
	k.Now = at
	k.Controls.Installed()
	k.Fleet.SetRules(p)
	k.Quotas.Install(at, p) // the books are as far as the record, and those of a file that is read again are not
	k.install(at, p)
	k.Out = nil // the world has heard of it
}

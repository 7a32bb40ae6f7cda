package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/quotacontrol"
)

// Package quotacontrol holds the changes that apply in addition to quotas.yaml; this file changes them when that is
// requested or due, and records and announces it.

// QuotaControls are the standing controls, in the order in which they were made. The caller owns
// the list.
func (e *Engine) QuotaControls() []coordinator.QuotaControl { return e.controls.Standing() }

// controlled changes them by request.
func (e *Engine) controlled(ev coordinator.QuotaControlsRequested) {
	e.changeControls(ev.Set, ev.Remove, ev.Token)
}

// changeControls makes a change, records it and announces it. A request is answered even if it changes nothing.
func (e *Engine) changeControls(set []coordinator.QuotaControl, remove []string, token uint64) {
	stand := coordinator.QuotaControlsStand{Token: token}
	changed := &coordinator.QuotaControlled{}
	for _, id := range remove {
		if one, stood := e.controls.Remove(id); stood {
			stand.Removed, changed.Removed = append(stand.Removed, one), append(changed.Removed, id)
		}
	}
	for _, one := range set {
		does := false
		if one.Kind == coordinator.ControlCorrect {
			if one, does = quotacontrol.Correct(e.quotas.Ledger, e.now, one); does {
				e.quotaAlerts()
			}
		} else {
			does = e.controls.Put(one)
		}
		if does {
			stand.Set, changed.Set = append(stand.Set, one), append(changed.Set, one)
		}
	}
	if len(changed.Set)+len(changed.Removed) > 0 {
		e.record(changed)
		e.scheduleControls()
	} else if token == 0 {
		return
	}
	e.emit(stand)
}

// scheduleControls sees that the next control which ends by itself does so in time.
func (e *Engine) scheduleControls() { e.scheduleLeading(&e.controlsEnd, e.controls.NextEnd()) }

// scheduleDay sees that the end of the day is noticed, and that what a rule has changed is taken back
// when it is no longer in the file.
func (e *Engine) scheduleDay() {
	e.scheduleLeading(&e.dayEnd, e.controls.NextDay(e.now, e.quotas.Ledger.Quotas()))
}

// scheduleLeading schedules what the leader alone does; zero: it is never due.
func (e *Engine) scheduleLeading(t *timer, at time.Time) {
	if e.timers.cancel(t); !e.following && !at.IsZero() {
		e.timers.schedule(t, at)
	}
}

// controlsDue ends the controls whose time has come, one after the other if there are several, however late it is.
func (e *Engine) controlsDue() {
	if e.following {
		return
	}
	e.changeControls(nil, e.controls.Expired(e.controlsEnd.at), 0)
	e.scheduleControls()
}

// dayDue ends a day, or begins or stops the count, and changes what rules change by that.
func (e *Engine) dayDue(now time.Time) {
	if e.following {
		return
	}
	end := e.controls.EndDay(now, e.dayEnd.at, e.quotas.Ledger)
	e.changeControls(end.Set, end.Remove, 0)
	records := e.controls.DayRecords()
	if end.Stopped {
		records = e.controls.Records()
	}
	for _, r := range records {
		e.record(r)
	}
	e.scheduleDay()
}

// countDay counts for the day what has been settled and recorded.
func (e *Engine) countDay(c *fairshare.Charge, ended *coordinator.QuotaEnded) {
	e.controls.Count(e.quotas.Ledger, c, ended)
}

// PolicyDue reports whether a standby engine must be given the policy with the controls that it has folded
// (FoldPolicy) before it folds the next record, written at that time. next may be nil: then it reports whether that
// is needed even if no record follows.
func (e *Engine) PolicyDue(at time.Time, next coordinator.Record) bool {
	l := e.quotas.Ledger
	return e.controls.PolicyDue(l, at, next, l.Fresh() && e.lanes.Empty())
}

// PolicyBehind reports whether controls were folded since the policy was installed, and when the latest
// of them was written: as of when FoldPolicy is to install it.
func (e *Engine) PolicyBehind() (at time.Time, behind bool) { return e.controls.PolicyBehind() }

// FoldPolicy has an engine that follows another go on under a policy, as of when the record was
// written that changed it.
func (e *Engine) FoldPolicy(at time.Time, p *coordinator.Policy) {
	e.now = at
	e.controls.Installed()
	e.fleet.SetRules(p)
	e.quotas.Install(at, p) // the books are as far as the record, and those of a file that is read again are not
	e.install(at, p)
	e.out = nil // the world has heard of it
}

package quotas

import (
	"time"

	"taskbus/coordinator"
)

// adjustment reads the section `adjustment`: a rule that is not there is off, one of which
// nothing is said ({}) has its defaults.
func (d *decoder) adjustment(into *coordinator.Adjustment) reader {
	return func(p place) {
		d.Object(p, readers{coordinator.RuleIdle: d.idleRule(&into.Idle), coordinator.RuleSlow: d.slowRule(&into.Slow)})
	}
}

func (d *decoder) idleRule(into **coordinator.IdleRule) reader {
	return func(p place) {
		if p.Null() { // a section with nothing under it counts as absent
			return
		}
		r := &coordinator.IdleRule{BelowPercent: 10, Days: 3, Step: 1, MinWeight: 1}
		*into = r
		d.Object(p, readers{
			"below_percent": d.Whole(&r.BelowPercent, 1, 100),
			"days":          d.Whole(&r.Days, 1, 31),
			"step":          d.Whole(&r.Step, 1, 1000),
			"min_weight":    d.Whole(&r.MinWeight, 1, maxWeight),
		})
	}
}

func (d *decoder) slowRule(into **coordinator.SlowRule) reader {
	return func(p place) {
		if p.Null() {
			return
		}
		r := &coordinator.SlowRule{Percent: 10, MaxPercent: 50}
		*into = r
		d.Object(p, readers{
			"above_ms":    d.Milliseconds(&r.Above, time.Millisecond, 24*time.Hour),
			"percent":     d.Whole(&r.Percent, 1, 100),
			"max_percent": d.Whole(&r.MaxPercent, 1, 1000),
		})
		d.Need(p, "above_ms", "; say from how many milliseconds on answers are slow")
		if p.Has("percent") && r.Percent > r.MaxPercent {
			d.Fault(p.Child("percent", p),
				"is %d, more than max_percent (%d), by which limits are raised at most; lower it, or raise max_percent", r.Percent,
				r.MaxPercent)
		}
	}
}

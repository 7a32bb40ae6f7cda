package config

import (
	"time"

	"taskbus/coordinator"
)

// adjustment reads the section `adjustment`: a rule that is not there is off, one of which
// nothing is said ({}) has its defaults.
func (d *decoder) adjustment(into *coordinator.Adjustment) reader {
	return func(p place) {
		d.object(p, readers{coordinator.RuleIdle: d.idleRule(&into.Idle), coordinator.RuleSlow: d.slowRule(&into.Slow)})
	}
}

func (d *decoder) idleRule(into **coordinator.IdleRule) reader {
	return func(p place) {
		if isNull(p.node) { // a section with nothing under it counts as absent
			return
		}
		r := &coordinator.IdleRule{BelowPercent: 10, Days: 3, Step: 1, MinWeight: 1}
		*into = r
		d.object(p, readers{
			"below_percent": whole(d, &r.BelowPercent, 1, 100),
			"days":          whole(d, &r.Days, 1, 31),
			"step":          whole(d, &r.Step, 1, 1000),
			"min_weight":    whole(d, &r.MinWeight, 1, maxWeight),
		})
	}
}

func (d *decoder) slowRule(into **coordinator.SlowRule) reader {
	return func(p place) {
		if isNull(p.node) {
			return
		}
		r := &coordinator.SlowRule{Percent: 10, MaxPercent: 50}
		*into = r
		var above int64
		d.object(p, readers{
			"above_ms":    whole(d, &above, 1, 86_400_000),
			"percent":     whole(d, &r.Percent, 1, 100),
			"max_percent": whole(d, &r.MaxPercent, 1, 1000),
		})
		if canHaveKeys(p.node) && !has(p.node, "above_ms") {
			d.fault(place{p.node, join(p.path, "above_ms")}, "is missing; say from how many milliseconds on answers are slow")
		}
		if percent := lookUp(p.node, "percent"); percent != nil && r.Percent > r.MaxPercent {
			d.fault(place{percent, join(p.path, "percent")},
				"is %d, more than max_percent (%d), by which limits are raised at most; lower it, or raise max_percent", r.Percent,
				r.MaxPercent)
		}
		r.Above = time.Duration(above) * time.Millisecond
	}
}

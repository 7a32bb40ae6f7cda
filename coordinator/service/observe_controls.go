package service

import (
	"taskbus/config"
	"taskbus/coordinator"
)

// controlsStand writes down how the standing changes to quotas.yaml have changed.
func (o *observer) controlsStand(f coordinator.QuotaControlsStand) {
	for i := range f.Set {
		o.control(&f.Set[i], "the quotas are changed")
	}
	for i := range f.Removed {
		msg := "a change to the quotas has been taken back"
		if f.Token == 0 && f.Removed[i].Rule == "" {
			msg = "a change to the quotas has ended"
		}
		o.control(&f.Removed[i], msg)
	}
}

func (o *observer) control(c *coordinator.QuotaControl, msg string) {
	line := o.log.Info().Str("control", c.ID).Stringer("kind", c.Kind).Str("target", c.Target)
	if c.Key != "" {
		line = line.Str("key", c.Key).Str("value", c.Value)
	}
	if c.Rule != "" {
		line = line.Str("rule", c.Rule)
	}
	if !c.Until.IsZero() {
		line = line.Time("until", c.Until)
	}
	line.Str("by", c.By).Str("reason", c.Reason).Msg(msg)
}

// controlSuspended writes down that a change does not fit the file, and does not count.
func (o *observer) controlSuspended(s config.Suspended) {
	o.log.Warn().Str("control", s.ID).Str("why", s.Why).
		Msg(
			"a change to the quotas does not fit quotas.yaml as it is, and does not count; end it (taskbus quota unset), or " +
				"change the file")
}

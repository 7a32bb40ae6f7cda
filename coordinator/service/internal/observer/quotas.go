package observer

import (
	"strconv"

	"github.com/rs/zerolog"

	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/messages"
)

// quotaReached writes down that a budget is nearly, or quite, used up. That is reported once in a period of it, so
// that no line is held back.
func (o *Observer) quotaReached(f coordinator.QuotaReached) {
	o.metrics.QuotaAlerts.WithLabelValues(strconv.Itoa(f.Percent)).Inc()
	level := zerolog.InfoLevel
	if f.Percent >= 90 {
		level = zerolog.WarnLevel
	}
	o.log.WithLevel(level).Str("node", f.Node).Stringer("dimension", f.Dimension).Int("percent", f.Percent).
		Float64("used", f.Dimension.Shown(f.Used)).Float64("limit", f.Dimension.Shown(f.Cap)).Time("resets_at", f.Ends).
		Bool("may_borrow", f.MayBorrow).Msg("a quota has come to this part of its limit")
}

// QuotasMissing reports that nothing is limited by a coordinator that begins to lead, although its journal
// has books of quotas: a lost file would go unnoticed, and what is used now is not counted when it is back.
func (o *Observer) QuotasMissing() {
	o.log.Warn().
		Msg(
			"nothing is limited: this coordinator has no quotas.yaml, but those that led before had one, as the journal says; " +
				"put it back beside agents.yaml (or name it with --quotas), or write `{}` into it if there are to be no quotas")
}

// usageExcessive writes down, and counts, that a task, or a call, is said to have taken more than can be believed.
func (o *Observer) usageExcessive(f coordinator.UsageExcessive) {
	what, line := "call", o.gated(noiseUsage, zerolog.WarnLevel)
	if f.Task != "" {
		what, line = "task", line.Str("task_id", string(f.Task))
	}
	outcome, text := usageCharged,
		"a "+what+" is said to have used over a thousand times what was estimated; its group is charged with it"
	switch {
	case f.Charged == 0 && f.Task == "":
		outcome, text = usageRefused,
			"a call is said to have used more than can be believed; that was refused, and nothing is charged"
	case f.Charged < f.Reported:
		outcome, text = usageHeld, "a "+what+
			" is said to have used more than can be believed; its group is charged with as much as is"
	}
	o.metrics.UsageExcessive.WithLabelValues(outcome).Inc()
	line.Str("agent_id", string(f.Agent)).Str("group", f.Group).Stringer("dimension", f.Dimension).
		Float64("estimated", f.Dimension.Shown(f.Estimated)).Float64("reported", f.Dimension.Shown(f.Reported)).
		Float64("charged", f.Dimension.Shown(f.Charged)).Msg(text)
}

// What becomes of usage that is beyond the trust limit, as metrics name it.
const (
	usageCharged = "charged"
	usageHeld    = "held"
	usageRefused = "refused"
)

// QuotaOverrun writes down that a budget will not last until its period ends.
func (o *Observer) QuotaOverrun(q *messages.QuotaOverrun) {
	o.metrics.QuotaOverruns.Inc()
	o.log.Warn().Str("node", q.Node).Str("dimension", q.Dimension).Float64("used", q.Used).Float64("limit", q.Cap).
		Float64("expected", q.Expected).Str("basis", q.Basis).Time("overrun_at", q.At).Time("resets_at", q.Until).
		Msg("a quota will not last until its period ends")
}

// controlsStand writes down how the standing changes to quotas.yaml have changed.
func (o *Observer) controlsStand(f coordinator.QuotaControlsStand) {
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

func (o *Observer) control(c *coordinator.QuotaControl, msg string) {
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

// ControlSuspended writes down that a change does not fit the file, and does not count.
func (o *Observer) ControlSuspended(s quotas.Suspended) {
	o.log.Warn().Str("control", s.ID).Str("why", s.Why).
		Msg(
			"a change to the quotas does not fit quotas.yaml as it is, and does not count; end it (taskbus quota unset), or " +
				"change the file")
}

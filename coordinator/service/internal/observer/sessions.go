package observer

import (
	"errors"
	"time"

	"github.com/rs/zerolog"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// SessionOpened writes down a session with a broker of which the topology has so many findings.
func (o *Observer) SessionOpened(broker string, findings int) {
	o.metrics.Sessions.WithLabelValues("opened").Inc()
	o.metrics.Connected.Set(1)
	o.log.Info().Str("broker", broker).Int("findings", findings).Msg("connected to the broker")
}

// Leads writes down that this coordinator leads from now on, in that epoch of a journal of so many records; epoch 0:
// there is no journal.
func (o *Observer) Leads(p *coordinator.Policy, epoch, journalled uint64) {
	o.metrics.Leading.Set(1)
	e := o.log.Info().Int("agents", len(p.Agents)).Str("strategy", p.Strategy)
	if epoch > 0 {
		e = e.Uint64("epoch", epoch).Uint64("journalled", journalled)
	}
	e.Msg("leading: taking tasks")
}

// SessionEnded writes down that there is no session, and why.
func (o *Observer) SessionEnded(err error, ready bool, pause time.Duration) {
	o.metrics.Connected.Set(0)
	o.metrics.Leading.Set(0)
	o.metrics.Blocked.Set(0)
	why, level := sessionEnd(err), zerolog.WarnLevel
	if why == "access" || why == "topology" {
		level = zerolog.ErrorLevel // it will not pass by itself
	}
	o.metrics.Sessions.WithLabelValues(why).Inc()
	o.log.WithLevel(level).Err(err).Bool("was_ready", ready).Dur("retry_in_ms", pause).
		Msg("no broker session; tasks stay in the broker; trying again")
}

// sessionEnd returns the metric label for why a session ended.
func sessionEnd(err error) string {
	var topology *bus.TopologyError
	switch {
	case err == nil:
		return "closed"
	case errors.Is(err, bus.ErrAccess):
		return "access"
	case errors.As(err, &topology):
		return "topology"
	default:
		return "fault"
	}
}

// StaleAcks counts acknowledgements that came after their session.
func (o *Observer) StaleAcks(n uint64) { o.count.staleAcks.Add(n) }

// warningsLogged is how many warnings of the configuration are logged when it comes in force.
const warningsLogged = 20

// ConfigWarnings writes down what is allowed in the files that came in force, of which path is the first, and probably
// not meant, one line each.
func (o *Observer) ConfigWarnings(all []config.Warning, path string) {
	for i, w := range all {
		if i == warningsLogged {
			o.log.Warn().Int("more", len(all)-i).Msg("configuration: more warnings; taskbus check " + path)
			return
		}
		o.log.Warn().Msg("configuration: " + w.Text)
	}
}

// JournalSkipped logs a message of the journal that is passed over.
func (o *Observer) JournalSkipped(offset int64, err error) {
	o.log.Error().Err(err).Int64("offset", offset).
		Msg("a damaged message of the journal is passed over; what it said is lost")
}

// JournalLost logs that the journal was found empty, although there had been one; with each take-over until that is
// acknowledged.
func (o *Observer) JournalLost(lost *view.JournalLost) {
	o.log.Error().Time("at", lost.At).Strs("because", lost.Evidence).Strs("begins_anew", lost.BeginsAnew).
		Msg("the journal is lost: it was found empty, and there had been one; what only the journal knew begins anew. " +
			"If it was deleted on purpose, or journal.enabled was false until now: `taskbus journal acknowledge`. Else " +
			"docs/howto/backup.md#when-the-journal-is-lost says what to do")
}

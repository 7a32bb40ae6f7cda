package callgate

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/telemetry"
)

// ReportEvery is between two Reports; reportAtOnce how many calls one question reports.
const (
	ReportEvery  = time.Second
	reportAtOnce = 256
)

// Report reports calls that were admitted here to the leader, as far as it can be asked: those that are left are
// reported the next time.
func (g *Gate) Report(ctx context.Context, l Leader) {
	for calls := g.due(); len(calls) > 0; calls = g.due() {
		if g.report(ctx, l, calls) != nil {
			return
		}
	}
}

func (g *Gate) due() []coordinator.Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.own.Due(g.now(), reportAtOnce)
}

// report has the leader charge calls that were admitted here. An error says that they are to be sent
// again: what is charged already is not charged twice.
func (g *Gate) report(ctx context.Context, l Leader, calls []coordinator.Call) error {
	ctx, cancel := context.WithTimeout(ctx, ForwardTimeout)
	defer cancel()
	answers, err := g.askLeader(ctx, l, calls)
	if err != nil {
		return err
	}
	charged := 0
	// A leader may have known a reservation before it was admitted here, under the same id: it is
	// settled then, also if it has expired. If it has ended otherwise, this changes nothing.
	var known []coordinator.Call
	for i := range answers {
		switch a := &answers[i]; {
		case a.Standing, a.State == coordinator.CallTaken, a.State == coordinator.CallEnded:
			settle := calls[i]
			settle.Op = coordinator.CallSettle
			known = append(known, settle)
		case a.State != coordinator.CallGranted:
			g.notCharged(&calls[i], a.State)
		default:
			charged++
		}
	}
	if len(known) > 0 {
		if answers, err = g.askLeader(ctx, l, known); err != nil {
			return err
		}
	}
	for i := range known {
		if state := answers[i].State; state == coordinator.CallGranted || state == coordinator.CallEnded {
			charged++
		} else {
			g.notCharged(&known[i], state)
		}
	}
	g.mu.Lock()
	g.own.Reported(calls)
	g.mu.Unlock()
	if charged > 0 {
		g.log.Info().Int("calls", charged).Msg("charged calls that were admitted while no leader could be asked")
	}
	return nil
}

// notCharged counts and logs that a call was made that is charged to no tenant.
func (g *Gate) notCharged(c *coordinator.Call, state coordinator.CallState) {
	g.metrics.uncharged.Inc()
	g.lines.uncharged.At(zerolog.WarnLevel).Str("agent_id", string(c.Agent)).Str("group", c.Group).
		Str("provider", c.Usage.Provider).Stringer("answer", state).
		Msg(
			"the leader does not charge a call that was admitted while it could not be asked; see that all coordinators " +
				"have the same quotas.yaml")
}

// lines are the kinds of log lines about calls.
type lines struct{ uncharged, unasked, alone *telemetry.Kind }

func newLines(log *telemetry.Log) lines {
	return lines{
		uncharged: log.Kind("usage that is charged to no tenant"),
		unasked:   log.Kind("calls that no leader has answered"),
		alone:     log.Kind("calls without a leader"),
	}
}

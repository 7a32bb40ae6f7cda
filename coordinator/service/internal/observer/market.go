package observer

import (
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// auctionEnded writes down how an auction went. One from which no bidder got its task
// wants a look: the agents are away, full, or not willing.
func (o *Observer) auctionEnded(f *coordinator.AuctionEnded) {
	o.metrics.AuctionEnded(f)
	var what string
	switch f.Outcome {
	case coordinator.AuctionNoBids:
		// ADR-004's words
		what = fmt.Sprintf("No bids received for task %s, using %s fallback", f.Task.ID,
			strings.ReplaceAll(f.Fallback, "_", "-"))
	case coordinator.AuctionAllFull:
		what =
			"no bidder can take the task now; a free agent gets it by the strategy's fallback, else the first bidder with a " +
				"free slot"
	case coordinator.AuctionUnheard:
		what = "no agent could be asked for bids for the task; the strategy's fallback decides"
	case coordinator.AuctionNoTime:
		what = "the task cannot wait as long as the shortest bid window; the strategy's fallback decides"
	default:
		return
	}
	o.gated(noiseAuction, zerolog.WarnLevel).Str("trace_id", f.Task.CorrelationID).Str("task_id", string(f.Task.ID)).
		Int("invited", f.Invited).Int("bids", f.Bids).Dur("window_ms", f.Window).Dur("duration_ms", f.Took).
		Stringer("outcome", f.Outcome).Str("closing", f.Closing).Msg(what)
}

// OfferUnheard notes that an agent cannot be offered tasks. It is found again after
// each of its reports, so that it is said once.
func (o *Observer) OfferUnheard(agent coordinator.AgentID) {
	o.metrics.OffersUnheard.Inc()
	if o.first(stranger{schemas.TaskAvailable, agent}) {
		o.log.Warn().Str("agent_id", string(agent)).
			Msg(
				"the agent has no control queue, or a full one, and cannot be offered tasks; it gets what no bidder does (said " +
					"once for each agent)")
	}
}

// InvalidRequest writes down a bid or claim that is ignored.
func (o *Observer) InvalidRequest(schema string, d *bus.Delivery, r *messages.Refusal) {
	o.metrics.Invalid.WithLabelValues(schema, r.Keyword).Inc()
	if e := o.gated(noiseInvalidRequest, zerolog.WarnLevel); e != nil {
		sender(identify(e, d, r), r, "invalid bid or claim ignored")
	}
}

// Reply counts what is answered to agents about their bids and claims.
func (o *Observer) Reply(f coordinator.Effect) {
	switch f := f.(type) {
	case coordinator.RejectBid:
		o.metrics.BidsRefused[f.Reason].Inc()
	case coordinator.ClaimAnswered:
		o.metrics.ClaimAnswered(&f)
	}
}

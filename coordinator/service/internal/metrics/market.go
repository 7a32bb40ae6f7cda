package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/telemetry"
)

// marketMetrics count how auctions go, and what agents that claim are given. Labels are
// of closed sets.
type marketMetrics struct {
	BidsRefused   [coordinator.NumBidRefusals]prometheus.Counter
	ForgedBids    prometheus.Counter
	Offers        prometheus.Counter
	OfferMessages prometheus.Counter
	OffersUnheard prometheus.Counter
	ForgedClaims  prometheus.Counter
	InvalidClaims prometheus.Counter

	auctions      [coordinator.NumAuctionOutcomes]prometheus.Counter
	auctionLength prometheus.Observer
	auctionBids   prometheus.Observer
	claims        *prometheus.CounterVec // by what the engine says limited them
	claimsMet     prometheus.Counter     // claims that got what they asked for
	grantedItems  prometheus.Counter
}

// bidBuckets reach from none to more than an auction ever asks.
var bidBuckets = []float64{0, 1, 2, 3, 5, 8, 13, 20, 50, 100, 200}

// limitNone is the label of claims that got all they asked for.
const limitNone = "none"

func newMarketMetrics(all *collectors) (m marketMetrics) {
	auctions := all.counters("auctions_total",
		"Auctions that ended: awarded; no_bids, all_full, unheard, no_time (for the shortest window), after "+
			"which the fallback decides; abandoned.", "outcome")
	for o := coordinator.AuctionAwarded; o < coordinator.NumAuctionOutcomes; o++ {
		m.auctions[o] = auctions.WithLabelValues(o.String())
	}
	m.auctionLength = all.histogram("auction_duration_seconds", "How long auctions took bids.", telemetry.LatencyBuckets)
	m.auctionBids = all.histogram("auction_bids", "Bids that counted, of each auction.", bidBuckets)
	refused := all.counters("bids_refused_total",
		"Bids that did not win: lost, late, duplicate, not_invited, invalid, full, wrong_sender.", "reason")
	for r := coordinator.BidLost; r < coordinator.NumBidRefusals; r++ {
		m.BidsRefused[r] = refused.WithLabelValues(r.String())
	}
	m.ForgedBids = refused.WithLabelValues(WrongSender)
	m.Offers = all.counter("offers_total", "Offers of tasks that were sent to agents.")
	m.OfferMessages = all.counter("offer_messages_total", "Messages task.available that carried offers.")
	m.OffersUnheard = all.counter("offers_unheard_total",
		"Of them undelivered: the agent has no control queue, or a full one.")
	m.claims = all.counters("claims_total",
		"Claims by what limited them: none, the reason of task.granted, wrong_sender or invalid.", "limit")
	m.claimsMet, m.ForgedClaims = m.claims.WithLabelValues(limitNone), m.claims.WithLabelValues(WrongSender)
	m.InvalidClaims = m.claims.WithLabelValues(Invalid)
	m.grantedItems = all.counter("granted_items_total", "Tasks that agents got by claims.")
	return m
}

// AuctionEnded counts an auction.
func (m *marketMetrics) AuctionEnded(f *coordinator.AuctionEnded) {
	m.auctions[f.Outcome].Inc()
	if f.Outcome == coordinator.AuctionNoTime || f.Outcome == coordinator.AuctionUnheard && f.AuctionID == "" {
		return // it was never opened
	}
	m.auctionLength.Observe(f.Took.Seconds())
	m.auctionBids.Observe(float64(f.Bids))
}

// ClaimAnswered counts a claim that the engine has answered.
func (m *marketMetrics) ClaimAnswered(f *coordinator.ClaimAnswered) {
	if f.Limit == "" {
		m.claimsMet.Inc()
	} else {
		m.claims.WithLabelValues(f.Limit).Inc()
	}
	m.grantedItems.Add(float64(max(f.Granted, 0)))
}

package service

import (
	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
)

// marketMetrics count how auctions go, and what agents that claim are given. Labels are
// of closed sets.
type marketMetrics struct {
	auctions      [coordinator.NumAuctionOutcomes]prometheus.Counter
	auctionLength prometheus.Observer
	auctionBids   prometheus.Observer
	bidsRefused   [coordinator.NumBidRefusals]prometheus.Counter
	forgedBids    prometheus.Counter
	offers        prometheus.Counter
	offerMessages prometheus.Counter
	offersUnheard prometheus.Counter
	claims        *prometheus.CounterVec // by what the engine says limited them
	forgedClaims  prometheus.Counter
	invalidClaims prometheus.Counter
	claimsMet     prometheus.Counter // claims that got what they asked for
	grantedItems  prometheus.Counter
}

// bidBuckets reach from none to more than an auction ever asks.
var bidBuckets = []float64{0, 1, 2, 3, 5, 8, 13, 20, 50, 100, 200}

// limitNone is the label of claims that got all they asked for.
const limitNone = "none"

// newMarketMetrics makes them, and the collectors to register.
func newMarketMetrics() (m marketMetrics, all []prometheus.Collector) {
	vec := func(name, help, label string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "taskbus_" + name, Help: help}, []string{label})
		all = append(all, v)
		return v
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "taskbus_" + name, Help: help})
		all = append(all, c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "taskbus_" + name, Help: help, Buckets: buckets})
		all = append(all, h)
		return h
	}
	auctions := vec("auctions_total",
		"Auctions that ended: awarded; no_bids, all_full, unheard, no_time (for the shortest window), after "+
			"which the fallback decides; abandoned.", "outcome")
	for o := coordinator.AuctionAwarded; o < coordinator.NumAuctionOutcomes; o++ {
		m.auctions[o] = auctions.WithLabelValues(o.String())
	}
	m.auctionLength = histogram("auction_duration_seconds", "How long auctions took bids.", latencyBuckets)
	m.auctionBids = histogram("auction_bids", "Bids that counted, of each auction.", bidBuckets)
	refused := vec("bids_refused_total",
		"Bids that did not win: lost, late, duplicate, not_invited, invalid, full, wrong_sender.", "reason")
	for r := coordinator.BidLost; r < coordinator.NumBidRefusals; r++ {
		m.bidsRefused[r] = refused.WithLabelValues(r.String())
	}
	m.forgedBids = refused.WithLabelValues(refusedForged)
	m.offers = counter("offers_total", "Offers of tasks that were sent to agents.")
	m.offerMessages = counter("offer_messages_total", "Messages task.available that carried offers.")
	m.offersUnheard = counter("offers_unheard_total",
		"Of them undelivered: the agent has no control queue, or a full one.")
	m.claims = vec("claims_total",
		"Claims by what limited them: none, the reason of task.granted, wrong_sender or invalid.", "limit")
	m.claimsMet, m.forgedClaims = m.claims.WithLabelValues(limitNone), m.claims.WithLabelValues(refusedForged)
	m.invalidClaims = m.claims.WithLabelValues(refusedInvalid)
	m.grantedItems = counter("granted_items_total", "Tasks that agents got by claims.")
	return m, all
}

func (m *marketMetrics) auctionEnded(f *coordinator.AuctionEnded) {
	m.auctions[f.Outcome].Inc()
	if f.Outcome == coordinator.AuctionNoTime || f.Outcome == coordinator.AuctionUnheard && f.AuctionID == "" {
		return // it was never opened
	}
	m.auctionLength.Observe(f.Took.Seconds())
	m.auctionBids.Observe(float64(f.Bids))
}

func (m *marketMetrics) claimAnswered(f *coordinator.ClaimAnswered) {
	if f.Limit == "" {
		m.claimsMet.Inc()
	} else {
		m.claims.WithLabelValues(f.Limit).Inc()
	}
	m.grantedItems.Add(float64(max(f.Granted, 0)))
}

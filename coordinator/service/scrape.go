package service

import (
	"context"
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator/service/internal/metrics"
	"taskbus/coordinator/service/internal/views"
)

// register shows all metrics to Prometheus.
func (s *Service) register(r *prometheus.Registry) (all error) {
	for _, c := range slices.Concat(s.metrics.Collectors(), s.calls.Collectors(), s.observe.Collectors(),
		[]prometheus.Collector{
			metrics.Lookup(metrics.TotalsDescs, s.scrapeTotals), metrics.Lookup(metrics.FleetDescs, s.scrapeFleet),
			metrics.Lookup(metrics.QuotaDescs, s.scrapeQuotas), metrics.Lookup(metrics.HistoryDescs, s.scrapeHistory),
		}) {
		all = errors.Join(all, r.Register(c))
	}
	return all
}

func (s *Service) scrapeTotals(_ context.Context, ch chan<- prometheus.Metric) {
	t := metrics.Totals{
		Counters: s.observe.Counters(0, s.staleAcks()), Redelivered: s.observe.Redelivered(),
		Doubts: len(s.doubts()), JournalLost: s.loss.Load() != nil,
	}
	t.Collect(ch)
}

func (s *Service) scrapeFleet(ctx context.Context, ch chan<- prometheus.Metric) {
	snap, err := s.snapshot(ctx)
	if err != nil {
		return // the process is stopping: a gap says so
	}
	f := metrics.Fleet{Snapshot: &snap, Stats: views.AgentStats(&snap, s.depths.Unread(&snap)), Ready: s.depths.Ready(),
		Concentration: views.Concentration(s.history.Given(views.ConcentrationTasks), snap.Agents)}
	dropped := f.Collect(ch)
	if before := s.seriesDropped.Swap(dropped); dropped && !before {
		s.log.Warn().Int("agents", len(snap.Agents)).Int("most", metrics.MaxAgents).
			Msg("the fleet is too large for metrics of single agents; those with the label agent_id are left out")
	}
}

func (s *Service) scrapeQuotas(ctx context.Context, ch chan<- prometheus.Metric) {
	var q metrics.Quotas
	var err error
	if q.QuotaSnapshot, q.At, err = s.reading.TopQuotas(ctx, metrics.MaxQuotaNodes); err != nil || !q.Installed {
		return // the process is stopping: a gap says so; or there are no quotas
	}
	now := s.controls.State()
	q.Standing, q.Suspended = len(now.Standing)-len(now.Suspended), len(now.Suspended)
	q.Collect(ch)
}

// HistoryStanding is how the history of usage stands, for metrics.
type HistoryStanding struct {
	// State is a word of usage/history.
	State string
	// Next is the number of the first record of the journal that is not in it; 0: not known.
	Next uint64
}

// ReportHistory makes the metrics report how the history of usage stands. standing is called at each
// scrape, with 2 s to answer; an error means that nothing is known but the state that comes with it.
func (s *Service) ReportHistory(standing func(context.Context) (HistoryStanding, error)) {
	s.standing.Store(&standing)
}

func (s *Service) scrapeHistory(ctx context.Context, ch chan<- prometheus.Metric) {
	standing := s.standing.Load()
	if standing == nil {
		return
	}
	h, err := (*standing)(ctx)
	if err != nil {
		h.Next = 0
	}
	// The journal's end is looked at afterwards: what is in the history is never beyond it.
	metrics.CollectHistory(ch, h.State, h.Next, s.journalNext())
}

// journalNext returns the number that the journal's next record has, as far as this coordinator has
// written it or read it; 0: not known.
func (s *Service) journalNext() uint64 {
	r := s.current.Load()
	if r == nil || r.ledger == nil {
		return 0
	}
	return r.ledger.Written().Next
}

package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/metrics"
	"taskbus/coordinator/service/internal/views"
)

// lookup is a Prometheus collector of values that are looked up at each scrape, in 2 s at most.
type lookup struct {
	descs   []*prometheus.Desc
	collect func(context.Context, chan<- prometheus.Metric)
}

func (c *lookup) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c *lookup) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c.collect(ctx, ch)
}

// register shows all metrics to Prometheus.
func (s *Service) register(r *prometheus.Registry) (all error) {
	for _, c := range slices.Concat(s.metrics.Collectors(), s.calls.Collectors(), s.observe.Collectors(),
		[]prometheus.Collector{
			&lookup{metrics.TotalsDescs, s.scrapeTotals}, &lookup{metrics.FleetDescs, s.scrapeFleet},
			&lookup{metrics.QuotaDescs, s.scrapeQuotas}, &lookup{metrics.HistoryDescs, s.scrapeHistory},
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
	f := metrics.Fleet{Snapshot: &snap, Stats: views.AgentStats(&snap, s.unread(&snap)), Ready: make(map[string]int),
		Concentration: views.Concentration(s.history.Given(views.ConcentrationTasks), snap.Agents)}
	for _, name := range depthQueues {
		if d, ok := s.depths.get(name); ok && d.err == nil {
			f.Ready[name] = d.Ready
		}
	}
	dropped := f.Collect(ch)
	if before := s.seriesDropped.Swap(dropped); dropped && !before {
		s.log.Warn().Int("agents", len(snap.Agents)).Int("most", metrics.MaxAgents).
			Msg("the fleet is too large for metrics of single agents; those with the label agent_id are left out")
	}
}

func (s *Service) scrapeQuotas(ctx context.Context, ch chan<- prometheus.Metric) {
	var q metrics.Quotas
	if err := s.loop.query(ctx, func(now time.Time, e *engine.Engine) {
		q.QuotaSnapshot, q.At = quotasForMetrics(now, e), now
	}); err != nil || !q.Installed {
		return // the process is stopping: a gap says so; or there are no quotas
	}
	now := s.controlled()
	q.Standing, q.Suspended = len(now.standing)-len(now.suspended), len(now.suspended)
	q.Collect(ch)
}

// quotasForMetrics returns all nodes or, where these are too many, those of the kinds that are
// nearest to the roots.
func quotasForMetrics(now time.Time, e *engine.Engine) engine.QuotaSnapshot {
	const most = metrics.MaxQuotaNodes
	for kind, all := coordinator.QuotaAgent, 0; ; kind-- {
		snap := e.Quotas(now).Snapshot(most, func(n *coordinator.QuotaNode, _ string) bool { return n.Kind <= kind })
		all = max(all, snap.All)
		if snap.All <= most || kind == coordinator.QuotaPool {
			snap.All = all
			return snap
		}
	}
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

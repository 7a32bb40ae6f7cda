package service

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// HistoryStanding is how the history of usage stands, for metrics.
type HistoryStanding struct {
	// State is one of historyStates.
	State string
	// Next is the number of the first record of the journal that is not in it; 0: not known.
	Next uint64
}

// historyStates are the words of HistoryStanding.State: those of usage/history, which knows databases
// and is therefore not imported here; a test binds them.
var historyStates = []string{"waiting", "following", "beside", "rebuilding", "failing", "stopped"}

// The metrics of the history of usage. There are none where none is kept.
var (
	descHistoryState = desc("history_state",
		"1 for what the history of usage does: waiting, following, beside (another coordinator writes it), "+
			"rebuilding, failing, stopped.", "state")
	descHistoryLag = desc("history_lag_records",
		"Journal records not yet in the history of usage; absent while not known.")
)

// ReportHistory makes the metrics report how the history of usage stands. standing is called at each
// scrape, with 2 s to answer; an error means that nothing is known but the state that comes with it.
func (s *Service) ReportHistory(standing func(context.Context) (HistoryStanding, error)) {
	s.standing.Store(&standing)
}

// historyCollector asks at each scrape.
type historyCollector struct{ s *Service }

func (c *historyCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descHistoryState
	ch <- descHistoryLag
}

func (c *historyCollector) Collect(ch chan<- prometheus.Metric) {
	standing := c.s.standing.Load()
	if standing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	h, err := (*standing)(ctx)
	// The journal's end is looked at afterwards: what is in the history is never beyond it.
	emit := gaugesTo(ch, nil)
	for _, state := range historyStates {
		emit(descHistoryState, boolGauge(state == h.State), state)
	}
	if next := c.s.journalNext(); err == nil && h.Next > 0 && next > 0 {
		emit(descHistoryLag, float64(max(next, h.Next)-h.Next))
	}
}

// journalNext returns the number that the journal's next record has, as far as this coordinator has
// written it or read it; 0: not known.
func (s *Service) journalNext() uint64 {
	r := s.current.Load()
	if r == nil || r.ledger == nil {
		return 0
	}
	if next := r.ledger.written.Load(); next > 0 {
		return next
	}
	return r.ledger.position().next
}

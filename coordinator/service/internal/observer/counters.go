package observer

import (
	"sync"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/metrics"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// counters count since the process started, for /status. Prometheus has its own.
type counters struct {
	invalid, duplicates, redelivered        atomic.Uint64
	staleAcks                               atomic.Uint64 // of sessions that have ended
	statuses, invalidStatus, authRejections atomic.Uint64
	statusRefused                           [coordinator.NumStatusRefusals]atomic.Uint64
	assignNanos                             atomic.Int64
	failed                                  failures
	recent                                  recentOutcomes
	ofAgents                                agentResults
	unlisted, brokenResults                 senderCounts // heartbeats of ids not in agents.yaml; invalid results

	results                                    [coordinator.NumOutcomes]atomic.Uint64
	resultsRefused                             [coordinator.NumResultRefusals]atomic.Uint64
	invalidResults, forgedResults, lateResults atomic.Uint64
	timedOut                                   atomic.Uint64 // dispatches without a result in time
	takenBack                                  atomic.Uint64 // out of agents' queues, among returned
	cancels                                    atomic.Uint64 // asked for, by whatever way
}

// failures counts by reason.
type failures struct {
	mu       sync.Mutex
	byReason map[coordinator.Reason]uint64
}

func (f *failures) add(r coordinator.Reason) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byReason == nil {
		f.byReason = make(map[coordinator.Reason]uint64)
	}
	f.byReason[r]++
}

// read returns the counts by code.
func (f *failures) read() map[string]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	byCode := make(map[string]uint64, len(f.byReason))
	for r, n := range f.byReason {
		byCode[r.String()] = n
	}
	return byCode
}

// Counters returns what is counted since the start. remembered are the ids that the duplicate check knows, stale the
// acknowledgements that came too late for the session at hand.
func (o *Observer) Counters(remembered int, stale uint64) view.Counters {
	books, n := o.Books.Read(), &o.count
	c := view.Counters{
		Received: books.Received, Returned: books.Returned, Held: books.Held,
		Dispatched: books.Outcomes[intake.Dispatched], Failed: books.Outcomes[intake.Failed],
		Parked: books.Outcomes[intake.Parked], Dropped: books.Outcomes[intake.Dropped], Moved: books.Outcomes[intake.Moved],
		Abandoned:      books.Outcomes[intake.Abandoned],
		FailedByReason: n.failed.read(),
		Invalid:        n.invalid.Load(), Duplicates: n.duplicates.Load(),
		StatusReceived: n.statuses.Load(),
		StatusRefused: map[string]uint64{
			metrics.Invalid: n.invalidStatus.Load(), metrics.WrongSender: n.authRejections.Load(),
		},
		RememberedIDs: remembered, StaleAcksIgnored: n.staleAcks.Load() + stale,
		Results: make(map[string]uint64, coordinator.NumOutcomes),
		ResultsRefused: map[string]uint64{
			metrics.Invalid: n.invalidResults.Load(), metrics.WrongSender: n.forgedResults.Load(),
		},
		LateResults: n.lateResults.Load(), TimedOut: n.timedOut.Load(),
		TakenBack: n.takenBack.Load(), CancelRequests: n.cancels.Load(),
	}
	for r := range n.statusRefused {
		c.StatusRefused[coordinator.StatusRefusal(r).String()] = n.statusRefused[r].Load()
	}
	for outcome := range n.results {
		c.Results[coordinator.Outcome(outcome).String()] = n.results[outcome].Load()
	}
	for r := range n.resultsRefused {
		c.ResultsRefused[coordinator.ResultRefusal(r).String()] = n.resultsRefused[r].Load()
	}
	if c.Dispatched > 0 {
		c.AverageAssignMS = float64(n.assignNanos.Load()) / float64(c.Dispatched) / 1e6
	}
	return c
}

// Redelivered returns how many deliveries had been delivered before.
func (o *Observer) Redelivered() uint64 { return o.count.redelivered.Load() }

// LastMinute returns what became of tasks in the last minute, and how many seconds of it the process has run.
func (o *Observer) LastMinute() (recent views.RecentCounts, span float64) {
	now := o.now()
	whole := (minuteSlices-1)*sliceLength + time.Duration(now.UnixNano()%int64(sliceLength))
	return o.count.recent.lastMinute(now), max(min(whole, now.Sub(o.started)), time.Second).Seconds()
}

// Rates returns those of the last minute.
func (o *Observer) Rates() view.Rates {
	recent, span := o.LastMinute()
	return view.Rates{
		Received: float64(recent[views.RecentReceived]) / span, Assigned: float64(recent[views.RecentAssigned]) / span,
		Succeeded: float64(recent[views.RecentSucceeded]) / span,
		Failed:    float64(recent[views.RecentRefused]+recent[views.RecentBroken]) / span,
	}
}

// Unlisted returns by id the heartbeats of the last minute of agents that agents.yaml does not list.
func (o *Observer) Unlisted() []views.SenderCount {
	_, by := o.count.unlisted.lastMinute(o.now())
	return by
}

// InvalidResults returns how many results of the last minute were not valid, in all and by agent.
func (o *Observer) InvalidResults() (all uint64, by []views.SenderCount) {
	return o.count.brokenResults.lastMinute(o.now())
}

package service

import (
	"sync"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/views"
)

// counters count since the process started, for /status. Prometheus has its own.
type counters struct {
	books intake.Books // deliveries, and what became of them

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

// recentOutcomes counts what became of tasks in the last minute, for the health.
type recentOutcomes struct {
	now   func() time.Time
	mu    sync.Mutex
	kinds [views.NumRecentKinds]minuteCount
}

func (r *recentOutcomes) add(kind views.RecentKind) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[kind].add(now)
}

// span returns how many seconds lastMinute covers, in a process that started then.
func (r *recentOutcomes) span(started time.Time) float64 {
	now := r.now()
	whole := (minuteSlices-1)*sliceLength + time.Duration(now.UnixNano()%int64(sliceLength))
	return max(min(whole, now.Sub(started)), time.Second).Seconds()
}

// lastMinute sums up.
func (r *recentOutcomes) lastMinute() (sum views.RecentCounts) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind := range r.kinds {
		sum[kind] = r.kinds[kind].sum(now)
	}
	return sum
}

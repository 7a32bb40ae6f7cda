package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator/view"
)

// Totals are what the coordinator counts for /status as well, since the process started, and how it stands.
type Totals struct {
	view.Counters
	Redelivered uint64

	Doubts      int // warnings about the configuration
	JournalLost bool
}

var (
	descDispatched  = desc("tasks_dispatched_total", "Dispatches that the broker has confirmed.")
	descUnneeded    = desc("tasks_dropped_total", "Copies, acknowledged without a dispatch.")
	descMoved       = desc("tasks_moved_total", "Tasks moved to their lanes.")
	descAbandoned   = desc("tasks_abandoned_total", "Tasks held at the end of a session, to be delivered again.")
	descRedelivered = desc("redeliveries_total", "Redelivered deliveries.")
	descParked      = desc("parked_total",
		"Messages in task.dead without assignment.failed: unreadable ones, refused cancels.")
	descStaleAcks = desc("stale_acks_total", "Ignored acknowledgements of an earlier session.")
	descLate      = desc("late_results_total", "Results that counted although another agent had the task.")
	descTimedOut  = desc("task_timeouts_total", "Dispatches without a result in time.")
	descCancels   = desc("cancel_requests_total", "Cancels asked for, by HTTP or message.")
	descDoubts    = desc("config_doubts",
		"Warnings by which tasks fail or agents are lost; and that a standby has other files than the leader.")
	descJournalLost = desc("journal_lost", "1 after the journal was lost, until acknowledged.")
)

// TotalsDescs describe what [Totals.Collect] gives.
var TotalsDescs = []*prometheus.Desc{
	descDispatched, descUnneeded, descMoved, descAbandoned, descParked, descRedelivered, descStaleAcks, descLate,
	descTimedOut, descCancels, descDoubts, descJournalLost,
}

// Collect gives them to a scrape.
func (t *Totals) Collect(ch chan<- prometheus.Metric) {
	for _, c := range []struct {
		of *prometheus.Desc
		n  uint64
	}{
		{descDispatched, t.Dispatched}, {descUnneeded, t.Dropped}, {descMoved, t.Moved},
		{descAbandoned, t.Abandoned}, {descParked, t.Parked}, {descRedelivered, t.Redelivered},
		{descStaleAcks, t.StaleAcksIgnored}, {descLate, t.LateResults}, {descTimedOut, t.TimedOut},
		{descCancels, t.CancelRequests},
	} {
		emitTo(ch, c.of)(c.of, float64(c.n))
	}
	emit := emitTo(ch, nil)
	emit(descDoubts, float64(t.Doubts))
	emit(descJournalLost, Bool(t.JournalLost))
}

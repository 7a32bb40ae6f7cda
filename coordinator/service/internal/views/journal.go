package views

import (
	"strings"
	"time"

	"taskbus/coordinator/journal"
	"taskbus/coordinator/view"
)

// CheckJournal judges the loss of the journal; false: none is reported.
func CheckJournal(lost *journal.Loss) (view.Check, bool) {
	if lost == nil {
		return view.Check{}, false
	}
	return view.Check{Status: view.Degraded, Detail: "the journal was empty at " + lost.At.UTC().
			Format(time.RFC3339) + ", although " +
			strings.Join(lost.Evidence, ", and ") + "; used budgets: " + lost.Budgets,
			Advice: "put right what docs/howto/backup.md#when-the-journal-is-lost lists, then `taskbus journal acknowledge`"},
		true
}

// JournalLost returns what is reported of the loss of the journal; nil: there is none. quotas: some are in force.
func JournalLost(l *journal.Loss, quotas bool) *view.JournalLost {
	if l == nil {
		return nil
	}
	lost := &view.JournalLost{At: l.At, Evidence: l.Evidence, Budgets: l.Budgets, BudgetsRestored: l.Restored,
		BeginsAnew: []string{
			"which task is with which agent, and the ids of the duplicate window: a task that RabbitMQ delivers again may " +
				"be done twice",
			"success rates, durations and ejections",
			"orders: cordon and drain",
		}}
	if quotas {
		lost.BeginsAnew = append(lost.BeginsAnew,
			"standing changes of quotas (set, boost, registered groups and agents)",
			"what was used of budgets, unless it is taken back from the history of usage")
	}
	return lost
}
